"""The 2x2 table of two arms that answered the same items once."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import ArrayLike


@dataclass(frozen=True)
class PairedTable:
    """Items by whether base and PR answered rightly."""

    both: int
    lost: int
    """Right in base only."""
    gained: int
    """Right in PR only."""
    neither: int

    def __post_init__(self) -> None:
        if min(self.both, self.lost, self.gained, self.neither) < 0 or self.items < 1:
            raise ValueError(f"{self} is not a table of one item or more")

    @classmethod
    def of(cls, base: ArrayLike, pr: ArrayLike) -> PairedTable:
        """From two arrays [n] of right or wrong, items in the same order."""
        b, p = np.asarray(base, dtype=np.bool_), np.asarray(pr, dtype=np.bool_)
        if b.shape != p.shape or b.ndim != 1:
            raise ValueError(f"arrays of shapes {b.shape} and {p.shape} do not pair")
        counts = np.bincount(2 * b.astype(np.intp) + p, minlength=4)
        neither, gained, lost, both = (int(count) for count in counts)
        return cls(both, lost, gained, neither)

    @property
    def items(self) -> int:
        """All items."""
        return self.both + self.lost + self.gained + self.neither

    @property
    def difference(self) -> float:
        """Accuracy of PR minus accuracy of base."""
        return (self.gained - self.lost) / self.items

    @property
    def discordance(self) -> float:
        """Share of items on which the arms disagree."""
        return (self.gained + self.lost) / self.items

    @property
    def mirrored(self) -> PairedTable:
        """The same with the arms swapped."""
        return PairedTable(self.both, self.gained, self.lost, self.neither)
