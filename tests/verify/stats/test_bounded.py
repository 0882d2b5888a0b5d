"""The bounded mean: Clopper-Pearson on two values, sound on any, and a mirror of itself."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from verify.stats.bounded import BoundedMean, dirichlet_mean_cdf

SAMPLES = st.lists(st.sampled_from([-1, -0.75, -0.5, -0.25, 0, 0.25, 0.5, 0.75, 1]), min_size=1)


@pytest.mark.parametrize("n", [1, 2, 10, 198, 1319, 10**6])
@pytest.mark.parametrize("share", [0, 0.004, 0.3, 0.97, 1])
def test_right_and_wrong_give_clopper_pearson(n, share):
    right = round(n * share)
    mean = BoundedMean(np.array([0.0, 1.0]), np.array([n - right, right]), 0, 1)
    expected = stats.binomtest(right, n).proportion_ci(0.95, method="exact")
    assert mean.interval() == pytest.approx((expected.low, expected.high), rel=1e-5, abs=1e-7)
    at = right / n * 0.8 + 0.01
    expected = stats.binom.sf(right - 1, n, at), stats.binom.cdf(right, n, at)
    assert (mean.p_at_most(at), mean.p_at_least(at)) == pytest.approx(expected, rel=2e-6)


def test_weighted_mean_of_many_values_agrees_with_simulation():
    rng = np.random.default_rng(1)
    values = np.array([-1.0, -0.5, -0.25, 0.0, 0.5, 1.0])
    weights = np.array([[1.0, 2, 1, 9, 3, 1], [3.0, 0, 7, 40, 2, 1]])
    at = np.array([-0.1, -0.12])
    found = dirichlet_mean_cdf(values, weights, at)
    for row, threshold, p in zip(weights, at, found, strict=True):
        draws = rng.dirichlet(row[row > 0], 400_000) @ values[row > 0]
        assert p == pytest.approx(np.mean(draws <= threshold), abs=5 * math.sqrt(p / 400_000))


@pytest.mark.parametrize(("items", "margin"), [(2, 0.7), (4, 0.2), (4, 0.5)])
def test_no_distribution_on_five_points_breaks_the_level_exact(items, margin):
    """Every sample of every distribution on a grid of the simplex, at the boundary itself."""
    points = np.array([-1.0, -0.5, 0.0, 0.5, 1.0])
    alpha = 0.1
    samples = [
        c for c in itertools.product(range(items + 1), repeat=points.size) if sum(c) == items
    ]
    passes = [
        BoundedMean(points, np.array(c, dtype=float)).p_at_most(-margin) <= alpha for c in samples
    ]
    ways = [math.factorial(items) / math.prod(map(math.factorial, c)) for c in samples]
    grid = [
        np.array(c) / 10
        for c in itertools.product(range(11), repeat=points.size - 1)
        if sum(c) <= 10
    ]
    worst = 0.0
    for rest in grid:  # the first point takes what is left; then mix with -1 to reach the margin
        p = np.concatenate([[1 - rest.sum()], rest])
        mean = p @ points
        if mean < -margin:
            continue
        mixed = p * (1 - margin) / (1 + mean)
        mixed[0] += 1 - mixed.sum()
        level = sum(
            w * np.prod(mixed ** np.array(c))
            for c, w, ok in zip(samples, ways, passes, strict=True)
            if ok
        )
        worst = max(worst, level)
    assert 0 <= worst <= alpha + 1e-6


@pytest.mark.parametrize("difference", [-0.9, -0.5, -0.15, -0.05])
def test_no_distribution_on_three_points_breaks_the_nominal_level_exact(difference):
    """Ten items; at a given mean one share is free, and is searched finely."""
    items, alpha = 10, 0.025
    tables = np.array([(a, b, items - a - b) for a in range(11) for b in range(11 - a)], float)
    ways = stats.multinomial(items, [1 / 3] * 3).pmf(tables) * 3.0**items
    worst = 0.0
    for low, high in itertools.product((-1.0, -0.5), (1.0, 0.5, 0.0625)):
        for middle in np.arange(low + 0.0625, high, 0.125):
            points = np.array([low, middle, high])
            weights = np.column_stack([tables, np.ones(len(tables))])
            p = dirichlet_mean_cdf(
                np.append(points, -1.0), weights, np.full(len(tables), difference)
            )
            share = np.linspace(0, 1, 102)[1:-1]  # of the middle point
            lowest = ((1 - share) * high + share * middle - difference) / (high - low)
            law = np.column_stack([lowest, share, 1 - share - lowest])
            law = law[(law > 0).all(axis=1)]
            levels = np.exp(np.log(law) @ tables[p <= alpha].T) @ ways[p <= alpha]
            worst = max(worst, levels.max(initial=0.0))
    assert 0.5 * alpha < worst <= alpha


@settings(max_examples=15, deadline=None)
@given(SAMPLES)
def test_negated_values_give_the_negated_interval(sample):
    low, high = BoundedMean.of(sample).interval()
    mirrored = BoundedMean.of([-x for x in sample]).interval()
    assert mirrored == pytest.approx((-high, -low), abs=1e-6)
    assert -1 <= low <= np.mean(sample) <= high <= 1


@settings(max_examples=15, deadline=None)
@given(SAMPLES, st.floats(-0.99, 0.99))
def test_bound_and_p_value_are_one_test(sample, at):
    mean = BoundedMean.of(sample)
    p = mean.p_at_most(at)
    if abs(p - 0.025) > 1e-4:
        assert (p < 0.025) == (mean.lower(0.025) > at)


def test_many_values_are_rounded_outwards_and_hardly_at_all():
    sample = np.random.default_rng(3).normal(0.05, 0.1, 20_000).clip(-1, 1)
    low, high = BoundedMean.of(sample).interval()
    reach = 1.96 * sample.std() / math.sqrt(sample.size)
    assert sample.mean() - reach - 3e-4 < low < sample.mean() - reach
    assert sample.mean() + reach < high < sample.mean() + reach + 3e-4


@pytest.mark.parametrize("sample", [[], [0.5, 1.5], [np.nan], [-1.001]])
def test_values_outside_the_range_are_refused(sample):
    with pytest.raises(ValueError, match=r"value lies outside|at least one value"):
        BoundedMean.of(sample)
