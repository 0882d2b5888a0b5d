"""Ratios of starts: against scipy's t-test, by hand, and by what they promise."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import t as student
from scipy.stats import ttest_ind

from verify.bench.serve.starts import compare, estimates, power, starts_needed

SOURCE = ([1167.2, 1169.0], [1203.1, 1201.4])


@pytest.mark.parametrize("arms", [SOURCE, ([5.0, 6.0, 5.5], [5.2, 6.1]), ([10.0], [9.0, 9.5])])
def test_interval_is_that_of_students_t_on_logarithms(arms):
    base, pr = map(np.log, arms)
    found = compare(*arms)
    # one start has no spread: scipy refuses it, and the formula is the same
    if min(map(len, arms)) > 1:
        theirs = ttest_ind(pr, base).confidence_interval(0.95)
        assert found.interval == pytest.approx((np.exp(theirs.low), np.exp(theirs.high)))
    assert found.value == pytest.approx(np.exp(pr.mean() - base.mean()))
    assert found.df == len(base) + len(pr) - 2


def test_two_starts_an_arm_reach_four_standard_errors_each_way():
    found = compare(*SOURCE)
    reach = np.log(found.interval[1] / found.value)
    assert reach / found.start_sd == pytest.approx(4.3027, abs=1e-4)
    assert found.stable


def test_the_other_way_round_is_the_reciprocal():
    one, other = compare(*SOURCE), compare(*SOURCE[::-1])
    assert other.value == pytest.approx(1 / one.value)
    assert other.interval == pytest.approx((1 / one.interval[1], 1 / one.interval[0]))


def test_one_start_an_arm_has_a_ratio_and_no_interval():
    found = compare([100.0], [103.0])
    assert (found.value, found.interval, found.start_sd) == (pytest.approx(1.03), None, None)


def test_sign_is_stable_only_if_every_start_lies_on_one_side():
    assert compare([100.0, 101.0], [99.0, 98.0]).stable
    assert not compare([100.0, 103.0], [102.0, 104.0]).stable
    assert not compare([100.0, 101.0], [101.0, 102.0]).stable


@pytest.mark.parametrize("arms", [([], [1.0]), ([1.0], []), ([0.0, 1.0], [1.0, 2.0])])
def test_no_starts_or_no_speed_is_an_error(arms):
    with pytest.raises(ValueError, match="positive"):
        compare(*arms)


@pytest.mark.parametrize(("sd", "starts"), [(0.004, 2), (0.0061, 2), (0.0061, 3), (0.02, 4)])
def test_power_is_what_simulated_runs_find(sd, starts):
    random = np.random.default_rng(7)
    base = random.normal(0, sd, (20_000, starts))
    difference, error, _ = estimates(base, random.normal(np.log(1.03), sd, (20_000, starts)))
    found = np.mean(difference > student.isf(0.025, 2 * starts - 2) * error)
    assert found == pytest.approx(power(0.03, sd, starts), abs=0.012)


def test_as_many_starts_as_are_needed_and_no_fewer():
    for sd in (0.002, 0.0061, 0.02, 0.05):
        needed = starts_needed(0.03, sd, 0.95)
        assert power(0.03, sd, needed) >= 0.95
        assert needed == 2 or power(0.03, sd, needed - 1) < 0.95
    assert starts_needed(0.0, 0.01, 0.8) is None
    assert starts_needed(1e-6, 0.01, 0.8) is None
