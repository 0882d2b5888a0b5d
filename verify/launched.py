"""A server that we start and stop: its own process group, its log, its port, and nothing left."""

from __future__ import annotations

import asyncio
import os
import signal
import socket
import sys
import time
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

import aiohttp

from verify.arms import one_line
from verify.command import UserError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

GRACE_S = 20.0
"""Seconds that a server has to end by itself once it is told to."""
_POLL_S = 0.1
# Kills the group once our end of the pipe is gone: also when we were killed and cannot.
_KEEPER = (
    "import os, signal, sys\n"
    "signal.signal(signal.SIGINT, signal.SIG_IGN)\n"
    "sys.stdin.buffer.read()\n"
    "try: os.killpg(int(sys.argv[1]), signal.SIGKILL)\n"
    "except ProcessLookupError: pass\n"
)


@dataclass(frozen=True)
class Launch:
    """How a server is started.

    Attributes:
        arm: the name of the arm, for messages.
        command: the program and its arguments.
        ready: the address that answers with status 200 once the server is ready.
        ready_s: seconds that this may take.
        env: what its environment has beside ours.
        headers: sent when asking whether it is ready.
        secrets: what must not stand in its log.
    """

    arm: str
    command: Sequence[str]
    ready: str
    ready_s: float = 1800.0
    env: Mapping[str, str] = field(default_factory=dict)
    headers: Mapping[str, str] = field(default_factory=dict)
    secrets: Sequence[bytes] = ()


class Launched:
    """One server, from its start to its end.

    `stop` leaves none of its process group alive and its port free. If we are killed, a keeper
    process ends the group.
    """

    def __init__(self, launch: Launch, log: Path) -> None:
        self.launch = launch
        self.log = log
        self._process: asyncio.subprocess.Process | None = None
        self._keeper: asyncio.subprocess.Process | None = None
        self._copying: asyncio.Task[None] | None = None

    async def start(self) -> None:
        """Start it and wait until it is ready.

        Raises:
            UserError: something else listens there, or it ends or does not become ready.
        """
        launch = self.launch
        if _listens(launch.ready):
            raise UserError(
                f"arm {launch.arm}: something listens at {_place(launch.ready)} already; end it, "
                "or give the arm another port"
            )
        self.log.parent.mkdir(parents=True, exist_ok=True)
        # a pipe of our own: asyncio's would make the end of a process wait for its children's end
        reading, writing = os.pipe()
        self._copying = asyncio.create_task(self._copy(reading))
        try:
            process = self._process = await asyncio.create_subprocess_exec(
                *launch.command,
                stdin=asyncio.subprocess.DEVNULL,
                stdout=writing,
                stderr=writing,
                env={**os.environ, **launch.env},
                start_new_session=True,  # Ctrl-C is ours to hand on, and the group ours to end
            )
        except OSError as error:
            raise UserError(
                f"arm {launch.arm}: {launch.command[0]} cannot be started ({error.strerror}); "
                "correct launch in verify.toml"
            ) from None
        finally:
            os.close(writing)
        self._keeper = await asyncio.create_subprocess_exec(
            sys.executable, "-S", "-c", _KEEPER, str(process.pid),
            stdin=asyncio.subprocess.PIPE, start_new_session=True,
        )  # fmt: skip
        await self._until_ready(process)

    async def stop(self) -> None:
        """End it, first kindly; returns once its whole group is gone and its port is free."""
        process = self._process
        if process is None:
            await self._let_go()
            return
        self._process = None
        try:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGTERM)
            with suppress(TimeoutError):
                await asyncio.wait_for(process.wait(), GRACE_S)
            ends = time.monotonic() + GRACE_S
            while _kill(process.pid) or _listens(self.launch.ready):
                if time.monotonic() > ends:  # it moved to a group of its own, or cannot die
                    raise UserError(
                        f"arm {self.launch.arm}: {_place(self.launch.ready)} is still in use after "
                        "its server was ended; end what listens there"
                    )
                await asyncio.sleep(_POLL_S)
        finally:
            _kill(process.pid)
            await process.wait()
            await self._let_go()

    async def _let_go(self) -> None:
        """Of the log and of the keeper."""
        if self._copying is not None:
            self._copying.cancel()
            await asyncio.gather(self._copying, return_exceptions=True)
        if self._keeper is not None:
            self._keeper.kill()  # nothing is left for it to do
            await self._keeper.communicate()

    async def _until_ready(self, process: asyncio.subprocess.Process) -> None:
        launch = self.launch
        ends = time.monotonic() + launch.ready_s
        async with aiohttp.ClientSession(
            headers=launch.headers, timeout=aiohttp.ClientTimeout(total=10)
        ) as session:
            while process.returncode is None:
                with suppress(aiohttp.ClientError, TimeoutError, OSError):
                    async with session.get(launch.ready) as response:
                        if response.status == 200:
                            return
                if time.monotonic() > ends:
                    raise UserError(
                        f"arm {launch.arm}: its server was not ready after {launch.ready_s:g} s "
                        f"({launch.ready}); its words are in {self.log}"
                    )
                with suppress(TimeoutError):
                    await asyncio.wait_for(process.wait(), _POLL_S)
        assert self._copying is not None
        await asyncio.wait([self._copying], timeout=1)  # its last words
        code = process.returncode
        how = f"signal {signal.Signals(-code).name}" if code < 0 else f"exit code {code}"
        raise UserError(
            f"arm {launch.arm}: its server ended by {how} before it was ready: "
            f"{one_line(self._last_words()) or 'it said nothing'} (all in {self.log})"
        )

    async def _copy(self, pipe: int) -> None:
        """What the server prints, into its log as it comes, without secrets."""
        reader = asyncio.StreamReader()
        loop = asyncio.get_running_loop()
        transport, _ = await loop.connect_read_pipe(
            lambda: asyncio.StreamReaderProtocol(reader), os.fdopen(pipe, "rb", buffering=0)
        )
        longest = max(map(len, self.launch.secrets), default=1)
        held = b""
        try:
            with self.log.open("wb", buffering=0) as log:
                while chunk := await reader.read(1 << 16):
                    held = self._clean(held + chunk)
                    # what may be the beginning of a secret waits; none goes beyond its line
                    safe = max(len(held) - longest + 1, held.rfind(b"\n") + 1)
                    log.write(held[:safe])
                    held = held[safe:]
                log.write(held)
        finally:
            transport.close()

    def _clean(self, content: bytes) -> bytes:
        for secret in self.launch.secrets:
            content = content.replace(secret, b"***")
        return content

    def _last_words(self) -> str:
        try:
            lines = self.log.read_text("utf-8", "replace").split("\n")
        except OSError:
            return ""
        return next((line for line in reversed(lines) if line.strip()), "")


def _kill(group: int) -> bool:
    """Kill what is left of a process group; whether any of it still lives."""
    try:
        os.killpg(group, signal.SIGKILL)
    except ProcessLookupError:
        return False
    return any(
        state not in {"Z", "X"}  # the dead, whom nobody may have collected yet
        for state, of in map(_state_and_group, Path("/proc").glob("[0-9]*"))
        if of == group
    )


def _state_and_group(process: Path) -> tuple[str, int]:
    """As in proc_pid_stat(5); the name before them, in brackets, may hold anything."""
    try:
        state, _, group, *_ = (
            (process / "stat").read_text("utf-8", "replace").rpartition(")")[2].split()
        )
    except OSError:
        return "X", 0  # it has just ended
    return state, int(group)


def _place(url: str) -> str:
    parts = urlsplit(url)
    return f"{parts.hostname}:{parts.port or (443 if parts.scheme == 'https' else 80)}"


def _listens(url: str) -> bool:
    host, _, port = _place(url).rpartition(":")
    try:
        with socket.create_connection((host, int(port)), timeout=1):
            return True
    except OSError:
        return False
