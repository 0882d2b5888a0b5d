"""Two arms with several answers to each question: the difference, clustered by question and start.

The unit of evidence is the question: repeats sharpen a question's mean and add no questions.
Two sources of error are bounded apart and combined by the square root of the sum of squares of
their half-widths (MOVER [1]_):

- questions: the mean of the differences of item means, bounded without assumptions
  (`verify.stats.bounded`), so that identical repeats, few items and a few questions that broke
  wholly are all allowed for. n questions without a single loss still leave room for a loss of
  about 3.7 / n, and no number of repeats changes that;
- server starts: what shifts a whole run shifts every question of it. With two or more starts in
  an arm their means estimate it (t with Welch's degrees of freedom [2]_); with one start in each
  arm it cannot be told from the difference between the arms, and the result says so.

The noise of the answers themselves is in both, and is counted once.

References:
----------
.. [1] G. Y. Zou and A. Donner, "Construction of confidence limits about effect measures: a
   general approach", Statistics in Medicine 27 (2008) 1693-1702.
.. [2] B. L. Welch, "The generalization of 'Student's' problem when several different population
   variances are involved", Biometrika 34 (1947) 28-35.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from scipy.optimize import brentq
from scipy.stats import norm
from scipy.stats import t as student

from verify.stats.bounded import BoundedMean, FloatArray

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from numpy.typing import ArrayLike


@dataclass(frozen=True)
class RepeatedDifference:
    """PR minus base over questions answered several times; `compare_repeats` makes it."""

    items: BoundedMean
    """The differences of item means, of which `estimate` is the mean."""

    starts: tuple[int, int]
    """Server starts told apart in base and in PR; fewer than two count as one."""

    start_error: float
    """Standard error of the difference by the spread of server starts; 0 if not controlled."""

    noise_error: float
    """What `start_error` would be of answers independent given their question."""

    start_df: float
    """Degrees of freedom of `start_error`; 0 if not controlled."""

    @property
    def estimate(self) -> float:
        """The mean difference."""
        return self.items.estimate

    @property
    def controls_starts(self) -> bool:
        """Whether the bounds allow for shifts of whole server starts.

        If only one arm has two starts, the other arm's are taken to vary as much.
        """
        return self.start_df > 0

    @property
    def method(self) -> str:
        """The method's name, as results carry it."""
        name = "Gaffke bound on item means"
        return f"{name} and Welch t on server starts" if self.controls_starts else name

    def lower(self, alpha: float) -> float:
        """Lower bound of the difference, wrong with probability `alpha` (below one half)."""
        reach = self._reach(self.estimate - self.items.lower(alpha), alpha)
        return max(self.items.low, self.estimate - reach)

    def upper(self, alpha: float) -> float:
        """Upper bound of the difference, wrong with probability `alpha` (below one half)."""
        reach = self._reach(self.items.upper(alpha) - self.estimate, alpha)
        return min(self.items.high, self.estimate + reach)

    def interval(self, confidence: float = 0.95) -> tuple[float, float]:
        """Two-sided interval: each end wrong with probability (1 - confidence) / 2."""
        tail = (1 - confidence) / 2
        return self.lower(tail), self.upper(tail)

    def noninferiority(self, margin: float) -> float:
        """One-sided p-value of the hypothesis that PR is worse by `margin` or more."""
        return self._p(
            self.estimate + margin, lambda reach: self.items.p_at_most(self.estimate - reach)
        )

    def inferiority(self, margin: float = 0.0) -> float:
        """One-sided p-value of the hypothesis that PR is worse by `margin` at most."""
        return self._p(
            -margin - self.estimate, lambda reach: self.items.p_at_least(self.estimate + reach)
        )

    def equivalence(self, margin: float) -> float:
        """p-value of the hypothesis that the arms differ by `margin` or more (two one-sided)."""
        return max(self.noninferiority(margin), self.inferiority(-margin))

    def smallest_margin(self, alpha: float = 0.025) -> float:
        """The smallest margin at which non-inferiority holds at level `alpha`."""
        return max(0.0, -self.lower(alpha))

    def _reach(self, of_items: float, alpha: float) -> float:
        return float(np.sqrt(of_items**2 + self._shifts(alpha)))

    def _shifts(self, alpha: float) -> float:
        """The square of what shifts of starts add to a half-width."""
        if not self.controls_starts:
            return 0.0
        of_starts = student.isf(alpha, self.start_df) * self.start_error
        return max(0.0, float(of_starts**2 - (norm.isf(alpha) * self.noise_error) ** 2))

    def _p(self, distance: float, p_of_items: Callable[[float], float]) -> float:
        """The level at which a bound reaches just `distance` from the estimate.

        Where the estimate lies on the hypothesis' side there is no reach to divide between items
        and starts: the items alone then give a p-value, which is of no consequence.
        """
        alone = p_of_items(distance)
        if self.start_error == 0 or distance <= 0 or alone >= 0.5:
            return alone

        def excess(alpha: float) -> float:
            left = distance**2 - self._shifts(alpha)
            return (p_of_items(np.sqrt(left)) if left > 0 else 1.0) - alpha

        least = max(alone, 1e-12)
        if excess(least) <= 0:
            return least
        return float(brentq(excess, least, 0.5, xtol=1e-12, rtol=1e-6))


def compare_repeats(
    base: ArrayLike,
    pr: ArrayLike,
    *,
    base_starts: Sequence[object] | None = None,
    pr_starts: Sequence[object] | None = None,
) -> RepeatedDifference:
    """Compare two arms that answered the same items several times.

    Args:
        base: scores between 0 and 1, [items, repeats]; NaN where a repeat is missing.
        pr: likewise, items in the same order; its number of repeats may differ.
        base_starts: a label for each repeat of base, equal for repeats of one server start.
            None: unknown, so starts are not controlled.
        pr_starts: likewise for PR.

    Raises:
        ValueError: shapes that do not fit, scores outside 0 to 1, an item without an answer.
    """
    base, pr = checked_scores(base, "base"), checked_scores(pr, "pr")
    if base.shape[1] != pr.shape[1]:
        raise ValueError(f"base has {base.shape[1]} items and pr {pr.shape[1]}")
    base_means, pr_means = item_means(base), item_means(pr)
    # Rounded, so that 2/3 - 1/3 and 1/3 - 0 are one value.
    items = BoundedMean.of(np.round(pr_means - base_means, 12))
    arms = [Starts.of(base - base_means, base_starts), Starts.of(pr - pr_means, pr_starts)]
    counts = (arms[0].count, arms[1].count)
    several = [arm for arm in arms if arm.count > 1]
    if not several:
        return RepeatedDifference(items, counts, 0.0, 0.0, 0.0)
    if len(several) == 1:  # the other arm's one start varies like these
        factor, df = 1.0 + several[0].count, several[0].count - 1.0
    else:
        factor, df = 1.0, _welch(several)
    error = np.sqrt(factor * sum(arm.variance for arm in several))
    noise = np.sqrt(factor * sum(arm.noise for arm in several))
    return RepeatedDifference(items, counts, float(error), float(noise), df)


@dataclass(frozen=True)
class Starts:
    """The server starts of an arm: how many, and the variance of the arm's mean over them."""

    count: int

    variance: float = 0.0
    """Variance of the arm's mean, by the spread of its starts."""

    noise: float = 0.0
    """What `variance` would be on average if starts did not shift whole runs."""

    @classmethod
    def of(cls, residuals: FloatArray, labels: Sequence[object] | None) -> Starts:
        """From answers less their item's mean, [repeats, items], and a label for each repeat.

        Residuals, so that an item which one start lacks does not move that start's mean.
        """
        if labels is None:
            return cls(1)
        if len(labels) != len(residuals):
            raise ValueError(f"{len(labels)} start labels for {len(residuals)} repeats")
        names = list(dict.fromkeys(labels))
        count = len(names)
        if count < 2:
            return cls(1)
        member = np.array([[float(label == name) for label in labels] for name in names])
        answered = ~np.isnan(residuals)
        of_item = np.where(answered, residuals, 0.0)
        if count < len(labels):  # several repeats of a start: their mean, [starts, items]
            of_item = member @ of_item / np.maximum(member @ answered.astype(np.float64), 1)
        of_start = of_item.mean(axis=1)
        weights = member.mean(axis=1)
        factor = count / (count - 1) * weights**2
        return cls(
            count,
            float(factor @ (of_start - weights @ of_start) ** 2),
            float(factor @ np.einsum("si,si->s", of_item, of_item)) / of_item.shape[1] ** 2,
        )


def _welch(arms: list[Starts]) -> float:
    total = sum(arm.variance for arm in arms)
    spread = sum(arm.variance**2 / (arm.count - 1) for arm in arms)
    return float(total**2 / spread) if spread > 0 else sum(arm.count - 1.0 for arm in arms)


def checked_scores(arm: ArrayLike, name: str) -> FloatArray:
    """The scores [items, repeats] turned to [repeats, items], in which sums over repeats are quick.

    Raises:
        ValueError: another shape, nothing in it, or a score outside 0 to 1.
    """
    scores = np.asarray(arm)
    if scores.ndim != 2 or scores.size == 0:
        raise ValueError(f"{name} must be [items, repeats], and not empty; it is {scores.shape}")
    scores = np.ascontiguousarray(scores.T, dtype=np.float64)
    if np.any(scores < 0) or np.any(scores > 1):
        raise ValueError(f"{name} holds scores outside 0 to 1")
    return scores


def item_means(scores: FloatArray) -> FloatArray:
    """The mean over the repeats that are there, [items], from [repeats, items]."""
    answered = ~np.isnan(scores)
    counts = answered.sum(axis=0)
    if not counts.all():
        raise ValueError(f"item {int(np.argmin(counts))} has no answer in one arm")
    return np.asarray(np.where(answered, scores, 0.0).sum(axis=0) / counts)
