"""A small seeded calibration: false passes and coverage of what decides verdicts."""

from __future__ import annotations

import numpy as np
import pytest
from click.testing import CliRunner

from verify.stats import calibration
from verify.stats.bounded import BoundedMean
from verify.stats.exact import ExactDifference
from verify.stats.populations import Population
from verify.stats.repeats import compare_repeats
from verify.stats.sequential import EProcess
from verify.stats.table import PairedTable
from verify.stats.tango import TangoDifference
from verify.stats.trials import (
    ALPHA,
    CUT,
    METHODS,
    SETTINGS,
    Cell,
    above,
    cells,
    early_stops,
    plain_t,
)

RUNS = 200
CHECKED = [cell for cell in cells() if cell.controlled and cell.setting.can_pass]


def upper_limit(nominal, runs):
    """Three Monte-Carlo standard errors above it; one cell in 700 exceeds that by chance."""
    return nominal + 3 * np.sqrt(nominal * (1 - nominal) / runs)


def test_every_kind_of_run_is_checked():
    assert {cell.setting.name for cell in CHECKED} == {"GSM8K-like", "GPQA-like", "AIME-like"}
    assert {cell.repeats for cell in CHECKED} == {1, 2, 4, 16}
    assert {cell.method for cell in CHECKED} == set(METHODS)
    assert {cell.scenario for cell in CHECKED} == {
        "loss spread over flipping questions",
        "loss in broken questions",
        "questions shift both ways",
        "identical repeats",
        "starts shift runs, a start a repeat",
        CUT,
    }


def test_no_method_passes_falsely_or_covers_too_little():
    rates = {cell: cell.rates(RUNS, np.random.default_rng(11)) for cell in CHECKED}
    for cell, found in rates.items():
        where = f"{cell.setting}, {cell.scenario}, {cell.repeats} repeats, {cell.method}"
        assert found.false_pass <= upper_limit(ALPHA, RUNS), where
        if cell.scenario == CUT:  # an interval of answers as graded says nothing of the cut ones
            continue
        for coverage in (found.coverage_at_margin, found.coverage_at_zero):
            assert 1 - coverage <= upper_limit(0.06, RUNS), where
    assert np.mean([found.false_pass for found in rates.values()]) <= ALPHA
    assert np.mean([found.power for found in rates.values()]) > 0.4


def test_a_plain_clustered_t_would_be_caught():
    cell = next(
        c
        for c in cells()
        if c.setting.items == 30 and c.repeats == 16 and c.scenario == "loss in broken questions"
    )
    found = cell.rates(1000, np.random.default_rng(12))
    assert found.plain_t > upper_limit(ALPHA, 1000)
    assert found.false_pass == 0


def test_one_start_an_arm_is_rightly_called_not_controlled():
    cell = next(c for c in cells() if not c.controlled and c.repeats == 16)
    assert cell.rates(500, np.random.default_rng(13)).false_pass > 0.1


@pytest.mark.parametrize(
    ("setting", "repeats"), [(SETTINGS[0], 1), (SETTINGS[1], 4), (SETTINGS[3], 1)]
)
def test_looks_after_every_question_keep_their_level(setting, repeats):
    found = early_stops(setting, repeats, 150, np.random.default_rng(14))
    assert found.false_alarm <= upper_limit(0.05, 150)
    assert found.false_pass <= upper_limit(ALPHA, 150)
    assert 1 - found.coverage <= upper_limit(0.05, 150)
    assert found.questions_to_stop < 40


def test_simulated_bounds_are_those_of_the_library():
    """The vectorised trials decide as the functions that verdicts call, run by run."""
    rng = np.random.default_rng(15)
    runs = Population(tossed=0.1, broken=0.01).runs(100, 1, 30, rng)
    for row, *passed in zip(
        runs.counts,
        *(above(runs, METHODS[m], -0.06) for m in ("Tango", "exact", "clustered")),
        strict=True,
    ):
        lost, same, gained = (int(count) for count in row)
        table = PairedTable(same, lost, gained, 0)
        single = [
            TangoDifference(table).noninferiority(0.06),
            ExactDifference(lost, gained, 100).noninferiority(0.06),
            BoundedMean(runs.values, row).p_at_most(-0.06),
        ]
        assert passed == [p <= ALPHA for p in single]


def test_simulated_starts_are_those_of_the_library():
    population, items, repeats, margin = Population(tossed=0.4, broken=0.02), 80, 4, 0.12
    moves = np.random.default_rng(16).normal(0, 0.03, (2, 40, repeats))
    base, pr, others = population.answers(items, 40, tuple(moves), np.random.default_rng(17))

    class Replayed(Population):
        def answers(self, *_):
            return base, pr, others

    runs = Replayed(0.4, 0.02).shaken_runs(
        items, repeats, 40, np.random.default_rng(18), start_sd=0.03, alpha=ALPHA, one_start=False
    )
    passed = above(runs, METHODS["clustered"], -margin)
    assert 0 < passed.sum() < 40
    for i in range(40):
        rest = np.ones((items - base.shape[1], repeats))
        pr_rest = rest.copy()
        pr_rest[: int(others[i, 0])] = 0  # mended items do not occur in this population
        found = compare_repeats(
            np.vstack([base[i], rest]),
            np.vstack([pr[i], pr_rest]),
            base_starts="abcd",
            pr_starts="efgh",
        )
        assert (found.noninferiority(margin) <= ALPHA) == passed[i]


def test_plain_t_is_the_t_test():
    from scipy import stats

    runs = Population(tossed=0.3).runs(50, 3, 5, np.random.default_rng(19))
    for row, p in zip(runs.counts, plain_t(runs, np.full(5, -0.1)), strict=True):
        sample = np.repeat(runs.values, row.astype(int))
        expected = stats.ttest_1samp(sample, -0.1, alternative="greater").pvalue
        assert p == pytest.approx(expected)


def test_the_command_writes_its_page(tmp_path, monkeypatch):
    few = [c for c in cells() if c.setting.items == 30 and c.repeats == 2][:2]
    monkeypatch.setattr(calibration, "cells", lambda: iter(few))
    monkeypatch.setattr(calibration, "SETTINGS", SETTINGS[3:])
    page = tmp_path / "calibration.md"
    result = CliRunner().invoke(
        calibration.command, ["--simulations", "40", "--out", str(page)], catch_exceptions=False
    )
    assert result.exit_code == 0
    text = page.read_text(encoding="utf-8")
    assert "--simulations 40 --seed 1" in text
    assert all(isinstance(c, Cell) and c.scenario in text for c in few)
    assert not list(tmp_path.glob("*.tmp"))


@pytest.mark.parametrize("items", [30, 198, 1319])
def test_bounds_that_are_proved_need_larger_margins(items):
    gaffke, betting, *others = calibration.flawless_margins(items)
    assert gaffke == pytest.approx(-BoundedMean.of(np.zeros(items)).lower(ALPHA), rel=1e-6)
    assert gaffke < betting < min(others)
    assert EProcess.certificate(betting).update(np.zeros(items))[-1] == pytest.approx(1 / ALPHA)
