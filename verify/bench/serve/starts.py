"""How sure a ratio of two arms is whose server starts differ: starts are the sample.

A start shifts all its requests alike, so that requests sharpen a start's median and no number of
them replaces another start. The logarithms of the medians of starts are compared by Student's t
with one spread for both arms [1]_, which is exact where they are normal and equally spread. Two
starts an arm leave two degrees of freedom: 4.3 standard errors each way, where many starts need 2.

References:
----------
.. [1] Student, "The probable error of a mean", Biometrika 6 (1908) 1-25.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from scipy.stats import nct
from scipy.stats import t as student

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    FloatArray = NDArray[np.float64]

CONFIDENCE = 0.95
MOST_STARTS = 100
"""More are not asked of anybody."""


@dataclass(frozen=True)
class StartRatio:
    """PR over base, by the medians of their starts.

    Attributes:
        value: the ratio of the geometric means of the medians.
        interval: at CONFIDENCE; None where each arm has one start.
        start_sd: standard deviation of starts of one arm, as a share; None likewise.
        df: degrees of freedom of it.
        stable: every start of one arm lies above every start of the other.
    """

    value: float
    interval: tuple[float, float] | None
    start_sd: float | None
    df: int
    stable: bool


def compare(base: Sequence[float], pr: Sequence[float]) -> StartRatio:
    """Compare the medians of the starts of two arms.

    Raises:
        ValueError: an arm has none, or one is not positive.
    """
    if not base or not pr or min(*base, *pr) <= 0:
        raise ValueError(f"medians are {base} and {pr}; each arm needs some, all positive")
    ones, others = np.log(np.array(base)), np.log(np.array(pr))
    df = len(base) + len(pr) - 2
    stable = min(pr) > max(base) or max(pr) < min(base)
    if df < 1:
        return StartRatio(float(np.exp(others.mean() - ones.mean())), None, None, df, stable)
    difference, error, spread = estimates(ones, others)
    reach = student.isf((1 - CONFIDENCE) / 2, df) * error
    return StartRatio(
        float(np.exp(difference)),
        (float(np.exp(difference - reach)), float(np.exp(difference + reach))),
        float(spread),
        df,
        stable,
    )


def estimates(base: FloatArray, pr: FloatArray) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Difference of means, its standard error, and the spread of one start.

    Args:
        base: logarithms of medians, [..., starts].
        pr: likewise.
    """
    arms = (base, pr)
    df = sum(arm.shape[-1] - 1 for arm in arms)
    squares = sum(((arm - arm.mean(-1, keepdims=True)) ** 2).sum(-1) for arm in arms)
    spread = np.sqrt(squares / df)
    error = spread * math.sqrt(sum(1 / arm.shape[-1] for arm in arms))
    return pr.mean(-1) - base.mean(-1), error, spread


def power(change: float, sd: float, starts: int) -> float:
    """The chance that the interval lies on the right side of no change.

    Args:
        change: true ratio less one, not 0.
        sd: of the logarithms of medians of starts, what requests leave in them included.
        starts: in each arm, at least 2.
    """
    df = 2 * starts - 2
    away = abs(math.log1p(change)) / (sd * math.sqrt(2 / starts))
    return float(nct.sf(student.isf((1 - CONFIDENCE) / 2, df), df, away))


def starts_needed(change: float, sd: float, wanted: float) -> int | None:
    """The starts an arm with which a change would be seen with chance `wanted`; None if too many.

    Args:
        change: as of `power`.
        sd: likewise.
        wanted: a probability.
    """
    if change == 0:
        return None
    counts = range(2, MOST_STARTS + 1)
    return next((n for n in counts if power(change, sd, n) >= wanted), None)
