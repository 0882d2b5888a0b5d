"""Items' names by the million: which are the same, and where each stands among others.

A dictionary of a million names waits for memory at every step. Here they lie in one buffer and are
told apart by their hashes, in sorted arrays. Nothing rests on a hash alone: different hashes mean
different names, and names with equal hashes are compared.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Self

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    import numpy.typing as npt


_AT_ONCE = 1 << 12  # names compared at once: few enough to stay in the cache


def hashes(texts: Sequence[str]) -> npt.NDArray[np.int64]:
    """[n] of `texts`, the same within one process only."""
    return np.fromiter(map(hash, texts), np.int64, len(texts))


@dataclass(frozen=True, eq=False)
class Names:
    """Names, each a piece of one buffer.

    Attributes:
        buffer: UTF-8; half a surrogate pair, which JSON can write, is kept as such.
        start: [n] first byte of each name.
        length: [n] of each name, in bytes.
        key: [n] hash of each name.
    """

    buffer: bytes | bytearray
    start: npt.NDArray[np.int64]
    length: npt.NDArray[np.int64]
    key: npt.NDArray[np.int64]

    @classmethod
    def of(cls, texts: Sequence[str]) -> Self:
        """The names `texts`, in this order."""
        together = "".join(texts)
        pieces = texts if together.isascii() else [_encoded(text) for text in texts]
        length = np.fromiter(map(len, pieces), np.int64, len(texts))
        return cls(_encoded(together), np.cumsum(length) - length, length, hashes(texts))

    @classmethod
    def joined(cls, parts: Sequence[Names]) -> Self:
        """All names of `parts`, at least one, one after another."""
        ends = np.cumsum([len(part.buffer) for part in parts])
        offsets = [0, *ends.tolist()]
        return cls(
            b"".join(part.buffer for part in parts),
            np.concatenate([p.start + o for p, o in zip(parts, offsets, strict=False)]),
            np.concatenate([part.length for part in parts]),
            np.concatenate([part.key for part in parts]),
        )

    def __len__(self) -> int:
        return len(self.start)

    def __getitem__(self, place: int | np.integer[Any]) -> str:
        start = self.start[place]
        return str(self.buffer[start : start + self.length[place]], "utf-8", "surrogatepass")

    def __iter__(self) -> Iterator[str]:
        ends = self.start + self.length
        for start, end in zip(self.start.tolist(), ends.tolist(), strict=True):
            yield str(self.buffer[start:end], "utf-8", "surrogatepass")

    def taken(self, places: npt.NDArray[np.integer[Any]]) -> Self:
        """The names at `places`."""
        return type(self)(self.buffer, self.start[places], self.length[places], self.key[places])

    def distinct(self) -> tuple[Self, npt.NDArray[np.int64]]:
        """The distinct names, in order of first appearance, and each name's [n] place there."""
        if _rises(np.sort(self.key)):
            return self, np.arange(len(self))
        _, first, group = np.unique(self.key, return_index=True, return_inverse=True)
        if not self._same(self.taken(first[group])).all():
            return self._distinct_of_one_hash()
        order = np.argsort(first)
        rank = np.empty_like(order)
        rank[order] = np.arange(len(order))
        return self.taken(first[order]), rank[group]

    def _distinct_of_one_hash(self) -> tuple[Self, npt.NDArray[np.int64]]:
        """What `distinct` gives, where different names share a hash."""
        names = list(self)
        place = {name: number for number, name in enumerate(dict.fromkeys(names))}
        codes = np.array([place[name] for name in names])
        return self.taken(np.unique(codes, return_index=True)[1]), codes

    def places(self, among: Self) -> npt.NDArray[np.int64]:
        """[n] where each name stands in `among`, which are distinct; -1 where it does not."""
        order = np.argsort(among.key)
        held = among.key[order]
        if not len(held) or not _rises(held):
            place = {name: number for number, name in enumerate(among)}
            return np.fromiter((place.get(name, -1) for name in self), np.int64, len(self))
        # A name can be no other than the one with its hash; sorted, they are found in one walk.
        walk = np.argsort(self.key)
        found = np.empty(len(self), np.int64)
        found[walk] = order[np.searchsorted(held, self.key[walk]).clip(max=len(held) - 1)]
        return np.where(self._same(among.taken(found)), found, -1)

    def _same(self, others: Names) -> npt.NDArray[np.bool_]:
        """[n] whether each name is the one in the same place of `others`, byte by byte."""
        same: npt.NDArray[np.bool_] = (self.key == others.key) & (self.length == others.length)
        rows = np.flatnonzero(same)
        rows = rows[np.argsort(self.length[rows], kind="stable")]
        longer = np.flatnonzero(np.diff(self.length[rows])) + 1
        for some in np.split(rows, np.union1d(longer, np.arange(_AT_ONCE, len(rows), _AT_ONCE))):
            length = int(self.length[some[0]]) if some.size else 0
            if length:
                same[some] = self._cut(some, length) == others._cut(some, length)
        return same

    def _cut(self, rows: npt.NDArray[np.intp], length: int) -> npt.NDArray[np.void]:
        """[rows] the bytes of names of one length."""
        starts = len(self.buffer) - length + 1
        pieces: npt.NDArray[np.void] = np.ndarray(starts, f"V{length}", self.buffer, strides=(1,))
        return pieces[self.start[rows]]


def _encoded(text: str) -> bytes:
    return text.encode("utf-8", "surrogatepass")


def _rises(ascending: npt.NDArray[np.int64]) -> bool:
    """Whether no number stands twice."""
    return bool(np.all(ascending[1:] > ascending[:-1]))
