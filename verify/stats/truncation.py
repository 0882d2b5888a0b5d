"""Answers cut at the token limit are censored: what they would have been is unknown.

References:
----------
.. [1] C. F. Manski, "Nonparametric bounds on treatment effects", American Economic Review 80
   (1990) 319-323: the bounds that need no assumption.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from verify.stats.repeats import RepeatedDifference, compare_repeats
from verify.stats.scores import PairedScores

if TYPE_CHECKING:
    from numpy.typing import ArrayLike

    from verify.stats.bounded import FloatArray


@dataclass(frozen=True)
class CensoredScores:
    """Both arms' scores with every truncated answer replaced, [items, repeats]; NaN: missing."""

    base: FloatArray
    pr: FloatArray

    @property
    def difference(self) -> float:
        """The mean difference of item means."""
        return float((np.nanmean(self.pr, axis=1) - np.nanmean(self.base, axis=1)).mean())


def worst_case(
    base: ArrayLike, pr: ArrayLike, base_truncated: ArrayLike, pr_truncated: ArrayLike
) -> CensoredScores:
    """Every truncated answer counted against PR: wrong in PR, right in base [1]_.

    Scores and flags are [items, repeats]. Test non-inferiority on the result: a pass that
    survives it does not depend on what was cut off.
    """
    return CensoredScores(_replaced(base, base_truncated, 1.0), _replaced(pr, pr_truncated, 0.0))


def best_case(
    base: ArrayLike, pr: ArrayLike, base_truncated: ArrayLike, pr_truncated: ArrayLike
) -> CensoredScores:
    """Every truncated answer counted for PR: right in PR, wrong in base [1]_."""
    return CensoredScores(_replaced(base, base_truncated, 0.0), _replaced(pr, pr_truncated, 1.0))


def _replaced(scores: ArrayLike, truncated: ArrayLike, value: float) -> FloatArray:
    array = np.asarray(scores, dtype=np.float64)
    flags = np.asarray(truncated, dtype=bool)
    if array.shape != flags.shape:
        raise ValueError(f"{array.shape} scores with {flags.shape} truncation flags")
    return np.where(flags & ~np.isnan(array), value, array)


@dataclass(frozen=True)
class RateChange:
    """A change of the share of truncated answers, PR minus base."""

    difference: RepeatedDifference
    p: float
    """Two-sided, by swapping the arms of each item."""


def cap_rate_change(
    base_truncated: ArrayLike, pr_truncated: ArrayLike, rng: np.random.Generator
) -> RateChange:
    """Compare how often the arms hit the limit, [items, repeats]; NaN: missing."""
    difference = compare_repeats(base_truncated, pr_truncated)
    of_item = np.repeat(difference.items.values, difference.items.counts.astype(int))
    return RateChange(difference, PairedScores.of(of_item).permutation_p(rng))


@dataclass(frozen=True)
class LengthChange:
    """A change of answer length: the geometric mean over items of PR's tokens by base's.

    A truncated answer counts at the length where it was cut.
    """

    logs: PairedScores

    @property
    def ratio(self) -> float:
        """1.02 means that PR's answers are 2 % longer."""
        return float(np.exp(self.logs.estimate))


def length_change(base_tokens: ArrayLike, pr_tokens: ArrayLike) -> LengthChange:
    """Compare answer lengths in tokens, [items, repeats]; NaN: missing."""
    base, pr = (np.log1p(np.asarray(t, dtype=np.float64)) for t in (base_tokens, pr_tokens))
    return LengthChange(PairedScores.of(np.nanmean(pr, axis=1) - np.nanmean(base, axis=1)))
