"""Seeded draws that every maker of inputs shares; on the CPU, so that no device matters."""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING

import torch

if TYPE_CHECKING:
    from torch import Generator, Tensor


def generator(name: str, seed: int) -> Generator:
    """A generator of its own for each name and seed: the order of draws elsewhere is no matter."""
    digest = hashlib.blake2b(f"{seed}/{name}".encode(), digest_size=7).digest()
    return torch.Generator().manual_seed(int.from_bytes(digest))


def normal(sizes: tuple[int, ...], random: Generator) -> Tensor:
    """FP32, mean 0, deviation 1."""
    return torch.randn(sizes, generator=random)


def uniform(sizes: tuple[int, ...], random: Generator) -> Tensor:
    """FP32 in [0, 1)."""
    return torch.rand(sizes, generator=random)


def integers(low: int, high: int, sizes: tuple[int, ...], random: Generator) -> Tensor:
    """FP32, from low to high, both included."""
    return torch.randint(low, high + 1, sizes, generator=random).to(torch.float32)


def signs(sizes: tuple[int, ...], random: Generator) -> Tensor:
    """FP32, 1 or -1."""
    return 1 - 2 * integers(0, 1, sizes, random)


def scattered(count: int, reach: int, random: Generator) -> Tensor:
    """`count` exponents within +-reach, int64: neighbours lie apart and few are alike."""
    start = int(torch.randint(0, 2 * reach + 1, (1,), generator=random))
    return (torch.arange(count) * 19 + start) % (2 * reach + 1) - reach
