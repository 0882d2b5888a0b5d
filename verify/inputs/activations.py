"""Activations [T, G, K] in FP32 or FP64, rounded to BF16 afterwards."""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING

import torch

from verify import formats, oracle
from verify.formats import BLOCK
from verify.inputs import draw, weights

if TYPE_CHECKING:
    from collections.abc import Callable

    from torch import Generator, Tensor

    from verify.cases import Case


def shape_of(case: Case) -> weights.Shape:
    """What the weights of a case depend on."""
    return case.groups, case.rank, case.heads, case.head_dim, case.rope_dim


def as_bf16(x: Tensor) -> Tensor:
    """What the kernel gets of activations."""
    return formats.as_bf16(formats.round_bf16(x.to(torch.float64)))


def _wide(case: Case) -> tuple[int, int, int]:
    return case.tokens, case.groups, case.k


def normal(case: Case, random: Generator) -> Tensor:
    """Mean 0, deviation 1."""
    return draw.normal(_wide(case), random)


def positive(case: Case, random: Generator) -> Tensor:
    """Uniform in [0, 1)."""
    return draw.uniform(_wide(case), random)


def outliers(case: Case, random: Generator) -> Tensor:
    """One in a thousand is a thousand times as large."""
    large = draw.uniform(_wide(case), random) < 1e-3
    return torch.where(large, 1000.0, 1.0) * draw.normal(_wide(case), random)


_SPECIALS = ((torch.nan,), (torch.inf,), (-torch.inf,), (torch.inf, -torch.inf))


def specials(case: Case, random: Generator) -> Tensor:
    """Normal, but every other row holds one or two NaN or Inf in one of its groups."""
    x = normal(case, random)
    for number, row in enumerate(range(case.draw % 2 if case.tokens > 1 else 0, case.tokens, 2)):
        values = _SPECIALS[(number + case.draw) % len(_SPECIALS)]
        group = int(torch.randint(0, case.groups, (1,), generator=random))
        places = torch.randperm(case.k, generator=random)[: len(values)]
        x[row, group, places] = torch.tensor(values)
    return x


def huge(case: Case, random: Generator) -> Tensor:
    """Of size 2^60."""
    return 2.0**60 * normal(case, random)


def spread(case: Case, random: Generator) -> Tensor:
    """Neighbouring rows differ by powers of two from 2^-24 to 2^24."""
    rows = formats.power_of_two(draw.scattered(case.tokens, 24, random))
    return draw.normal(_wide(case), random) * rows[:, None, None]


def cancelling(case: Case, random: Generator) -> Tensor:
    """Halves of the heads of size 128 that cancel, but for one column in sixteen of size 2^-7."""
    large = 128 * draw.normal(_wide(case), random)
    return _all_but_few_cancel(case, large, 2.0**-7 * draw.normal(_wide(case), random), random)


def _all_but_few_cancel(case: Case, large: Tensor, small: Tensor, random: Generator) -> Tensor:
    """Equal values in both halves of the heads (the weights are opposed), small ones in between.

    A lone last head is small throughout, so that it hides nothing.
    """
    shape = shape_of(case)
    few = weights.pair_up((draw.uniform(_wide(case), random) < 1 / 16).float(), shape, 1.0) > 0
    alone = few.view(case.tokens, case.groups, case.heads, case.head_dim)
    alone[:, :, 2 * (case.heads // 2) :] = True
    return torch.where(few, small, weights.pair_up(large, shape, 1.0))


def integers(case: Case, random: Generator) -> Tensor:
    """From -3 to 3: most sums have 9 bits or so, hence many ties at 8."""
    return draw.integers(-3, 3, _wide(case), random)


def wide_integers(case: Case, random: Generator) -> Tensor:
    """From -127 to 127: sums use most of FP32's 24 bits."""
    return draw.integers(-weights.WIDE_ACTIVATION, weights.WIDE_ACTIVATION, _wide(case), random)


def cancelling_integers(case: Case, random: Generator) -> Tensor:
    """As `cancelling`, in integers, and the large ones of one sign."""
    large = draw.integers(
        weights.WIDE_ACTIVATION // 2, weights.WIDE_ACTIVATION, _wide(case), random
    )
    return _all_but_few_cancel(case, large, integers(case, random), random)


def golden(design: Callable[[int, Generator], Tensor]) -> Callable[[Case, Generator], Tensor]:
    """Activations of which one-hot weights pick y = design(blocks) [blocks, 32].

    Columns that no output copies hold noise: a weight misread lets it in.
    """

    def activations(case: Case, random: Generator) -> Tensor:
        x = draw.normal(_wide(case), random).to(torch.float64)
        columns = case.groups * case.rank
        y = design(case.tokens * columns // BLOCK, random)
        x[:, :, weights.chosen(shape_of(case))] = y.view(case.tokens, case.groups, case.rank).to(x)
        return x

    return activations


def subnormal(case: Case, random: Generator) -> Tensor:
    """Subnormal operands; in half the blocks of columns normal ones whose product is subnormal."""
    x = golden(blocks_subnormal)(case, random)
    shape = shape_of(case)
    factors = weights.lifts_and_sinks(shape)
    x[:, :, weights.chosen(shape)] /= torch.where(factors < 1, factors, 1.0)
    return x


def zeros(case: Case, random: Generator) -> Tensor:
    """Zero blocks, but in every fourth row, and in every sixth launch all rows, nothing else."""
    x = golden(blocks_zeros)(case, random)
    rows = torch.arange(case.tokens) + case.draw
    x[(rows % 4 == 3) | (case.draw % 6 == 5)] = 0.0
    return x


def overflow(case: Case, random: Generator) -> Tensor:
    """Where the weight is OVER, products to both sides of 2^128; elsewhere ordinary blocks."""
    x = golden(blocks_spread)(case, random)
    shape = shape_of(case)
    columns = weights.chosen(shape)[weights.overflows(shape)]
    exponents = torch.randint(20, 37, (case.tokens, case.groups, len(columns)), generator=random)
    sizes = formats.power_of_two(exponents)
    x[:, :, columns] = sizes * draw.signs(tuple(sizes.shape), random)
    return x


def every_amax(case: Case, random: Generator) -> Tensor:
    """The next launch's share of all block maxima; as many draws as that takes hold them all."""

    def share(blocks: int, _: Generator) -> Tensor:
        first = case.draw * blocks
        return amax_blocks(torch.arange(first, first + blocks) * _AMAX_STRIDE % _AMAX)

    return golden(share)(case, random)


_AMAX, _AMAX_STRIDE = formats.BF16_INFINITY_BITS, 89
"""All non-negative finite BF16 values, and a stride that meets each of them once."""


@functools.cache
def _points() -> Tensor:
    """FP64 descending: every positive code, every tie, and the BF16 numbers around each tie."""
    codes = formats.e4m3_values(torch.device("cpu"))[: formats.E4M3_NAN]
    ties = (codes[:-1] + codes[1:]) / 2
    points = torch.cat((codes, ties, ties * (1 - 2.0**-7), ties * (1 + 2.0**-7)))
    return formats.round_bf16(points).sort(descending=True).values


def amax_blocks(bits: Tensor) -> Tensor:
    """FP64 [B, 32]: the largest value has these bits, the others walk through `_points`.

    The 128 maxima of one scale byte take turns: each has the next 31 points, all of one sign, so
    that together they hold every point with both signs.
    """
    every = formats.bf16_from_bits(torch.arange(_AMAX)).to(torch.float64)
    byte = oracle.scale_byte(every)
    last = torch.searchsorted(byte, byte[bits], right=True) - 1
    turn = last - bits
    points, lanes = _points(), torch.arange(BLOCK)
    slices = -(-len(points) // (BLOCK - 1))
    place = (turn % slices)[:, None] * (BLOCK - 1) + (lanes[None, :] - 1)
    sign = torch.where(turn // slices % 2 == 0, 1.0, -1.0).to(torch.float64)
    scale = formats.e8m0_values(torch.device("cpu"))[byte[bits]]
    top = every[bits][:, None]
    values = torch.minimum(points[place.clamp(0, len(points) - 1)] * scale[:, None], top)
    values = values * sign[:, None]
    values[:, 0] = top[:, 0] * torch.where(turn % 2 == 0, 1.0, -1.0)
    order = (lanes[None, :] - bits[:, None]) % BLOCK  # the largest value in any lane
    return values.gather(1, order)


def _lanes(blocks: int, random: Generator) -> Tensor:
    """[blocks]: one lane of each block, every lane equally often."""
    return (torch.arange(blocks) + torch.randint(0, BLOCK, (1,), generator=random)) % BLOCK


def blocks_spread(blocks: int, random: Generator) -> Tensor:
    """Normal values times powers of two from 2^-118 to 2^118: neighbours never share a scale."""
    start = int(torch.randint(0, 237, (1,), generator=random))
    exponents = (torch.arange(blocks) * 89 + start) % 237 - 118
    return draw.normal((blocks, BLOCK), random) * formats.power_of_two(exponents)[:, None]


_EDGES = torch.tensor([128, 223, 224, 225, 255], dtype=torch.float64) / 128
"""Significands of a block's largest value: 1, one step below 1.75, 1.75 = 448 / 256, one step
above, and the last before 2."""


def blocks_edges(blocks: int, random: Generator) -> Tensor:
    """The largest value sits in any lane, has either sign, and lies where the scale steps."""
    tops = _EDGES[torch.randint(0, len(_EDGES), (blocks,), generator=random)]
    exponents = torch.randint(-126, 128, (blocks,), generator=random)
    values = draw.uniform((blocks, BLOCK), random) * draw.signs((blocks, BLOCK), random)
    values[torch.arange(blocks), _lanes(blocks, random)] = draw.signs((blocks,), random)
    # The largest is exactly the edge; rounding to BF16 keeps the others at or below it.
    return values * (tops * formats.power_of_two(exponents))[:, None]


def blocks_zeros(blocks: int, random: Generator) -> Tensor:
    """A third of the blocks is zero, a third zero but for one lane, a third full."""
    values = draw.normal((blocks, BLOCK), random)
    kind = torch.randint(0, 3, (blocks, 1), generator=random)
    alone = torch.arange(BLOCK) == _lanes(blocks, random)[:, None]
    return torch.where((kind == 2) | ((kind == 1) & alone), values, 0.0)


def blocks_codes(blocks: int, random: Generator) -> Tensor:
    """E4M3 values, the ties between them, and the BF16 numbers on either side of a tie."""
    points = _points()
    values = points[torch.randint(0, len(points), (blocks, BLOCK), generator=random)]
    values *= draw.signs((blocks, BLOCK), random)
    values[torch.arange(blocks), _lanes(blocks, random)] = formats.E4M3_MAX
    exponents = torch.randint(-100, 101, (blocks, 1), generator=random)
    return values * formats.power_of_two(exponents)


def blocks_subnormal(blocks: int, random: Generator) -> Tensor:
    """Sizes from 2^-133, the smallest BF16 number, past 2^-118, where scale byte 0 ends."""
    exponents = torch.randint(-133, -114, (blocks, 1), generator=random)
    return draw.signs((blocks, BLOCK), random) * torch.maximum(
        2 * draw.uniform((blocks, BLOCK), random) * formats.power_of_two(exponents),
        torch.tensor(2.0**-133, dtype=torch.float64),
    )


def blocks_tiny(blocks: int, random: Generator) -> Tensor:
    """With weights 2^-70: sums around 2^-134, where BF16 rounds to zero or its first step."""
    exponents = torch.randint(-67, -60, (blocks, 1), generator=random)
    ties = 1 + draw.integers(0, 3, (blocks, BLOCK), random) / 4
    return draw.signs((blocks, BLOCK), random) * ties * formats.power_of_two(exponents)


def blocks_sweep(blocks: int, random: Generator) -> Tensor:
    """All finite BF16 values in order of their bits, from a random one on: 2,040 blocks."""
    patterns = torch.arange(0x10000)
    finite = patterns[patterns & 0x7FFF < formats.BF16_INFINITY_BITS]
    start = int(torch.randint(0, len(finite) // BLOCK, (1,), generator=random)) * BLOCK
    chosen = finite[(torch.arange(blocks * BLOCK) + start) % len(finite)]
    return formats.bf16_from_bits(chosen).to(torch.float64).view(blocks, BLOCK)


def cancel_rotation(case: Case, x: Tensor, cos_sin: Tensor, positions: Tensor) -> Tensor:
    """Put minus the rotated, rounded value of each rotated column into its still partner."""
    rounded = as_bf16(x).view(case.tokens, case.groups, case.k)
    turned = oracle.rotate(rounded, cos_sin, positions, case.head_dim).value
    rotated, still = weights.partners(shape_of(case))
    finished = x.to(torch.float64)
    finished[:, :, still] = -turned[:, :, rotated]
    return finished
