from __future__ import annotations

import numpy as np
import pytest

from verify.bench import ratio as ratios
from verify.bench.ratio import median, median_of_medians, ratio


def random():
    return np.random.default_rng(5)


@pytest.mark.parametrize(
    ("values", "middle"), [([3.0], 3), ([1.0, 9.0], 1), ([5.0, 1.0, 2.0], 2), ([4, 3, 2, 1], 2)]
)
def test_median_is_a_value_that_was_measured(values, middle):
    assert median(np.array(values, float)) == middle


def test_median_of_medians_is_not_the_median_of_all():
    sweeps = [np.array([1.0, 1, 9, 9, 9]), np.array([2.0, 2, 2]), np.array([3.0])]
    assert median_of_medians(sweeps) == 3


def test_ratio_of_a_sweep_to_its_double_is_a_half_with_no_width():
    sweeps = [np.full(50, us) for us in (5.0, 6.0, 7.0)]
    found = ratio(sweeps, [2 * sweep for sweep in sweeps], random())
    assert (found.value, found.low, found.high) == (0.5, 0.5, 0.5)


def test_sweeps_that_differ_widen_the_interval_and_shared_drift_does_not():
    noise = random()
    still = [noise.normal(6, 0.01, 200) for _ in range(3)]
    drifting = [sweep * factor for sweep, factor in zip(still, (1, 1.2, 1.4), strict=True)]
    alone = ratio(drifting, still, random())
    together = ratio(drifting, [s * f for s, f in zip(still, (1, 1.2, 1.4), strict=True)], random())
    assert alone.high - alone.low > 0.3
    assert together.high - together.low < 0.02


@pytest.mark.parametrize("n", [1, 2, 7, 40])
def test_one_draw_a_resample_is_the_bootstrap_of_the_median(n):
    """The Beta shortcut against drawing n values again and taking their median."""
    values = np.sort(random().normal(size=n))
    short = ratios._redrawn([values], np.zeros((20_000, 1), int), random())
    draws = random().choice(values, (20_000, n))
    plain = np.sort(draws, axis=1)[:, (n - 1) // 2]
    share = [(short <= v).mean() - (plain <= v).mean() for v in values]
    assert np.abs(share).max() < 0.02  # four standard errors of the difference


def test_unequal_or_no_sweeps_are_refused():
    one = [np.ones(3)]
    with pytest.raises(ValueError, match="1 sweeps beside 2"):
        ratio(one, one * 2, random())
    with pytest.raises(ValueError, match="0 sweeps"):
        ratio([], [], random())
