"""`aa`: one arm against itself, so that one knows what a difference between two arms is worth."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import click
import msgspec
import numpy as np
from rich.table import Table

from verify import logs, manifest
from verify.command import UserError
from verify.evals import options, show
from verify.evals.output import console_for_people
from verify.evals.subsets import Subsets
from verify.files import write_json
from verify.stats.evidence import ALPHA, start_shift
from verify.stats.noise import flips_within
from verify.stats.verdicts import p_value
from verify.verdict import Verdict, combine

if TYPE_CHECKING:
    from verify.logs import Columns
    from verify.stats.results import StartShift


@dataclass(frozen=True)
class ArmNoise:
    """Noise of one arm in one suite.

    Attributes:
        suite, items: what was answered.
        repeats: the largest number of answers to an item.
        starts: files, each taken as one server start.
        accuracy: share of right answers of each repeat.
        flips: share of items on which two repeats disagree; None where an item has fewer than
            two answers, or partial credit.
        shift: of whole starts, or of whole repeats where all are of one start; None where all
            of them answer every item alike.
        verdict, reason: whether answers vary as independent ones do.
    """

    suite: str
    items: int
    repeats: int
    starts: int
    accuracy: tuple[float, ...]
    flips: float | None
    shift: StartShift | None
    verdict: Verdict
    reason: str


@click.command()
@click.argument("runs", nargs=-1, required=True, metavar="RUN...")
@click.option("--suite", help="This suite only; also names records that name none.")
@click.option("--filter", "filter_", help="Which of lm-evaluation-harness's answer filters.")
@click.option("--metric", help="Which metric or scorer, where a log holds several.")
@click.option(
    "--split",
    type=click.Path(path_type=Path, dir_okay=False),
    metavar="CSV",
    help="Measure subsets: a file with the columns item and subset.",
)
@options.json_file
@click.pass_context
def aa(
    context: click.Context,
    /,
    *,
    runs: tuple[str, ...],
    suite: str | None,
    filter_: str | None,
    metric: str | None,
    split: Path | None,
    json_file: Path | None,
) -> Verdict:
    """Noise of one arm: its flips against itself, and shifts of whole runs.

    RUNs are logs of the same arm, each a server start of its own, or one log with repeats.

    Exit codes: 0 answers vary as independent ones do, 2 wrong use, 3 whole runs shift, 4 invalid.
    """
    arm = logs.read_arm(runs, suite=suite, choice=logs.Choice(filter_, metric))
    tables = arm.suites if split is None else _subsets(arm.suites, Subsets.read(split))
    suites = [_measure(name, table) for name, table in tables.items()]
    document = {
        "verdict": str(combine(each.verdict for each in suites)),
        "suites": msgspec.to_builtins(suites),
        "manifest": {
            "command": manifest.command_line(context.command_path),
            "started": manifest.now(),
            **manifest.environment(),
            "arm": {"files": [str(path) for path in arm.paths], "settings": arm.settings},
            "notes": list(arm.notes),
        },
    }
    if json_file is not None:
        write_json(json_file, document)
    _show(suites, arm.notes)
    return Verdict(document["verdict"])


def _subsets(suites: dict[str, Columns], subsets: Subsets) -> dict[str, Columns]:
    """A table for each subset of each suite."""
    return {
        name: table.taken(np.flatnonzero(np.isin(table.item, codes)))
        for suite, table in suites.items()
        for name, codes in subsets.rows(suite, list(table.items))
    }


def _measure(suite: str, table: Columns) -> ArmNoise:
    """Noise of one suite.

    Raises:
        UserError: only one repeat.
    """
    grid = logs.grid(table)
    score = grid.score
    items, repeats = score.shape
    if repeats < 2:
        raise UserError(
            f"suite {suite} has one answer to each item; name several runs of the same arm"
        )
    starts = len(set(grid.runs))
    answered = ~np.isnan(score)
    failed = int(((grid.row >= 0) & ~answered).any(axis=1).sum())
    usable = answered.any(axis=1)
    shift = start_shift(score[usable], grid.runs) if usable.any() else None
    verdict, reason = _verdict(items, failed, starts, shift)
    return ArmNoise(
        suite=suite,
        items=items,
        repeats=repeats,
        starts=starts,
        accuracy=tuple(
            float(score[there, r].mean()) for r, there in enumerate(answered.T) if there.any()
        ),
        flips=None if table.graded or not usable.all() else flips_within(score),
        shift=shift,
        verdict=verdict,
        reason=reason,
    )


def _verdict(items: int, failed: int, starts: int, shift: StartShift | None) -> tuple[Verdict, str]:
    if failed:
        return Verdict.INVALID, f"{failed:,} of {items:,} items have a request never answered"
    of = f"{starts} starts" if starts > 1 else "repeats of one start"
    if shift is None:
        return Verdict.PASS, f"all {of} answer every item alike"
    low, high = shift.shift_interval_pt
    size = f"{shift.shift_pt:.2g} points (95 % {low:.2g} to {high:.2g})"
    if shift.p <= ALPHA:
        return Verdict.INCONCLUSIVE, (
            f"{of} shift whole runs, by a standard deviation of {size}: {p_value(shift.p)}. Two "
            "arms of one start each differ by that even if equal; compare several starts of each"
        )
    alone = "" if starts > 1 else "; other starts may shift, which one start cannot show"
    return Verdict.PASS, (
        f"{of} vary as independent answers do ({p_value(shift.p)}; a shift of {size}){alone}"
    )


def _show(suites: list[ArmNoise], notes: tuple[str, ...]) -> None:
    console = console_for_people()
    table = Table(box=None, pad_edge=False, header_style="dim", padding=(0, 1, 0, 0))
    for name in ("suite", "items", "repeats", "starts", "right %", "flips %", "variance\nratio",
                 "p"):  # fmt: skip
        table.add_column(name, no_wrap=True)
    for each in suites:
        shift = each.shift
        lowest, highest = 100 * min(each.accuracy), 100 * max(each.accuracy)
        table.add_row(
            each.suite,
            f"{each.items:,}",
            str(each.repeats),
            str(each.starts),
            f"{lowest:.1f} to {highest:.1f}",
            "-" if each.flips is None else f"{100 * each.flips:.2f}",
            "-" if shift is None else f"{shift.ratio:.2f}",
            "-" if shift is None else f"{shift.p:.2g}",
        )
    console.print(table)
    for each in suites:
        console.print(f"{each.suite}: {each.reason}", markup=False)
    for note in notes:
        console.print(f"note: {note}", markup=False)
    verdict = str(combine(each.verdict for each in suites))
    console.print(show.styled(verdict.upper(), verdict))
