"""Medians of sweeps, and how sure a ratio of two of them is."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

CONFIDENCE = 0.95
RESAMPLES = 10_000


@dataclass(frozen=True)
class Ratio:
    """A ratio of two medians of medians, with its percentile-bootstrap interval."""

    value: float
    low: float
    high: float


def median(values: NDArray[np.float64]) -> float:
    """The lower median: a value that was measured, also where their number is even."""
    return float(np.sort(values)[(len(values) - 1) // 2])


def median_of_medians(sweeps: Sequence[NDArray[np.float64]]) -> float:
    """The middle of what each sweep says."""
    return median(np.array([median(sweep) for sweep in sweeps]))


def ratio(
    ours: Sequence[NDArray[np.float64]],
    theirs: Sequence[NDArray[np.float64]],
    random: np.random.Generator,
) -> Ratio:
    """Ours over theirs.

    Sweeps are drawn first, the same for both, as sweep i of one ran beside sweep i of the other;
    then replays inside each sweep drawn. Few sweeps make the interval coarse, not narrow: it is
    about as wide as they differ.

    Raises:
        ValueError: the two have different numbers of sweeps, or none.
    """
    if not ours or len(ours) != len(theirs):
        raise ValueError(f"{len(ours)} sweeps beside {len(theirs)}; there must be as many, and any")
    drawn = random.integers(0, len(ours), (RESAMPLES, len(ours)))
    resampled = _redrawn(ours, drawn, random) / _redrawn(theirs, drawn, random)
    tail = 100 * (1 - CONFIDENCE) / 2
    low, high = np.percentile(resampled, [tail, 100 - tail])
    value = median_of_medians(ours) / median_of_medians(theirs)
    return Ratio(value, float(low), float(high))


def _redrawn(
    sweeps: Sequence[NDArray[np.float64]], drawn: NDArray[np.int64], random: np.random.Generator
) -> NDArray[np.float64]:
    """Median of medians of each resample.

    The median of n draws from n values is the value at a place that follows from one Beta draw:
    the k-th smallest of n uniforms is Beta(k, n - k + 1). So a resample costs one number a sweep.
    """
    columns = []
    for sweep in sweeps:
        n = len(sweep)
        k = (n - 1) // 2 + 1
        place = (n * random.beta(k, n - k + 1, drawn.shape)).astype(int).clip(0, n - 1)
        columns.append(np.sort(sweep)[place])
    medians = np.choose(drawn, columns)
    return np.asarray(np.sort(medians, axis=1)[:, (drawn.shape[1] - 1) // 2])
