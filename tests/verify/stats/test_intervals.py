import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import binom, binomtest
from statsmodels.stats.proportion import proportion_confint

from verify.stats.binomial import clopper_pearson, wilson
from verify.stats.newcombe import newcombe_interval
from verify.stats.table import PairedTable
from verify.stats.tango import TangoDifference

COUNTS = st.integers(0, 300)
TABLES = st.builds(PairedTable, COUNTS, COUNTS, COUNTS, COUNTS.map(lambda n: n + 1))
SHARES = st.integers(1, 500).flatmap(lambda n: st.tuples(st.integers(0, n), st.just(n)))


@given(SHARES)
def test_one_proportion_against_scipy_and_statsmodels(share):
    expected = binomtest(*share).proportion_ci(method="exact")
    assert clopper_pearson(*share) == pytest.approx((expected.low, expected.high), abs=1e-9)
    assert wilson(*share) == pytest.approx(proportion_confint(*share, method="wilson"), abs=1e-9)


@pytest.mark.parametrize("n", [1, 5, 30])
def test_clopper_pearson_ends_are_exact(n):
    for k in range(n + 1):
        low, high = clopper_pearson(k, n, 0.95)
        if k > 0:
            assert binom.sf(k - 1, n, low) == pytest.approx(0.025)
        if k < n:
            assert binom.cdf(k, n, high) == pytest.approx(0.025)


def test_newcombe_published():
    # Newcombe (1998), method 10, Bentur's airway data: -0.507 to -0.026
    interval = newcombe_interval(PairedTable(1, 7, 1, 12))
    assert interval == pytest.approx((-0.507, -0.026), abs=5e-4)
    # the published pull request
    interval = newcombe_interval(PairedTable(1275, 7, 3, 29))
    assert [100 * end for end in interval] == pytest.approx([-0.891, 0.239], abs=1e-3)


@given(TABLES)
def test_newcombe_mirrors_and_stays_inside(table):
    low, high = newcombe_interval(table)
    mirrored = newcombe_interval(table.mirrored)
    assert (low, high) == pytest.approx((-mirrored[1], -mirrored[0]), abs=1e-12)
    assert -1 <= low <= table.difference <= high <= 1


@given(st.integers(200, 2000), st.integers(1, 30), st.integers(1, 30), st.integers(60, 400))
def test_newcombe_and_tango_agree_on_ordinary_tables(both, lost, gained, neither):
    table = PairedTable(both, lost, gained, neither)
    tango, newcombe = TangoDifference(table).interval(), newcombe_interval(table)
    width = tango[1] - tango[0]
    assert tango == pytest.approx(newcombe, abs=0.2 * width)
