"""Pairs two arms' records by item: score grids for `verify.stats`, and what stands in the way."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from verify.command import UserError
from verify.logs.values import INVALID, shown

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy.typing as npt

    from verify.logs.names import Names
    from verify.logs.table import Columns

# A grid of items by repeats may be mostly empty by mistake only: repeats numbered through a file.
_MOST_EMPTY = 16


@dataclass(frozen=True, eq=False)
class Side:
    """One arm's part of the pairs: grids [items, repeats], both arms' items in the same order.

    Attributes:
        table: the records themselves.
        row: the record's row in `table`, -1 where the arm lacks this repeat of the item.
        score: 0 to 1, NaN where missing or unanswered.
        runs: [repeats] the file each repeat came from.
    """

    table: Columns
    row: npt.NDArray[np.int64]
    score: npt.NDArray[np.float64]
    runs: list[int]

    @property
    def truncated(self) -> npt.NDArray[np.int8]:
        """1 cut by an output limit, 0 not, -1 missing or not recorded."""
        return np.where(self.row < 0, np.int8(-1), self.table.truncated[self.row])

    @property
    def tokens(self) -> npt.NDArray[np.int32]:
        """Completion tokens, -1 missing or not recorded."""
        return np.where(self.row < 0, np.int32(-1), self.table.tokens[self.row])


@dataclass(frozen=True, eq=False)
class Pairs:
    """The items that both arms have, and all that keeps the arms from being comparable.

    Attributes:
        items: names, in the order of the grids.
        base, pr: the arms.
        problems: one line each, with the count and the first item: items or repeats that one arm
            lacks, prompts or targets that differ, requests never answered. None of it may be
            passed over in silence; `unequal` among them may by wish.
        unequal: those of the problems that are only a different number of repeats.
        usable: [items] answered in both arms, to the same prompt and target.
    """

    items: Names
    base: Side
    pr: Side
    problems: tuple[str, ...]
    unequal: tuple[str, ...]
    usable: npt.NDArray[np.bool_]


def pair(base: Columns, pr: Columns, names: tuple[str, str] = ("base", "pr")) -> Pairs:
    """Match the records of two arms, called `names`, by item.

    Raises:
        UserError: no item in common, or repeat numbers that are not repeats of the items.
    """
    # Each base item's code in pr, -1 where pr lacks it: the one pass over names.
    codes = base.items.places(pr.items)
    common = np.flatnonzero(codes >= 0)
    if not common.size:
        a, b = shown(base.items[0]), shown(pr.items[0])
        raise UserError(
            f"the arms have no item in common (the first of {names[0]} is {a}, of {names[1]} {b}); "
            "compare logs of the same benchmark, made by the same harness",
            INVALID,
        )
    items = base.items.taken(common)
    sides = [_side(base, common), _side(pr, codes[common])]
    unequal = tuple(_missing_repeats(sides, items, names))
    differing = {name: _differs(sides, name) for name in ("prompt", "target")}
    problems = (
        *_alone(base, common, names[0]),
        *_alone(pr, codes[common], names[1]),
        *_differing(differing, items),
        *_unanswered(sides, items, names),
        *unequal,
    )
    usable = ~(differing["prompt"] | differing["target"])
    for side in sides:
        usable &= ~np.isnan(side.score).all(axis=1)
    return Pairs(items, sides[0], sides[1], problems, unequal, usable)


def grid(table: Columns) -> Side:
    """One arm's records by item and repeat, items in the order of the table."""
    return _side(table, np.arange(len(table.items)))


def _side(table: Columns, codes: npt.NDArray[np.intp]) -> Side:
    """The grids of the items with these codes, in this order."""
    place = np.full(len(table.items), -1, np.int64)
    place[codes] = np.arange(len(codes))
    numbers, repeat = np.unique(table.repeat, return_inverse=True)
    if len(codes) * len(numbers) > _MOST_EMPTY * max(len(table), 1000):
        raise UserError(
            f"{len(numbers)} repeat numbers for {len(table)} records; number the repeats of each "
            "item from 0",
            INVALID,
        )
    rows = np.arange(len(table))
    kept = place[table.item] >= 0
    row = np.full((len(codes), len(numbers)), -1, np.int64)
    row[place[table.item[kept]], repeat[kept]] = rows[kept]
    score = np.where(row < 0, np.nan, table.score[row])
    runs = np.zeros(len(numbers), np.int64)
    runs[repeat] = table.run
    return Side(table, row, score, runs.tolist())


def _alone(table: Columns, codes: npt.NDArray[np.intp], name: str) -> list[str]:
    """The items of `table` that are not among `codes`."""
    if len(codes) == len(table.items):
        return []
    alone = np.setdiff1d(np.arange(len(table.items)), codes)
    return [f"{_count(table.items, alone, 'item')} in {name} only"]


def _missing_repeats(sides: Sequence[Side], items: Names, names: tuple[str, str]) -> list[str]:
    found = []
    widths = [side.row.shape[1] for side in sides]
    for side, name in zip(sides, names, strict=True):
        lacking = np.flatnonzero((side.row < 0).any(axis=1))
        if lacking.size:
            found.append(f"{_count(items, lacking, 'item')} without all repeats in {name}")
    if widths[0] != widths[1]:
        found.append(f"{names[0]} has {widths[0]} repeats and {names[1]} {widths[1]}")
    return found


def _differing(differing: dict[str, npt.NDArray[np.bool_]], items: Names) -> list[str]:
    return [
        f"{_count(items, np.flatnonzero(which), name)} not the same in both arms"
        for name, which in differing.items()
        if which.any()
    ]


def _differs(sides: Sequence[Side], name: str) -> npt.NDArray[np.bool_]:
    """Items whose prompt or target is not the same in every record of both arms, [items]."""
    hashes = [_of_item(side, getattr(side.table, name)) for side in sides]
    differs: npt.NDArray[np.bool_] = (hashes[0] != 0) & (hashes[1] != 0) & (hashes[0] != hashes[1])
    for side, of_item in zip(sides, hashes, strict=True):
        if side.row.shape[1] == 1:
            continue  # one record an item cannot differ from itself
        ours = getattr(side.table, name)
        for repeat in side.row.T:
            there = ours[repeat]
            differs |= (repeat >= 0) & (there != 0) & (there != of_item)
    return differs


def _of_item(side: Side, values: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """The value of each item's first record."""
    row = side.row[:, 0]
    if side.row.shape[1] > 1:
        row = side.row[np.arange(len(row)), np.argmax(side.row >= 0, axis=1)]
    found: npt.NDArray[Any] = values[row]
    return found


def _unanswered(sides: Sequence[Side], items: Names, names: tuple[str, str]) -> list[str]:
    found = []
    for side, name in zip(sides, names, strict=True):
        failed = (side.row >= 0) & np.isnan(side.score)
        which = np.flatnonzero(failed.any(axis=1))
        if which.size:
            errors = [side.table.errors[int(row)] for row in side.row[failed]]
            kinds = Counter(error.partition(":")[0] for error in errors)
            counts = ", ".join(f"{count} {kind[:60]}" for kind, count in kinds.most_common(3))
            first = f"first {shown(items[which[0]])}, {' '.join(errors[0][:200].split())}"
            found.append(
                f"{name} never answered {len(which)} of {len(items)} items: {counts} ({first})"
            )
    return found


def _count(items: Names, which: npt.NDArray[np.intp], what: str) -> str:
    return f"{len(which)} {what}{'s' if len(which) > 1 else ''} (first {shown(items[which[0]])})"
