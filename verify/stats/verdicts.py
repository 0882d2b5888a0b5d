"""From one suite's evidence to its verdict and the reason, in DESIGN's order."""

from __future__ import annotations

from typing import TYPE_CHECKING

from verify.stats import sizes, tango
from verify.stats.evidence import ALPHA, HARM_ALPHA
from verify.stats.noise import flip_rates
from verify.stats.repeats import RepeatedDifference
from verify.verdict import Verdict

if TYPE_CHECKING:
    from collections.abc import Sequence

    from verify.stats.evidence import Evidence
    from verify.stats.results import StartShift

Finding = tuple[Verdict, str]


def decide(evidence: Evidence, alarm: float, suites: int) -> Finding:
    """The first that applies of: invalid, harmed, blind, non-inferior, open.

    `alarm` is the p-value for harm, corrected for the number of `suites`.
    """
    scores = evidence.scores
    if scores.problems:
        return Verdict.INVALID, listed(scores.problems)
    if (harmed := _harmed(evidence, alarm, suites)) is not None:
        return harmed
    if not evidence.above_floor:
        share = 100 * float(evidence.means[0].mean())
        return Verdict.INCONCLUSIVE, (
            f"such a suite can see nothing: base answers {share:.3g} % of "
            f"{evidence.table.items:,} items rightly, not clearly more than its floor of "
            f"{100 * scores.floor:.3g} %"
        )
    if scores.certify:
        return _certified(evidence)
    p = evidence.noninferiority
    if p <= ALPHA:
        return _despite_truncation(evidence, p)
    return Verdict.INCONCLUSIVE, (
        f"a loss of {points(scores.margin)} is not ruled out ({p_value(p)}); {_remedy(evidence)}"
    )


def _harmed(evidence: Evidence, alarm: float, suites: int) -> Finding | None:
    """Worse than the margin at any look, or worse than zero where the margin is not shown."""
    scores, table, looks = evidence.scores, evidence.table, evidence.sequential
    if looks is not None and looks.harm >= 1 / HARM_ALPHA:
        ended = ", where the run stopped" if scores.stopped else ""
        return Verdict.FAIL, (
            f"PR is worse than base by more than {points(scores.margin)}: e-value "
            f"{looks.harm:.3g} within {looks.questions:,} questions{ended} ({table.lost} lost, "
            f"{table.gained} gained)"
        )
    if not evidence.fixed_size or evidence.noninferiority <= ALPHA or alarm > ALPHA:
        return None
    corrected = f", corrected for {suites} suites" if suites > 1 else ""
    return Verdict.FAIL, (
        f"PR is worse than base: {table.lost} lost and {table.gained} gained of "
        f"{table.items:,} (one-sided {p_value(alarm)}{corrected}), and a loss of "
        f"{points(scores.margin)} is not ruled out"
    )


def _certified(evidence: Evidence) -> Finding:
    looks, margin = evidence.sequential, points(evidence.scores.margin)
    found = looks.certificate if looks is not None and looks.certificate is not None else 1.0
    if looks is not None and found >= 1 / ALPHA:
        return _unless_shifted(
            evidence,
            f"a loss of {margin} is ruled out by the certificate: e-value {found:.3g} within "
            f"{looks.questions:,} questions, truncated answers counted against PR",
        )
    return Verdict.INCONCLUSIVE, (
        f"a loss of {margin} is not ruled out: the certificate reached e-value {found:.3g} of "
        f"{1 / ALPHA:g}; more items, or a run without --certificate, would settle it"
    )


def _despite_truncation(evidence: Evidence, p: float) -> Finding:
    """Non-inferior as graded: does it hold with every truncated answer counted against PR?"""
    ruled_out = f"a loss of {points(evidence.scores.margin)} is ruled out ({p_value(p)})"
    if evidence.cut is None:
        return _unless_shifted(
            evidence, f"{ruled_out}; whether answers were truncated is not known"
        )
    base_cut, pr_cut = evidence.cut
    if not base_cut + pr_cut:
        return _unless_shifted(evidence, ruled_out)
    cut = f"{base_cut + pr_cut:,} truncated answers ({base_cut:,} of base, {pr_cut:,} of PR)"
    worst = evidence.worst_noninferiority
    if worst <= ALPHA:
        return _unless_shifted(
            evidence, f"{ruled_out}, also with {cut} counted against PR ({p_value(worst)})"
        )
    return Verdict.INCONCLUSIVE, (
        f"{ruled_out} as graded, but not with {cut} counted against PR ({p_value(worst)}); "
        "a higher token limit for both arms (--extend-capped TOKENS) would settle it"
    )


def _unless_shifted(evidence: Evidence, reason: str) -> Finding:
    """A pass, unless whole runs shift and the interval does not allow for it."""
    if evidence.scores.deterministic or evidence.controls_starts:
        return Verdict.PASS, reason
    if (shifted := _shifted(evidence)) is not None:
        name, shift = shifted
        return Verdict.INCONCLUSIVE, (
            f"{reason}, but runs of {name} shift as wholes by some {shift.shift_pt:.2g} points "
            f"({p_value(shift.p)}), for which the interval does not allow; two server starts or "
            "more in each arm, told apart, would settle it"
        )
    return Verdict.PASS, f"{reason}; one server start an arm, so shifts of starts not controlled"


def _shifted(evidence: Evidence) -> tuple[str, StartShift] | None:
    noise = evidence.noise
    if noise is None:
        return None
    arms = (("base", noise.shift_base), ("PR", noise.shift_pr))
    return next(((n, s) for n, s in arms if s is not None and s.p <= ALPHA), None)


def _remedy(evidence: Evidence) -> str:
    """The items, or repeats of these, or starts, that would probably settle it."""
    margin, items = evidence.scores.margin, evidence.table.items
    found = evidence.difference
    if isinstance(found, RepeatedDifference) and found.items.p_at_most(-margin) <= ALPHA:
        return "the questions alone would do, but server starts vary: more starts would settle it"
    least = sizes.least_items(margin, ALPHA)
    if items < least:
        return (
            f"{items:,} items without a gain cannot show it however often asked; it takes "
            f"{least:,} without a single loss, and more if answers flip"
        )
    needed, repeats = _sizes(evidence)
    more = f"about {_rounded_up(needed):,} items like these"
    if repeats is not None and repeats > max(evidence.repeats):
        more += f", or {repeats} repeats of these {items:,},"
    return f"{more} would probably settle it if PR is as good as base"


def _sizes(evidence: Evidence) -> tuple[float, int | None]:
    """Items, and repeats of these items, for a power of 80 %."""
    margin, items = evidence.scores.margin, evidence.table.items
    if evidence.single:
        flips = likely_discordance(evidence)
        return tango.items_needed(margin, flips), sizes.repeats_needed(items, margin, flips)
    if evidence.graded:
        spread = likely_variance(evidence)
        return sizes.items_needed(margin, evidence.repeats, spread, shifts=spread), None
    rates = flip_rates(evidence.scores.base, evidence.scores.pr)
    # Without repeats in both arms, what shifts for good is not known: all of it, to be careful.
    shifts = rates.between if rates.shifts is None else max(0.0, rates.shifts)
    flips = max(rates.between, 1 / (items + 2))
    shifts = min(shifts, flips)
    return (
        sizes.items_needed(margin, evidence.repeats, flips, shifts=shifts),
        sizes.repeats_needed(items, margin, flips, shifts=shifts),
    )


def likely_discordance(evidence: Evidence) -> float:
    """The share of items on which the arms disagree, never quite 0 or 1 for planning's sake."""
    table = evidence.table
    return (table.lost + table.gained + 1) / (table.items + 2)


def likely_variance(evidence: Evidence) -> float:
    """Of an item's difference of means, never quite 0: one more item differs by one answer."""
    base, pr = evidence.means
    one_answer = 1 / max(evidence.repeats)
    return float(((pr - base) ** 2).sum() + one_answer**2) / (len(base) + 1)


def detectable(evidence: Evidence) -> float:
    """The smallest loss that as many answers would rule out in four of five runs, if none."""
    if evidence.single:
        return tango.detectable_difference(evidence.table.items, likely_discordance(evidence))
    spread = likely_variance(evidence)
    return sizes.detectable_margin(evidence.table.items, evidence.repeats, spread, shifts=spread)


def _rounded_up(items: float) -> int:
    """To two digits: the number rests on a discordance that is itself uncertain."""
    step = 10 ** max(len(str(int(items))) - 2, 0)
    return int(-(-items // step) * step)


def listed(problems: Sequence[str]) -> str:
    """The first few problems, and how many more there are."""
    shown = "; ".join(problems[:4])
    return f"{shown}; and {len(problems) - 4} more" if len(problems) > 4 else shown


def p_value(p: float) -> str:
    """In words of a sentence."""
    return "p < 0.0001" if p < 1e-4 else f"p = {p:.2g}"


def points(share: float) -> str:
    """A share in percentage points."""
    number = f"{100 * share:.4g}"
    return f"{number} point" if number == "1" else f"{number} points"
