"""Exact unconditional tests of a paired difference, one answer a question, for few questions.

Tables are ordered by Tango's score [3]_; the p-value is the probability of a table at least as
extreme as the one seen, at the boundary of the hypothesis, maximised over the share of questions
on which the arms disagree [1]_. Only values of that share within its own confidence set are
searched, and the set's error is added to the p-value [2]_.

References:
----------
.. [1] H.-M. Hsueh, J.-P. Liu and J. J. Chen, "Unconditional exact tests for equivalence or
   noninferiority for paired binary endpoints", Biometrics 57 (2001) 478-483.
.. [2] R. L. Berger and D. D. Boos, "P values maximized over a confidence set for the nuisance
   parameter", Journal of the American Statistical Association 89 (1994) 1012-1016.
.. [3] T. Tango, "Equivalence test and confidence interval for the difference in proportions for
   the paired-sample design", Statistics in Medicine 17 (1998) 891-908.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

import numpy as np
from scipy.optimize import brentq
from scipy.stats import beta, binom

from verify.stats.tango import score

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from verify.stats.bounded import FloatArray

# Tables less likely than this, whatever the nuisance, are left out of sums.
_NEGLIGIBLE = 1e-12
_ROUNDS = 3
_POINTS = 60


@dataclass(frozen=True)
class ExactDifference:
    """PR minus base from a 2x2 table of paired answers, by exact unconditional tests.

    `lost` questions are right in base only, `gained` in PR only, of `items` in all. `gamma` is
    the error of the confidence set for the share of discordant questions.
    """

    lost: int
    gained: int
    items: int
    gamma: float = 1e-4

    method: ClassVar[str] = "exact unconditional, Tango order, Berger-Boos"

    def __post_init__(self) -> None:
        if min(self.lost, self.gained) < 0 or not 0 < self.items >= self.lost + self.gained:
            raise ValueError(
                f"{self.lost} lost and {self.gained} gained do not fit {self.items} items"
            )

    @property
    def estimate(self) -> float:
        """The difference of the two accuracies."""
        return (self.gained - self.lost) / self.items

    def p_at_most(self, difference: float) -> float:
        """p-value of the hypothesis that PR minus base is `difference` or less.

        Raises:
            ValueError: a difference outside (-1, 1).
        """
        if not -1 < difference < 1:
            raise ValueError(f"the difference {difference} does not lie between -1 and 1")
        low, high = self._discordance()
        low = max(low, abs(difference))
        if low > high:  # no share in the set is compatible with such a difference
            return self.gamma
        region = self._region(difference, high)
        best = 0.0
        for _ in range(_ROUNDS):
            shares = np.linspace(low, high, _POINTS)
            p = _probability(region, self.items, difference, shares)
            k = int(np.argmax(p))
            best = max(best, float(p[k]))
            low, high = shares[max(k - 1, 0)], shares[min(k + 1, _POINTS - 1)]
        return min(1.0, best + self.gamma)

    def p_at_least(self, difference: float) -> float:
        """p-value of the hypothesis that PR minus base is `difference` or more."""
        return self._mirrored().p_at_most(-difference)

    def lower(self, alpha: float) -> float:
        """Lower bound of the difference, wrong with probability `alpha` (below one half)."""
        edge = 1 - 1e-9
        if self.estimate <= -edge or self.p_at_most(-edge) >= alpha:
            return -1.0
        return float(
            brentq(lambda d: self.p_at_most(d) - alpha, -edge, min(self.estimate, edge), xtol=1e-6)
        )

    def upper(self, alpha: float) -> float:
        """Upper bound of the difference, wrong with probability `alpha` (below one half)."""
        return -self._mirrored().lower(alpha)

    def interval(self, confidence: float = 0.95) -> tuple[float, float]:
        """Two-sided interval: each end wrong with probability (1 - confidence) / 2."""
        tail = (1 - confidence) / 2
        return self.lower(tail), self.upper(tail)

    def noninferiority(self, margin: float) -> float:
        """One-sided p-value of the hypothesis that PR is worse by `margin` or more."""
        return self.p_at_most(-margin)

    def equivalence(self, margin: float) -> float:
        """p-value of the hypothesis that the arms differ by `margin` or more (two one-sided)."""
        return max(self.p_at_most(-margin), self.p_at_least(margin))

    def smallest_margin(self, alpha: float = 0.025) -> float:
        """The smallest margin at which non-inferiority holds at level `alpha`."""
        return max(0.0, -self.lower(alpha))

    def _mirrored(self) -> ExactDifference:
        return ExactDifference(self.gained, self.lost, self.items, self.gamma)

    def _discordance(self) -> tuple[float, float]:
        """Clopper-Pearson set of level 1 - gamma for the share of discordant questions."""
        seen, agreed = self.lost + self.gained, self.items - self.lost - self.gained
        low = beta.ppf(self.gamma / 2, seen, agreed + 1) if seen else 0.0
        high = beta.isf(self.gamma / 2, seen + 1, agreed) if agreed else 1.0
        return float(low), float(high)

    def _region(self, difference: float, high: float) -> _Region:
        """The tables at least as extreme as this one, leaving out the improbable ones."""
        most = min(self.items, int(binom.isf(_NEGLIGIBLE, self.items, high)) + 1)
        m = np.arange(most + 1)[:, None]
        lost = np.arange(most + 1)[None, :]
        scores = score(np.minimum(lost, m), m - np.minimum(lost, m), self.items, difference)
        seen = score(self.lost, self.gained, self.items, difference)
        extreme = (scores >= seen - 1e-9 * (1 + abs(seen))) & (lost <= m)
        return _Region.of(extreme)


@dataclass(frozen=True)
class _Region:
    """A set of tables, as runs of `lost` at given numbers of discordant questions.

    At most of these numbers it is one run from 0, for each loss lowers the score; but few
    questions and many gains can break that order.
    """

    discordant: NDArray[np.intp]
    last: NDArray[np.intp]
    """The last `lost` of a run (sign 1), or the one before its first (sign -1)."""

    sign: FloatArray

    @classmethod
    def of(cls, member: NDArray[np.bool_]) -> _Region:
        """From membership by [discordant, lost]."""
        edges = np.diff(np.pad(member, ((0, 0), (1, 1))).astype(np.int8), axis=1)
        discordant, first = np.nonzero(edges)
        sign = -edges[discordant, first].astype(np.float64)
        return cls(discordant, first - 1, sign)


def _probability(region: _Region, items: int, difference: float, shares: FloatArray) -> FloatArray:
    """P(region) where the arms differ by `difference`, at each share of discordant questions."""
    ratio = np.divide(difference, shares, out=np.zeros_like(shares), where=shares > 0)
    of_lost = np.clip((1 - ratio)[:, None] / 2, 0, 1)  # losses among the discordant
    at_m = binom.pmf(region.discordant[None, :], items, shares[:, None])
    up_to = binom.cdf(region.last[None, :], region.discordant[None, :], of_lost)
    return np.asarray((at_m * up_to) @ region.sign)
