"""`--split`: a file that puts every item into a subset, which then is a suite of its own."""

from __future__ import annotations

import csv
from dataclasses import dataclass
from typing import TYPE_CHECKING, Self

import numpy as np

from verify.command import UserError
from verify.logs.values import shown

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    import numpy.typing as npt


@dataclass(frozen=True)
class Subsets:
    """The subset of each item, and the file that says so."""

    path: Path
    of_item: dict[str, str]

    @classmethod
    def read(cls, path: Path) -> Self:
        """From a CSV file with the columns item and subset.

        Raises:
            UserError: it is none, or puts an item into two subsets.
        """
        try:
            with path.open(encoding="utf-8-sig", newline="") as file:
                return cls(path, _of_item(path, csv.DictReader(file)))
        except OSError as error:
            raise UserError(f"{path}: cannot be read ({error.strerror})") from None
        except (UnicodeDecodeError, csv.Error) as error:
            raise UserError(f"{path}: is no CSV file ({error})") from None

    def rows(self, suite: str, items: Sequence[str]) -> list[tuple[str, npt.NDArray[np.intp]]]:
        """Each subset's name, as a suite, and the places of its items; in the order of the names.

        Raises:
            UserError: an item is in no subset.
        """
        lacking = next((item for item in items if item not in self.of_item), None)
        if lacking is not None:
            raise UserError(f"{self.path}: item {shown(lacking)} of suite {suite} is in no subset")
        names = np.array([self.of_item[item] for item in items])
        return [
            (f"{suite}/{name}", np.flatnonzero(names == name))
            for name in sorted(set(names.tolist()))
        ]


def _of_item(path: Path, rows: csv.DictReader[str]) -> dict[str, str]:
    if not {"item", "subset"} <= set(rows.fieldnames or ()):
        raise UserError(f"{path}: has no columns item and subset; name them in line 1")
    found: dict[str, str] = {}
    for row in rows:
        item, subset = row["item"], row["subset"]
        if not item or not subset:
            raise UserError(f"{path}, line {rows.line_num}: item or subset is empty")
        if found.setdefault(item, subset) != subset:
            problem = f"item {shown(item)} is in two subsets; name it once"
            raise UserError(f"{path}, line {rows.line_num}: {problem}")
    return found
