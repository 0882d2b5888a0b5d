"""Weights, FP32 [G, R, K] rounded to BF16: dense, integers, opposed halves, one or two ones."""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING

import torch

from verify import formats
from verify.formats import BLOCK
from verify.inputs import draw
from verify.oracle import Weight

if TYPE_CHECKING:
    from collections.abc import Callable

    from torch import Generator, Tensor

Shape = tuple[int, int, int, int, int]
"""Groups, rank, heads of a group, head_dim, rope_dim."""


@functools.lru_cache(maxsize=3)
def weight(kind: str, shape: Shape, seed: int, device: torch.device) -> Weight:
    """The weight of this name out of WEIGHTS, made once and kept."""
    random = draw.generator(f"{kind}/{shape}", seed)
    values = WEIGHTS[kind](shape, random)
    return Weight(values.to(torch.bfloat16).contiguous().to(device))


def _dense(shape: Shape) -> tuple[int, int, int]:
    groups, rank, heads, head_dim, _ = shape
    return groups, rank, heads * head_dim


def _weights_normal(shape: Shape, random: Generator) -> Tensor:
    return 0.05 * draw.normal(_dense(shape), random)


def _weights_holed(shape: Shape, random: Generator) -> Tensor:
    """One in eight is zero: not skipped, for zero times Inf is NaN."""
    holes = draw.uniform(_dense(shape), random) < 1 / 8
    return _weights_normal(shape, random).masked_fill(holes, 0.0)


def _weights_positive(shape: Shape, random: Generator) -> Tensor:
    return draw.uniform(_dense(shape), random)


def _weights_spread(shape: Shape, random: Generator) -> Tensor:
    """Neighbouring blocks of columns differ by powers of two from 2^-24 to 2^24."""
    values = draw.normal(_dense(shape), random)
    blocks = shape[1] // BLOCK
    exponents = torch.stack([draw.scattered(blocks, 24, random) for _ in range(shape[0])])
    powers = formats.power_of_two(exponents).to(torch.float32)
    return values * powers.repeat_interleave(BLOCK, dim=1)[:, :, None]


def _weights_integers(shape: Shape, random: Generator) -> Tensor:
    return draw.integers(-1, 1, _dense(shape), random)


WIDE_ACTIVATION = 127


def wide_weight(k: int) -> int:
    """The largest integer weight with which no sum of k products reaches 2^24."""
    return max(1, min(31, 2**24 // (WIDE_ACTIVATION * k + 1)))


def _weights_wide(shape: Shape, random: Generator) -> Tensor:
    _, _, k = _dense(shape)
    return draw.integers(-wide_weight(k), wide_weight(k), _dense(shape), random)


def pair_up(values: Tensor, shape: Shape, sign: float) -> Tensor:
    """Copy each head of the first half to one of the second half, times sign."""
    split = values.view(*values.shape[:-1], shape[2], shape[3]).clone()
    pairs = shape[2] // 2
    split[..., pairs : 2 * pairs, :] = sign * split[..., :pairs, :]
    return split.view(values.shape)


def _weights_opposed(shape: Shape, random: Generator) -> Tensor:
    return pair_up(0.05 * draw.normal(_dense(shape), random), shape, -1.0)


def _weights_opposed_integers(shape: Shape, random: Generator) -> Tensor:
    """Of one sign in each half, and large: sums pass 2^20 within a head before they cancel."""
    most = wide_weight(_dense(shape)[2])
    return pair_up(draw.integers(-(-most // 2), most, _dense(shape), random), shape, -1.0)


def chosen(shape: Shape) -> Tensor:
    """[R]: the input column that each output column copies; all different while R <= K."""
    _, rank, k = _dense(shape)
    order = torch.randperm(k, generator=draw.generator(f"chosen/{shape}", 0))
    return order[torch.arange(rank) % k]


def _one_hot(shape: Shape, value: float) -> Tensor:
    weights = torch.zeros(_dense(shape), dtype=torch.float32)
    weights[:, torch.arange(shape[1]), chosen(shape)] = value
    return weights


LIFT, SINK, FAINT = 2.0**20, 2.0**-70, 2.0**-130
"""Take a BF16 subnormal to a normal number, and a normal one to a subnormal; itself subnormal."""


def lifts_and_sinks(shape: Shape) -> Tensor:
    """FP64 [G, R]: 1, LIFT, SINK, FAINT by blocks of columns in turn, the next group one further.

    A multiplier that takes subnormal operands for zero loses what is lifted and what a faint weight
    makes of large numbers, one that takes subnormal results for zero what sinks; one that does all
    is consistent.
    """
    kinds = torch.tensor([1.0, LIFT, SINK, FAINT], dtype=torch.float64)
    groups, blocks = torch.arange(shape[0])[:, None], torch.arange(shape[1]) // BLOCK
    return kinds[(groups + blocks) % 4]


def _weights_lifting(shape: Shape, _: Generator) -> Tensor:
    return _one_hot(shape, 1.0) * lifts_and_sinks(shape)[:, :, None].float()


OVER = 2.0**100


def overflows(shape: Shape) -> Tensor:
    """Bool [R]: in every third block of columns, one lane whose products may pass 2^128."""
    columns = torch.arange(shape[1])
    block = columns // BLOCK
    return (block % 3 == 1) & (columns % BLOCK == block * 7 % BLOCK)


def _weights_overflow(shape: Shape, _: Generator) -> Tensor:
    return _one_hot(shape, 1.0) * torch.where(overflows(shape), OVER, 1.0)[:, None]


def _weights_huge(shape: Shape, random: Generator) -> Tensor:
    """Blocks of columns in turn of size 2^40 and 2^66."""
    blocks = torch.arange(shape[1]) // BLOCK
    sizes = torch.where(blocks % 2 == 0, 2.0**40, 2.0**66)
    return draw.normal(_dense(shape), random) * sizes[:, None]


def _rotated_columns(shape: Shape) -> Tensor:
    """Columns of a group that the rotation touches."""
    _, _, heads, head_dim, rope_dim = shape
    tail = torch.arange(head_dim - rope_dim, head_dim)
    return (torch.arange(heads)[:, None] * head_dim + tail).flatten()


def _still_columns(shape: Shape) -> Tensor:
    """The others."""
    still = torch.ones(shape[2] * shape[3], dtype=torch.bool)
    still[_rotated_columns(shape)] = False
    return still.nonzero()[:, 0]


def partners(shape: Shape) -> tuple[Tensor, Tensor]:
    """Rotated columns and as many still ones to cancel them."""
    rotated, still = _rotated_columns(shape), _still_columns(shape)
    count = min(len(rotated), len(still))
    return rotated[:count], still[:count]


def _weights_rotated(shape: Shape, random: Generator) -> Tensor:
    """One-hot over the rotated columns, in an order of each group's own, as often as they fit."""
    weights = torch.zeros(_dense(shape), dtype=torch.float32)
    rotated, rows = _rotated_columns(shape), torch.arange(shape[1])
    for group in weights:
        order = torch.randperm(len(rotated), generator=random)[rows % len(rotated)]
        group[rows, rotated[order]] = 1.0
    return weights


def _weights_residual(shape: Shape, random: Generator) -> Tensor:
    """Each output adds one rotated column and the still column that holds its opposite."""
    weights = torch.zeros(_dense(shape), dtype=torch.float32)
    (rotated, still), rows = partners(shape), torch.arange(shape[1])
    for group in weights:
        order = torch.randperm(len(rotated), generator=random)[rows % len(rotated)]
        group[rows, rotated[order]] = 1.0
        group[rows, still[order]] = 1.0
    return weights


WEIGHTS: dict[str, Callable[[Shape, Generator], Tensor]] = {
    "normal": _weights_normal,
    "holed": _weights_holed,
    "positive": _weights_positive,
    "spread": _weights_spread,
    "integers": _weights_integers,
    "wide": _weights_wide,
    "opposed": _weights_opposed,
    "opposed_integers": _weights_opposed_integers,
    "one_hot": lambda shape, _: _one_hot(shape, 1.0),
    "one_hot_lifting": _weights_lifting,
    "one_hot_tiny": lambda shape, _: _one_hot(shape, 2.0**-70),
    "one_hot_overflow": _weights_overflow,
    "huge": _weights_huge,
    "rotated": _weights_rotated,
    "residual": _weights_residual,
}
