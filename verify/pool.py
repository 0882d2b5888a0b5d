"""Worker processes that may die: a job that hangs, aborts or kills its worker is Lost, no more."""

from __future__ import annotations

import multiprocessing
import os
import signal
import threading
import time
import traceback
from collections import deque
from contextlib import suppress
from dataclasses import dataclass
from multiprocessing.connection import Connection, wait
from typing import TYPE_CHECKING, Generic, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from types import TracebackType

Job = TypeVar("Job")
Answer = TypeVar("Answer")

_SPAWN = multiprocessing.get_context("spawn")
"""CUDA cannot be used in a forked process."""

START_LIMIT_S = 120.0
"""Seconds that a worker may take to import what it needs."""


@dataclass(frozen=True)
class Lost:
    """A job without an answer.

    Attributes:
        reason: what became of its worker.
        hung: it was stopped because it took too long.
        killed: it was killed from outside, as the system does when memory ends.
    """

    reason: str
    hung: bool = False
    killed: bool = False


class WorkerError(Exception):
    """The worker's own code raised: a defect here, not in the candidate. Holds its traceback."""


class _Worker(Generic[Job, Answer]):
    """One process and the pipe to it."""

    def __init__(self, start: Callable[[int], Callable[[Job], Answer]], number: int) -> None:
        self.number = number
        self.connection, theirs = _SPAWN.Pipe()
        self.process = _SPAWN.Process(target=_serve, args=(start, number, theirs), daemon=True)
        self.process.start()
        theirs.close()
        self.job: Job | None = None
        self.limit_s = 0.0
        self.deadline = time.monotonic() + START_LIMIT_S
        self.ready = False

    def give(self, job: Job, limit_s: float) -> None:
        self.job = job
        self.limit_s = limit_s
        self.deadline = time.monotonic() + limit_s + (0 if self.ready else START_LIMIT_S)
        with suppress(BrokenPipeError):  # it died idle: noticed as the end of its pipe
            self.connection.send(job)

    def kill(self) -> None:
        """It and all processes that it started."""
        assert self.process.pid is not None
        with suppress(ProcessLookupError):  # it has not come so far as to lead a group
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.kill()
        self.process.join()
        self.connection.close()

    def end(self) -> str:
        """How the process ended, in words."""
        self.process.join()
        code = self.process.exitcode or 0
        if code < 0:
            return f"the process was killed by {signal.Signals(-code).name}"
        return f"the process ended with exit code {code}"


class Pool(Generic[Job, Answer]):
    """Runs jobs in `workers` processes, each of which calls `start(its number)` once.

    Args:
        start: makes what answers jobs; picklable, called in the worker.
        workers: number of processes.
        limit_s: says how many seconds a job may take; asked when it is given to a worker.
    """

    def __init__(
        self,
        start: Callable[[int], Callable[[Job], Answer]],
        workers: int,
        limit_s: Callable[[Job], float],
    ) -> None:
        self.start = start
        self.limit_s = limit_s
        self.workers = [_Worker[Job, Answer](start, number) for number in range(workers)]

    def __enter__(self) -> Pool[Job, Answer]:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        for worker in self.workers:
            worker.kill()

    def answers(self, jobs: Iterable[Job]) -> Iterator[tuple[Job, Answer | Lost]]:
        """Each job with its answer, as they come; a lost worker is replaced.

        Raises:
            WorkerError: the worker's own code failed.
        """
        waiting = deque(jobs)
        for worker in self.workers:
            self._next(worker, waiting)
        while busy := [w for w in self.workers if w.job is not None]:
            patience = min(w.deadline for w in busy) - time.monotonic()
            heard = set(wait([w.connection for w in busy], timeout=max(patience, 0)))
            for worker in busy:
                job = worker.job
                assert job is not None
                answer: Answer | Lost
                if worker.connection in heard:
                    try:
                        kind, content = worker.connection.recv()
                    except (EOFError, ConnectionResetError):
                        reason = worker.end()
                        killed = worker.process.exitcode == -signal.SIGKILL
                        answer = Lost(reason, killed=killed)
                        worker = self._replace(worker)  # noqa: PLW2901 - the same slot
                    else:
                        if kind == "raised":
                            raise WorkerError(content)
                        if kind == "ready":
                            worker.ready = True
                            worker.deadline = time.monotonic() + worker.limit_s
                            continue
                        answer = content
                elif time.monotonic() >= worker.deadline:
                    limit = worker.limit_s if worker.ready else START_LIMIT_S
                    answer = Lost(f"stopped after {limit:.0f} s without an answer", hung=True)
                    worker = self._replace(worker)  # noqa: PLW2901 - the same slot
                else:
                    continue
                self._next(worker, waiting)
                yield job, answer

    def _next(self, worker: _Worker[Job, Answer], waiting: deque[Job]) -> None:
        worker.job = None
        if waiting:
            job = waiting.popleft()
            worker.give(job, self.limit_s(job))

    def _replace(self, dead: _Worker[Job, Answer]) -> _Worker[Job, Answer]:
        dead.kill()
        fresh = _Worker[Job, Answer](self.start, dead.number)
        self.workers[dead.number] = fresh
        return fresh


def _serve(
    start: Callable[[int], Callable[[Job], Answer]], number: int, connection: Connection
) -> None:
    """The worker's life: say ready, then answer jobs until the pipe closes."""
    os.setpgrp()  # what a candidate starts ends with it
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent decides what Ctrl-C means
    threading.Thread(target=_end_with_parent, daemon=True).start()
    try:
        answer = start(number)
        connection.send(("ready", None))
        while True:
            try:
                job = connection.recv()
            except EOFError:
                return
            connection.send(("answer", answer(job)))
    except KeyboardInterrupt:
        os._exit(130)  # nobody sent a signal: what a candidate raises has no traceback to show
    except Exception:  # noqa: BLE001 - sent on, and raised in the parent
        connection.send(("raised", traceback.format_exc()))


def _end_with_parent() -> None:
    """A job that hangs would outlive a parent that was killed."""
    parent = multiprocessing.parent_process()
    assert parent is not None
    parent.join()
    os.killpg(0, signal.SIGKILL)
