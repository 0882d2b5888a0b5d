"""What a run looks like in a terminal: progress of both arms, then the verdicts."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Self

from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    TaskID,
    TextColumn,
    TimeRemainingColumn,
)
from rich.table import Table
from rich.text import Text

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from types import TracebackType

    from rich.console import Console

    from verify.runner import Task
    from verify.store import Record

STYLES = {"pass": "bold green", "fail": "bold red"}
PLAIN_LINES = 5
"""Lines an arm and suite where the output is no terminal."""


@dataclass
class _Tally:
    """What one arm has answered so far, in the suite at hand and in all."""

    bar: TaskID
    suite: str = ""
    done: int = 0
    correct: int = 0
    truncated: int = 0
    errors: int = 0

    def add(self, record: Record) -> None:
        if record.suite != self.suite:
            self.suite, self.done, self.correct, self.truncated, self.errors = (
                record.suite,
                0,
                0,
                0,
                0,
            )
        self.done += 1
        self.correct += bool(record.correct)
        self.truncated += bool(record.truncated)
        self.errors += record.error is not None

    @property
    def words(self) -> str:
        cut = f", {self.truncated} cut" if self.truncated else ""
        errors = f", {self.errors} errors" if self.errors else ""
        return f"{self.suite}: {self.correct} of {self.done} right{cut}{errors}"


class Watch:
    """Shows both arms while they answer; a context manager."""

    def __init__(self, console: Console, arms: Sequence[str], tasks: Sequence[Task]) -> None:
        self._console = console
        self._sizes = {task.name: task.answers for task in tasks}
        self._progress = Progress(
            TextColumn("{task.fields[arm]}"),
            BarColumn(bar_width=20),
            MofNCompleteColumn(),
            TimeRemainingColumn(),
            TextColumn("{task.fields[words]}"),
            console=console,
            transient=True,
            disable=not console.is_terminal,
        )
        total = sum(self._sizes.values())
        self._tallies = {
            arm: _Tally(self._progress.add_task("", total=total, arm=arm, words="starting"))
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

    def heard(self, record: Record) -> None:
        """Count one answer."""
        tally = self._tallies[record.arm]
        tally.add(record)
        self._progress.update(tally.bar, advance=1, words=tally.words)
        size = self._sizes[record.suite]
        step = max(1, -(-size // PLAIN_LINES))
        if not self._console.is_terminal and (tally.done % step == 0 or tally.done == size):
            self._console.print(f"{record.arm}  {tally.words}, of {size}", markup=False)


def verdicts(console: Console, result: Mapping[str, Any], where: str) -> None:
    """The table of suites, layers 1 and 2 if the folder holds them, the verdict of all."""
    kernel = result.get("kernel")
    if kernel:
        for layer, verdict in kernel["layers"].items():
            wrong = {f["case"] for f in kernel["findings"] if str(f["layer"]) == layer}
            console.print(
                Text(f"layer {layer}"),
                styled(verdict),
                Text(f"{len(wrong)} of {kernel['executed']} cases wrong"),
                sep="  ",
            )
    if result["suites"]:
        console.print(_table(result["suites"]))
        for suite in result["suites"]:
            console.print(f"{suite['suite']}: {suite['reason']}", markup=False)
    console.print(styled(result["verdict"].upper(), result["verdict"]), Text(f"  {where}"), sep="")


def comparison(console: Console, result: Mapping[str, Any]) -> None:
    """Two arms of logs: what they are, the table of suites, methods, noise and notes."""
    for name, arm in result["manifest"]["arms"].items():
        files = ", ".join(arm["files"])
        console.print(f"{name}  {files} ({arm['format']})", markup=False)
    console.print(_table(result["suites"]))
    for suite in result["suites"]:
        console.print(f"{suite['suite']}: {suite['reason']}", markup=False)
        for detail in _details(suite):
            console.print(f"  {detail}", markup=False)
    for note in result["manifest"]["notes"]:
        console.print(f"note: {note}", markup=False)
    console.print(styled(result["verdict"].upper(), result["verdict"]))


def _details(suite: Mapping[str, Any]) -> Iterator[str]:
    """Methods and the figures that have no column."""
    if suite["difference_pt"] is None:
        return
    yield f"method: {suite['interval_method']}"
    if suite["detectable_pt"] is not None:
        yield (
            f"smallest margin shown {suite['smallest_margin_pt']:.2f} points; as many answers "
            f"could see {suite['detectable_pt']:.2f}"
        )
    if test := suite["mcnemar"]:
        yield f"McNemar exact p = {test['exact']:.3g}, mid-p {test['midp']:.3g}"
    noise = suite["noise"]
    if noise:
        rates = [
            f"{name} {100 * noise[key]:.2f} %"
            for name, key in (
                ("base to base", "flips_base"),
                ("PR to PR", "flips_pr"),
                ("base to PR", "flips_between"),
            )
            if noise[key] is not None
        ]
        yield f"flips: {', '.join(rates)}"
        for each in noise["repeats"]:
            more = (
                f", {each['recovered']} recovered, {each['newly_lost']} newly lost"
                if each["repeat"]
                else ""
            )
            yield f"repeat {each['repeat'] + 1}: {each['lost']} lost, {each['gained']} gained{more}"
    if suite["truncated"] and (suite["truncated"]["base"] or suite["truncated"]["pr"]):
        low, high = suite["truncation_bounds_pt"]
        cut = suite["truncated"]
        yield (
            f"truncated {cut['base']} and {cut['pr']} (p = {suite['cap_rate']['p']:.2g}): the "
            f"difference lies between {low:+.2f} and {high:+.2f} points"
        )
    if suite["length"]:
        p = suite["length"]["p"]
        yield f"length: x {suite['length']['ratio']:.3f}" + (f" (p = {p:.2g})" if p else "")
    if suite["partial_credit"]:
        credit = suite["partial_credit"]
        t = "-" if credit["t_p"] is None else f"{credit['t_p']:.3g}"
        yield f"partial credit: paired t p = {t}, permutation p = {credit['permutation_p']:.3g}"


def _table(suites: Sequence[Mapping[str, Any]]) -> Table:
    table = Table(box=None, pad_edge=False, header_style="dim", padding=(0, 1, 0, 0))
    for name in ("suite", "verdict", "base\n%", "PR\n%", "diff\npt", "95 %\ninterval",
                 "p\n(margin)", "lost/\ngained"):  # fmt: skip
        table.add_column(name, no_wrap=True)
    for suite in suites:
        table.add_row(suite["suite"], styled(suite["verdict"]), *_figures(suite))
    return table


def _figures(suite: Mapping[str, Any]) -> list[str]:
    if suite["difference_pt"] is None:
        return ["-"] * 6
    low, high = suite["interval_pt"] or (-100.0, 100.0)
    test = suite["noninferiority"]
    return [
        f"{100 * suite['accuracy']['base']:.1f}",
        f"{100 * suite['accuracy']['pr']:.1f}",
        f"{suite['difference_pt']:+.2f}",
        f"{low:+.2f} to {high:+.2f}",
        f"{_evidence(suite)} ({test['margin_pt']:g})",
        f"{suite['lost']}/{suite['gained']}",
    ]


def _evidence(suite: Mapping[str, Any]) -> str:
    """The p-value at the margin, or the e-value where only that is valid."""
    looks, p = suite["sequential"], suite["noninferiority"]["p"]
    if p is not None:
        return _p(p)
    if looks is None:
        return "-"
    return f"e={looks['harm'] if looks['certificate'] is None else looks['certificate']:.3g}"


def _p(p: float) -> str:
    return "<.0001" if p < 1e-4 else f"{p:.2g}"


def styled(words: str, verdict: str | None = None) -> Text:
    """A verdict in its colour."""
    return Text(words, style=STYLES.get(verdict or words, "bold yellow"))
