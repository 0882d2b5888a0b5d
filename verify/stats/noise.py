"""Noise of one arm against itself: flips between repeats, and shifts of whole server starts.

A kernel's flips against base mean little before one knows how often base flips against itself.
And answers that are independent given their question allow the accuracy of whole runs to vary by
so much and no more; what exceeds it comes from the server's starts, and no number of questions
averages it away.

References:
----------
.. [1] W. G. Cochran, "The comparison of percentages in matched samples", Biometrika 37 (1950)
   256-266: with one repeat a start, `StartNoise.statistic` is Cochran's Q.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from scipy.stats import chi2

from verify.stats.repeats import Starts, checked_scores, item_means

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import ArrayLike

    from verify.stats.bounded import FloatArray


@dataclass(frozen=True)
class StartNoise:
    """How much the accuracies of an arm's server starts vary, against what questions allow."""

    starts: Starts

    @property
    def df(self) -> int:
        """Degrees of freedom: starts less one."""
        return self.starts.count - 1

    @property
    def ratio(self) -> float:
        """Between-start variance over the variance that independent answers allow: 1 expected."""
        return self.starts.variance / self.starts.noise

    @property
    def statistic(self) -> float:
        """Chi-square with `df` degrees of freedom if starts shift nothing [1]_."""
        return self.ratio * self.df

    @property
    def p(self) -> float:
        """p-value of the hypothesis that starts shift nothing, against shifts."""
        return float(chi2.sf(self.statistic, self.df))

    @property
    def shift(self) -> float:
        """Standard deviation of what a start shifts, a share of right answers; 0 if below noise."""
        return self._shift(self.ratio)

    def shift_interval(self, confidence: float = 0.95) -> tuple[float, float]:
        """Interval for `shift`."""
        tail = (1 - confidence) / 2
        return (
            self._shift(self.statistic / chi2.isf(tail, self.df)),
            self._shift(self.statistic / chi2.ppf(tail, self.df)),
        )

    def _shift(self, ratio: float) -> float:
        of_one_start = self.starts.noise * self.starts.count
        return float(np.sqrt(max(0.0, ratio - 1) * of_one_start))


def start_noise(scores: ArrayLike, starts: Sequence[object] | None = None) -> StartNoise | None:
    """Test whether starts shift whole runs of an arm.

    Args:
        scores: between 0 and 1, [items, repeats]; NaN where a repeat is missing.
        starts: a label for each repeat, equal for repeats of one start. None: each its own.

    Returns None with fewer than two starts, and where all starts answer every item alike.
    """
    arm = checked_scores(scores, "the arm")
    labels = range(len(arm)) if starts is None else starts
    found = Starts.of(arm - item_means(arm), labels)
    return StartNoise(found) if found.count > 1 and found.noise > 0 else None


@dataclass(frozen=True)
class FlipRates:
    """Shares of questions on which two answers disagree: within each arm, and between the arms."""

    base: float | None
    """Two repeats of base (A/A); None with one repeat."""

    pr: float | None
    """Two repeats of PR; None with one repeat."""

    between: float
    """A repeat of base and one of PR (A/B)."""

    shifts: float | None
    """Mean square of what questions shift for good: `between` less the mean of `base` and `pr`.

    Unbiased, so it may be below 0; None with one repeat in either arm.
    """

    shifts_error: float | None
    """Standard error of `shifts`."""


def flip_rates(base: ArrayLike, pr: ArrayLike) -> FlipRates:
    """Flips within and between the arms.

    Right (1) and wrong (0), [items, repeats]; NaN where a repeat is missing.
    """
    of_base, of_pr = checked_scores(base, "base"), checked_scores(pr, "pr")
    p, q = item_means(of_base), item_means(of_pr)
    between = p * (1 - q) + q * (1 - p)
    within = _within(of_base, p), _within(of_pr, q)
    if within[0] is None or within[1] is None:
        shifts = error = None
    else:
        of_item = between - (within[0] + within[1]) / 2
        shifts = float(of_item.mean())
        error = float(of_item.std(ddof=1) / np.sqrt(of_item.size)) if of_item.size > 1 else None
    base_rate, pr_rate = (None if w is None else float(w.mean()) for w in within)
    return FlipRates(base_rate, pr_rate, float(between.mean()), shifts, error)


def flips_within(scores: ArrayLike) -> float | None:
    """The share of questions on which two repeats of one arm disagree; None with fewer than two.

    Right (1) and wrong (0), [items, repeats]; NaN where a repeat is missing.
    """
    arm = checked_scores(scores, "the arm")
    within = _within(arm, item_means(arm))
    return None if within is None else float(within.mean())


def _within(scores: FloatArray, means: FloatArray) -> FloatArray | None:
    """The chance that two different repeats of an item disagree, [items]; unbiased."""
    counts = (~np.isnan(scores)).sum(axis=0)
    if counts.min() < 2:
        return None
    return np.asarray(2 * means * (1 - means) * counts / (counts - 1))


@dataclass(frozen=True)
class RepeatFlips:
    """One repeat's disagreements between the arms, and what became of the first repeat's losses."""

    repeat: int
    lost: int
    gained: int
    recovered: int
    """Lost in the first repeat, not lost here."""

    newly_lost: int
    """Lost here, not in the first repeat."""


def flips_by_repeat(base: ArrayLike, pr: ArrayLike) -> list[RepeatFlips]:
    """Lost, gained, recovered and newly lost questions of each repeat that both arms have.

    Right (1) and wrong (0), [items, repeats]; a question missing in a repeat is left out of it.
    """
    of_base, of_pr = checked_scores(base, "base"), checked_scores(pr, "pr")
    both = min(len(of_base), len(of_pr))
    lost = (of_base[:both] == 1) & (of_pr[:both] == 0)
    gained = (of_base[:both] == 0) & (of_pr[:both] == 1)
    seen = ~np.isnan(of_base[:both]) & ~np.isnan(of_pr[:both])
    return [
        RepeatFlips(
            repeat=r,
            lost=int(lost[r].sum()),
            gained=int(gained[r].sum()),
            recovered=int((lost[0] & seen[r] & ~lost[r]).sum()),
            newly_lost=int((lost[r] & seen[0] & ~lost[0]).sum()),
        )
        for r in range(both)
    ]
