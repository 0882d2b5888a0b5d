"""Tensors past 2^31 elements, of which a kernel may touch little: address space, not memory."""

from __future__ import annotations

import mmap

import torch
from torch import Tensor

_NORESERVE = 0x4000
"""Linux's MAP_NORESERVE: address space only, promised to nobody."""

LIMIT = 2**31
"""What a signed 32-bit count of elements does not reach."""


def zeros(elements: int, dtype: torch.dtype, device: torch.device) -> Tensor:
    """Zeros; on a CPU a page takes memory once it is written, on a GPU all of it does."""
    if device.type == "cuda":
        return torch.zeros(elements, dtype=dtype, device=device)
    size = elements * dtype.itemsize
    space = mmap.mmap(-1, size, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | _NORESERVE)
    return torch.frombuffer(space, dtype=dtype, count=elements)
