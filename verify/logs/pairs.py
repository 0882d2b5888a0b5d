"""Pairs two arms' records by item: score grids for `verify.stats`, and what stands in the way."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from verify.command import UserError
from verify.logs.table import INVALID

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy.typing as npt

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
    """

    items: list[str]
    base: Side
    pr: Side
    problems: tuple[str, ...]
    unequal: tuple[str, ...]


def pair(base: Columns, pr: Columns) -> Pairs:
    """Match the records of two arms by item.

    Raises:
        UserError: no item in common, or repeat numbers that are not repeats of the items.
    """
    # Each base item's code in pr, -1 where pr lacks it: the one pass over names.
    codes = np.fromiter((pr.items.get(item, -1) for item in base.items), np.int64, len(base.items))
    common = np.flatnonzero(codes >= 0)
    if not common.size:
        a, b = next(iter(base.items)), next(iter(pr.items))
        raise UserError(
            f"the arms have no item in common (the first of base is {a!r}, of pr {b!r}); "
            "compare logs of the same benchmark, made by the same harness",
            INVALID,
        )
    names = list(base.items)
    items = names if common.size == len(names) else [names[i] for i in common]
    sides = [_side(base, common), _side(pr, codes[common])]
    unequal = tuple(_missing_repeats(sides, items))
    problems = (
        *_alone(base, common, "base"),
        *_alone(pr, codes[common], "pr"),
        *_differing(sides, items),
        *_unanswered(sides, items),
        *unequal,
    )
    return Pairs(items, sides[0], sides[1], problems, unequal)


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
    names = list(table.items)
    alone = np.setdiff1d(np.arange(len(names)), codes)
    return [f"{_count(_names(names, alone), 'item')} in {name} only"]


def _missing_repeats(sides: Sequence[Side], items: list[str]) -> list[str]:
    found = []
    widths = [side.row.shape[1] for side in sides]
    for side, name in zip(sides, ("base", "pr"), strict=True):
        lacking = np.flatnonzero((side.row < 0).any(axis=1))
        if lacking.size:
            found.append(f"{_count(_names(items, lacking), 'item')} without all repeats in {name}")
    if widths[0] != widths[1]:
        found.append(f"base has {widths[0]} repeats and pr {widths[1]}")
    return found


def _differing(sides: Sequence[Side], items: list[str]) -> list[str]:
    """Items whose prompt or target is not the same in every record of both arms."""
    found = []
    for name in ("prompt", "target"):
        hashes = [_of_item(side, getattr(side.table, name)) for side in sides]
        differs = np.zeros(len(items), bool)
        for side, of_item in zip(sides, hashes, strict=True):
            if side.row.shape[1] == 1:
                continue  # one record an item cannot differ from itself
            ours = getattr(side.table, name)
            for repeat in side.row.T:
                there = ours[repeat]
                differs |= (repeat >= 0) & (there != b"") & (there != of_item)
        known = (hashes[0] != b"") & (hashes[1] != b"")
        differs |= known & (hashes[0] != hashes[1])
        if differs.any():
            which = _names(items, np.flatnonzero(differs))
            found.append(f"{_count(which, name)} not the same in both arms")
    return found


def _of_item(side: Side, values: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """The value of each item's first record."""
    first = np.argmax(side.row >= 0, axis=1)
    found: npt.NDArray[Any] = values[side.row[np.arange(len(first)), first]]
    return found


def _unanswered(sides: Sequence[Side], items: list[str]) -> list[str]:
    found = []
    for side, name in zip(sides, ("base", "pr"), strict=True):
        failed = (side.row >= 0) & np.isnan(side.score)
        which = np.flatnonzero(failed.any(axis=1))
        if which.size:
            error = side.table.errors[int(side.row[failed][0])]
            first = _count(_names(items, which), "item")
            found.append(f"{first} unanswered in {name} ({error})")
    return found


def _names(items: list[str], which: npt.NDArray[np.intp]) -> list[str]:
    return [items[i] for i in which]


def _count(names: list[str], what: str) -> str:
    return f"{len(names)} {what}{'s' if len(names) > 1 else ''} (first {names[0]!r})"
