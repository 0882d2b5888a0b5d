"""Several runs on one page: a matrix of suites by runs, and each suite's differences over time."""

from __future__ import annotations

import os
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final
from urllib.parse import quote

import msgspec

from reports import charts, page, words
from reports.read import read_manifest, read_result
from verify.files import write_text
from verify.verdict import Verdict, combine

if TYPE_CHECKING:
    from collections.abc import Sequence

    from reports.read import Kernel, Suite

FILE: Final = "overview.html"


@dataclass(frozen=True)
class Cell:
    """What one run found on one layer or suite; a `verdict` of None says that it was not asked."""

    verdict: Verdict | None
    figure: str = ""


@dataclass(frozen=True)
class Row:
    """One run: where its own page stands, and a cell for each column."""

    name: str
    link: str
    started: str
    verdict: Verdict
    cells: tuple[Cell, ...]


@dataclass(frozen=True)
class History:
    """One suite's differences, a row a run, the oldest first."""

    suite: str
    chart: charts.Chart


@dataclass(frozen=True)
class _Told:
    folder: Path
    started: str
    verdict: Verdict
    kernel: Kernel | None
    suites: tuple[Suite, ...]


def overview(run_dirs: Sequence[Path], out: Path) -> tuple[Path, Verdict]:
    """Write FILE into the folder `out`; return its path and the gravest verdict of the runs.

    Raises:
        UserError: a folder holds no result, or a file in it is not what it should be.
    """
    told = sorted(map(_told, run_dirs), key=lambda run: run.started)
    names = _names([run.folder for run in told])
    suites = list(dict.fromkeys(suite.suite for run in told for suite in run.suites))
    document = page.document(
        "runs.html.j2",
        title=words.count(len(told), "run"),
        verdict=combine(run.verdict for run in told),
        columns=["Layer 1", "Layer 2", *suites],
        rows=[
            Row(name, _link(run, out), words.time(run.started), run.verdict, _cells(run, suites))
            for name, run in zip(names, told, strict=True)
        ],
        histories=[h for suite in suites if (h := _history(suite, names, told)) is not None],
    )
    write_text(out / FILE, document)
    return out / FILE, combine(run.verdict for run in told)


def _told(folder: Path) -> _Told:
    document, result = read_result(folder)
    _, about = read_manifest(folder, document)
    return _Told(folder, about.started, result.verdict, result.kernel, result.suites)


def _names(folders: Sequence[Path]) -> list[str]:
    """The folders' own names; with their parents' where two are the same."""
    alike = Counter(folder.resolve().name for folder in folders)
    return [
        resolved.name if alike[resolved.name] == 1 else f"{resolved.parent.name}/{resolved.name}"
        for resolved in (folder.resolve() for folder in folders)
    ]


def _link(run: _Told, out: Path) -> str:
    """From the overview to a run's own page; whatever a folder is called, no scheme of a URL."""
    return quote(Path(os.path.relpath(run.folder / "report.html", out)).as_posix())


def _cells(run: _Told, suites: Sequence[str]) -> tuple[Cell, ...]:
    found = {suite.suite: suite for suite in run.suites}
    kernel = [_layer(run.kernel, number) for number in (1, 2)]
    return (*kernel, *(_suite(found.get(name)) for name in suites))


def _layer(kernel: Kernel | None, number: int) -> Cell:
    if kernel is None:
        return Cell(None)
    wrong = {finding.case for finding in kernel.findings if finding.layer == number}
    return Cell(kernel.layers[str(number)], f"{len(wrong):,} of {kernel.executed:,} cases wrong")


def _suite(suite: Suite | None) -> Cell:
    if suite is None:
        return Cell(None)
    if suite.difference_pt is None:
        return Cell(suite.verdict)
    interval = f" ({words.interval(suite.interval_pt)})" if suite.interval_pt else ""
    return Cell(suite.verdict, f"{words.change(suite.difference_pt)} pt{interval}")


def _history(name: str, runs: Sequence[str], told: Sequence[_Told]) -> History | None:
    """The forest of one suite, with runs where a single run's has suites."""
    rows = [
        msgspec.structs.replace(suite, suite=run)
        for run, each in zip(runs, told, strict=True)
        for suite in each.suites
        if suite.suite == name
    ]
    chart = charts.forest(rows) if len(rows) > 1 else None
    return History(name, chart) if chart else None
