"""Sizes: the published table, the limits no repeat can pass, and power by simulation."""

from __future__ import annotations

import numpy as np
import pytest

from verify.stats.bounded import BoundedMean
from verify.stats.sizes import (
    answers_needed,
    detectable_margin,
    items_needed,
    least_items,
    least_margin,
    repeats_needed,
)


@pytest.mark.parametrize(
    ("flips", "needed"),
    [
        (0.0076, [1880, 470, 118, 53, 19]),
        (0.03, [7420, 1855, 464, 207, 75]),
        (0.12, [29677, 7420, 1855, 825, 297]),
    ],
)
def test_table_of_questions_times_repeats(flips, needed):
    margins = (0.005, 0.01, 0.02, 0.03, 0.05)
    assert [answers_needed(flips, margin, alpha=0.05) for margin in margins] == needed


def test_a_true_loss_takes_more_answers():
    # (1.959964 + 0.841621)^2 (0.03 - 0.01^2) / (0.02 - 0.01)^2 = 2346.8
    assert answers_needed(0.03, 0.02, difference=-0.01) == 2347


@pytest.mark.parametrize("items", [30, 198, 1319])
def test_least_margin_is_where_a_run_without_flips_just_passes(items):
    unmoved = BoundedMean(np.array([0.0]), np.array([float(items)]))
    margin = least_margin(items)
    assert unmoved.p_at_most(-margin) == pytest.approx(0.025, rel=1e-5)
    assert least_items(margin) == items
    assert least_items(margin * 0.99) > items


@pytest.mark.parametrize(
    ("items", "repeats", "flips", "shifts"),
    [(1319, 1, 0.01, 0.0), (198, 4, 0.12, 0.0), (198, 16, 0.12, 0.02), (60, 16, 0.2, 0.0)],
)
def test_detectable_margin_has_the_power_it_says(items, repeats, flips, shifts):
    margin = detectable_margin(items, (repeats, repeats), flips, shifts=shifts)
    rng, passed = np.random.default_rng(8), 0
    runs = 600
    for _ in range(runs):
        noise = 2 * (flips - shifts)  # a fair coin disagrees with itself half the time
        kind = rng.random(items)
        d = (rng.binomial(repeats, 0.5, items) - rng.binomial(repeats, 0.5, items)) / repeats
        d = np.where(kind < noise, d, 0.0)
        d = np.where(kind > 1 - shifts, rng.choice([-1.0, 1.0], items), d)
        passed += BoundedMean.of(d).p_at_most(-margin) <= 0.025
    assert passed / runs == pytest.approx(0.8, abs=0.09)


def test_items_and_repeats_that_settle_a_suite():
    needed = items_needed(0.03, (4, 4), 0.12)
    assert detectable_margin(needed, (4, 4), 0.12) <= 0.03
    assert detectable_margin(needed - 1, (4, 4), 0.12) > 0.03
    repeats = repeats_needed(198, 0.03, 0.12)
    assert detectable_margin(198, (repeats, repeats), 0.12) <= 0.03
    assert detectable_margin(198, (repeats - 1, repeats - 1), 0.12) > 0.03


def test_no_repeats_make_thirty_questions_pass_five_points():
    assert repeats_needed(30, 0.05, 0.07) is None
    assert least_margin(30) > 0.11


def test_an_inferior_arm_needs_no_size():
    with pytest.raises(ValueError, match="inferior"):
        answers_needed(0.02, 0.01, difference=-0.01)
