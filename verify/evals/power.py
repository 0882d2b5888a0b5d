"""`power`: what a run of a size could see, and the questions and repeats that a margin takes."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import click
import msgspec
from rich.table import Table

from verify.command import UserError
from verify.evals import options
from verify.evals.output import console_for_people
from verify.files import write_json
from verify.stats import sizes, tango

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path


@dataclass(frozen=True)
class Detectable:
    """The margin that equal arms pass in four of five runs, in points."""

    flips_pct: float
    repeats: int
    margin_pt: float


@dataclass(frozen=True)
class Needed:
    """What a margin takes, for equal arms to pass it in four of five runs.

    Attributes:
        flips_pct, margin_pt: the assumption and the margin.
        items: questions, each asked once.
        repeats: repeats in each arm of the questions at hand; None: no number suffices.
    """

    flips_pct: float
    margin_pt: float
    items: int
    repeats: int | None


@click.command()
@click.option(
    "--items", type=click.IntRange(min=1), required=True, help="Questions that the suite has."
)
@click.option(
    "--flips",
    multiple=True,
    type=click.FloatRange(0, 100, min_open=True, max_open=True),
    default=(1.0, 2.0, 5.0, 10.0),
    show_default=True,
    help="Questions on which one answer of each arm disagrees, in percent; `aa` measures it.",
)
@click.option(
    "--shifts",
    type=click.FloatRange(0, 100, max_open=True),
    default=0.0,
    show_default=True,
    help="Those of them that differ for good, which repeats do not average away, in percent.",
)
@click.option(
    "--margin",
    multiple=True,
    type=click.FloatRange(0, 100, min_open=True, max_open=True),
    default=(0.5, 1.0, 2.0, 3.0, 5.0),
    show_default=True,
    help="Losses to rule out, in percentage points.",
)
@click.option(
    "--repeats",
    multiple=True,
    type=click.IntRange(1, 4096),
    default=(1, 2, 4, 8, 16),
    show_default=True,
    help="Answers to each question in each arm.",
)
@options.json_file
def power(
    *,
    items: int,
    flips: tuple[float, ...],
    shifts: float,
    margin: tuple[float, ...],
    repeats: tuple[int, ...],
    json_file: Path | None,
) -> None:
    """What a suite of a given size can show, if both arms are equally good.

    One-sided 2.5 %, power 80 %. One answer a question: Tango's score; repeats: the bounded mean.
    Shifts of server starts come on top, and are not allowed for here.

    Exit codes: 0 done, 2 wrong use.
    """
    if shifts > min(flips):
        raise UserError(
            f"--shifts {shifts:g} is more than --flips {min(flips):g}, of which it is a part"
        )
    seen = [Detectable(f, r, _detectable(items, r, f / 100, shifts / 100))
            for f in flips for r in repeats]  # fmt: skip
    needed = [_needed(items, f, m, shifts / 100) for f in flips for m in margin]
    least = 100 * sizes.least_margin(items)
    if json_file is not None:
        document = {
            "items": items,
            "shifts_pct": shifts,
            "least_margin_pt": least,
            "detectable": msgspec.to_builtins(seen),
            "needed": msgspec.to_builtins(needed),
        }
        write_json(json_file, document)
    _show(items, least, seen, needed)


def _detectable(items: int, repeats: int, flips: float, shifts: float) -> float:
    if repeats == 1:
        return 100 * tango.detectable_difference(items, flips)
    return 100 * sizes.detectable_margin(items, (repeats, repeats), flips, shifts=shifts)


def _needed(items: int, flips_pct: float, margin_pt: float, shifts: float) -> Needed:
    flips, margin = flips_pct / 100, margin_pt / 100
    once = math.ceil(tango.items_needed(margin, flips))
    repeats = 1 if once <= items else sizes.repeats_needed(items, margin, flips, shifts=shifts)
    return Needed(flips_pct, margin_pt, once, repeats)


def _show(items: int, least: float, seen: Sequence[Detectable], needed: Sequence[Needed]) -> None:
    console = console_for_people()
    console.print(
        f"{items:,} questions without a single flip leave room for a loss of {least:.2f} points"
    )
    repeats = list(dict.fromkeys(each.repeats for each in seen))
    table = _table("loss that can be ruled out, points", [f"{r} x" for r in repeats])
    for flips in dict.fromkeys(each.flips_pct for each in seen):
        found = [f"{each.margin_pt:.2f}" for each in seen if each.flips_pct == flips]
        table.add_row(f"{flips:g} % flip", *found)
    console.print(table)
    margins = list(dict.fromkeys(each.margin_pt for each in needed))
    table = _table(
        f"questions asked once, and repeats of {items:,}", [f"{m:g} pt" for m in margins]
    )
    for flips in dict.fromkeys(each.flips_pct for each in needed):
        table.add_row(
            f"{flips:g} % flip",
            *(
                f"{each.items:,}, {'never' if each.repeats is None else f'{each.repeats} x'}"
                for each in needed
                if each.flips_pct == flips
            ),
        )
    console.print(table)


def _table(title: str, columns: Sequence[str]) -> Table:
    table = Table(title=title, title_justify="left", box=None, pad_edge=False, header_style="dim")
    for name in ("", *columns):
        table.add_column(name, no_wrap=True, justify="right" if name else "left")
    return table
