from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st
from statsmodels.stats.contingency_tables import mcnemar as statsmodels_mcnemar

from verify.stats.mcnemar import harm, mcnemar

COUNTS = st.integers(0, 60)


@given(COUNTS, COUNTS)
def test_exact_p_is_that_of_statsmodels(lost, gained):
    expected = statsmodels_mcnemar([[5, lost], [gained, 5]], exact=True).pvalue
    assert mcnemar(lost, gained).exact == pytest.approx(expected, abs=1e-12)


@pytest.mark.parametrize("n", range(9))
def test_p_values_by_enumerating_every_outcome(n):
    losses = [sum(outcome) for outcome in product((0, 1), repeat=n)]
    for lost in range(n + 1):
        gained = n - lost
        further = [abs(2 * k - n) > abs(lost - gained) for k in losses]
        as_far = [abs(2 * k - n) == abs(lost - gained) for k in losses]
        found = mcnemar(lost, gained)
        assert found.exact == pytest.approx((sum(further) + sum(as_far)) / 2**n)
        # mid-p halves what is as extreme as the table seen
        assert found.midp == pytest.approx((sum(further) + sum(as_far) / 2) / 2**n) or (
            lost == gained and found.midp == 1
        )
        assert harm(lost, gained) == pytest.approx(sum(k >= lost for k in losses) / 2**n)


def test_published_pull_request():
    # 7 lost, 3 gained of 1,314 GSM8K questions
    assert mcnemar(7, 3).exact == pytest.approx(0.344, abs=5e-4)
    assert mcnemar(7, 3).midp == pytest.approx(0.227, abs=5e-4)
    assert harm(7, 3) == pytest.approx(0.172, abs=5e-4)


@given(COUNTS, COUNTS)
def test_two_sided_p_values_do_not_know_which_arm_is_which(lost, gained):
    assert mcnemar(lost, gained) == mcnemar(gained, lost)
    assert mcnemar(lost, gained).midp <= mcnemar(lost, gained).exact


def test_nothing_discordant():
    assert mcnemar(0, 0).exact == mcnemar(0, 0).midp == harm(0, 0) == 1
