"""Layer 3 in figures: one table of every figure for every suite, and each suite by itself."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from reports import text, words
from reports.layers import worst_loss

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from reports.questions import Answers
    from reports.read import Arms, Extractor, Run, Suite
    from verify.verdict import Verdict


@dataclass(frozen=True)
class Cell:
    """A suite's value of one figure, and beneath it the method that gave it."""

    value: str
    method: str = ""


@dataclass(frozen=True)
class Figure:
    """One figure of every suite, and what it says for who does not know it."""

    name: str
    meaning: str
    cells: tuple[Cell, ...]


@dataclass(frozen=True)
class Table:
    """Questions by whether base and PR answer them rightly."""

    both: int
    lost: int
    gained: int
    neither: int

    @property
    def items(self) -> int:
        """All questions."""
        return self.both + self.lost + self.gained + self.neither


@dataclass(frozen=True)
class SuiteView:
    """A suite by itself."""

    anchor: str
    name: str
    title: str
    verdict: Verdict
    reason: str
    redacted: bool
    graders: str
    table: Table | None
    answers: Answers | None

    @property
    def contradiction(self) -> str:
        """What the records say if it is not what the result says; else empty."""
        if self.table is None or self.answers is None:
            return ""
        lost = sum(found.lost for found in self.answers.disagreements)
        gained = len(self.answers.disagreements) - lost
        if (lost, gained) == (self.table.lost, self.table.gained):
            return ""
        return (
            f"The result counts {self.table.lost:,} lost and {self.table.gained:,} gained, the "
            f"records kept show {lost:,} and {gained:,}: one of the two files is not of this run."
        )


def suite_views(run: Run, answers: Mapping[str, Answers]) -> tuple[SuiteView, ...]:
    """Each suite with its two-by-two table and the questions on which the arms disagree."""
    return tuple(
        SuiteView(
            anchor=text.anchor("suite", suite.suite),
            name=suite.suite,
            title=asked.title if (asked := run.about.suites.get(suite.suite)) else "",
            verdict=suite.verdict,
            reason=suite.reason,
            redacted=bool(asked and asked.redact),
            graders=_graders((run.result.extractors or {}).get(suite.suite)),
            table=_table(suite),
            answers=answers.get(suite.suite),
        )
        for suite in run.result.suites
    )


def _graders(second: Extractor | None) -> str:
    """The questions whose difference depends on who grades; else empty."""
    if second is None or not second.items:
        return ""
    return (
        f"On {words.count(len(second.items), 'question')} the arms\u2019 difference depends on who "
        f"grades: {second.by} disagrees on {words.listed(second.items)}."
    )


def _table(suite: Suite) -> Table | None:
    cells = [suite.both, suite.lost, suite.gained, suite.neither]
    known = [cell for cell in cells if cell is not None]
    return Table(*known) if len(known) == len(cells) else None


def figures(suites: Sequence[Suite]) -> tuple[Figure, ...]:
    """Every figure that at least one suite has, in the order in which a reader needs them."""
    rows = [
        Figure(name, meaning, tuple(cell(suite) or _UNKNOWN for suite in suites))
        for name, meaning, cell in _FIGURES
    ]
    return tuple(row for row in rows if any(cell is not _UNKNOWN for cell in row.cells))


_UNKNOWN = Cell("\u2013")


def _questions(suite: Suite) -> Cell:
    return Cell(f"{suite.items:,}")


def _accuracy(suite: Suite) -> Cell | None:
    return _both(suite.accuracy, words.share)


def _both(
    arms: Arms[float | None] | Arms[int | None] | None, write: Callable[[float], str]
) -> Cell | None:
    if arms is None or (arms.base is None and arms.pr is None):
        return None
    base, pr = (words.NOT_KNOWN if n is None else write(n) for n in (arms.base, arms.pr))
    return Cell(f"{base}, {pr}")


def _difference(suite: Suite) -> Cell | None:
    return None if suite.difference_pt is None else Cell(f"{words.change(suite.difference_pt)} pt")


def _interval(suite: Suite) -> Cell | None:
    if suite.interval_pt is None:
        return None
    level = f"{100 * suite.confidence:.3g}\u00a0%"
    method = f"{level}, {suite.interval_method}" if suite.interval_method else level
    return Cell(f"{words.interval(suite.interval_pt)} pt", method)


def _margin(suite: Suite) -> Cell | None:
    test = suite.noninferiority
    return None if test is None else Cell(f"{words.size(test.margin_pt)} pt")


def _noninferiority(suite: Suite) -> Cell | None:
    test = suite.noninferiority
    return None if test is None or test.p is None else Cell(words.p_value(test.p), test.method)


def _smallest(suite: Suite) -> Cell | None:
    if suite.smallest_margin_pt is None:
        return None
    return Cell(f"{words.at_most(worst_loss(suite) or 0)} pt")


def _detectable(suite: Suite) -> Cell | None:
    return None if suite.detectable_pt is None else Cell(f"{words.size(suite.detectable_pt)} pt")


def _exact(suite: Suite) -> Cell | None:
    return None if suite.mcnemar is None else Cell(words.p_value(suite.mcnemar.exact))


def _midp(suite: Suite) -> Cell | None:
    return None if suite.mcnemar is None else Cell(words.p_value(suite.mcnemar.midp))


def _equivalence(suite: Suite) -> Cell | None:
    same = suite.equivalence
    if same is None or same.p is None:
        return None
    return Cell(words.p_value(same.p), f"within {words.size(same.margin_pt)} pt")


def _truncated(suite: Suite) -> Cell | None:
    return _both(suite.truncated, "{:,}".format)


def _bounds(suite: Suite) -> Cell | None:
    if suite.truncation_bounds_pt is None or suite.truncated is None:
        return None
    return Cell(f"{words.interval(suite.truncation_bounds_pt)} pt")


def _repeats(suite: Suite) -> Cell | None:
    return _both(suite.repeats, "{:,}".format)


def _flips(suite: Suite) -> Cell | None:
    """Of an arm against itself beside flips between the arms."""
    noise = suite.noise
    if noise is None:
        return None
    rates = [
        words.NOT_KNOWN if rate is None else f"{100 * rate:.2f}\u00a0%"
        for rate in (noise.flips_base, noise.flips_pr, noise.flips_between)
    ]
    return Cell(f"{rates[0]}, {rates[1]}; {rates[2]}")


def _by_repeat(suite: Suite) -> Cell | None:
    if suite.noise is None or not suite.noise.repeats:
        return None
    first, *later = suite.noise.repeats
    cells = [f"{first.lost:,} lost, {first.gained:,} gained"]
    cells += [
        f"{r.lost:,} lost ({r.recovered:,} recovered, {r.newly_lost:,} new), {r.gained:,} gained"
        for r in later
    ]
    return Cell("; ".join(cells))


def _starts(suite: Suite) -> Cell | None:
    if suite.starts is None:
        return None
    controlled = "in the interval" if suite.starts.controlled else "not controlled"
    return Cell(f"{suite.starts.base:,}, {suite.starts.pr:,}", controlled)


def _shifts(suite: Suite) -> Cell | None:
    if suite.noise is None:
        return None
    shifts = (suite.noise.shift_base, suite.noise.shift_pr)
    if shifts == (None, None):
        return None
    return Cell(
        "; ".join(
            "none"
            if shift is None
            else f"{words.size(shift.shift_pt)} pt ({words.p_value(shift.p)})"
            for shift in shifts
        )
    )


def _harm(suite: Suite) -> Cell | None:
    looks = suite.sequential
    if looks is None:
        return None
    ended = ", then stopped" if looks.stopped else ""
    return Cell(f"{looks.harm:.3g}", f"over {words.count(looks.questions, 'question')}{ended}")


def _certificate(suite: Suite) -> Cell | None:
    looks = suite.sequential
    return None if looks is None or looks.certificate is None else Cell(f"{looks.certificate:.3g}")


def _cap_rate(suite: Suite) -> Cell | None:
    change = suite.cap_rate
    if change is None or change.p is None:
        return None
    return Cell(f"{words.change(change.difference_pt)} pt", words.p_value(change.p))


def _length(suite: Suite) -> Cell | None:
    if suite.length is None:
        return None
    p = suite.length.p
    return Cell(f"\u00d7\u00a0{suite.length.ratio:.3f}", words.p_value(p) if p else "")


_FIGURES: tuple[tuple[str, str, Callable[[Suite], Cell | None]], ...] = (
    ("Questions", "Answered by both arms.", _questions),
    ("Accuracy", "Share of right answers: base, PR.", _accuracy),
    ("Difference", "PR minus base, in percentage points.", _difference),
    ("Interval", "The differences that agree with these answers.", _interval),
    ("Loss allowed", "The margin, fixed before the run.", _margin),
    (
        "Non-inferiority",
        (
            "One-sided p: how rarely one would see this if the whole margin were really lost. "
            "0.025 or less shows that the loss is smaller."
        ),
        _noninferiority,
    ),
    (
        "Smallest margin shown",
        "The largest loss that these answers leave open, one-sided 2.5\u00a0%.",
        _smallest,
    ),
    (
        "Detectable difference",
        (
            "The smallest loss that as many questions would rule out, four times in five, if the "
            "arms are equally good."
        ),
        _detectable,
    ),
    (
        "McNemar, exact",
        (
            "Two-sided p: how often lost and gained would part at least this unevenly if the "
            "change did nothing. A large p does not mean harmless."
        ),
        _exact,
    ),
    ("McNemar, mid-p", "The same, less cautious where few questions flip.", _midp),
    (
        "Equivalence",
        "p of two one-sided tests: neither better nor worse by the margin.",
        _equivalence,
    ),
    ("Truncated", "Answers cut off at the token limit: base, PR.", _truncated),
    (
        "Truncation bounds",
        "The difference with every truncated answer counted against PR, and for it.",
        _bounds,
    ),
    (
        "Truncation rate",
        "Change of the share of answers cut off; p by swapping the arms of each question.",
        _cap_rate,
    ),
    ("Answer length", "PR\u2019s tokens an answer by base\u2019s, geometric mean.", _length),
    (
        "E-value for harm",
        (
            "Evidence that PR loses more than the margin, valid whenever one looks: 20 or more "
            "comes up in one run of twenty at most if it does not."
        ),
        _harm,
    ),
    (
        "Certificate",
        "E-value that PR loses less than the margin, the run\u2019s one route to a pass at 40.",
        _certificate,
    ),
    ("Repeats", "How often each question was asked: base, PR.", _repeats),
    (
        "Flips",
        (
            "Questions on which two answers disagree: base with itself, PR with itself; base with "
            "PR. Where the last is no larger, the change adds nothing to the noise."
        ),
        _flips,
    ),
    ("Flips by repeat", "Lost and gained in each repeat of the run.", _by_repeat),
    (
        "Server starts",
        "Starts told apart: base, PR. Shifts of whole starts are in the interval, or they are not.",
        _starts,
    ),
    (
        "Shift of runs",
        (
            "What a start, or a repeat, adds to a whole run: base; PR, as a standard deviation. "
            "A small p shows that it is no chance."
        ),
        _shifts,
    ),
)
