"""One suite's part of `result.json`, as data; `verify.stats.suite` fills it.

Differences are PR minus base, in percentage points; None stands for what could not be computed,
or does not apply to the run's design.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from verify.stats.mcnemar import McNemar
    from verify.stats.noise import RepeatFlips
    from verify.verdict import Verdict


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
    """One-sided test of "PR is worse by `margin_pt` points or more"."""

    margin_pt: float
    p: float | None = None
    method: str = ""


@dataclass(frozen=True)
class Equivalence:
    """Two one-sided tests of "the arms differ by `margin_pt` points or more"."""

    margin_pt: float
    p: float | None = None


@dataclass(frozen=True)
class StartShift:
    """How far an arm's server starts, or its runs, shift as wholes."""

    starts: int
    ratio: float
    """Variance between them over what independent answers allow: 1 expected."""
    p: float
    shift_pt: float
    """Standard deviation of what one of them shifts, in points."""
    shift_interval_pt: tuple[float, float]


@dataclass(frozen=True)
class Noise:
    """Flips of each arm against itself (A/A) beside flips between the arms (A/B), as shares."""

    flips_base: float | None
    flips_pr: float | None
    flips_between: float
    repeats: tuple[RepeatFlips, ...]
    """Lost, gained, recovered and newly lost by repeat."""
    shift_base: StartShift | None
    shift_pr: StartShift | None


@dataclass(frozen=True)
class Starts:
    """Server starts told apart in each arm, and whether the interval allows for their shifts."""

    base: int
    pr: int
    controlled: bool


@dataclass(frozen=True)
class Sequential:
    """Evidence valid at any look, over the first repeat of questions asked in random order."""

    questions: int
    harm: float
    """The largest e-value against "worse by the margin at most"; 20 is 5 %."""
    certificate: float | None
    """The largest e-value against "worse by the margin or more"; 40 is 2.5 %. None: not asked."""
    confidence_sequence_pt: tuple[float, float]
    stopped: bool
    """Whether the run stopped early, so that no figure for a fixed size is given."""


@dataclass(frozen=True)
class CapRate:
    """Change of the share of answers cut at the token limit, in points; p by swapping arms."""

    difference_pt: float
    p: float


@dataclass(frozen=True)
class Length:
    """PR's tokens an answer by base's, geometric mean over items; p of a paired t test on logs."""

    ratio: float
    p: float | None


@dataclass(frozen=True)
class PartialCredit:
    """What other tools would report where answers are not just right or wrong."""

    t_p: float | None
    permutation_p: float
    bca_interval_pt: tuple[float, float] | None


@dataclass(frozen=True, kw_only=True)
class SuiteResult:
    """One suite of `result.json`."""

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
    confidence: float
    interval_method: str | None = None
    mcnemar: McNemar | None = None
    noninferiority: NonInferiority
    equivalence: Equivalence
    smallest_margin_pt: float | None = None
    truncated: Counts | None = None
    truncation_bounds_pt: tuple[float, float] | None = None
    detectable_pt: float | None = None
    starts: Starts | None = None
    noise: Noise | None = None
    sequential: Sequential | None = None
    cap_rate: CapRate | None = None
    length: Length | None = None
    partial_credit: PartialCredit | None = None
    verdict: Verdict
    reason: str
