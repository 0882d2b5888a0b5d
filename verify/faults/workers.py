"""Worker processes that may be killed: a candidate that aborts or hangs ends its worker only."""

from __future__ import annotations

import contextlib
import multiprocessing
import time
from multiprocessing.connection import wait
from typing import TYPE_CHECKING

import torch

from verify.faults.score import Score, score

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from multiprocessing.connection import Connection
    from multiprocessing.context import SpawnProcess

    from verify.faults.score import Task


def serve(pipe: Connection) -> None:
    """Judge what comes through the pipe until it closes."""
    torch.set_num_threads(1)
    with contextlib.suppress(EOFError):
        while True:
            pipe.send(score(pipe.recv()))


class Worker:
    """A process with one task at a time and a deadline for it."""

    def __init__(self, limit: float) -> None:
        context = multiprocessing.get_context("spawn")
        self.limit = limit
        self.pipe, theirs = context.Pipe()
        self.process: SpawnProcess = context.Process(target=serve, args=(theirs,), daemon=True)
        self.process.start()
        theirs.close()
        self.task: Task | None = None
        self.began = 0.0

    def give(self, task: Task) -> None:
        """Start a task."""
        self.task, self.began = task, time.monotonic()
        self.pipe.send(task)

    def overdue(self) -> bool:
        """Whether the deadline has passed."""
        return time.monotonic() - self.began > self.limit

    def end(self) -> None:
        """Stop the process, whatever it does."""
        self.pipe.close()
        self.process.kill()
        self.process.join()


def judge_all(tasks: Sequence[Task], workers: int, limit: float) -> Iterator[Score]:
    """Scores as they come.

    Args:
        tasks: given out in order.
        workers: processes at a time.
        limit: seconds a task may take before its worker is replaced.
    """
    waiting = list(reversed(tasks))
    busy = [Worker(limit) for _ in range(min(workers, len(waiting)))]
    try:
        for worker in busy:
            worker.give(waiting.pop())
        while busy:
            wait([worker.pipe for worker in busy], timeout=1)
            for worker in list(busy):
                answer = answer_of(worker)
                if answer is None:
                    continue
                yield answer
                busy.remove(worker)
                if not answer.answered or not waiting:
                    worker.end()
                if waiting:
                    successor = worker if answer.answered else Worker(limit)
                    successor.give(waiting.pop())
                    busy.append(successor)
    finally:
        for worker in busy:
            worker.end()


def answer_of(worker: Worker) -> Score | None:
    """The worker's score, one that says it died or hangs, or None while it is at work."""
    assert worker.task is not None
    if worker.pipe.poll():
        try:
            answer: Score = worker.pipe.recv()
        except (EOFError, ConnectionResetError):
            worker.process.join()
            return lost(worker, f"the judge died with it, exit code {worker.process.exitcode}")
        return answer
    if worker.overdue():
        return lost(worker, f"no answer within {worker.limit:.0f} s")
    return None


def lost(worker: Worker, why: str) -> Score:
    """The score of a task that nobody answers."""
    assert worker.task is not None
    seconds = time.monotonic() - worker.began
    return Score(worker.task, (), None, why, 0, seconds, answered=False)
