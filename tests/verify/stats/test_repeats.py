"""Repeats: clustering by question, by server start, and what must not change a result."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from scipy import stats

from verify.stats.bounded import BoundedMean
from verify.stats.repeats import compare_repeats

ARM = arrays(np.float64, (12, 3), elements=st.sampled_from([0.0, 1.0]))


def shifted_arms(shift, items=300, starts=3, seed=5):
    """Two equal arms whose starts move one in five questions' chances by `shift`."""
    rng = np.random.default_rng(seed)
    chance = np.where(rng.random(items) < 0.2, 0.5, 1.0)[:, None]
    moves = shift * rng.normal(size=(2, starts)) * 5

    def arm(move):
        of_start = np.where(chance == 0.5, np.clip(0.5 + move, 0, 1), 1.0)
        return (rng.random((items, starts)) < of_start).astype(float)

    return arm(moves[0]), arm(moves[1])


@settings(max_examples=12, deadline=None)
@given(ARM, ARM, st.sampled_from([None, "aab", "abc"]))
def test_swapping_the_arms_mirrors_everything(base, pr, starts):
    one = compare_repeats(base, pr, base_starts=starts, pr_starts=starts)
    other = compare_repeats(pr, base, base_starts=starts, pr_starts=starts)
    low, high = one.interval()
    assert other.interval() == pytest.approx((-high, -low), abs=1e-6)
    assert other.noninferiority(0.2) == pytest.approx(one.inferiority(-0.2), rel=1e-4)
    assert other.equivalence(0.3) == pytest.approx(one.equivalence(0.3), rel=1e-4)
    assert low <= one.estimate <= high


@settings(max_examples=12, deadline=None)
@given(ARM, ARM, st.permutations(range(12)), st.permutations(range(3)))
def test_order_of_items_and_repeats_is_irrelevant(base, pr, items, repeats):
    starts = np.array(["a", "b", "c"])
    one = compare_repeats(base, pr, base_starts=starts, pr_starts=starts)
    moved = compare_repeats(
        base[items][:, repeats], pr[items], base_starts=starts[repeats], pr_starts=starts
    )
    assert moved.interval() == pytest.approx(one.interval(), abs=1e-6)


@settings(max_examples=12, deadline=None)
@given(ARM, st.integers(0, 3), st.integers(6, 60), st.sampled_from([None, "abc"]))
def test_concordant_questions_narrow_the_interval(base, flipped, more, starts):
    def width(base, pr):
        low, high = compare_repeats(base, pr, base_starts=starts, pr_starts=starts).interval()
        return high - low

    pr = np.vstack([1 - base[:flipped], base[flipped:]])
    agreed = np.ones((more, 3))
    assert width(np.vstack([base, agreed]), np.vstack([pr, agreed])) < width(base, pr)


@settings(max_examples=10, deadline=None)
@given(ARM, ARM)
def test_repeats_that_repeat_themselves_add_nothing(base, pr):
    once = compare_repeats(base[:, :1], pr[:, :1])
    often = compare_repeats(np.repeat(base[:, :1], 16, axis=1), np.repeat(pr[:, :1], 4, axis=1))
    assert often.interval() == once.interval()
    assert often.noninferiority(0.3) == once.noninferiority(0.3)


def test_unequal_and_missing_repeats_compare_item_means():
    base = np.array([[1, 0, 1], [1, np.nan, 1], [0, 0, np.nan]])
    pr = np.array([[1.0, 0], [0, 1], [np.nan, 1]])
    found = compare_repeats(base, pr)
    expected = BoundedMean.of([1 / 2 - 2 / 3, -1 / 2, 1])
    assert found.interval() == pytest.approx(expected.interval(), abs=1e-9)


@pytest.mark.parametrize("shift", [0.0, 0.02])
def test_start_error_is_that_of_welchs_t_on_the_accuracies_of_starts(shift):
    base, pr = shifted_arms(shift)
    found = compare_repeats(base, pr, base_starts="abc", pr_starts="xyz")
    expected = stats.ttest_ind(pr.mean(axis=0), base.mean(axis=0), equal_var=False)
    assert found.estimate / found.start_error == pytest.approx(expected.statistic)
    assert found.start_df == pytest.approx(expected.df)
    assert found.controls_starts
    assert "server starts" in found.method


def test_a_shift_of_whole_starts_widens_the_interval():
    def widths(shift):
        base, pr = shifted_arms(shift, starts=6)
        alone = compare_repeats(base, pr).interval()
        clustered = compare_repeats(base, pr, base_starts="abcdef", pr_starts="abcdef").interval()
        return clustered[1] - clustered[0], alone[1] - alone[0]

    calm, alone = widths(0.0)
    assert alone <= calm < 1.4 * alone
    shaken, alone = widths(0.05)
    assert shaken > 2 * alone


def test_one_start_in_each_arm_is_not_controlled():
    base, pr = shifted_arms(0.02)
    found = compare_repeats(base, pr, base_starts="aaa", pr_starts="bbb")
    assert not found.controls_starts
    assert found.interval() == compare_repeats(base, pr).interval()


def test_one_start_in_one_arm_is_taken_to_vary_like_the_others():
    base, pr = shifted_arms(0.02)
    found = compare_repeats(base, pr[:, :1], base_starts="abc", pr_starts="x")
    assert found.start_df == 2
    assert found.start_error**2 == pytest.approx(base.mean(axis=0).var(ddof=1) * (1 + 1 / 3))


@pytest.mark.parametrize("starts", [None, "abc"])
def test_bound_and_p_value_are_one_test(starts):
    base, pr = shifted_arms(0.01)
    found = compare_repeats(base, pr, base_starts=starts, pr_starts=starts)
    for alpha in (0.001, 0.025, 0.2):
        assert found.noninferiority(-found.lower(alpha)) == pytest.approx(alpha, rel=1e-3)
        assert found.inferiority(-found.upper(alpha)) == pytest.approx(alpha, rel=1e-3)
    assert found.smallest_margin() == pytest.approx(-found.interval()[0])


@pytest.mark.parametrize("items", [1, 2])
def test_a_question_or_two_establish_nothing(items):
    found = compare_repeats(np.ones((items, 16)), np.ones((items, 16)))
    assert found.noninferiority(0.05) > 0.9
    low, high = found.interval()
    assert low < -0.6
    assert high > 0.6


@pytest.mark.parametrize(
    ("base", "pr", "message"),
    [
        (np.ones((3, 2)), np.ones((4, 2)), "base has 3 items and pr 4"),
        (np.ones(3), np.ones((3, 1)), "must be"),
        (np.full((2, 1), 2.0), np.ones((2, 1)), "outside 0 to 1"),
        (np.array([[1.0], [np.nan]]), np.ones((2, 1)), "item 1 has no answer"),
    ],
)
def test_arms_that_do_not_fit_are_refused(base, pr, message):
    with pytest.raises(ValueError, match=message):
        compare_repeats(base, pr)


def test_labels_that_do_not_fit_are_refused():
    with pytest.raises(ValueError, match="2 start labels for 3 repeats"):
        compare_repeats(np.ones((4, 3)), np.ones((4, 3)), base_starts="ab")
