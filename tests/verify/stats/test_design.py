"""The method follows from the design of the run, and the limit between two of them is earned."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from verify.stats.design import EXACT_BELOW, compare
from verify.stats.tango import score


@pytest.mark.parametrize(
    ("items", "repeats", "method"),
    [
        (30, (1, 1), "exact unconditional, Tango order, Berger-Boos"),
        (EXACT_BELOW, (1, 1), "Tango score"),
        (1319, (4, 4), "Gaffke bound on item means"),
        (30, (1, 4), "Gaffke bound on item means"),
    ],
)
@pytest.mark.parametrize("lost", [0, 6])
def test_items_and_repeats_settle_the_method(items, repeats, method, lost):
    base, pr = np.ones((items, repeats[0])), np.ones((items, repeats[1]))
    pr[:lost] = 0
    found = compare(base, pr)
    assert found.method == method
    assert found.estimate == pytest.approx(-lost / items)
    low, high = found.interval()
    assert low < found.estimate <= high
    assert found.smallest_margin() == pytest.approx(-low, abs=1e-5)
    assert found.noninferiority(-low + 0.01) < 0.025 < found.noninferiority(-low - 0.001)
    assert found.equivalence(0.9) < 0.01


def test_starts_partial_credit_and_gaps_are_clustered():
    base = np.ones((40, 2))
    assert "server starts" in compare(base, base, base_starts="ab", pr_starts="cd").method
    half = np.full((40, 1), 0.5)
    assert compare(half, half).method == "Gaffke bound on item means"


def largest_error(items, margin):
    """The largest chance, over shares of discordant questions, of a false pass by Tango."""
    lost, gained = np.indices((items + 1, items + 1))
    possible = lost + gained <= items
    lost, gained = lost[possible], gained[possible]
    passing = score(lost, gained, items, -margin) >= stats.norm.isf(0.025)
    lost, gained = lost[passing], gained[passing]
    errors = []
    for share in np.linspace(margin, 1, 60):
        of_lost = (1 + margin / share) / 2
        discordant = lost + gained
        chance = stats.binom.pmf(discordant, items, share)
        errors.append(float(chance @ stats.binom.pmf(lost, discordant, of_lost)))
    return max(errors)


def test_tango_is_used_where_it_keeps_its_level():
    assert largest_error(EXACT_BELOW, 0.03) <= 0.027
    assert largest_error(30, 0.03) > 0.03
