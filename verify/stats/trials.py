"""Trials of the methods that can decide a verdict, on suites whose truth is known.

Suites like GSM8K, GPQA and AIME (`verify.stats.populations`): at the boundary of non-inferiority
a pass is false; where the arms are equal it is right. `verify.stats.calibration` writes the table.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cache
from typing import TYPE_CHECKING

import numpy as np
from scipy.stats import norm
from scipy.stats import t as student

from verify.stats.bounded import dirichlet_mean_cdf
from verify.stats.design import EXACT_BELOW
from verify.stats.exact import ExactDifference
from verify.stats.populations import Population, Runs
from verify.stats.sequential import EProcess, confidence_sequence
from verify.stats.sizes import least_margin
from verify.stats.tango import score

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from numpy.typing import NDArray

    from verify.stats.bounded import FloatArray

    BoolArray = NDArray[np.bool_]
    Method = Callable[[Runs, FloatArray], FloatArray]
    Law = Callable[[float], Population]
    Draw = Callable[[float, int, np.random.Generator], Runs]

ALPHA = 0.025
REPEATS = (1, 2, 4, 16)
CUT = "cut answers counted against PR"


@dataclass(frozen=True)
class Setting:
    """A suite: its size, the margin, an arm's flips against itself, and shifts of its starts."""

    name: str
    items: int
    margin: float
    flips: float
    start_sd: float
    """Standard deviation of what a server start adds to a whole run's accuracy."""

    @property
    def can_pass(self) -> bool:
        """Whether a run of this size without a single flip passes the margin."""
        return least_margin(self.items) <= self.margin

    @property
    def calm(self) -> Population:
        """The population without loss: a fair toss disagrees with itself half the time."""
        return Population(tossed=2 * self.flips)


SETTINGS = (
    Setting("GSM8K-like", 1319, 0.01, 0.02, 0.005),
    Setting("GPQA-like", 198, 0.03, 0.06, 0.02),
    Setting("AIME-like", 30, 0.05, 0.10, 0.03),
    Setting("AIME-like", 30, 0.20, 0.10, 0.03),
)


def bounded_mean(runs: Runs, thresholds: FloatArray) -> FloatArray:
    """p-values of "the difference is this or less" by the bounded mean, [runs]."""
    weights = np.column_stack([runs.counts[:, :1] + 1, runs.counts[:, 1:]])
    seen = weights.any(axis=0)
    table = np.column_stack([weights[:, seen], thresholds])
    rows, inverse = np.unique(table, axis=0, return_inverse=True)
    return dirichlet_mean_cdf(runs.values[seen], rows[:, :-1], rows[:, -1])[inverse.ravel()]


def tango(runs: Runs, thresholds: FloatArray) -> FloatArray:
    """Likewise by Tango's score; one answer an item."""
    items = int(runs.counts[0].sum())
    z = [
        score(row[0], row[2], items, float(d))
        for row, d in zip(runs.counts, thresholds, strict=True)
    ]
    return np.asarray(norm.sf(z))


def exact(runs: Runs, thresholds: FloatArray) -> FloatArray:
    """Likewise by the exact unconditional test; one answer an item."""
    items = int(runs.counts[0].sum())
    return np.array(
        [
            _exact_p(int(row[0]), int(row[2]), items, float(d))
            for row, d in zip(runs.counts, thresholds, strict=True)
        ]
    )


@cache
def _exact_p(lost: int, gained: int, items: int, difference: float) -> float:
    return ExactDifference(lost, gained, items).p_at_most(difference)


def plain_t(runs: Runs, thresholds: FloatArray) -> FloatArray:
    """Likewise by a t test on the items' differences, which no verdict uses; 0 without variance."""
    items, estimates = runs.counts[0].sum(), runs.estimates
    mean_square = runs.counts @ runs.values**2 / items
    errors = np.sqrt(np.maximum(mean_square - estimates**2, 0) / (items - 1))
    with np.errstate(divide="ignore", invalid="ignore"):
        t = (estimates - thresholds) / errors
    return np.asarray(np.where(errors > 1e-12, student.sf(t, items - 1), estimates <= thresholds))


METHODS: dict[str, Method] = {"Tango": tango, "exact": exact, "clustered": bounded_mean}


def above(runs: Runs, method: Method, difference: float) -> BoolArray:
    """Whether each run's lower bound lies above `difference`, [runs]."""
    distance = runs.estimates - difference
    left = np.sqrt(np.maximum(distance**2 - runs.shifts, 0))
    thresholds = np.where(runs.shifts > 0, runs.estimates - left, difference)
    return (distance > 0) & (left > 0) & (method(runs, thresholds) <= ALPHA)


def covered(runs: Runs, method: Method, difference: float) -> float:
    """The share of runs whose 95 % interval holds `difference`."""
    outside = above(runs, method, difference) | above(runs.mirrored, method, -difference)
    return float(1 - outside.mean())


@dataclass(frozen=True)
class Rates:
    """What a method did on simulated runs: shares of them."""

    runs: int
    false_pass: float
    plain_t: float
    """False passes of a t test on the same runs."""

    coverage_at_margin: float
    coverage_at_zero: float
    power: float

    @property
    def error(self) -> float:
        """Two Monte-Carlo standard errors of `false_pass`, or of the nominal level if larger."""
        p = max(self.false_pass, ALPHA)
        return float(2 * np.sqrt(p * (1 - p) / self.runs))


@dataclass(frozen=True)
class Cell:
    """One row of the table: a scenario, a method, and where its runs come from."""

    setting: Setting
    scenario: str
    repeats: int
    method: str
    draw: Callable[[float, int, np.random.Generator], Runs]
    """Runs in which PR's true loss is so much."""

    controlled: bool = True
    """False where the method does not claim to allow for what the scenario does."""

    def rates(self, runs: int, rng: np.random.Generator) -> Rates:
        """Simulate so many runs at the margin, and as many without loss."""
        method, margin = METHODS[self.method], self.setting.margin
        at_margin, at_zero = self.draw(margin, runs, rng), self.draw(0.0, runs, rng)
        return Rates(
            runs,
            float(above(at_margin, method, -margin).mean()),
            float(above(replace(at_margin, shifts=np.zeros(runs)), plain_t, -margin).mean()),
            covered(at_margin, method, -margin),
            covered(at_zero, method, 0.0),
            float(above(at_zero, method, -margin).mean()),
        )


def cells() -> Iterator[Cell]:
    """Every row of the table."""
    for setting in SETTINGS:
        for repeats in REPEATS:
            methods = ["clustered"] if repeats > 1 else ["Tango"]
            if repeats == 1 and setting.items < EXACT_BELOW:
                methods.append("exact")
            for scenario, draw in _scenarios(setting, repeats):
                for method in methods:
                    yield Cell(setting, scenario, repeats, method, draw)
            one, own = (_shaken(setting, repeats, one_start=shared) for shared in (True, False))
            name = "starts shift runs, one start an arm"
            yield Cell(setting, name, repeats, methods[-1], one, controlled=False)
            if repeats > 1:
                yield Cell(
                    setting, "starts shift runs, a start a repeat", repeats, "clustered", own
                )


def _scenarios(setting: Setting, repeats: int) -> Iterator[tuple[str, Draw]]:
    calm, flips = setting.calm, setting.flips
    mixed = Population(tossed=flips, broken=flips / 4, mended=flips / 4)
    frozen = Population(tossed=0.0, broken=flips / 2, mended=flips / 2)
    laws: dict[str, Callable[[float], Population]] = {
        "loss spread over flipping questions": calm.spread,
        "loss in broken questions": calm.breaking,
        "questions shift both ways": mixed.breaking,
        "identical repeats": frozen.breaking,
        CUT: lambda loss: calm.breaking(loss + setting.margin / 2),
    }
    if repeats == 1:
        del laws["identical repeats"]
    for name, law in laws.items():

        def draw(loss: float, runs: int, rng: np.random.Generator, law: Law = law) -> Runs:
            return law(loss).runs(setting.items, repeats, runs, rng)

        yield name, draw


def _shaken(setting: Setting, repeats: int, *, one_start: bool) -> Draw:
    def draw(loss: float, runs: int, rng: np.random.Generator) -> Runs:
        return setting.calm.spread(loss).shaken_runs(
            setting.items,
            repeats,
            runs,
            rng,
            start_sd=setting.start_sd,
            alpha=ALPHA,
            one_start=one_start,
        )

    return draw


@dataclass(frozen=True)
class Stops:
    """What the e-processes did, looked at after every question: shares of simulated runs."""

    runs: int
    false_alarm: float
    """Harm shown (5 %) where the loss is just the margin."""

    alarm_at_zero: float
    questions_to_stop: float
    """Median, of a kernel that breaks half the answers."""

    false_pass: float
    """Certified (2.5 %) where the loss is just the margin."""

    power: float
    """Certified where there is no loss."""

    coverage: float
    """95 % confidence sequences that hold the truth where the certificate stopped, or the run."""


def early_stops(setting: Setting, repeats: int, runs: int, rng: np.random.Generator) -> Stops:
    """Simulate runs that are looked at after every question."""

    def sequences(population: Population) -> FloatArray:
        values, chances = population.law(repeats)
        return rng.choice(values, p=chances, size=(runs, setting.items))

    def reached(process: EProcess, run: FloatArray, level: float) -> int | None:
        hits = np.flatnonzero(process.update(run) >= level)
        return int(hits[0]) + 1 if hits.size else None

    margin = setting.margin
    at_margin = sequences(setting.calm.spread(margin))
    at_zero, broken = sequences(setting.calm), sequences(Population(tossed=0.04, broken=0.48))
    alarms = [reached(EProcess.harm(margin), r, 20) for r in at_margin]
    quiet = [reached(EProcess.harm(margin), r, 20) for r in at_zero]
    stops = [reached(EProcess.harm(margin), r, 20) or np.inf for r in broken]
    passes = [reached(EProcess.certificate(margin), r, 1 / ALPHA) for r in at_margin]
    right = [reached(EProcess.certificate(margin), r, 1 / ALPHA) for r in at_zero]
    intervals = [confidence_sequence(r[:stop]) for r, stop in zip(at_margin, passes, strict=True)]

    def share(hits: list[int | None]) -> float:
        return float(np.mean([hit is not None for hit in hits]))

    return Stops(
        runs,
        share(alarms),
        share(quiet),
        float(np.median(stops)),
        share(passes),
        share(right),
        float(np.mean([low <= -margin <= high for low, high in intervals])),
    )
