import math
from itertools import product

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from scipy.optimize import minimize_scalar

from verify.stats.table import PairedTable
from verify.stats.tango import (
    TangoDifference,
    detectable_difference,
    items_needed,
    null_variance,
)

COUNTS = st.integers(0, 400)
TABLES = st.builds(PairedTable, COUNTS, COUNTS, COUNTS, COUNTS.map(lambda n: n + 1))
SOURCE = TangoDifference(PairedTable(1275, 7, 3, 29))  # the published pull request, GSM8K


def test_published_interval():
    # Bentur's airway data, Tango (1998), table IV; Newcombe (1998) gives the same figures
    low, high = TangoDifference(PairedTable(1, 7, 1, 12)).interval()
    assert (low, high) == (pytest.approx(-0.517, abs=5e-4), pytest.approx(-0.026, abs=5e-4))


def test_published_pull_request():
    assert 100 * SOURCE.estimate == pytest.approx(-0.304, abs=5e-4)
    assert [100 * end for end in SOURCE.interval()] == pytest.approx([-0.894, 0.202], abs=5e-4)
    margins = {0.005: 0.224, 0.0075: 0.059, 0.01: 0.013}
    assert {m: round(SOURCE.noninferiority(m), 3) for m in margins} == margins
    assert SOURCE.noninferiority(0.02) < 1e-4
    assert 100 * SOURCE.smallest_margin(0.05) == pytest.approx(0.78, abs=5e-3)
    assert 100 * SOURCE.smallest_margin(0.025) == pytest.approx(0.89, abs=5e-3)


@given(TABLES, st.floats(-0.99, 0.99))
def test_null_variance_is_that_of_the_most_likely_table(table, difference):
    """Against a numerical search for the share lost, given the difference."""
    t = table
    lost, gained, agree = t.lost / t.items, t.gained / t.items, (t.both + t.neither) / t.items

    def surprise(q):
        cells = [(lost, q), (gained, q + difference), (agree, 1 - 2 * q - difference)]
        return -sum(seen * math.log(max(p, 1e-300)) for seen, p in cells if seen)

    bounds = (max(0.0, -difference), (1 - difference) / 2)
    found = minimize_scalar(surprise, bounds=bounds, method="bounded", options={"xatol": 1e-12})
    ours = (null_variance(lost, gained, difference) + difference**2 - difference) / 2
    assert surprise(ours) <= found.fun + 1e-7
    assert bounds[0] - 1e-9 <= ours <= bounds[1] + 1e-9


@given(TABLES, st.floats(0, 0.99))
def test_swapping_the_arms_mirrors_everything(table, margin):
    one, other = TangoDifference(table), TangoDifference(table.mirrored)
    assert one.estimate == -other.estimate
    assert one.interval() == pytest.approx([-end for end in reversed(other.interval())], abs=1e-9)
    assert one.equivalence(margin) == pytest.approx(other.equivalence(margin), abs=1e-9)


@given(TABLES, st.integers(1, 1000))
def test_more_agreement_narrows(table, more):
    t = table
    # where nearly all items are lost, or gained, agreement adds variance before it takes it away
    assume(t.lost + t.gained <= t.both + t.neither)
    wider = PairedTable(t.both + more, t.lost, t.gained, t.neither + more)
    narrow, wide = TangoDifference(wider).interval(), TangoDifference(t).interval()
    assert narrow[1] - narrow[0] < wide[1] - wide[0]


@given(TABLES)
def test_interval_test_and_smallest_margin_agree(table):
    found = TangoDifference(table)
    low, high = found.interval()
    assert -1 <= low <= found.estimate <= high <= 1
    smallest = found.smallest_margin()
    assert smallest == max(0.0, -low)
    if 1e-6 < smallest < 1 - 1e-6:
        assert found.noninferiority(smallest + 1e-7) <= 0.025 + 1e-9
        assert found.noninferiority(smallest - 1e-7) > 0.025 - 1e-4
        assert found.noninferiority(smallest - 1e-7) > found.noninferiority(smallest + 1e-7)


@given(TABLES, st.floats(0, 0.98), st.floats(0.001, 0.01))
def test_a_wider_margin_is_easier(table, margin, more):
    found = TangoDifference(table)
    assert found.noninferiority(margin + more) <= found.noninferiority(margin)


@pytest.mark.parametrize("n", [1, 2, 30, 10**6])
def test_no_discordance(n):
    for table in (PairedTable(n, 0, 0, 0), PairedTable(0, 0, 0, n)):
        low, high = TangoDifference(table).interval()
        # closed form of the score at 0 discordant items: n m / (1 - m) = z^2
        m = 1.959964**2 / (n + 1.959964**2)
        assert (low, high) == (pytest.approx(-m, rel=1e-5), pytest.approx(m, rel=1e-5))


@pytest.mark.parametrize("n", [1, 3, 40])
def test_every_item_lost(n):
    found = TangoDifference(PairedTable(0, n, 0, 0))
    low, high = found.interval()
    assert low == -1
    assert -1 < high < 1
    assert found.noninferiority(0.5) > 0.5
    assert found.smallest_margin() == 1


def _probability(table, lost, gained, n):
    ways = math.comb(n, table[0]) * math.comb(n - table[0], table[1])
    rest = n - sum(table)
    return ways * lost ** table[0] * gained ** table[1] * (1 - lost - gained) ** rest


@pytest.mark.parametrize("n", [20, 60])
@pytest.mark.parametrize("psi", [0.1, 0.3])
def test_false_passes_by_enumerating_every_table(n, psi):
    """At the margin itself a pass is false; Tango's level holds closely, not exactly."""
    margin = 0.08
    lost, gained = (psi + margin) / 2, (psi - margin) / 2
    passed = sum(
        _probability((b, c), lost, gained, n)
        for b, c in product(range(n + 1), repeat=2)
        if b + c <= n
        and TangoDifference(PairedTable(n - b - c, b, c, 0)).noninferiority(margin) <= 0.025
    )
    assert passed <= 0.03


@pytest.mark.parametrize(
    ("margin", "psi"), [(0.05, 0.02), (0.05, 0.07), (0.03, 0.0076), (0.1, 0.12)]
)
def test_sizes_have_the_power_they_name(margin, psi):
    """The power at the size found, by enumeration."""
    n = math.ceil(items_needed(margin, psi))
    most = n - 1 if n < 40 else 40
    power = sum(
        _probability((b, c), psi / 2, psi / 2, n)
        for b, c in product(range(most), repeat=2)
        if b + c <= n
        and TangoDifference(PairedTable(n - b - c, b, c, 0)).noninferiority(margin) <= 0.025
    )
    assert 0.74 < power < 0.92  # tables are few, so the power goes in steps


@given(st.integers(1, 10**6), st.floats(0, 1))
def test_detectable_difference_and_size_are_inverse(n, psi):
    found = detectable_difference(n, psi)
    assert 0 < found <= 1
    if found < 1:
        assert items_needed(found, psi) == pytest.approx(n, rel=1e-5)


def test_no_size_shows_that_an_inferior_arm_is_not():
    assert items_needed(0.01, 0.1, difference=-0.01) == math.inf


def test_near_the_wald_formula_where_discordance_dwarfs_the_margin():
    # n = (z + z)^2 psi / margin^2, Liu et al. (2002): 7,420 at 12 %, 1 point, 5 % one-sided
    assert items_needed(0.01, 0.12, alpha=0.05) == pytest.approx(7420, rel=0.01)


def test_arrays_make_the_same_table():
    rng = np.random.default_rng(7)
    base, pr = rng.random(500) < 0.8, rng.random(500) < 0.7
    table = PairedTable.of(base, pr)
    assert table.lost == int((base & ~pr).sum())
    assert table.gained == int((pr & ~base).sum())
    assert table.both == int((base & pr).sum())
    assert table.items == 500
    assert table.difference == pytest.approx(pr.mean() - base.mean())
    order = rng.permutation(500)
    assert PairedTable.of(base[order], pr[order]) == table


@pytest.mark.parametrize("counts", [(0, 0, 0, 0), (-1, 2, 2, 2)])
def test_impossible_tables_are_refused(counts):
    with pytest.raises(ValueError, match="not a table"):
        PairedTable(*counts)


def test_arrays_that_do_not_pair_are_refused():
    with pytest.raises(ValueError, match="do not pair"):
        PairedTable.of([True, False], [True])
