"""Betting: its closed form, its level at any time, and how soon it stops a broken kernel."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.integrate import quad

from verify.stats.sequential import EProcess, confidence_sequence

DIFFERENCES = st.lists(st.sampled_from([-1.0, -0.5, 0.0, 0.25, 1.0]), min_size=1, max_size=40)


def questions(rng, difference, flips, shape):
    """Differences of single answers: -1 lost, 1 gained, 0 the same."""
    lost, gained = (flips - difference) / 2, (flips + difference) / 2
    u = rng.random(shape)
    return np.where(u < lost, -1.0, np.where(u < lost + gained, 1.0, 0.0))


@pytest.mark.parametrize(("lost", "gained"), [(7, 3), (12, 0), (0, 5), (30, 22)])
def test_against_no_harm_it_is_the_mixture_likelihood_ratio(lost, gained):
    process = EProcess.harm(0.0)
    process.update([-1.0] * lost + [1.0] * gained + [0.0] * 100)
    integral = quad(lambda share: share**lost * (1 - share) ** gained, 0.5, 1)[0]
    assert process.e_value == pytest.approx(2 ** (lost + gained) * 2 * integral, rel=2e-3)


@pytest.mark.parametrize(
    ("make", "difference", "flips"),
    [
        (EProcess.harm, -0.02, 0.03),
        (EProcess.harm, -0.02, 0.02),
        (EProcess.certificate, -0.02, 0.03),
        (EProcess.certificate, -0.02, 0.02),
    ],
)
def test_at_its_boundary_it_seldom_ever_reaches_twenty(make, difference, flips):
    runs = questions(np.random.default_rng(4), difference, flips, (400, 400))
    reached = np.mean([make(0.02).update(run).max() >= 20 for run in runs])
    assert reached <= 0.05 + 3 * np.sqrt(0.05 * 0.95 / 400)


def test_at_its_boundary_wealth_does_not_grow_on_average():
    """Exactly, over all sequences of four questions with four possible differences."""
    values, chances = np.array([-1.0, -0.5, 0.0, 1.0]), np.array([0.2, 0.1, 0.6, 0.1])
    margin = -float(values @ chances)
    for process in (EProcess.harm, EProcess.certificate):
        mean = 0.0
        for index in np.ndindex(4, 4, 4, 4):
            mean += np.prod(chances[list(index)]) * process(margin).update(values[list(index)])[-1]
        assert mean == pytest.approx(1.0)


def test_a_broken_kernel_is_stopped_after_some_fifteen_questions():
    runs = questions(np.random.default_rng(5), -0.48, 0.52, (300, 120))
    stops = [int(np.argmax(EProcess.harm(0.01).update(run) >= 20)) + 1 for run in runs]
    assert 10 <= np.median(stops) <= 18


def test_a_loss_inside_the_margin_does_not_stop_a_run():
    runs = questions(np.random.default_rng(6), -0.005, 0.02, (200, 1000))
    assert np.mean([EProcess.harm(0.01).update(run).max() >= 20 for run in runs]) <= 0.01


@settings(max_examples=30, deadline=None)
@given(DIFFERENCES, st.integers(0, 40))
def test_updates_may_come_in_any_portions(differences, cut):
    whole, parts = EProcess.harm(0.1), EProcess.harm(0.1)
    path = whole.update(differences)
    both = np.concatenate([parts.update(differences[:cut]), parts.update(differences[cut:])])
    assert both == pytest.approx(path)
    assert parts.peak == pytest.approx(max(1.0, path.max()))
    assert whole.e_value == pytest.approx(path[-1])
    assert parts.questions == len(differences)


@settings(max_examples=30, deadline=None)
@given(DIFFERENCES)
def test_confidence_sequence_mirrors_and_holds_the_mean(differences):
    low, high = confidence_sequence(differences)
    mirrored = confidence_sequence([-d for d in differences])
    assert mirrored == pytest.approx((-high, -low), abs=1e-6)
    assert -1 <= low <= np.mean(differences) <= high <= 1


def test_confidence_sequence_covers_at_every_look():
    rng, inside = np.random.default_rng(7), []
    for run in questions(rng, -0.05, 0.15, (100, 256)):
        looks = [confidence_sequence(run[:n]) for n in (1, 4, 16, 64, 256)]
        inside.append(all(low <= -0.05 <= high for low, high in looks))
    assert np.mean(inside) >= 0.95 - 3 * np.sqrt(0.05 * 0.95 / 100)


def test_confidence_sequence_and_e_process_are_one_test():
    differences = [-1.0] * 9 + [1.0] * 2 + [0.0] * 60
    low, high = confidence_sequence(differences, 0.95)
    harm, certificate = EProcess.harm(-high), EProcess.certificate(-low)
    assert harm.update(differences)[-1] == pytest.approx(40, rel=1e-4)
    assert certificate.update(differences)[-1] == pytest.approx(40, rel=1e-4)


def test_no_question_establishes_nothing():
    assert confidence_sequence([]) == (-1.0, 1.0)
    process = EProcess.harm(0.01)
    assert process.update([]).size == 0
    assert (process.e_value, process.p) == (1.0, 1.0)


def test_a_million_losses_leave_a_finite_number():
    process = EProcess.harm(0.01)
    process.update(np.full(10_000, -1.0))
    assert np.isfinite(process.e_value)
    assert process.p < 1e-200


@pytest.mark.parametrize("differences", [[1.5], [np.nan], [[0.0]]])
def test_values_outside_the_range_are_refused(differences):
    with pytest.raises(ValueError, match="between -1 and 1"):
        EProcess.harm(0.1).update(differences)


def test_a_margin_outside_the_range_is_refused():
    with pytest.raises(ValueError, match="between -1 and 1"):
        EProcess.harm(1.0)
