"""Where an arm's servers stand: started if need be, looked at, flushed, watched, and ended."""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from verify.arms import one_line
from verify.command import UserError
from verify.differences import unequal
from verify.evidence import Evidence
from verify.keys import secrets
from verify.launched import Launched
from verify.probe import SECRET, Probe, twice_begun
from verify.snapshot import commit_of, snapshot

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from evals.suite import Spec
    from verify.launched import Launch


class Site:
    """The servers of one arm, over all their starts.

    Args:
        name: the arm's name.
        urls: addresses of its servers, all alike.
        headers: sent with every request.
        launch: how its server is started; None where it is up already.
        logs: folder of what the server prints.
        path: by name of a path, where it is seen that it was taken.
        source: the folder that the server was built from.
        commit: what it was built from, if that is known.
        longest: of each suite its longest prompt, to try the server's limits with.
    """

    def __init__(
        self,
        name: str,
        urls: Sequence[str],
        *,
        headers: Mapping[str, str],
        logs: Path,
        launch: Launch | None = None,
        path: Mapping[str, str] | None = None,
        source: Path | None = None,
        commit: str | None = None,
        longest: Mapping[str, tuple[Spec, str]] | None = None,
    ) -> None:
        self.name = name
        self.urls = tuple(urls)
        self.launch = launch
        self.commit = commit or (commit_of(source) if source else None)
        self._logs = logs
        self._source = source
        self._longest = dict(longest or {})
        self._secrets = secrets(headers)
        self._probes = [Probe(url, headers) for url in urls]
        self._evidence = Evidence(path or {}, self._probes[0].text)
        self._stack = AsyncExitStack()
        self._launched: Launched | None = None
        self._starts = 0
        self._up = False
        self._flushed = 0
        self._says: list[dict[str, Any]] = []
        self._context: int | None = None
        self._tokens: dict[str, int] = {}
        self._acceptance: list[float] = []
        self._snapshots: list[str] = []
        self._problems: list[str] = []

    async def start(self) -> None:
        """Start the server, if that is ours to do, and note how things stand.

        Raises:
            UserError: it does not become ready, or the source cannot be read.
        """
        self._up = True
        if self._source is not None:
            self._snapshots.append(snapshot(self._source))
        if self.launch is not None:
            self._starts += 1
            self._launched = Launched(self.launch, self._log())
            await self._launched.start()
        for probe in self._probes:
            await self._stack.enter_async_context(probe)
        await self._evidence.begin()

    async def look(self, model: str | None) -> None:
        """Read what each server says of itself, and try the longest prompts against its limits.

        Raises:
            UserError: a prompt and its answer do not fit, or prompts begin with two BOS tokens.
        """
        await self._read()
        probe = self._probes[0]
        self._context = probe.context(model)
        for suite, (spec, prompt) in self._longest.items():
            ids = await probe.tokens(prompt, spec.prompt.style, model)
            if ids is None:
                continue
            self._tokens[suite] = len(ids)
            needed = len(ids) + spec.sampling.max_tokens
            if self._context is not None and needed > self._context:
                raise UserError(
                    f"arm {self.name}: suite {suite} needs up to {needed} tokens, of which the "
                    f"longest prompt has {len(ids)}, and {self.urls[0]} has a context of "
                    f"{self._context}; serve with a longer one"
                )
            if spec.prompt.style == "chat" and twice_begun(ids):
                raise UserError(
                    f"arm {self.name}: prompts of suite {suite} begin with token {ids[0]} twice at "
                    f"{self.urls[0]}: its chat template writes the BOS that its tokenizer adds "
                    "too; take one of them away"
                )

    async def _read(self) -> None:
        found = [self._cleaned(await probe.look()) for probe in self._probes]
        for before, now in zip(self._says, found, strict=False):
            changed = [one_line(name) for name, _, _ in unequal(before, now)] if now else []
            if changed:  # one that says nothing any more is told of by its failures
                self._problems.append(f"{self.name} changed during the run: {_some(changed)}")
        if not self._says:
            self._says = found
            for url, other in zip(self.urls[1:], found[1:], strict=True):
                names = [one_line(name) for name, _, _ in unequal(found[0], other)]
                if names:
                    self._problems.append(
                        f"servers of {self.name} are not alike: {url} has another "
                        f"{_some(names)} than {self.urls[0]}"
                    )

    async def flush(self) -> bool:
        """Empty the prefix caches of the servers that know how to; whether all of them did."""
        flushed = await asyncio.gather(*(probe.flush() for probe in self._probes))
        self._flushed += all(flushed)
        return all(flushed)

    async def stop(self) -> None:
        """Note how things stand, and end what was started; once for each start."""
        if not self._up:
            return
        self._up = False
        try:
            await self._last_look()
        finally:
            try:
                await self._stack.aclose()
            finally:
                if self._launched is not None:
                    await self._launched.stop()
                    self._launched = None

    async def _last_look(self) -> None:
        if not self._says:
            return  # it never got so far
        await self._evidence.end()
        await self._read()
        for probe in self._probes:
            if (length := probe.acceptance()) is not None:
                self._acceptance.append(length)
        if self._source is not None:
            self._snapshots.append(snapshot(self._source))

    def take_up(self, told: Mapping[str, Any]) -> None:
        """Go on from the `settings` that an earlier process of the run ended with."""
        counts = {name: found["count"] for name, found in told.get("path_evidence", {}).items()}
        self._evidence.take_up(counts)
        self._problems += told.get("problems", [])
        if before := told.get("source_sha256"):
            self._snapshots.insert(0, before["before"])

    def problems(self) -> list[str]:
        """What makes its answers worthless: changed source or settings."""
        found = list(self._problems)
        if len(set(self._snapshots)) > 1:
            found.append(f"the source of {self.name}, {self._source}, changed during the run")
        return list(dict.fromkeys(found))

    def compared(self) -> dict[str, Any]:
        """What must be the same in both arms, unless declared to differ."""
        launch = self.launch
        ports = [str(port) for url in self.urls if (port := urlsplit(url).port)]
        return {
            "commit": self.commit,
            "source": str(self._source) if self._source else None,
            "launch": [_portless(word, ports) for word in _masked(launch.command)]
            if launch
            else None,
            "env": {
                key: "***" if SECRET.search(key) else _portless(value, ports)
                for key, value in (launch.env if launch else {}).items()
            },
            "servers": len(self.urls),
            "context": self._context,
            "prompt_tokens": dict(self._tokens),
            "says": self._says[0] if self._says else {},
        }

    def settings(self) -> dict[str, Any]:
        """For the manifest."""
        return {
            "commit": self.commit,
            "launch": _masked(self.launch.command) if self.launch else None,
            "starts": self._starts if self.launch else None,
            "cache_flushes": self._flushed,
            "context": self._context,
            "longest_prompt_tokens": dict(self._tokens),
            "servers": [
                {"base_url": url, "says": says}
                for url, says in zip(self.urls, self._says, strict=False)
            ],
            "acceptance_length": sum(self._acceptance) / len(self._acceptance)
            if self._acceptance
            else None,
            "problems": self.problems(),
            "path_evidence": self._evidence.settings(),
            "source": str(self._source) if self._source else None,
            "source_sha256": {"before": self._snapshots[0], "after": self._snapshots[-1]}
            if self._snapshots
            else None,
        }

    def _log(self) -> Path:
        """A file of its own for each start, also when a run goes on."""
        number = self._starts
        while (path := self._logs / f"{self.name}-server-{number}.log").exists():
            number += 1
        return path

    def _cleaned(self, value: Any) -> Any:
        """What a server says, without our keys and without what terminals obey."""
        if isinstance(value, dict):
            return {self._cleaned(key): self._cleaned(each) for key, each in value.items()}
        if isinstance(value, list):
            return [self._cleaned(each) for each in value]
        if not isinstance(value, str):
            return value
        for secret in self._secrets:
            value = value.replace(secret.decode(), "***")
        return one_line(value)


def _some(names: Sequence[str]) -> str:
    more = f" and {len(names) - 3} more" if len(names) > 3 else ""
    return ", ".join(names[:3]) + more


def _masked(command: Sequence[str]) -> list[str]:
    """A command without the values of options that are keys; they belong into the environment."""
    shown: list[str] = []
    for word in command:
        option, equals, _ = word.partition("=")
        before = shown[-1] if shown else ""
        if before.startswith("-") and "=" not in before and SECRET.search(before):
            shown.append("***")
        elif equals and option.startswith("-") and SECRET.search(option):
            shown.append(f"{option}=***")
        else:
            shown.append(word)
    return shown


def _portless(word: str, ports: Sequence[str]) -> str:
    """An argument in which a port of the arm's own is no difference."""
    for port in ports:
        if word == port:
            return "{port}"
        word = word.replace(f":{port}", ":{port}").replace(f"={port}", "={port}")
    return word
