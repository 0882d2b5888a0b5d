"""The exact unconditional test against brute-force enumeration and the source's published table."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import special, stats

from verify.stats.exact import ExactDifference
from verify.stats.tango import score


def trinomial(lost, gained, items, p_lost, p_gained):
    agreed = items - lost - gained
    ways = math.factorial(items) / math.prod(map(math.factorial, (lost, gained, agreed)))
    return ways * p_lost**lost * p_gained**gained * (1 - p_lost - p_gained) ** agreed


def tables(items):
    return [(b, c) for b in range(items + 1) for c in range(items + 1 - b)]


@pytest.mark.parametrize(
    ("margin", "p"), [(0.005, 0.248), (0.0075, 0.059), (0.01, 0.010), (0.02, 1e-4)]
)
def test_the_source_pull_request(margin, p):
    found = ExactDifference(lost=7, gained=3, items=1314).noninferiority(margin)
    assert found == pytest.approx(p, abs=6e-4)


@pytest.mark.parametrize("items", [1, 4, 6])
@pytest.mark.parametrize("difference", [-0.3, -0.1, 0.0, 0.2])
def test_p_value_by_enumeration(items, difference):
    gamma = 1e-4
    for lost, gained in tables(items):
        seen = score(lost, gained, items, difference)
        extreme = [t for t in tables(items) if score(*t, items, difference) >= seen - 1e-9]
        nuisance = stats.binomtest(lost + gained, items).proportion_ci(1 - gamma, method="exact")
        low = max(nuisance.low, abs(difference))
        expected = gamma
        if low <= nuisance.high:
            expected += max(
                sum(
                    trinomial(*t, items, (s - difference) / 2, (s + difference) / 2)
                    for t in extreme
                )
                for s in np.linspace(low, nuisance.high, 801)
            )
        found = ExactDifference(lost, gained, items, gamma).p_at_most(difference)
        assert found == pytest.approx(min(1, expected), abs=2e-5), (lost, gained)


@pytest.mark.parametrize("items", [6, 12])
def test_level_holds_on_and_inside_the_hypothesis_exact(items):
    alpha, margin = 0.05, 0.2
    passing = [
        t for t in tables(items) if ExactDifference(*t, items).noninferiority(margin) <= alpha
    ]
    assert passing
    for loss in (margin, 0.3, 0.6):
        for p_gained in np.linspace(0, (1 - loss) / 2, 25):
            p_lost = p_gained + loss
            level = sum(trinomial(*t, items, p_lost, p_gained) for t in passing)
            assert level <= alpha


@pytest.mark.parametrize("difference", [-0.4, -0.01, 0.0, 0.3])
def test_score_takes_the_variance_of_the_likeliest_table_at_the_difference(difference):
    for lost, gained in [(0, 0), (7, 3), (0, 9), (12, 0), (20, 20)]:
        items, agreed = 60, 60 - lost - gained
        # the likeliest p_lost, by search; p_gained = p_lost + difference
        p_lost = np.linspace(max(0, -difference), (1 - difference) / 2, 200_001)[1:-1]
        with np.errstate(divide="ignore", invalid="ignore"):
            likelihood = (
                special.xlogy(lost, p_lost)
                + special.xlogy(gained, p_lost + difference)
                + special.xlogy(agreed, 1 - 2 * p_lost - difference)
            )
        best = p_lost[np.argmax(likelihood)]
        variance = (2 * best + difference - difference**2) * items
        expected = (gained - lost - items * difference) / np.sqrt(variance)
        found = float(score(lost, gained, items, difference))
        if abs(gained - lost - items * difference) > 1e-9:
            assert found == pytest.approx(expected, rel=2e-2)


def test_without_flips_the_p_value_is_that_of_no_loss_seen():
    found = ExactDifference(0, 0, 30).noninferiority(0.05)
    assert found == pytest.approx(0.95**30, abs=2e-4)


@settings(max_examples=8, deadline=None)
@given(st.integers(0, 9), st.integers(0, 9), st.integers(20, 60))
def test_swapping_the_arms_mirrors_everything(lost, gained, items):
    one, other = ExactDifference(lost, gained, items), ExactDifference(gained, lost, items)
    low, high = one.interval()
    assert other.interval() == pytest.approx((-high, -low), abs=1e-5)
    assert low <= one.estimate <= high
    assert one.equivalence(0.3) == pytest.approx(other.equivalence(0.3))


@settings(max_examples=8, deadline=None)
@given(st.integers(0, 6), st.integers(0, 6), st.integers(15, 40), st.integers(5, 40))
def test_concordant_questions_narrow_the_interval(lost, gained, items, more):
    low, high = ExactDifference(lost, gained, items).interval()
    narrower = ExactDifference(lost, gained, items + more).interval()
    assert narrower[1] - narrower[0] < high - low


def test_bound_and_p_value_are_one_test():
    table = ExactDifference(10, 4, 50)
    margin = table.smallest_margin(0.025)
    assert table.noninferiority(margin - 1e-3) > 0.025 > table.noninferiority(margin + 1e-3)


@pytest.mark.parametrize("table", [(-1, 0, 5), (3, 3, 5), (0, 0, 0)])
def test_impossible_tables_are_refused(table):
    with pytest.raises(ValueError, match="do not fit"):
        ExactDifference(*table)


def test_a_difference_beyond_one_is_refused():
    with pytest.raises(ValueError, match="between -1 and 1"):
        ExactDifference(1, 1, 5).noninferiority(1.0)
