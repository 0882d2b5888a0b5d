"""Both arms while they answer: bars in a terminal, a few plain lines elsewhere."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Self

from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    TaskID,
    TextColumn,
    TimeRemainingColumn,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from types import TracebackType

    from rich.console import Console

    from verify.store import Record
    from verify.task import Task

PLAIN_LINES = 5
"""Lines an arm and suite where the output is no terminal."""


@dataclass
class _Tally:
    """What one arm has answered of the suite at hand."""

    bar: TaskID
    now: Callable[[], float]
    suite: str = ""
    done: int = 0
    correct: int = 0
    truncated: int = 0
    errors: int = 0
    live: int = 0
    """Of these, in this process."""
    tokens: int = 0
    began: float = 0.0

    def add(self, record: Record, *, live: bool) -> None:
        if record.suite != self.suite:
            self.suite, self.began = record.suite, self.now()
            self.done = self.correct = self.truncated = self.errors = self.live = self.tokens = 0
        self.done += 1
        self.correct += bool(record.correct)
        self.truncated += bool(record.truncated)
        self.errors += record.error is not None
        if live:
            self.live += 1
            self.tokens += record.completion_tokens or 0

    @property
    def words(self) -> str:
        cut = f", {self.truncated} cut" if self.truncated else ""
        errors = f", {self.errors} errors" if self.errors else ""
        seconds = self.now() - self.began
        rate = f", {self.tokens / seconds:.0f} tokens/s" if self.tokens and seconds > 0 else ""
        return f"{self.suite}: {self.correct} of {self.done} right{cut}{errors}{rate}"

    def left(self, size: int) -> str:
        """The time that the rest will take at this pace."""
        if not self.live or self.done >= size:
            return ""
        seconds = (self.now() - self.began) / self.live * (size - self.done)
        minutes, seconds = divmod(round(seconds), 60)
        return f", {minutes}:{seconds:02d} left"


class Watch:
    """Shows both arms while they answer; a context manager."""

    def __init__(
        self,
        console: Console,
        arms: Sequence[str],
        tasks: Sequence[Task],
        now: Callable[[], float] = time.monotonic,
    ) -> None:
        self._console = console
        self._sizes = {task.name: task.answers for task in tasks}
        self._progress = Progress(
            TextColumn("{task.fields[arm]}"),
            BarColumn(bar_width=20),
            MofNCompleteColumn(),
            TimeRemainingColumn(),
            TextColumn("{task.fields[words]}", markup=False),
            console=console,
            transient=True,
            disable=not console.is_terminal,
        )
        total = sum(self._sizes.values())
        self._tallies = {
            arm: _Tally(self._progress.add_task("", total=total, arm=arm, words="starting"), now)
            for arm in arms
        }

    def __enter__(self) -> Self:
        self._progress.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._progress.stop()

    def held(self, record: Record) -> None:
        """Count one answer of an earlier process."""
        tally = self._tallies[record.arm]
        tally.add(record, live=False)
        self._progress.update(tally.bar, advance=1, words=tally.words)

    def heard(self, record: Record) -> None:
        """Count and show one answer as it comes."""
        tally = self._tallies[record.arm]
        tally.add(record, live=True)
        if self._console.is_terminal:
            self._progress.update(tally.bar, advance=1, words=tally.words)
            return
        size = self._sizes[record.suite]
        step = max(1, -(-size // PLAIN_LINES))
        if tally.done % step == 0 or tally.done == size:
            line = f"{record.arm}  {tally.words}, of {size}{tally.left(size)}"
            self._console.print(line, markup=False)
