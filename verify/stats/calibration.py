"""How often each method is wrong, as a page of tables: `python -m verify.stats.calibration`."""

from __future__ import annotations

import math
from pathlib import Path
from typing import TYPE_CHECKING

import click
import numpy as np
from rich.progress import track

from verify.command import run
from verify.files import write_text
from verify.stats.design import EXACT_BELOW
from verify.stats.sequential import confidence_sequence
from verify.stats.sizes import least_margin
from verify.stats.trials import ALPHA, CUT, SETTINGS, cells, early_stops

if TYPE_CHECKING:
    from verify.stats.trials import Cell, Rates, Setting

INTRODUCTION = """# Calibration

Made by `python -m verify.stats.calibration --simulations {runs} --seed {seed}`; do not edit.

A pass is false where PR's true loss is just the margin. Nominal: {nominal:g} % false passes,
one-sided, and 95 % coverage of the interval. Each row simulates {runs} runs at the margin and as
many without loss; ± is two Monte-Carlo standard errors. *Plain t* is what a clustered t test would
have passed on the same runs. *Power* is the share of passes of an equal PR.

- One answer a question: Tango's score, and below {exact} questions the exact unconditional test.
- Repeats: *clustered*, Gaffke's bound on item means, and Welch's t on server starts where an arm
  has two or more (`verify/stats/repeats.py`).
- The loss is either spread over the questions that flip anyway, or it sits in questions that
  break for good, which no number of repeats makes easier to see: without one flip,
{least}.
- *Cut answers*: PR also leaves right answers unfinished, half the margin's worth; all are counted
  against it, so that only passes are of interest.
- *One start an arm* under shifts of whole runs is not controlled by any method, and says so.
- Starts that go wrong rarely, in one arm only, are not seen until one does; nothing controls that.
"""

CONJECTURE = """
## Why Gaffke's bound, whose level is a conjecture

That it keeps its level for every distribution is not proved, and no counter-example is known. Its
evidence here: the false passes above, and tests that search all distributions on three and five
points for one. Bounds that are proved for every distribution cost too much. The margin, in points,
that a run without a single flip could just pass:

| questions | Gaffke | betting | Anderson | empirical Bernstein | Hoeffding |
|---|---|---|---|---|---|
"""

HEADER = """
| scenario | repeats | method | false pass % | plain t % | coverage % | at 0 % | power % |
|---|---|---|---|---|---|---|---|
"""


def page(runs: int, seed: int) -> str:
    """The page `docs/calibration.md`."""
    rng = np.random.default_rng(seed)
    limits = ",\n".join(
        f"  {items} questions leave room for a loss of {100 * least_margin(items):.1f} points"
        for items in dict.fromkeys(setting.items for setting in SETTINGS)
    )
    text = INTRODUCTION.format(
        runs=runs, seed=seed, nominal=100 * ALPHA, exact=EXACT_BELOW, least=limits
    )
    setting = None
    for cell in track(list(cells()), description="calibrating"):
        if cell.setting is not setting:
            setting = cell.setting
            text += f"\n## {_title(setting)}\n{HEADER}"
        text += _row(cell, cell.rates(runs, rng))
    return text + _stops(max(200, runs // 10), rng) + _conjecture()


def _title(setting: Setting) -> str:
    cannot = "" if setting.can_pass else " (too small: out of reach without gains)"
    return (
        f"{setting.name}: {setting.items} questions, "
        f"margin {100 * setting.margin:g} points{cannot}, {100 * setting.flips:g} % flips, "
        f"starts shift runs by {100 * setting.start_sd:g} points"
    )


def _row(cell: Cell, rates: Rates) -> str:
    note = "" if cell.controlled else " (not controlled)"
    coverage = [rates.coverage_at_margin, rates.coverage_at_zero]
    shares = [rates.plain_t, *(coverage if cell.scenario != CUT else [None, None]), rates.power]
    figures = " | ".join("" if share is None else f"{100 * share:.1f}" for share in shares)
    false_pass = f"{100 * rates.false_pass:.2f} ± {100 * rates.error:.2f}"
    return (
        f"| {cell.scenario}{note} | {cell.repeats} | {cell.method} | {false_pass} | {figures} |\n"
    )


def _stops(runs: int, rng: np.random.Generator) -> str:
    text = f"""
## Looking after every question

{runs} runs a row. Harm is tested at 5 %, the certificate at 2.5 %; "broken" is a kernel that
breaks half the answers.

| suite | margin | repeats | false alarm % | alarm at 0 % | questions until broken is stopped | \
false certificate % | certificate at 0 % | coverage at the stop % |
|---|---|---|---|---|---|---|---|---|
"""
    for setting in SETTINGS:
        for repeats in (1, 4):
            found = early_stops(setting, repeats, runs, rng)
            text += (
                f"| {setting.name} | {100 * setting.margin:g} | {repeats} "
                f"| {100 * found.false_alarm:.1f} | {100 * found.alarm_at_zero:.1f} "
                f"| {found.questions_to_stop:.0f} | {100 * found.false_pass:.1f} "
                f"| {100 * found.power:.1f} | {100 * found.coverage:.1f} |\n"
            )
    return text


def _conjecture() -> str:
    text = CONJECTURE
    for items in dict.fromkeys(setting.items for setting in SETTINGS):
        margins = (100 * bound for bound in flawless_margins(items))
        text += f"| {items} | " + " | ".join(f"{margin:.2f}" for margin in margins) + " |\n"
    return text + (
        "\nThe proved one that comes nearest, betting, is what the certificate uses; its power\n"
        "stands in the table before this one, beside the power of the fixed-size test further up.\n"
    )


def flawless_margins(items: int, alpha: float = ALPHA) -> tuple[float, ...]:
    """What so many differences in [-1, 1], all of them 0, rule out at level `alpha`.

    By Gaffke's bound and four that are proved: betting, Anderson's by the inequality of Dvoretzky,
    Kiefer, Wolfowitz and Massart, the empirical Bernstein bound of Maurer and Pontil, Hoeffding's.
    """
    log = math.log(1 / alpha)
    return (
        least_margin(items, alpha),
        -confidence_sequence(np.zeros(items), 1 - 2 * alpha)[0],
        math.sqrt(log / (2 * items)),
        7 * 2 * math.log(2 / alpha) / (3 * (items - 1)),
        math.sqrt(2 * log / items),
    )


@click.command()
@click.option("--simulations", default=10_000, show_default=True, help="Runs a row.")
@click.option("--seed", default=1, show_default=True)
@click.option(
    "--out", type=click.Path(path_type=Path), default=Path("docs/calibration.md"), show_default=True
)
def command(simulations: int, seed: int, out: Path) -> None:
    """Simulate every method that can decide a verdict, and write the table of its errors."""
    write_text(out, page(simulations, seed))
    click.echo(f"wrote {out}")


if __name__ == "__main__":
    run(command, "verify.stats.calibration")
