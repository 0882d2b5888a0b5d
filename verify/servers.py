"""An arm that is an OpenAI-compatible server."""

from __future__ import annotations

import asyncio
from collections import Counter
from contextlib import AsyncExitStack
from typing import TYPE_CHECKING, Any, Literal

from verify.arms import Completion, Failure, one_line
from verify.client import Client, RequestError
from verify.command import UserError

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Sequence

    from evals.suite import Spec


class ServerArm:
    """An OpenAI-compatible server, asked `concurrency` questions at a time.

    Args:
        name: what the run calls the arm.
        base_url: its address, as `normalised` gives it.
        model: the model to ask for; None takes the one that the server offers.
        concurrency: requests in flight.
        client: how to reach it; by default a client with its own defaults.
    """

    answered_by: Literal["embedded", "server"] = "server"
    fresh = False

    def __init__(
        self,
        name: str,
        base_url: str,
        *,
        model: str | None = None,
        concurrency: int = 4,
        client: Client | None = None,
    ) -> None:
        self.name = name
        self.base_url = base_url
        self.model = model
        self.concurrency = concurrency
        self._client = client or Client(base_url)
        self._stack = AsyncExitStack()
        self._offered: list[str] | None = None
        self._retries = 0
        self._failures: Counter[str] = Counter()
        self._answered_as: Counter[str] = Counter()

    async def start(self) -> None:
        """Connect, and settle which model to ask for."""
        await self._stack.enter_async_context(self._client)
        unlisted = "no list of models"
        try:
            self._offered = await self._client.models()
        except RequestError as error:
            if error.kind in {"connection", "timeout"}:
                raise UserError(
                    f"arm {self.name}: no server answers at {self.base_url} "
                    f"({one_line(str(error))}); start it, or correct the address"
                ) from None
            unlisted += f" ({error.kind}: {one_line(str(error))})"
        if self.model is None:
            if self._offered is None or len(self._offered) != 1:
                offered = ", ".join(self._offered or []) or unlisted
                raise UserError(
                    f"arm {self.name}: {self.base_url} offers {offered}; "
                    "choose one with --model, or correct the address"
                )
            self.model = self._offered[0]
        elif self._offered and self.model not in self._offered:
            raise UserError(
                f"arm {self.name}: {self.base_url} does not offer model {self.model!r}, but "
                f"{', '.join(self._offered)}"
            )

    async def answers(
        self, spec: Spec, prompts: Sequence[str], seeds: Sequence[int], load: int | None = None
    ) -> AsyncGenerator[tuple[int, Completion | Failure], None]:
        """Answers as they come, `load` or else `concurrency` requests in flight."""
        asked = iter(range(len(prompts)))
        found: asyncio.Queue[tuple[int, Completion | Failure] | Exception] = asyncio.Queue()

        async def work() -> None:
            try:
                for index in asked:
                    found.put_nowait((index, await self._ask(spec, prompts[index], seeds[index])))
            except Exception as error:  # noqa: BLE001 - raised again where it is seen
                found.put_nowait(error)

        flying = min(load or self.concurrency, len(prompts))
        workers = [asyncio.create_task(work()) for _ in range(flying)]
        try:
            for _ in prompts:
                answer = await found.get()
                if isinstance(answer, Exception):
                    raise answer
                yield answer
        finally:
            for worker in workers:
                worker.cancel()
            await asyncio.gather(*workers, return_exceptions=True)

    async def _ask(self, spec: Spec, prompt: str, seed: int) -> Completion | Failure:
        assert self.model is not None, "asked before the start"
        try:
            reply = await self._client.ask(
                prompt, spec.prompt.style, self.model, spec.sampling, seed
            )
        except RequestError as error:
            self._failures[error.kind] += 1
            self._retries += len(error.tries)
            tries = f" (after {len(error.tries) + 1} attempts)" if error.tries else ""
            return Failure(error.kind, one_line(str(error)) + tries, _failures(error.tries))
        self._retries += len(reply.tries)
        if reply.model is not None:
            self._answered_as[reply.model] += 1
        return Completion(
            reply.text,
            reply.truncated,
            reply.tokens,
            reply.reasoning,
            reply.prompt_tokens,
            reply.seconds,
            _failures(reply.tries),
        )

    def problems(self, suite: str) -> list[str]:  # noqa: ARG002 - a model changes for all suites
        """That it was given up, or did not stay one model; more cannot be seen from here."""
        found = []
        if self._client.gone is not None:
            found.append(f"{self.name} was given up: {one_line(self._client.gone)}")
        if len(self._answered_as) > 1:
            models = ", ".join(one_line(f"{name!r} ({n})") for name, n in self._answered_as.items())
            found.append(f"{self.name} answered as more than one model: {models}")
        return found

    def fixed(self) -> dict[str, Any]:
        """Address, model and load."""
        return {
            "base_url": self.base_url,
            "model": self.model,
            "concurrency": self.concurrency,
        }

    def settings(self) -> dict[str, Any]:
        """Address, model, load, what was sent beside the suite's sampling, and what went wrong."""
        return {
            "kind": "server",
            "base_url": self.base_url,
            "model": self.model,
            "models_offered": self._offered,
            "concurrency": self.concurrency,
            "extra_parameters": self._client.extras,
            "retries": self._retries,
            "failures": dict(self._failures),
            "answered_as": dict(self._answered_as),
        }

    async def close(self) -> None:
        """Drop the connections."""
        await self._stack.aclose()


def _failures(tries: tuple[RequestError, ...]) -> tuple[Failure, ...]:
    return tuple(Failure(each.kind, one_line(str(each))) for each in tries)
