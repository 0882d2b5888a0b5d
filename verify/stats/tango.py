"""Tango's score interval and tests for the difference of two paired proportions.

The score at a difference d is (gained - lost - n d) / sqrt(n (2 q + d (1 - d))), where q is the
most likely share of lost items if the true difference were d [1]_. It keeps its level where
Wald and paired-t intervals do not: at few discordant items, and at none.

Sizes follow from it: one item's difference has variance psi - d^2 at discordance psi and true
difference d, and the test takes its own variance at the margin, so that
sqrt(n) (margin + d) = z_alpha sd(at the margin) + z_power sd(in truth).

References:
----------
.. [1] T. Tango, "Equivalence test and confidence interval for the difference in proportions for
   the paired-sample design", Statistics in Medicine 17 (1998) 891-908.
.. [2] J.-P. Liu, H.-M. Hsueh, E. Hsieh and J. J. Chen, "Tests for equivalence or non-inferiority
   for paired binary data", Statistics in Medicine 21 (2002) 231-245.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

import numpy as np
from scipy.optimize import brentq
from scipy.stats import norm

if TYPE_CHECKING:
    from numpy.typing import ArrayLike

    from verify.stats.bounded import FloatArray
    from verify.stats.table import PairedTable


def null_variance(lost: ArrayLike, gained: ArrayLike, difference: float) -> FloatArray:
    """Variance of one item's difference if the true difference were `difference`.

    `lost` and `gained` are shares of the items, of any shape.
    """
    lost, gained = np.asarray(lost, dtype=np.float64), np.asarray(gained, dtype=np.float64)
    linear = (2 - gained + lost) * difference - lost - gained
    root = np.sqrt(np.maximum(linear**2 + 8 * lost * difference * (1 - difference), 0.0))
    return np.asarray(np.maximum((root - linear) / 2 + difference * (1 - difference), 0.0))


def score(lost: ArrayLike, gained: ArrayLike, items: int, difference: float) -> FloatArray:
    """The score [1]_ of tables against a true difference: large where the truth seems above it.

    `lost` and `gained` are numbers of items, of any shape.
    """
    lost, gained = np.asarray(lost), np.asarray(gained)
    above = (gained - lost) / items - difference
    error = np.sqrt(null_variance(lost / items, gained / items, difference) / items)
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.where(above == 0, 0.0, above / error)


@dataclass(frozen=True)
class TangoDifference:
    """PR minus base from a table of paired answers."""

    table: PairedTable

    method: ClassVar[str] = "Tango score"

    @property
    def estimate(self) -> float:
        """The difference of the two accuracies."""
        return self.table.difference

    def z(self, difference: float) -> float:
        """The score against a true difference."""
        table = self.table
        return float(score(table.lost, table.gained, table.items, difference))

    def interval(self, confidence: float = 0.95) -> tuple[float, float]:
        """Two-sided interval: the differences that the score does not reject."""
        critical = float(norm.isf((1 - confidence) / 2))
        low, high = -1.0, 1.0
        if self.z(-1.0) > critical:
            low = float(
                brentq(lambda d: self._bounded(d) - critical, -1, self.estimate, xtol=1e-14)
            )
        if self.z(1.0) < -critical:
            high = float(
                brentq(lambda d: self._bounded(d) + critical, self.estimate, 1, xtol=1e-14)
            )
        return low, high

    def noninferiority(self, margin: float) -> float:
        """One-sided p-value of the hypothesis that PR is worse by `margin` or more [2]_."""
        return float(norm.sf(self.z(-margin)))

    def equivalence(self, margin: float) -> float:
        """p-value of the hypothesis that the arms differ by `margin` or more (two one-sided)."""
        return max(self.noninferiority(margin), float(norm.cdf(self.z(margin))))

    def smallest_margin(self, alpha: float = 0.025) -> float:
        """The smallest margin at which non-inferiority holds at level `alpha`."""
        return max(0.0, -self.interval(1 - 2 * alpha)[0])

    def _bounded(self, difference: float) -> float:
        """The score, kept finite for the root finder."""
        return max(-1e9, min(1e9, self.z(difference)))


def items_needed(
    margin: float,
    discordance: float,
    *,
    difference: float = 0.0,
    alpha: float = 0.025,
    power: float = 0.8,
) -> float:
    """Items with which non-inferiority is shown with probability `power`; inf if no number is.

    `difference` is the true one, PR minus base, and `discordance` the true share of items on
    which the arms disagree.
    """
    if margin + difference <= 0 or discordance < abs(difference):
        return math.inf
    lost, gained = (discordance - difference) / 2, (discordance + difference) / 2
    at_margin = math.sqrt(float(null_variance(lost, gained, -margin)))
    in_truth = math.sqrt(discordance - difference**2)
    reach = float(norm.isf(alpha)) * at_margin + float(norm.isf(1 - power)) * in_truth
    return (reach / (margin + difference)) ** 2


def detectable_difference(
    items: int, discordance: float, *, alpha: float = 0.025, power: float = 0.8
) -> float:
    """The smallest loss that `items` items rule out with probability `power` if there is none.

    1 where even the largest cannot be.
    """

    def excess(margin: float) -> float:
        return math.sqrt(items_needed(margin, discordance, alpha=alpha, power=power) / items) - 1

    if excess(1.0) >= 0:
        return 1.0
    return float(brentq(excess, 1e-9, 1.0, xtol=1e-12))
