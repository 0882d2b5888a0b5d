"""What answers questions: the protocol of an arm, and the embedded model with a kernel."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from contextlib import aclosing, suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal, Protocol
from urllib.parse import urlsplit

import msgspec

from verify import embedded
from verify.command import UserError, printable

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Mapping, Sequence
    from pathlib import Path

    from evals.suite import Spec


@dataclass(frozen=True)
class Completion:
    """One answer as an arm gave it; what it does not tell is None."""

    text: str
    truncated: bool
    tokens: int | None
    """Generated, those of `reasoning` included."""
    reasoning: str | None = None
    """What a server keeps apart from the answer itself, and nobody grades."""
    prompt_tokens: int | None = None
    seconds: float | None = field(default=None, compare=False)
    tries: tuple[Failure, ...] = ()
    """Failed attempts before this one."""


@dataclass(frozen=True)
class Failure:
    """No answer came: the kind of failure, and what happened, in one line."""

    kind: str
    message: str
    tries: tuple[Failure, ...] = ()
    """Failed attempts before the last one."""


def one_line(text: str) -> str:
    """A server's or kernel's words, safe to print: one line, no control characters, not endless."""
    return printable(" ".join(text.split())[:400])


class Arm(Protocol):
    """What a run needs of an arm."""

    name: str
    answered_by: Literal["embedded", "server"]
    fresh: bool
    """Whether it is started for every repeat anew, and then has the machine to itself."""

    async def start(self) -> None:
        """Be ready to answer; raises UserError if that cannot be. May come again after `close`."""

    def answers(
        self, spec: Spec, prompts: Sequence[str], seeds: Sequence[int], load: int | None = None
    ) -> AsyncGenerator[tuple[int, Completion | Failure], None]:
        """Each prompt's index and answer, as they come; each index once.

        `seeds` are of the sampling, one a prompt; `load` is how many are asked at a time, None as
        the arm was told.
        """

    def fixed(self) -> dict[str, Any]:
        """What must be the same when a run goes on; known once started, JSON-able."""

    def problems(self, suite: str) -> list[str]:
        """Why this arm's answers to a suite say nothing of what is under test."""

    def settings(self) -> dict[str, Any]:
        """What the manifest says of the arm."""

    def take_up(self, told: Mapping[str, Any]) -> None:
        """Go on from the `settings` that an earlier process of the run ended with."""

    async def close(self) -> None:
        """Let go of everything; also after a failed start."""


class EmbeddedModel:
    """What an arm says of the embedded model, WO-A by the chain or by a kernel, wherever it runs.

    Args:
        name: what the run calls the arm.
        kernel: `module:function` behind the enabled dispatcher, or None for the chain alone.
    """

    answered_by: Literal["embedded", "server"] = "embedded"
    fresh = False

    def __init__(self, name: str, kernel: str | None) -> None:
        self.name = name
        self.kernel = kernel
        self.ready: embedded.Ready | None = None
        """What the model said once it was loaded."""
        self.done = embedded.Done([], {})
        """Calls of WO-A, as of the last batch that ended."""
        self.broken: embedded.Broken | None = None
        """Why it answers nothing any more."""
        self._fused_in: dict[str, int] = {}

    def _asked(self, suite: str, before: int) -> None:
        """Note for a suite how often the fused path was taken, `before` calls being older."""
        calls = self._fused_in.get(suite, 0)  # of earlier repeats
        self._fused_in[suite] = calls + self.done.fused - before

    def problems(self, suite: str) -> list[str]:
        """That the kernel was never called, if so; of a broken arm its failures tell."""
        if self.kernel is None or self.broken is not None or self._fused_in.get(suite, 0) > 0:
            return []
        reasons = ", ".join(f"{why} ({n} calls)" for why, n in self.done.reasons.items())
        return [f"{self.name} never took the fused path: {reasons or 'it was never called'}"]

    def fixed(self) -> dict[str, Any]:
        """Kernel and model."""
        ready = msgspec.structs.asdict(self.ready) if self.ready else {}
        return {"wo_a": self.kernel or "kernel:chain", **ready}

    def take_up(self, told: Mapping[str, Any]) -> None:
        """It answers everything in one process."""

    def settings(self) -> dict[str, Any]:
        """Kernel, device, and the dispatcher's counts by path and number of rows T."""
        counts: dict[str, dict[str, int]] = {}
        for path, rows, calls in self.done.counts:
            counts.setdefault(path, {})[f"T={rows}"] = calls
        return {
            "kind": "embedded",
            "fused_path": "enabled" if self.kernel else "off",
            **self.fixed(),
            "threads": 1,
            "calls": {path: sum(by_rows.values()) for path, by_rows in counts.items()},
            "calls_by_rows": counts,
            "reasons": self.done.reasons,
        }


class EmbeddedArm(EmbeddedModel):
    """The embedded model in a process of its own on this machine.

    Args:
        name: what the run calls the arm.
        kernel: `module:function`, or None for the chain alone.
        log: a file that takes what the kernel prints.
        patience_s: seconds without a sign of life, a returning call of WO-A, until it has hung.
    """

    def __init__(
        self, name: str, kernel: str | None, log: Path, *, patience_s: float = 180.0
    ) -> None:
        super().__init__(name, kernel)
        self._log = log
        self._patience_s = patience_s
        self._process: asyncio.subprocess.Process | None = None

    async def start(self) -> None:
        """Start the process and load the model."""
        environment = {
            **os.environ,
            # found from wherever this process found it
            "PYTHONPATH": os.pathsep.join(path or str(os.curdir) for path in sys.path),
            # the other arm has the other core
            "OMP_NUM_THREADS": "1",
            "MKL_NUM_THREADS": "1",
            "OPENBLAS_NUM_THREADS": "1",
        }
        with self._log.open("wb") as log:
            self._process = await asyncio.create_subprocess_exec(
                sys.executable,
                "-P",
                "-c",
                "from verify.embedded import main; main()",
                stdin=asyncio.subprocess.PIPE,
                stdout=asyncio.subprocess.PIPE,
                stderr=log,
                env=environment,
                limit=1 << 24,
                start_new_session=True,  # Ctrl-C is ours to hand on
            )
        await self._send(embedded.Setup(self.name, self.kernel))
        message = await self._receive()
        if isinstance(message, embedded.Broken):
            raise UserError(one_line(message.message))
        assert isinstance(message, embedded.Ready)
        self.ready = message

    async def answers(
        self,
        spec: Spec,
        prompts: Sequence[str],
        seeds: Sequence[int],  # noqa: ARG002 - it decodes greedily
        load: int | None = None,  # noqa: ARG002 - its batch is its own
    ) -> AsyncGenerator[tuple[int, Completion | Failure], None]:
        """Answers as rows of the batch finish; a kernel that raises leaves the rest unanswered."""
        before = self.done.fused
        for part in embedded.batches(prompts):
            job = embedded.Job([prompts[index] for index in part], spec.sampling.max_tokens)
            async with aclosing(self._batch(job)) as batch:
                async for place, answer in batch:
                    yield part[place], answer
        self._asked(spec.name, before)

    async def _batch(
        self, job: embedded.Job
    ) -> AsyncGenerator[tuple[int, Completion | Failure], None]:
        waiting = set(range(len(job.prompts)))
        await self._send(job)
        while True:
            message = await self._receive()
            if isinstance(message, embedded.Answered):
                waiting.remove(message.index)
                yield message.index, Completion(message.text, message.truncated, message.tokens)
            elif isinstance(message, embedded.Done):
                self.done = message
                return
            else:
                why = message.message if isinstance(message, embedded.Broken) else repr(message)
                for index in sorted(waiting):
                    yield index, Failure("arm", one_line(why))
                return

    async def close(self) -> None:
        """Kill the process, and drop a log in which nothing was written."""
        process = self._process
        if process is not None and process.returncode is None:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            with suppress(ConnectionError):
                await process.communicate()  # waits, and closes its pipes while the loop lives
        if self._log.exists() and not self._log.stat().st_size:
            self._log.unlink()

    async def _send(self, message: embedded.Setup | embedded.Job) -> None:
        assert self._process is not None
        assert self._process.stdin is not None
        with suppress(ConnectionError):  # a dead process is noticed when it is read from
            self._process.stdin.write(msgspec.json.encode(message) + b"\n")
            await self._process.stdin.drain()

    async def _receive(self) -> embedded.Message:
        """The next message; once broken, always the same one."""
        assert self._process is not None
        assert self._process.stdout is not None
        if self.broken is not None:
            return self.broken
        message: embedded.Message = embedded.Alive()
        while isinstance(message, embedded.Alive):
            message = await self._next(self._process, self._process.stdout)
        if isinstance(message, embedded.Broken):
            self.broken = message
        return message

    async def _next(
        self, process: asyncio.subprocess.Process, stdout: asyncio.StreamReader
    ) -> embedded.Message:
        try:
            line = await asyncio.wait_for(stdout.readline(), self._patience_s)
        except TimeoutError:
            return embedded.Broken(
                f"arm {self.name} hung: no call of its kernel returned for {self._patience_s:g} s"
            )
        if line:
            return _MESSAGES.decode(line)
        code = await process.wait()
        how = f"signal {signal.Signals(-code).name}" if code < 0 else f"exit code {code}"
        return embedded.Broken(f"the process of arm {self.name} ended by {how}")


_MESSAGES = msgspec.json.Decoder(embedded.Message)


def normalised(url: str) -> str:
    """An address in one form: with /v1 where it names no path, without a final slash.

    Raises:
        UserError: not an http address, or one that holds a key.
    """
    parts = urlsplit(url)
    try:
        port = f":{parts.port}" if parts.port is not None else ""
    except ValueError:
        parts, port = urlsplit(""), ""
    if parts.username is not None or parts.query or parts.fragment:
        raise UserError(
            f"the address of {parts.hostname} holds more than a place; name keys and the like "
            "under headers in verify.toml"
        )
    if parts.scheme not in {"http", "https"} or not parts.hostname:
        raise UserError(f"{url!r} is no http address; write it like http://127.0.0.1:8000/v1")
    host = "127.0.0.1" if parts.hostname == "localhost" else parts.hostname
    host = f"[{host}]" if ":" in host else host
    return f"{parts.scheme}://{host}{port}{parts.path.rstrip('/') or '/v1'}"
