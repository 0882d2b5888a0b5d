"""Bounds on the mean of bounded values that assume nothing about their distribution.

The bound is Gaffke's [1]_: give the n values, and one more at the worst end of their range,
Dirichlet(1, ..., 1) weights; the quantile of the weighted mean is the bound. On values of 0 and
1 it is exactly the Clopper-Pearson bound; with many values it becomes the ordinary normal one,
held back by 1/n for what n values cannot have shown. That its level holds for every
distribution and n is a conjecture [2]_ without a known counter-example; the tests search for
one over all distributions on few points, and `docs/calibration.md` shows the levels here.

References:
----------
.. [1] N. Gaffke, "Three test statistics for a nonparametric one-sided hypothesis on the mean of
   a nonnegative variable", Mathematical Methods of Statistics 14 (2005) 451-467.
.. [2] E. Learned-Miller and P. S. Thomas, "A new confidence interval for the mean of a bounded
   random variable", arXiv:1905.06208 (2019).
.. [3] H. E. Daniels, "Tail probability approximations", International Statistical Review 55
   (1987) 37-48: the integral along the path of steepest descent, here taken exactly.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import brentq

if TYPE_CHECKING:
    from numpy.typing import ArrayLike

FloatArray = NDArray[np.float64]

# Step and end of the trapezoid rule along the path: exp(-_REACH^2 / 2) is below 1e-9, and the
# error of the step, set by how near another saddle point can lie, is below 1e-6, relative.
_STEP = 0.25
_REACH = 6.5
# Complex numbers held at once while integrating (64 MB).
_BLOCK = 1_000_000
# More distinct values than this are rounded, outwards, to a grid of as many steps.
_DISTINCT = 8192


@dataclass(frozen=True)
class BoundedMean:
    """The mean of independent values that lie between `low` and `high`.

    `values` [J] are the distinct values, `counts` [J] how often each was seen.
    """

    values: FloatArray
    counts: FloatArray
    low: float = -1.0
    high: float = 1.0

    def __post_init__(self) -> None:
        if self.counts.sum() < 1:
            raise ValueError("a mean needs at least one value")
        if not (self.values.min() >= self.low and self.values.max() <= self.high):
            raise ValueError(f"a value lies outside [{self.low}, {self.high}], or is NaN")

    @classmethod
    def of(cls, sample: ArrayLike, low: float = -1.0, high: float = 1.0) -> BoundedMean:
        """The mean of `sample` [n]."""
        values, counts = np.unique(np.asarray(sample, dtype=np.float64), return_counts=True)
        return cls(values, counts.astype(np.float64), low, high)

    @property
    def estimate(self) -> float:
        """The sample mean."""
        return float(self.values @ self.counts / self.counts.sum())

    def p_at_most(self, mean: float) -> float:
        """p-value of the hypothesis that the true mean is `mean` or less."""
        return _worst_case_cdf(self.values, self.counts, self.low, mean)

    def p_at_least(self, mean: float) -> float:
        """p-value of the hypothesis that the true mean is `mean` or more."""
        return _worst_case_cdf(-self.values[::-1], self.counts[::-1], -self.high, -mean)

    def lower(self, alpha: float) -> float:
        """Lower bound, wrong with probability `alpha` (at most one half)."""
        if self.estimate <= self.low:
            return self.low
        return float(
            brentq(lambda m: self.p_at_most(m) - alpha, self.low, self.estimate, xtol=1e-10)
        )

    def upper(self, alpha: float) -> float:
        """Upper bound, wrong with probability `alpha` (at most one half)."""
        return -BoundedMean(-self.values[::-1], self.counts[::-1], -self.high, -self.low).lower(
            alpha
        )

    def interval(self, confidence: float = 0.95) -> tuple[float, float]:
        """Two-sided interval: each end wrong with probability (1 - confidence) / 2."""
        tail = (1 - confidence) / 2
        return self.lower(tail), self.upper(tail)


def _worst_case_cdf(values: FloatArray, counts: FloatArray, low: float, mean: float) -> float:
    if values.size > _DISTINCT:
        step = (values[-1] - low) / _DISTINCT
        grid = low + step * np.floor((values - low) / step)  # downwards: the bound stays a bound
        values, inverse = np.unique(grid, return_inverse=True)
        counts = np.bincount(inverse, weights=counts).astype(np.float64)
    weights = np.append(counts, 1.0)[None, :]
    return float(dirichlet_mean_cdf(np.append(values, low), weights, np.array([mean]))[0])


def dirichlet_mean_cdf(
    values: FloatArray, weights: FloatArray, thresholds: FloatArray
) -> FloatArray:
    """P(sum_j D_j v_j <= threshold) for D ~ Dirichlet(weights), by a contour integral [3]_.

    `values` [J], `weights` [B, J] (>= 0; those above 0 are >= 1), `thresholds` [B]; result [B].
    With D_j = G_j / sum G, G_j ~ Gamma(weight_j), this is P(sum_j a_j G_j <= 0), a = v - threshold:
    an inverse Laplace transform, taken through the saddle point of its integrand.
    """
    thresholds = np.broadcast_to(thresholds, weights.shape[:1])
    cdf = np.empty(len(weights))
    rows = max(1, _BLOCK // values.size)
    for start in range(0, len(weights), rows):
        part = slice(start, start + rows)
        shifted = values[None, :] - thresholds[part, None]
        cdf[part] = _sum_below_zero(shifted, weights[part])
    return cdf


def _sum_below_zero(a: FloatArray, weights: FloatArray) -> FloatArray:
    """P(sum_j a_j G_j <= 0) by row, for a, weights [B, J]."""
    a = np.where(weights > 0, a, 0.0)
    highest, lowest = a.max(axis=1), a.min(axis=1)
    result = np.where(lowest >= 0, np.where(highest > 0, 0.0, 1.0), 1.0)
    mixed = (highest > 0) & (lowest < 0)
    if mixed.any():
        a, weights = a[mixed], weights[mixed]
        # Integrate the rarer side, which keeps full relative precision; mirror it onto s > 0.
        below = (weights * a).sum(axis=1) > 0
        a = np.where(below[:, None], -a, a)
        rarer = _upper_tail(a, weights)
        result[mixed] = np.where(below, rarer, 1.0 - rarer)
    return result


def _upper_tail(a: FloatArray, weights: FloatArray) -> FloatArray:
    """P(sum_j a_j G_j > 0) = 1/(2 pi i) times the integral of exp f, f below, along Im s.

    f(s) = -sum w log(1 - a s) - log s has real saddle points only, so the path of steepest
    descent from the one nearest 0 is followed: on it f(z(x)) = f(s) - x^2/2, and the trapezoid
    rule in x converges geometrically.
    """
    s = _saddle_point(a, weights)[:, None]
    # [B, 1]: differences of logarithms keep their digits where the saddle point is far out
    scale = 1 - s * a
    peak = -(weights * np.log(scale)).sum(axis=1) - np.log(s[:, 0])
    curvature = (weights * (a / scale) ** 2).sum(axis=1) + 1 / s[:, 0] ** 2
    z = s.astype(np.complex128)
    slope = previous = 1j / np.sqrt(curvature)  # dz/dx
    total = slope.imag / 2
    for x in np.arange(_STEP, _REACH, _STEP):
        z = z + _STEP * (1.5 * slope - 0.5 * previous)[:, None]
        for _ in range(20):
            pole = 1 - z * a
            gradient = (weights * a / pole).sum(axis=1) - 1 / z[:, 0]
            drop = -(weights * np.log(pole / scale)).sum(axis=1) - np.log(z[:, 0] / s[:, 0])
            error = (drop + x**2 / 2) / gradient
            z = z - error[:, None]
            if np.abs(error / slope).max() < 1e-6:
                break
        previous, slope = slope, -x / gradient
        total += np.exp(-(x**2) / 2) * slope.imag
    return np.asarray(np.exp(peak) * total * _STEP / np.pi)


def _saddle_point(a: FloatArray, weights: FloatArray) -> FloatArray:
    """The minimum over 0 < s < 1/max(a) of -sum w log(1 - a s) - log s: convex, by safe Newton."""
    high = 1 / a.max(axis=1)
    low = high * 1e-30
    s = high / 2
    for _ in range(100):
        ratio = a / (1 - s[:, None] * a)
        slope = (weights * ratio).sum(axis=1) - 1 / s
        curvature = (weights * ratio**2).sum(axis=1) + 1 / s**2
        if np.all(np.abs(slope) < 1e-6 * np.sqrt(curvature)):
            break
        high, low = np.where(slope > 0, s, high), np.where(slope > 0, low, s)
        newton = s - slope / curvature
        inside = (newton > low) & (newton < high)
        s = np.where(inside, newton, np.sqrt(low * high))
    return np.asarray(s)
