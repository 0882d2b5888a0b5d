"""Truncation: bounds against every completion of the censored answers, cap rates and lengths."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from scipy import stats

from verify.stats.truncation import best_case, cap_rate_change, length_change, worst_case


def test_bounds_are_the_extremes_over_all_completions():
    rng = np.random.default_rng(1)
    base, pr = (rng.random((6, 2)) < 0.7).astype(float), (rng.random((6, 2)) < 0.7).astype(float)
    base[5, 1] = np.nan
    cut = rng.random((2, 6, 2)) < 0.3
    arms = np.stack([base, pr])
    censored = np.argwhere(cut & ~np.isnan(arms))
    assert 3 <= len(censored) <= 10
    differences = []
    for completion in itertools.product([0.0, 1.0], repeat=len(censored)):
        completed = arms.copy()
        completed[tuple(censored.T)] = completion
        of_item = np.nanmean(completed, axis=2)
        differences.append((of_item[1] - of_item[0]).mean())
    assert worst_case(base, pr, *cut).difference == pytest.approx(min(differences))
    assert best_case(base, pr, *cut).difference == pytest.approx(max(differences))


def test_without_truncation_nothing_changes():
    scores = np.array([[1.0, 0], [0, np.nan]])
    nothing = np.zeros((2, 2), dtype=bool)
    found = worst_case(scores, scores, nothing, nothing)
    np.testing.assert_array_equal(found.base, scores)
    np.testing.assert_array_equal(found.pr, scores)


def test_a_missing_answer_stays_missing():
    missing, flagged = np.array([[np.nan, 1.0]]), np.ones((1, 2), dtype=bool)
    found = worst_case(missing, missing, flagged, flagged)
    np.testing.assert_array_equal(found.base, [[np.nan, 1.0]])
    np.testing.assert_array_equal(found.pr, [[np.nan, 0.0]])


def test_cap_rate_of_single_answers_is_mcnemars_test():
    base, pr = np.zeros((100, 1)), np.zeros((100, 1))
    base[:16] = 1
    pr[4:12] = 1
    pr[50:52] = 1
    found = cap_rate_change(base, pr, np.random.default_rng(2))
    assert found.difference.estimate == pytest.approx(-0.06)
    assert found.p == pytest.approx(stats.binomtest(2, 10).pvalue, abs=0.01)


def test_length_change_is_a_ratio():
    rng = np.random.default_rng(3)
    base = rng.integers(200, 900, (300, 2))
    found = length_change(base, base * 1.05 * np.exp(0.1 * rng.normal(size=(300, 2))))
    assert found.ratio == pytest.approx(1.05, abs=0.02)
    assert found.logs.p < 0.001


def test_flags_that_do_not_fit_are_refused():
    with pytest.raises(ValueError, match="truncation flags"):
        worst_case(np.ones((3, 1)), np.ones((3, 1)), np.ones(3), np.ones((3, 1)))
