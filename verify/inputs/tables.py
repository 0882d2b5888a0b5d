"""Rotation tables, made independently of kernel/rope.py, and positions that reach their ends."""

from __future__ import annotations

import functools
import math
from typing import TYPE_CHECKING

import torch

from verify.inputs import draw

if TYPE_CHECKING:
    from torch import Generator, Tensor

    from verify.cases import Case

SHORT_TABLE = 4096
LONG_TABLE = 2**17 + 1024
"""Rows of a table: a position in the long one needs 18 bits, more than a 16-bit integer holds."""

QUARTER_TURNS = ((1.0, 0.0), (0.0, 1.0), (-1.0, 0.0), (0.0, -1.0))


class Table:
    """A rotation table, FP32 [S, rope_dim]; an object, so that it can be cached by identity."""

    def __init__(self, cos_sin: Tensor) -> None:
        self.cos_sin = cos_sin


def inverse_frequencies(kind: str, rope_dim: int) -> list[float]:
    """Radians per position of each pair, in FP64.

    Plain RoPE has base 10000. YaRN (Peng et al. 2023, "NTK by parts") as DeepSeek-V4.1 sets it:
    base 160000, factor 16, beta 32 and 1, original length 65536; pairs that turn more than beta
    fast times in the original length stay, those below beta slow are slowed by the factor, with a
    linear ramp between, and no attention factor is applied to the table.
    """
    base = 10000.0 if kind == "plain" else 160000.0
    plain = [base ** (-2 * i / rope_dim) for i in range(rope_dim // 2)]
    if kind == "plain":
        return plain

    def pair_that_turns(times: float) -> float:
        return rope_dim * math.log(65536 / (2 * math.pi * times)) / (2 * math.log(base))

    low = max(math.floor(pair_that_turns(32)), 0)
    high = min(math.ceil(pair_that_turns(1)), rope_dim - 1)
    slow = [min(max((i - low) / max(high - low, 1e-3), 0.0), 1.0) for i in range(rope_dim // 2)]
    return [f * (1 - s) + f / 16 * s for f, s in zip(plain, slow, strict=True)]


@functools.lru_cache(maxsize=6)
def table(kind: str, length: int, rope_dim: int, seed: int, device: torch.device) -> Table:
    """Row 0 of every kind is cos 1, sin 0: no rotation."""
    if kind == "quarter":
        turns = torch.randint(
            0, 4, (length, rope_dim // 2), generator=draw.generator("turns", seed)
        )
        turns[0] = 0
        return Table(torch.tensor(QUARTER_TURNS)[turns].view(length, rope_dim).to(device))
    frequencies = torch.tensor(inverse_frequencies(kind, rope_dim), dtype=torch.float64)
    angles = torch.arange(length, dtype=torch.float64)[:, None] * frequencies
    pairs = torch.stack((angles.cos(), angles.sin()), dim=2)
    return Table(pairs.to(torch.float32).view(length, rope_dim).to(device))


def positions(case: Case, length: int, random: Generator) -> Tensor:
    """Positions [T] in a table of `length` rows, by the case's pattern."""
    dtype = torch.int32 if case.index == "int32" else torch.int64
    if case.positions == "zero":
        return torch.zeros(case.tokens, dtype=dtype)
    drawn = torch.randint(0, length, (case.tokens,), generator=random)
    # The table's end, and the first positions that 15, 16 and 17 bits do not hold.
    marks = torch.tensor([length - 1, 0, 1] + [2**n for n in (12, 15, 16, 17) if 2**n < length])
    order = torch.randperm(len(marks), generator=random)[: case.tokens]
    places = torch.randperm(case.tokens, generator=random)[: len(order)]
    drawn[places] = marks[order]
    if case.positions == "repeated":
        drawn = drawn[torch.randint(0, max(case.tokens // 3, 1), (case.tokens,), generator=random)]
    return drawn.to(dtype)
