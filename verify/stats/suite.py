"""The verdict of each suite of a run, and the figures behind it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from verify.stats.binomial import clopper_pearson
from verify.stats.families import holm
from verify.stats.mcnemar import McNemar, harm, mcnemar
from verify.stats.sizes import repeats_needed
from verify.stats.table import PairedTable
from verify.stats.tango import TangoDifference, detectable_difference, items_needed
from verify.stats.truncation import best_case, worst_case
from verify.verdict import Verdict

if TYPE_CHECKING:
    from collections.abc import Sequence

    from verify.stats.truncation import CensoredScores

BoolArray = NDArray[np.bool_]

ALPHA = 0.025
"""One-sided level of every test behind a verdict."""

CONFIDENCE = 1 - 2 * ALPHA


@dataclass(frozen=True, eq=False)
class SuiteScores:
    """Both arms' answers to one suite: arrays [items], items in the same order.

    `margin` and `floor` are shares, not points. `truncated` (base, pr) is None where it is not
    known. `problems` are reasons why the comparison is invalid; then the arrays hold what could
    still be paired, and may be empty.
    """

    suite: str
    base: BoolArray
    pr: BoolArray
    truncated: tuple[BoolArray, BoolArray] | None
    margin: float
    floor: float
    problems: tuple[str, ...] = ()


@dataclass(frozen=True)
class Counts:
    """A whole number for each arm."""

    base: int
    pr: int


@dataclass(frozen=True)
class Accuracy:
    """Share of right answers of each arm."""

    base: float
    pr: float


@dataclass(frozen=True)
class NonInferiority:
    """One-sided test of "PR is worse by `margin_pt` points or more"; p None if nothing paired."""

    margin_pt: float
    p: float | None = None
    method: str = TangoDifference.method


@dataclass(frozen=True)
class Equivalence:
    """Two one-sided tests of "the arms differ by `margin_pt` points or more"."""

    margin_pt: float
    p: float | None = None


@dataclass(frozen=True, kw_only=True)
class SuiteResult:
    """One suite in `result.json`; figures are None where no item could be paired.

    Differences are PR minus base, in percentage points.
    """

    suite: str
    items: int
    repeats: Counts
    both: int | None = None
    lost: int | None = None
    gained: int | None = None
    neither: int | None = None
    accuracy: Accuracy | None = None
    difference_pt: float | None = None
    interval_pt: tuple[float, float] | None = None
    confidence: float = CONFIDENCE
    interval_method: str = TangoDifference.method
    mcnemar: McNemar | None = None
    noninferiority: NonInferiority
    equivalence: Equivalence
    smallest_margin_pt: float | None = None
    truncated: Counts | None = None
    truncation_bounds_pt: tuple[float, float] | None = None
    detectable_pt: float | None = None
    verdict: Verdict
    reason: str


@dataclass(frozen=True)
class _Evidence:
    """What one suite's pairs say, before the other suites have been heard."""

    table: PairedTable
    truncated: tuple[int, int] | None
    worst: PairedTable
    """Every truncated answer counted against PR; as it is where truncation is not known."""
    best: PairedTable


def judge(suites: Sequence[SuiteScores]) -> list[SuiteResult]:
    """Verdicts of all suites of one run; alarms for harm are corrected for their number."""
    evidence = [_weigh(s) if s.base.size else None for s in suites]
    alarms = holm({i: harm(e.table.lost, e.table.gained) for i, e in enumerate(evidence) if e})
    return [
        _result(scores, found, alarms.get(i, 1.0), len(suites))
        for i, (scores, found) in enumerate(zip(suites, evidence, strict=True))
    ]


def _weigh(scores: SuiteScores) -> _Evidence:
    table = PairedTable.of(scores.base, scores.pr)
    if scores.truncated is None:
        return _Evidence(table, None, table, table)
    arrays = [a[:, None] for a in (scores.base, scores.pr, *scores.truncated)]
    base_cut, pr_cut = (int(cut.sum()) for cut in scores.truncated)
    return _Evidence(
        table,
        (base_cut, pr_cut),
        _censored(worst_case(arrays[0], arrays[1], arrays[2], arrays[3])),
        _censored(best_case(arrays[0], arrays[1], arrays[2], arrays[3])),
    )


def _censored(scores: CensoredScores) -> PairedTable:
    return PairedTable.of(scores.base[:, 0] > 0, scores.pr[:, 0] > 0)


def _result(
    scores: SuiteScores, evidence: _Evidence | None, alarm: float, suites: int
) -> SuiteResult:
    margin_pt = 100 * scores.margin
    if evidence is None:
        return SuiteResult(
            suite=scores.suite,
            items=0,
            repeats=Counts(1, 1),
            noninferiority=NonInferiority(margin_pt),
            equivalence=Equivalence(margin_pt),
            verdict=Verdict.INVALID,
            reason=_listed(scores.problems or ("no item could be paired",)),
        )
    table, difference = evidence.table, TangoDifference(evidence.table)
    low, high = difference.interval(CONFIDENCE)
    known = evidence.truncated
    verdict, reason = _verdict(scores, evidence, alarm, suites)
    return SuiteResult(
        suite=scores.suite,
        items=table.items,
        repeats=Counts(1, 1),
        both=table.both,
        lost=table.lost,
        gained=table.gained,
        neither=table.neither,
        accuracy=Accuracy(*_accuracy(table)),
        difference_pt=100 * table.difference,
        interval_pt=(100 * low, 100 * high),
        mcnemar=mcnemar(table.lost, table.gained),
        noninferiority=NonInferiority(margin_pt, difference.noninferiority(scores.margin)),
        equivalence=Equivalence(margin_pt, difference.equivalence(scores.margin)),
        smallest_margin_pt=100 * difference.smallest_margin(ALPHA),
        truncated=Counts(*known) if known else None,
        truncation_bounds_pt=(
            (100 * evidence.worst.difference, 100 * evidence.best.difference) if known else None
        ),
        detectable_pt=100 * detectable_difference(table.items, _likely_discordance(table)),
        verdict=verdict,
        reason=reason,
    )


def _accuracy(table: PairedTable) -> tuple[float, float]:
    return (table.both + table.lost) / table.items, (table.both + table.gained) / table.items


def _likely_discordance(table: PairedTable) -> float:
    """The share of items on which the arms disagree, never quite 0 or 1 for planning's sake."""
    return (table.lost + table.gained + 1) / (table.items + 2)


def _verdict(
    scores: SuiteScores, evidence: _Evidence, alarm: float, suites: int
) -> tuple[Verdict, str]:
    """The first that applies of: invalid, harmed, blind, non-inferior, open."""
    table = evidence.table
    if scores.problems:
        return Verdict.INVALID, _listed(scores.problems)
    p = TangoDifference(table).noninferiority(scores.margin)
    if p > ALPHA and alarm <= ALPHA:
        corrected = f", corrected for {suites} suites" if suites > 1 else ""
        return Verdict.FAIL, (
            f"PR is worse than base: {table.lost} lost and {table.gained} gained of {table.items} "
            f"(one-sided {_p(alarm)}{corrected}), and a loss of {_pt(scores.margin)} is not ruled "
            "out"
        )
    lowest = clopper_pearson(table.both + table.lost, table.items, CONFIDENCE)[0]
    if lowest <= scores.floor:
        return Verdict.INCONCLUSIVE, (
            f"such a suite can see nothing: base answers {table.both + table.lost} of "
            f"{table.items} rightly, not clearly more than its floor of {100 * scores.floor:.3g} %"
        )
    if p <= ALPHA:
        return _despite_truncation(scores, evidence, p)
    return Verdict.INCONCLUSIVE, (
        f"a loss of {_pt(scores.margin)} is not ruled out ({_p(p)}); "
        f"{_remedy(table, scores.margin)}"
    )


def _despite_truncation(scores: SuiteScores, evidence: _Evidence, p: float) -> tuple[Verdict, str]:
    """Non-inferior as graded: does it hold with every truncated answer counted against PR?"""
    ruled_out = f"a loss of {_pt(scores.margin)} is ruled out ({_p(p)})"
    if evidence.truncated is None:
        return Verdict.PASS, f"{ruled_out}; whether answers were truncated is not known"
    base_cut, pr_cut = evidence.truncated
    if not base_cut + pr_cut:
        return Verdict.PASS, ruled_out
    cut = f"{base_cut + pr_cut} truncated answers ({base_cut} of base, {pr_cut} of PR)"
    worst = TangoDifference(evidence.worst).noninferiority(scores.margin)
    if worst <= ALPHA:
        return Verdict.PASS, f"{ruled_out}, also with {cut} counted against PR ({_p(worst)})"
    return Verdict.INCONCLUSIVE, (
        f"{ruled_out} as graded, but not with {cut} counted against PR ({_p(worst)}); "
        "a higher token limit for both arms would settle it"
    )


def _remedy(table: PairedTable, margin: float) -> str:
    """The items, or repeats of these, that would probably settle it."""
    discordance = _likely_discordance(table)
    items = items_needed(margin, discordance)
    repeats = repeats_needed(table.items, margin, discordance)
    more = f"about {_rounded_up(items):,} items like these"
    if repeats is not None and repeats > 1:
        more += f", or {repeats} repeats of these {table.items:,},"
    return f"{more} would probably settle it if PR is as good as base"


def _rounded_up(items: float) -> int:
    """To two digits: the number rests on a discordance that is itself uncertain."""
    step = 10 ** max(len(str(int(items))) - 2, 0)
    return int(-(-items // step) * step)


def _listed(problems: Sequence[str]) -> str:
    shown = "; ".join(problems[:4])
    return f"{shown}; and {len(problems) - 4} more" if len(problems) > 4 else shown


def _p(p: float) -> str:
    return "p < 0.0001" if p < 1e-4 else f"p = {p:.2g}"


def _pt(share: float) -> str:
    points = f"{100 * share:.4g}"
    return f"{points} point" if points == "1" else f"{points} points"
