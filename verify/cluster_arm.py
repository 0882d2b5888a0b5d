"""The embedded model on a Ray cluster: a pool of actors, whose tasks are batches of questions."""

from __future__ import annotations

import asyncio
from collections import Counter, deque
from dataclasses import dataclass, replace
from importlib import metadata
from pathlib import Path
from typing import TYPE_CHECKING, Any

from verify import embedded
from verify.arms import Completion, EmbeddedModel, Failure, one_line
from verify.cluster import Lost, told
from verify.command import UserError

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Iterator, Sequence

    from evals.suite import Spec
    from verify.cluster import Batch, Cluster

ATTEMPTS = 3
"""How often a batch is asked before the loss of what was to answer it stands."""


@dataclass(frozen=True)
class _Part:
    """A batch: the indices of its questions, and how it was lost so far."""

    indices: list[int]
    tries: tuple[Failure, ...] = ()


class ClusterArm(EmbeddedModel):
    """The embedded model, on every place of a cluster.

    Batches are those of `EmbeddedArm`, and so are the texts. The batch of a place that is lost is
    asked elsewhere, `ATTEMPTS` times in all; each loss is a failed attempt at every question in it.

    Args:
        name: what the run calls the arm.
        kernel: `module:function`, or None for the chain alone.
        log: a file that takes what the kernel prints.
        cluster: where it runs.
    """

    def __init__(self, name: str, kernel: str | None, log: Path, cluster: Cluster) -> None:
        super().__init__(name, kernel)
        self._log = log
        self._cluster = cluster
        self._actors: dict[int, Any] = {}
        self._done: dict[int, embedded.Done] = {}
        self._answered: Counter[str] = Counter()
        self._lost: list[str] = []

    async def start(self) -> None:
        """Load the model at every place; raises UserError where it cannot be, or not alike."""
        await self._cluster.join(self.name)
        words = self.name, self.kernel, str(Path.cwd())
        for place in range(self._cluster.places):
            self._actors[place] = self._cluster.actor(place, *words)
        calls = [told(actor.start.remote()) for actor in self._actors.values()]
        try:
            found = await asyncio.gather(*calls)
        except Lost as error:
            raise UserError(
                f"arm {self.name} cannot be started on the Ray cluster ({error}); kernelproof and "
                "the module of the kernel must be found on every machine of it"
            ) from None
        for each in found:
            if isinstance(each, embedded.Broken):
                raise UserError(one_line(each.message))
            if differing := found[0].other(each):
                raise UserError(
                    f"arm {self.name}: machines of the Ray cluster are not alike, and may not give "
                    f"the same texts ({', '.join(differing)}); use machines that are"
                )
        self.ready = found[0].ready

    async def answers(
        self,
        spec: Spec,
        prompts: Sequence[str],
        seeds: Sequence[int],  # noqa: ARG002 - it decodes greedily
        load: int | None = None,  # noqa: ARG002 - its batch is its own
    ) -> AsyncGenerator[tuple[int, Completion | Failure], None]:
        """Answers batch by batch; a kernel that raises anywhere leaves the rest unanswered."""
        before = self.done.fused
        waiting = deque(_Part(indices) for indices in embedded.batches(prompts))
        asked: dict[asyncio.Future[Batch], tuple[int, _Part]] = {}
        try:
            while self._ask(spec, prompts, waiting, asked):
                ended, _ = await asyncio.wait(asked, return_when=asyncio.FIRST_COMPLETED)
                for call in ended:
                    for answer in self._taken(call, *asked.pop(call), waiting):
                        yield answer
            for part in waiting:
                for index in part.indices:
                    yield index, self._unanswered(part)
        finally:
            for call in asked:
                call.cancel()
        self._asked(spec.name, before)

    def _ask(
        self,
        spec: Spec,
        prompts: Sequence[str],
        waiting: deque[_Part],
        asked: dict[asyncio.Future[Batch], tuple[int, _Part]],
    ) -> bool:
        """Give every place a batch that has none; whether anything is being answered."""
        busy = {place for place, _ in asked.values()}
        for place in [place for place in self._actors if place not in busy]:
            if not waiting or self.broken is not None:
                break
            part = waiting.popleft()
            batch = [prompts[index] for index in part.indices]
            call = self._actors[place].answer.remote(spec, batch)
            asked[asyncio.ensure_future(told(call))] = place, part
        return bool(asked)

    def _taken(
        self, call: asyncio.Future[Batch], place: int, part: _Part, waiting: deque[_Part]
    ) -> Iterator[tuple[int, Completion | Failure]]:
        """The answers to a batch; one that is lost waits again, or is given up."""
        try:
            found = call.result()
        except Lost as error:
            lost = replace(part, tries=(*part.tries, self._lose(place, error)))
            if len(lost.tries) < ATTEMPTS:
                waiting.appendleft(lost)
            else:
                for index in part.indices:
                    yield index, self._unanswered(lost)
            return
        self._done[place] = found.done
        self.done = embedded.together(self._done.values())
        self.broken = self.broken or found.broken
        self._answered[found.node] += len(part.indices)
        if found.printed:
            with self._log.open("ab") as log:
                log.write(found.printed)
        for index, answer in found.answers:
            yield part.indices[index], replace(answer, tries=part.tries)

    def _lose(self, place: int, error: Lost) -> Failure:
        """Do without a place."""
        actor = self._actors.pop(place)
        self._cluster.end(actor)  # it may be half alive
        self._lost.append(f"place {place}: {error}")
        return Failure("cluster", f"what answered it was lost: {error}")

    def _unanswered(self, part: _Part) -> Failure:
        if part.tries:
            *before, last = part.tries
            return replace(last, tries=tuple(before))
        if self.broken is not None:
            return Failure("arm", one_line(self.broken.message))
        return Failure("cluster", f"no place is left; {self._lost[-1]}")

    def settings(self) -> dict[str, Any]:
        """As of the local executor, and on which machines it was answered."""
        return {
            **super().settings(),
            "executor": {
                "kind": "ray",
                "version": metadata.version("ray"),
                "places": self._cluster.places,
                "answered_at": dict(self._answered),
                "lost": list(self._lost),
            },
        }

    async def close(self) -> None:
        """Kill the actors, whose models end with them, and let go of the cluster."""
        for actor in self._actors.values():
            self._cluster.end(actor)
        self._actors = {}
        self._cluster.leave(self.name)
