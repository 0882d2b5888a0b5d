"""Rotation tables, made independently of kernel/rope.py, and positions that reach their ends."""

from __future__ import annotations

import functools
import math
from typing import TYPE_CHECKING

import torch

from verify.inputs import draw, huge

if TYPE_CHECKING:
    from torch import Generator, Tensor

    from verify.cases import Case

SHORT_TABLE = 4096
LONG_TABLE = 2**17 + 1024
"""Rows of a table: a position in the long one needs 18 bits, more than a 16-bit integer holds."""

QUARTER_TURNS = ((1.0, 0.0), (0.0, 1.0), (-1.0, 0.0), (0.0, -1.0))


class Table:
    """A rotation table, FP32 [S, rope_dim]; an object, so that it can be cached by identity."""

    def __init__(self, cos_sin: Tensor, *, mapped: bool = False) -> None:
        self.cos_sin = cos_sin
        self.mapped = mapped  # larger than memory; see huge


def inverse_frequencies(kind: str, rope_dim: int) -> list[float]:
    """Radians per position of each pair, in FP64.

    Plain RoPE has base 10000. YaRN (Peng et al. 2023, "NTK by parts") as DeepSeek-V4.1 sets it:
    base 160000, factor 16, beta 32 and 1, original length 65536; pairs that turn more than beta
    fast times in the original length stay, those below beta slow are slowed by the factor, with a
    linear ramp between, and no attention factor is applied to the table.
    """
    base = 160000.0 if kind == "yarn" else 10000.0
    plain = [base ** (-2 * i / rope_dim) for i in range(rope_dim // 2)]
    if kind != "yarn":
        return plain

    def pair_that_turns(times: float) -> float:
        return rope_dim * math.log(65536 / (2 * math.pi * times)) / (2 * math.log(base))

    low = max(math.floor(pair_that_turns(32)), 0)
    high = min(math.ceil(pair_that_turns(1)), rope_dim - 1)
    slow = [min(max((i - low) / max(high - low, 1e-3), 0.0), 1.0) for i in range(rope_dim // 2)]
    return [f * (1 - s) + f / 16 * s for f, s in zip(plain, slow, strict=True)]


_SHIFT, _STRETCH = 1000, 1.25
"""Row 0 of a shifted table holds the angles of this position, and its pairs have this length, as
an attention factor makes them: no row of it is the identity, and none a rotation alone."""


def _rows(kind: str, places: Tensor, rope_dim: int) -> Tensor:
    """FP32 [S, rope_dim]: the rows of a plain, YaRN or shifted table at INT64 places [S]."""
    frequencies = torch.tensor(inverse_frequencies(kind, rope_dim), dtype=torch.float64)
    shift, length = (_SHIFT, _STRETCH) if kind == "shifted" else (0, 1.0)
    angles = (places.to(torch.float64) + shift)[:, None] * frequencies
    pairs = length * torch.stack((angles.cos(), angles.sin()), dim=2)
    return pairs.to(torch.float32).view(len(places), rope_dim)


def table(kind: str, length: int, rope_dim: int, seed: int, device: torch.device) -> Table:
    """Row 0 is cos 1, sin 0, no rotation, except in kinds `shifted` and `turned`."""
    if kind in ("quarter", "turned"):
        return _quarter_turns(kind, length, rope_dim, seed, device)
    return _angles(kind, length, rope_dim, device)


@functools.lru_cache(maxsize=4)
def _quarter_turns(kind: str, length: int, rope_dim: int, seed: int, device: torch.device) -> Table:
    turns = torch.randint(0, 4, (length, rope_dim // 2), generator=draw.generator("turns", seed))
    turns[0] = 0 if kind == "quarter" else turns[0] | 1
    return Table(torch.tensor(QUARTER_TURNS)[turns].view(length, rope_dim).to(device))


@functools.lru_cache(maxsize=6)
def _angles(kind: str, length: int, rope_dim: int, device: torch.device) -> Table:
    """The same for every seed."""
    return Table(_rows(kind, torch.arange(length), rope_dim).to(device))


def huge_length(rope_dim: int) -> int:
    """Rows of a table that ends past 2^31 elements."""
    return huge.LIMIT // rope_dim + 1024


def huge_table(kind: str, rope_dim: int, positions: Tensor, device: torch.device) -> Table:
    """A table past 2^31 elements of which only the rows at `positions` are made, the rest zero."""
    length, used = huge_length(rope_dim), torch.unique(positions.to(torch.int64))
    cos_sin = huge.zeros(length * rope_dim, torch.float32, device).view(length, rope_dim)
    cos_sin[used.to(device)] = _rows(kind, used, rope_dim).to(device)
    return Table(cos_sin, mapped=True)


def length_of(case: Case) -> int:
    """Rows of the table that a case uses."""
    if case.positions == "huge":
        return huge_length(case.rope_dim)
    return SHORT_TABLE if case.positions in ("zero", "short") else LONG_TABLE


def positions(case: Case, random: Generator) -> Tensor:
    """Positions [T] in the case's table, by its pattern."""
    dtype, length = torch.int32 if case.index == "int32" else torch.int64, length_of(case)
    if case.positions == "zero":
        return torch.zeros(case.tokens, dtype=dtype)
    drawn = torch.randint(0, length, (case.tokens,), generator=random)
    if case.positions == "huge":
        # Bytes and elements past 2^31 and 2^32 bytes, and past FP32's 24 bits on odd numbers.
        wraps = huge.LIMIT // case.rope_dim
        marks = torch.tensor([wraps + 5, wraps // 4 + 3, wraps // 2 + 9, length - 1, 0, 2**24 + 1])
        return marks[torch.arange(case.tokens) % len(marks)].clamp(max=length - 1).to(dtype)
    # The table's end, and the first positions that 15, 16 and 17 bits do not hold.
    marks = torch.tensor([length - 1, 0, 1] + [2**n for n in (12, 15, 16, 17) if 2**n < length])
    order = torch.randperm(len(marks), generator=random)[: case.tokens]
    places = torch.randperm(case.tokens, generator=random)[: len(order)]
    drawn[places] = marks[order]
    if case.positions == "repeated":
        drawn = drawn[torch.randint(0, max(case.tokens // 3, 1), (case.tokens,), generator=random)]
    return drawn.to(dtype)
