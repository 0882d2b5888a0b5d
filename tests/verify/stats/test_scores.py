"""Scores that are not binary, against scipy's own t test, bootstrap and permutation test."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from verify.stats.scores import PairedScores


def partial_credit(items=60, seed=2):
    rng = np.random.default_rng(seed)
    return np.round(rng.beta(2, 3, items) - rng.beta(2, 3.4, items), 2)


def test_t_agrees_with_scipy():
    differences = partial_credit()
    found, expected = PairedScores.of(differences), stats.ttest_1samp(differences, 0)
    assert found.p == pytest.approx(expected.pvalue)


@pytest.mark.parametrize("skew", [False, True])
def test_bca_agrees_with_scipy(skew):
    differences = np.exp(8 * partial_credit(12)) if skew else partial_credit()
    found = PairedScores.of(differences).bca_interval(np.random.default_rng(1), resamples=400_000)
    expected = stats.bootstrap(
        (differences,), np.mean, n_resamples=200_000, rng=np.random.default_rng(2), method="BCa"
    )
    interval = expected.confidence_interval
    width = interval.high - interval.low
    assert found == pytest.approx((interval.low, interval.high), abs=0.006 * width)


def test_permutation_agrees_with_all_sign_flips():
    differences = partial_credit(12)
    exact = stats.permutation_test(
        (differences,), np.mean, permutation_type="samples", n_resamples=np.inf
    ).pvalue
    found = PairedScores.of(differences).permutation_p(np.random.default_rng(3), draws=40_000)
    assert found == pytest.approx(exact, abs=4 * np.sqrt(exact * (1 - exact) / 40_000))


def test_permutation_of_single_answers_is_mcnemars_exact_test():
    differences = np.array([-1.0] * 7 + [1.0] * 3 + [0.0] * 90)
    found = PairedScores.of(differences).permutation_p(np.random.default_rng(4), draws=40_000)
    assert found == pytest.approx(stats.binomtest(3, 10).pvalue, abs=0.01)


def test_permutation_p_values_are_never_zero():
    assert PairedScores.of(np.ones(200)).permutation_p(np.random.default_rng(5), draws=99) == 0.01


def test_swapping_the_arms_mirrors_everything():
    differences = partial_credit()
    one, other = PairedScores.of(differences), PairedScores.of(-differences)
    assert (other.estimate, other.p) == pytest.approx((-one.estimate, one.p))
    rng = np.random.default_rng
    low, high = one.bca_interval(rng(1), resamples=20_000)
    assert other.bca_interval(rng(2), resamples=20_000) == pytest.approx((-high, -low), abs=3e-3)
    assert other.permutation_p(rng(1)) == one.permutation_p(rng(1))


def test_too_few_data_are_none_and_never_zero():
    for differences in ([0.25], [0.5, 0.5, 0.5]):
        found = PairedScores.of(differences)
        assert found.p is None
        assert found.bca_interval(np.random.default_rng(1)) is None
        assert found.permutation_p(np.random.default_rng(1)) > 0.1


def test_many_distinct_values_stay_quick_and_right():
    differences = np.random.default_rng(5).normal(0.01, 0.2, 20_000)
    found = PairedScores.of(differences)
    low, high = found.bca_interval(np.random.default_rng(6), resamples=500)
    of_t = stats.ttest_1samp(differences, 0).confidence_interval()
    assert (low, high) == pytest.approx((of_t.low, of_t.high), abs=5e-4)


@pytest.mark.parametrize("differences", [[], [np.nan], [[0.1]]])
def test_what_is_no_list_of_numbers_is_refused(differences):
    with pytest.raises(ValueError, match="finite numbers"):
        PairedScores.of(differences)
