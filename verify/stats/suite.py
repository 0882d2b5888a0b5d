"""Each suite of a run: its scores in, its verdict and the figures behind it out."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from verify.stats.evidence import CONFIDENCE, Evidence, SuiteScores
from verify.stats.families import holm
from verify.stats.results import (
    Accuracy,
    CapRate,
    Counts,
    Equivalence,
    Length,
    NonInferiority,
    PartialCredit,
    Starts,
    SuiteResult,
)
from verify.stats.scores import PairedScores
from verify.stats.truncation import cap_rate_change, length_change
from verify.stats.verdicts import decide, detectable, listed
from verify.verdict import Verdict

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["SuiteResult", "SuiteScores", "judge"]

BETTING = "betting confidence sequence, valid at any look"
# Resampled p-values stand beside the verdict, and should not change from one reading to the next.
_SEED = 1


def judge(suites: Sequence[SuiteScores]) -> list[SuiteResult]:
    """Verdicts of all suites of one run; alarms for harm are corrected for their number."""
    evidence = [Evidence(scores) if scores.base.size else None for scores in suites]
    fixed = {i: e.harm_p for i, e in enumerate(evidence) if e is not None and e.fixed_size}
    alarms = holm(fixed)
    return [
        _unpaired(scores) if found is None else _result(found, alarms.get(i, 1.0), len(suites))
        for i, (scores, found) in enumerate(zip(suites, evidence, strict=True))
    ]


def _unpaired(scores: SuiteScores) -> SuiteResult:
    margin_pt = 100 * scores.margin
    return SuiteResult(
        suite=scores.suite,
        items=0,
        repeats=Counts(scores.base.shape[1], scores.pr.shape[1]),
        confidence=CONFIDENCE,
        noninferiority=NonInferiority(margin_pt),
        equivalence=Equivalence(margin_pt),
        verdict=Verdict.INVALID,
        reason=listed(scores.problems or ("no item could be paired",)),
    )


def _result(e: Evidence, alarm: float, suites: int) -> SuiteResult:
    verdict, reason = decide(e, alarm, suites)
    table, margin, cut = e.table, e.scores.margin, e.cut
    base, pr = (float(means.mean()) for means in e.means)
    return SuiteResult(
        suite=e.scores.suite,
        items=table.items,
        repeats=Counts(*e.repeats),
        both=table.both,
        lost=table.lost,
        gained=table.gained,
        neither=table.neither,
        accuracy=Accuracy(base, pr),
        difference_pt=100 * e.difference.estimate,
        interval_pt=_interval(e),
        confidence=CONFIDENCE,
        interval_method=e.difference.method if e.fixed_size else BETTING,
        mcnemar=e.mcnemar if e.fixed_size else None,
        noninferiority=NonInferiority(
            100 * margin,
            e.noninferiority if e.fixed_size else None,
            e.difference.method if e.fixed_size else BETTING,
        ),
        equivalence=Equivalence(
            100 * margin, e.difference.equivalence(margin) if e.fixed_size else None
        ),
        # the interval's lower end is the one-sided bound of the same level
        smallest_margin_pt=100 * max(0.0, -e.interval[0]) if e.fixed_size else None,
        truncated=Counts(*cut) if cut else None,
        truncation_bounds_pt=((100 * e.worst.difference, 100 * e.best.difference) if cut else None),
        detectable_pt=100 * detectable(e) if e.fixed_size else None,
        starts=_starts(e),
        noise=e.noise,
        sequential=e.sequential,
        cap_rate=_cap_rate(e),
        length=_length(e),
        partial_credit=_partial_credit(e),
        verdict=verdict,
        reason=reason,
    )


def _interval(e: Evidence) -> tuple[float, float] | None:
    if e.fixed_size:
        return 100 * e.interval[0], 100 * e.interval[1]
    return None if e.sequential is None else e.sequential.confidence_sequence_pt


def _starts(e: Evidence) -> Starts | None:
    if e.scores.deterministic:
        return None
    base, pr = (1 if labels is None else len(set(labels)) for labels in e.scores.starts)
    return Starts(base, pr, e.controls_starts)


def _cap_rate(e: Evidence) -> CapRate | None:
    """Only where something was cut: no answer cut in either arm is no change."""
    if not e.cut or not sum(e.cut):
        return None
    assert e.scores.truncated is not None
    answered = (~np.isnan(e.scores.base), ~np.isnan(e.scores.pr))
    flags = [np.where(a, f, np.nan) for a, f in zip(answered, e.scores.truncated, strict=True)]
    found = cap_rate_change(flags[0], flags[1], np.random.default_rng(_SEED))
    return CapRate(100 * found.difference.estimate, found.p)


def _length(e: Evidence) -> Length | None:
    if e.scores.tokens is None:
        return None
    found = length_change(*e.scores.tokens)
    return Length(found.ratio, found.logs.p)


def _partial_credit(e: Evidence) -> PartialCredit | None:
    if not e.graded:
        return None
    base, pr = e.means
    found, rng = PairedScores.of(pr - base), np.random.default_rng(_SEED)
    bca = found.bca_interval(rng)
    return PartialCredit(
        t_p=found.p,
        permutation_p=found.permutation_p(rng),
        bca_interval_pt=None if bca is None else (100 * bca[0], 100 * bca[1]),
    )
