"""How often a planted change is found, and its interval covers: the table in docs/serving.md.

`python -m verify.bench.serve.calibration` simulates it and writes it there, between its marks.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from pathlib import Path

import click
import numpy as np
from scipy.stats import t as student

from verify.bench.serve.starts import CONFIDENCE, estimates, starts_needed
from verify.command import UserError, run
from verify.files import write_text

CHANGE = 0.03
"""What the source pull request published, as a share."""
REQUESTS = 20
REQUEST_SD = 0.005
"""Of requests within a start; every twentieth also stalls."""
STALLS, STALL = 0.05, 0.05
"""Share of requests that stall, and how much slower they then are, as a share."""
WANTED = 0.95
BEGIN = "<!-- calibration: made by python -m verify.bench.serve.calibration; do not edit -->\n"
END = "<!-- end of calibration -->\n"

COLUMNS = (
    "starts vary by (sd)", "starts an arm", "requests an arm", "found %", "interval covers %",
    "interval reaches ± %",
)  # fmt: skip


@dataclass(frozen=True)
class Setting:
    """What is simulated.

    Attributes:
        base_sd: of the logarithm of a start's speed, in base.
        pr_sd: likewise in PR.
        starts: in each arm.
        drift: by how much each start is slower than the one before, as a share.
    """

    base_sd: float
    pr_sd: float
    starts: int
    drift: float = 0.0


@dataclass(frozen=True)
class Rates:
    """Shares of simulated runs in which CHANGE is found, and in which the interval covers it.

    `reach` is the median half-width of the interval. The rest of `covered` is the share of alarms
    where there is no change: a change shifts the estimate, and nothing else.
    """

    found: float
    covered: float
    reach: float


SETTINGS = (
    *(Setting(sd, sd, starts) for sd in (0.002, 0.0035, 0.006) for starts in (2, 3, 4)),
    Setting(0.0035, 0.0053, 2),
    Setting(0.0035, 0.0053, 3),
    Setting(0.002, 0.006, 2),
    Setting(0.002, 0.002, 2, drift=0.002),
)


def rates(setting: Setting, runs: int, random: np.random.Generator) -> Rates:
    """Simulate runs of a setting, in the order base, PR, PR, base, and so on."""
    base = _medians(setting, 0, runs, random)
    pr = _medians(setting, 1, runs, random)
    difference, error, _ = estimates(base, pr)
    reach = student.isf((1 - CONFIDENCE) / 2, 2 * setting.starts - 2) * error
    planted = math.log1p(CHANGE)
    return Rates(
        found=float(np.mean(difference + planted > reach)),
        covered=float(np.mean(abs(difference) < reach)),
        reach=float(np.median(reach)),
    )


def _medians(
    setting: Setting, arm: int, runs: int, random: np.random.Generator
) -> np.ndarray[tuple[int, int], np.dtype[np.float64]]:
    """Logarithms of the medians of starts without a change, [runs, starts]."""
    shape = (runs, setting.starts)
    speed = random.normal(0, (setting.base_sd, setting.pr_sd)[arm], shape)
    # of starts 0, 1, 2, 3, ... those of base are 0, 3, 4, 7, ..., those of PR 1, 2, 5, 6, ...
    places = [2 * n + (n % 2 != arm) * 1 for n in range(setting.starts)]
    speed -= setting.drift * np.array(places)
    noise = random.normal(0, REQUEST_SD, (*shape, REQUESTS))
    noise -= STALL * (random.random(noise.shape) < STALLS)
    medians: np.ndarray[tuple[int, int], np.dtype[np.float64]] = speed + np.median(noise, axis=-1)
    return medians


def table(runs: int, seed: int) -> str:
    """The part of the page between its marks."""
    random = np.random.default_rng(seed)
    rows = [COLUMNS, ("---",) * len(COLUMNS)]
    rows += [_row(setting, rates(setting, runs, random)) for setting in SETTINGS]
    return (
        f"{runs:,} simulated runs a row (seed {seed}) of a change of {_percent(CHANGE)}; "
        f"{REQUESTS} requests a start, which vary by\n{_percent(REQUEST_SD)} (sd) and of which "
        f"{_percent(STALLS)} are {_percent(STALL)} slower.\n\n"
        + "".join(f"| {' | '.join(row)} |\n" for row in rows)
        + f"\n{_restored()}"
    )


def _row(setting: Setting, found: Rates) -> tuple[str, ...]:
    sd = " and ".join(dict.fromkeys(map(_percent, (setting.base_sd, setting.pr_sd))))
    drift = f", each start {_percent(setting.drift)} slower than the last" if setting.drift else ""
    return (
        f"{sd}{drift}",
        str(setting.starts),
        str(REQUESTS * setting.starts),
        f"{100 * found.found:.1f}",
        f"{100 * found.covered:.1f}",
        f"{100 * found.reach:.2f}",
    )


def _restored() -> str:
    """What finds CHANGE in WANTED of runs, by the exact power of t."""
    noise = math.sqrt(math.pi / 2) * REQUEST_SD / math.sqrt(REQUESTS)
    parts = [
        f"{_percent(sd)}: {starts_needed(CHANGE, math.hypot(sd, noise), WANTED)}"
        for sd in (0.002, 0.0035, 0.006, 0.01, 0.02)
    ]
    return (
        f"Starts an arm that find it in {_percent(WANTED)} of runs, by the noncentral t "
        f"distribution, where starts vary by\n{', '.join(parts)}.\n"
    )


def _percent(share: float) -> str:
    return f"{100 * share:g} %"


@click.command()
@click.option(
    "--simulations",
    type=click.IntRange(min=1),
    default=10_000,
    show_default=True,
    help="Runs a row.",
)
@click.option("--seed", type=click.IntRange(min=0), default=1, show_default=True)
@click.option(
    "--out", type=click.Path(path_type=Path), default=Path("docs/serving.md"), show_default=True
)
def command(simulations: int, seed: int, out: Path) -> None:
    """Simulate how often `serve` finds a change, and write the table into the page."""
    try:
        before, begin, rest = out.read_text(encoding="utf-8").partition(BEGIN)
    except OSError as error:
        raise UserError(f"{out} cannot be read ({error.strerror}); name the page") from None
    _, end, after = rest.partition(END)
    if not (begin and end):
        raise UserError(
            f"{out} has no place for the table; write {BEGIN.strip()} and {END.strip()}"
        )
    write_text(out, f"{before}{BEGIN}\n{table(simulations, seed)}\n{END}{after}")
    click.echo(f"wrote {out}")


if __name__ == "__main__":
    run(command, "verify.bench.serve.calibration")
