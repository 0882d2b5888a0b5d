"""Paired differences of scores that are not just right or wrong: t, bootstrap and permutation.

They stand beside the bounded-mean interval that verdicts use, as what other tools would report.
Values are differences of item means, PR minus base, [items].

References:
----------
.. [1] B. Efron, "Better bootstrap confidence intervals", Journal of the American Statistical
   Association 82 (1987) 171-185.
.. [2] B. Phipson and G. K. Smyth, "Permutation p-values should never be zero", Statistical
   Applications in Genetics and Molecular Biology 9 (2010) 39.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from scipy.stats import norm
from scipy.stats import t as student

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray

    from verify.stats.bounded import FloatArray

# Resamples and sign flips draw how often each distinct value occurs; more values are rounded.
_DISTINCT = 4096


@dataclass(frozen=True)
class PairedScores:
    """The mean of paired differences, [items]."""

    differences: FloatArray

    @classmethod
    def of(cls, differences: ArrayLike) -> PairedScores:
        """Check and keep `differences`, [items], finite and at least one."""
        array = np.asarray(differences, dtype=np.float64)
        if array.ndim != 1 or not array.size or not np.all(np.isfinite(array)):
            raise ValueError("differences must be finite numbers, one an item, and at least one")
        return cls(array)

    @property
    def estimate(self) -> float:
        """The mean difference."""
        return float(self.differences.mean())

    @property
    def standard_error(self) -> float | None:
        """Standard error of the mean; None for a single item."""
        n = self.differences.size
        return float(self.differences.std(ddof=1) / np.sqrt(n)) if n > 1 else None

    @property
    def p(self) -> float | None:
        """Two-sided p-value of the paired t test; None where nothing varies."""
        error = self.standard_error
        if not error:
            return None
        return float(2 * student.sf(abs(self.estimate) / error, self.differences.size - 1))

    def bca_interval(
        self, rng: np.random.Generator, confidence: float = 0.95, resamples: int = 9999
    ) -> tuple[float, float] | None:
        """The bias-corrected and accelerated bootstrap interval [1]_; None where nothing varies."""
        values, counts = _grouped(self.differences)
        if values.size < 2:
            return None
        n, mean = counts.sum(), float(values @ counts / counts.sum())
        draws = rng.multinomial(n, counts / n, size=resamples)
        means = draws @ values / n
        # Ties count half, as means of few distinct values have many.
        below = (np.mean(means < mean) + np.mean(means <= mean)) / 2
        bias = norm.ppf(below)
        centred = values - mean
        acceleration = (counts @ centred**3) / (6 * (counts @ centred**2) ** 1.5)
        z = bias + norm.ppf([(1 - confidence) / 2, (1 + confidence) / 2])
        low, high = np.quantile(means, norm.cdf(bias + z / (1 - acceleration * z)))
        shift = self.estimate - mean  # of rounding
        return float(low + shift), float(high + shift)

    def permutation_p(self, rng: np.random.Generator, draws: int = 9999) -> float:
        """Two-sided p-value if each item's arms might as well be swapped [2]_."""
        values, counts = _grouped(np.abs(self.differences))
        seen = abs(float(self.differences.sum()))
        flipped = 2 * rng.binomial(counts, 0.5, size=(draws, counts.size)) - counts
        extreme = np.abs(flipped @ values) >= seen * (1 - 1e-9)
        return float((extreme.sum() + 1) / (draws + 1))


def _grouped(sample: FloatArray) -> tuple[FloatArray, NDArray[np.intp]]:
    """Distinct values and their counts, rounded to a grid if there are many."""
    values, counts = np.unique(np.round(sample, 12), return_counts=True)
    if values.size > _DISTINCT:
        step = (values[-1] - values[0]) / _DISTINCT
        values, counts = np.unique(np.round(sample / step) * step, return_counts=True)
    return values, counts
