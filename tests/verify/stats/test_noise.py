"""A/A noise: Cochran's Q, the size of a planted shift, and flips counted by brute force."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from statsmodels.stats.contingency_tables import cochrans_q

from verify.stats.noise import flip_rates, flips_by_repeat, start_noise


def arm(items=400, repeats=4, shift=0.0, seed=1):
    """Two in five questions are a coin's toss, which each repeat's start loads by `shift`."""
    rng = np.random.default_rng(seed)
    tossed = (rng.random(items) < 0.4)[:, None]
    chance = np.clip(0.5 + shift / 0.4 * rng.normal(size=repeats), 0, 1)
    return (rng.random((items, repeats)) < np.where(tossed, chance, 0.9)).astype(float)


@pytest.mark.parametrize("repeats", [2, 4, 9])
def test_one_repeat_a_start_is_cochrans_q(repeats):
    scores = arm(repeats=repeats)
    expected = cochrans_q(scores)
    found = start_noise(scores)
    assert found.statistic == pytest.approx(expected.statistic)
    assert found.p == pytest.approx(expected.pvalue)


@pytest.mark.parametrize("labels", [None, "aabbccdd"])
def test_level_and_ratio_without_shifts(labels):
    found = [start_noise(arm(repeats=8, seed=s), labels) for s in range(400)]
    assert np.mean([f.p <= 0.05 for f in found]) == pytest.approx(0.05, abs=0.035)
    assert np.mean([f.ratio for f in found]) == pytest.approx(1, abs=0.1)


def test_interval_holds_the_planted_shift():
    found = [start_noise(arm(repeats=8, shift=0.04, seed=s)) for s in range(200)]
    covered = [f.shift_interval()[0] <= 0.04 <= f.shift_interval()[1] for f in found]
    assert np.mean(covered) >= 0.9
    assert np.mean([f.p <= 0.05 for f in found]) > 0.7
    assert np.mean([f.shift**2 for f in found]) == pytest.approx(0.04**2, rel=0.15)


def test_nothing_to_tell_is_none():
    assert start_noise(arm(repeats=1)) is None
    assert start_noise(np.ones((5, 3))) is None
    assert start_noise(arm(repeats=2), "aa") is None


def test_flip_rates_by_brute_force():
    base, pr = arm(items=30, repeats=3, seed=2), arm(items=30, repeats=4, seed=3)

    def disagree(pairs):
        return np.mean([np.mean(one != other) for one, other in pairs])

    found = flip_rates(base, pr)
    assert found.base == pytest.approx(disagree(itertools.combinations(base.T, 2)))
    assert found.pr == pytest.approx(disagree(itertools.combinations(pr.T, 2)))
    assert found.between == pytest.approx(disagree(itertools.product(base.T, pr.T)))
    assert found.shifts == pytest.approx(found.between - (found.base + found.pr) / 2)


def test_shifts_estimate_what_questions_shift_for_good():
    rng = np.random.default_rng(9)
    base = (rng.random((20_000, 3)) < 0.5).astype(float)
    moved = np.where(np.arange(20_000) % 10 == 0, 1.0, 0.5)[:, None]
    found = flip_rates(base, (rng.random((20_000, 5)) < moved).astype(float))
    assert found.shifts == pytest.approx(0.1 * 0.5**2, abs=4 * found.shifts_error)


def test_one_repeat_has_no_flips_of_its_own():
    found = flip_rates(arm(repeats=1), arm(repeats=3))
    assert found.base is None
    assert found.shifts is None
    assert found.pr > 0


def test_flips_by_repeat_as_the_source_counted_them():
    """Of seven initially lost five recover; then four are lost, two of them anew."""
    base = np.ones((20, 2))
    pr = np.ones((20, 2))
    pr[:7, 0] = 0
    pr[[0, 1, 10, 11], 1] = 0
    base[12:17, 1] = 0
    first, second = flips_by_repeat(base, pr)
    assert (first.lost, first.gained, first.recovered, first.newly_lost) == (7, 0, 0, 0)
    assert (second.lost, second.gained) == (4, 5)
    assert (second.recovered, second.newly_lost) == (5, 2)


def test_a_missing_repeat_is_neither_lost_nor_recovered():
    base = np.array([[1.0, np.nan], [1, 1]])
    pr = np.array([[0.0, 0], [0, np.nan]])
    second = flips_by_repeat(base, pr)[1]
    assert (second.lost, second.recovered, second.newly_lost) == (0, 0, 0)
