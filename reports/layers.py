"""The verdicts in words: each layer's answer and the one number that carries it."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING

from reports import words
from verify.stats.binomial import clopper_pearson
from verify.verdict import Verdict, combine

if TYPE_CHECKING:
    from collections.abc import Sequence

    from reports.read import Kernel, Run, Suite


@dataclass(frozen=True)
class Layer:
    """What one layer established; a `verdict` of None says that the layer was not run."""

    name: str
    question: str
    verdict: Verdict | None
    number: str
    unit: str
    sentence: str
    clause: str
    anchor: str


@dataclass(frozen=True)
class Whole:
    """The verdict of the run, as a headline and the sentence beneath it."""

    verdict: Verdict
    headline: str
    sentence: str


_QUESTIONS = {
    1: "Is the kernel\u2019s output right?",
    2: "Are its quantised bytes right?",
    3: "Does the model still answer as well?",
}
_RIGHT = {
    1: "Every BF16 value lies as near the same calculation in FP64 as the rounding in the "
    "kernel\u2019s arithmetic explains.",
    2: "Every MXFP8 code and scale byte, padding included, is the one that the quantiser\u2019s "
    "contract gives for the kernel\u2019s own output.",
}
_SUBJECT = {1: "the kernel\u2019s output", 2: "its quantisation"}
_WRONG = {
    1: "Values differ from the FP64 calculation by more than rounding explains, or a rule of the "
    "contract is broken.",
    2: "Codes or scale bytes differ from what the quantiser\u2019s contract gives for the "
    "kernel\u2019s own output.",
}


def layers(run: Run) -> tuple[Layer, ...]:
    """The three layers, in order."""
    kernel = run.result.kernel
    return (_bytes_layer(1, kernel), _bytes_layer(2, kernel), _answers_layer(run))


def _bytes_layer(number: int, kernel: Kernel | None) -> Layer:
    """Layer 1 or 2: cases found wrong, of the cases run."""
    name, question, anchor = f"Layer {number}", _QUESTIONS[number], "kernel-layers"
    if kernel is None:
        sentence = "The kernel was not checked by itself in this run."
        return Layer(name, question, None, "", "", sentence, "", anchor)
    verdict = kernel.layers[str(number)]
    wrong = {finding.case for finding in kernel.findings if finding.layer == number}
    if verdict is Verdict.INVALID:
        figure = f"{kernel.executed:,} of {kernel.cases:,}"
        sentence = "The cases were not run as they should have been."
        clause = f"of the kernel\u2019s cases, {figure} were run"
        return Layer(name, question, verdict, figure, "cases run", sentence, clause, anchor)
    figure, unit = f"{len(wrong):,} of {kernel.executed:,}", "cases found wrong"
    if verdict is Verdict.FAIL:
        sentence = f"{_WRONG[number]} {failed_checks(kernel, number)}"
        clause = f"{_SUBJECT[number]} is wrong in {figure} cases"
        return Layer(name, question, verdict, figure, unit, sentence, clause, anchor)
    clause = f"{_SUBJECT[number]} is right in all {words.count(kernel.executed, 'case')}"
    sentence = _RIGHT[number]
    if number == 1 and (used := max(kernel.use.values(), default=0)):
        sentence += f" No value used more than {words.share(used)} of that."
    return Layer(name, question, verdict, figure, unit, sentence, clause, anchor)


def failed_checks(kernel: Kernel, layer: int) -> str:
    """Which checks failed, and in how many cases: `Failed: codes (12 cases), scales (3 cases).`."""
    pairs = {(f.check, f.case) for f in kernel.findings if f.layer == layer}
    tally = Counter(check for check, _ in pairs)
    named = [f"{check} ({words.count(n, 'case')})" for check, n in tally.most_common()]
    return f"Failed: {', '.join(named)}."


def _answers_layer(run: Run) -> Layer:
    """Layer 3, by the suite that decides: the gravest, and of equals the nearest its margin."""
    name, question, anchor = "Layer 3", _QUESTIONS[3], "answers"
    suites = run.result.suites
    if not suites:
        return Layer(name, question, None, "", "", "No model was asked in this run.", "", anchor)
    verdict = combine(suite.verdict for suite in suites)
    deciding = min((s for s in suites if s.verdict is verdict), key=_room)
    asked = run.about.suites.get(deciding.suite)
    figure, unit, clause = _blind(deciding, asked.floor if asked else None) or _figure(deciding)
    sentence = _answers_sentence(verdict, deciding, suites)
    return Layer(name, question, verdict, figure, unit, sentence, clause, anchor)


def _room(suite: Suite) -> float:
    """Points between the largest loss the data leave open and the margin; unknown comes first."""
    worst = worst_loss(suite)
    if worst is None or suite.noninferiority is None:
        return float("-inf")
    return suite.noninferiority.margin_pt - worst


def worst_loss(suite: Suite) -> float | None:
    """The largest loss that the data leave open, in points; 0 where even that is a gain."""
    if suite.smallest_margin_pt is not None:
        return max(0.0, suite.smallest_margin_pt)
    if suite.interval_pt is not None:
        return max(0.0, -suite.interval_pt[0])
    return None


def _blind(suite: Suite, floor: float | None) -> tuple[str, str, str] | None:
    """As `_figure`, for a suite on which the base arm has nothing to lose; else None."""
    if suite.verdict is not Verdict.INCONCLUSIVE or floor is None:
        return None
    if suite.accuracy is None or suite.accuracy.base is None:
        return None
    right = round(suite.accuracy.base * suite.items)
    if clopper_pearson(right, suite.items, suite.confidence)[0] > floor:
        return None
    share = words.share(right / suite.items)
    return (
        share,
        f"right in base on {suite.suite}; its floor is {words.share(floor)}",
        f"only {share} of {suite.suite} is right in base, so this suite can see nothing",
    )


def _figure(suite: Suite) -> tuple[str, str, str]:
    """The number that carries a suite's verdict, its unit, and both in a clause."""
    allowed, worst, change = suite.noninferiority, worst_loss(suite), suite.difference_pt
    if suite.verdict is Verdict.INVALID or allowed is None or worst is None or change is None:
        unit = f"questions of {suite.suite} paired"
        return f"{suite.items:,}", unit, f"the comparison on {suite.suite} is {suite.verdict}"
    limit, most = words.size(allowed.margin_pt), words.at_most(worst)
    if suite.verdict is Verdict.FAIL:
        figure, unit = f"{words.change(change)} pt", f"on {suite.suite}; a loss of {limit} allowed"
        moved = f"the difference on {suite.suite} is {words.change(change)} points"
        return figure, unit, f"{moved}, where a loss of {limit} is allowed"
    clause = f"up to {most} points may be lost on {suite.suite}, where {limit} are allowed"
    return f"\u2264 {most} pt", f"lost on {suite.suite}; {limit} allowed", clause


def _answers_sentence(verdict: Verdict, deciding: Suite, suites: Sequence[Suite]) -> str:
    if verdict is Verdict.PASS:
        named = "the suite" if len(suites) == 1 else f"each of the {len(suites)} suites"
        return (
            f"On {named}, the loss that the data leave open is smaller than the margin "
            "fixed beforehand."
        )
    others = [s.suite for s in suites if s.verdict is verdict and s is not deciding]
    also = f" The same holds for {' and '.join(others)}." if others else ""
    return f"{deciding.suite}: {words.sentence(deciding.reason)}{also}"


_HEADLINES = {
    Verdict.PASS: "Nothing wrong was found.",
    Verdict.FAIL: "Something is broken.",
    Verdict.INCONCLUSIVE: "The evidence does not decide.",
    Verdict.INVALID: "This run proves nothing.",
}


def whole(verdict: Verdict, parts: Sequence[Layer]) -> Whole:
    """The verdict of the run, with a clause for every layer that bears on it."""
    clauses = [part.clause for part in parts if part.verdict is verdict and part.clause]
    sentence = "; ".join(clauses)
    return Whole(
        verdict, _HEADLINES[verdict], sentence[:1].upper() + sentence[1:] + "." * bool(clauses)
    )
