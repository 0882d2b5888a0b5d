"""Memory that tells what was done to it: a tensor amid one byte, repeated on both sides."""

from __future__ import annotations

import resource
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import torch

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from torch import Tensor

_NAN_BYTE = 0xFF
_PAGE = 4096
"""Guards are a multiple of this, so that what lies between keeps its alignment."""

_WATCHED = 2**28
"""Elements of a mapped tensor that are still few enough to be compared."""


class Guarded:
    """A tensor in the middle of a buffer that is filled with one byte.

    Args:
        shape: of the tensor.
        dtype: likewise.
        fill: the byte.
        guard: bytes before and after, at least.
        device: where.
    """

    def __init__(
        self,
        shape: tuple[int, ...],
        dtype: torch.dtype,
        fill: int,
        guard: int,
        device: torch.device,
    ) -> None:
        self.dtype = dtype
        self.guard = -(-guard // _PAGE) * _PAGE
        live = torch.Size(shape).numel() * dtype.itemsize
        # Whole 8-byte words, as which two buffers compare six times faster than as bytes.
        size = -(-(live + 2 * self.guard) // 8) * 8
        self.raw = torch.empty(size, dtype=torch.uint8, device=device)
        self.pristine: Tensor | None = None
        self.source: Tensor | None = None
        self.carve(shape, fill)

    def carve(self, shape: tuple[int, ...], fill: int) -> None:
        """Start over on the same memory, with a tensor of this shape at the same address."""
        self.shape, self.fill = shape, fill
        self.end = self.guard + torch.Size(shape).numel() * self.dtype.itemsize
        self.raw.fill_(fill)
        self.tensor = self.raw[self.guard : self.end].view(self.dtype).view(shape)

    def hold(self, values: Tensor) -> None:
        """Put values there, NaN on both sides (-1 for integers), and remember them."""
        self.carve(tuple(values.shape), _NAN_BYTE)
        self.tensor.copy_(values)
        self.pristine, self.source = self.raw.clone(), values

    @classmethod
    def holding(cls, values: Tensor, guard: int) -> Guarded:
        """A guarded copy."""
        copy = cls(tuple(values.shape), values.dtype, _NAN_BYTE, guard, values.device)
        copy.hold(values)
        return copy

    def read(self) -> Tensor:
        """A copy of what lies in the memory, whatever became of the tensor object."""
        return self.raw[self.guard : self.end].clone().view(self.dtype).view(self.shape)

    def broken(self) -> int | None:
        """Offset in bytes, from the tensor's start, of the first guard byte that changed."""
        before = self.raw[: self.guard] != self.fill
        after = self.raw[self.end :] != self.fill
        # What lies behind is the likelier overrun, and nearest to the tensor the likelier cause.
        if bool(after.any()):
            return self.end - self.guard + int(after.nonzero()[0, 0])
        if bool(before.any()):
            return int(before.nonzero()[-1, 0]) - self.guard
        return None

    def untouched(self) -> bool:
        """Whether every byte is still the one that filled it."""
        return bool((self.raw == self.fill).all())

    def changed(self) -> bool:
        """Whether anything differs from what `hold` put there; restores it."""
        assert self.pristine is not None
        if torch.equal(self.raw.view(torch.int64), self.pristine.view(torch.int64)):
            return False
        self.restore()
        return True

    def restore(self) -> None:
        """Put back what `hold` put there."""
        assert self.pristine is not None
        self.raw.copy_(self.pristine)


class Mapped:
    """A tensor too large to be copied or guarded: unwatched, but that its view is compared.

    Args:
        tensor: the whole.
        view: what the kernel gets of it; watched where that is small.
    """

    def __init__(self, tensor: Tensor, view: Callable[[Tensor], Tensor]) -> None:
        self.tensor = tensor
        part = view(tensor)
        self.part = part if part.numel() < _WATCHED else part[:0]
        self.pristine = self.part.clone()

    def changed(self) -> bool:
        """Whether what is watched changed; restores it."""
        if torch.equal(self.part, self.pristine):
            return False
        self.part.copy_(self.pristine)
        return True


_SPARE = 2**31
"""Bytes that a call may take beside a mapped tensor."""


@contextmanager
def little_memory() -> Iterator[None]:
    """Let a copy of a mapped tensor fail at once, instead of taking all memory there is."""
    pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[0])
    soft, hard = resource.getrlimit(resource.RLIMIT_AS)
    resource.setrlimit(resource.RLIMIT_AS, (pages * resource.getpagesize() + _SPARE, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_AS, (soft, hard))
