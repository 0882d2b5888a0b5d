"""Faults of the BF16 output: its rounding, single elements, rows and columns out of place."""
# ruff: noqa: ARG001 - a replacement is handed all that its stage gets

from __future__ import annotations

import torch
from torch import Tensor

from verify.faults.model import BLOCK, Model, unflatten
from verify.faults.record import Family, fault

OUTPUT = Family.OUTPUT


def bits(y: Tensor) -> Tensor:
    """BF16 as INT16."""
    return y.view(torch.int16)


def rounded_with(total: Tensor, increment: Tensor | int) -> Tensor:
    """FP32 to BF16 by adding `increment` to the bits before cutting; Inf and NaN as they should."""
    cut = (total.contiguous().view(torch.int32) + increment) >> 16
    return torch.where(total.isfinite(), cut.to(torch.int16).view(torch.bfloat16), total.bfloat16())


# Rounding


@fault(OUTPUT, "round", "interval", 38)
def output_truncated(model: Model, total: Tensor) -> Tensor:
    """Cuts the sum to BF16."""
    return rounded_with(total, 0)


@fault(OUTPUT, "round", "exact")
def output_ties_away(model: Model, total: Tensor) -> Tensor:
    """Rounds ties away from zero."""
    return rounded_with(total, 0x8000)


@fault(OUTPUT, "round", "exact")
def output_ties_down(model: Model, total: Tensor) -> Tensor:
    """Rounds ties toward zero."""
    return rounded_with(total, 0x7FFF)


@fault(OUTPUT, "round", "interval")
def output_rounded_up(model: Model, total: Tensor) -> Tensor:
    """Rounds away from zero always."""
    return rounded_with(total, 0xFFFF)


@fault(OUTPUT, "round", "exact")
def output_to_odd(model: Model, total: Tensor) -> Tensor:
    """Rounds ties to odd."""
    even = 1 - (total.contiguous().view(torch.int32) >> 16 & 1)
    return rounded_with(total, 0x7FFF + even)


@fault(OUTPUT, "round", "interval", 39)
def output_through_fp16(model: Model, total: Tensor) -> Tensor:
    """Rounds to FP16 first."""
    return total.half().bfloat16()


@fault(OUTPUT, "round", "exact")
def output_through_tf32(model: Model, total: Tensor) -> Tensor:
    """Rounds to TF32 first: a double rounding that only near-ties show."""
    word = total.contiguous().view(torch.int32)
    tf32 = (word + 0xFFF + (word >> 13 & 1)) & ~0x1FFF
    return torch.where(total.isfinite(), tf32.view(torch.float32), total).bfloat16()


@fault(OUTPUT, "round", "interval")
def output_stochastic(model: Model, total: Tensor) -> Tensor:
    """Rounds up or down by chance, as an optimiser would, though the same chance each time."""
    dither = torch.randint(0, 0x10000, total.shape, generator=torch.Generator().manual_seed(1))
    return rounded_with(total, dither.to(torch.int32))


@fault(OUTPUT, "round", "exact")
def subnormal_output_flushed(model: Model, total: Tensor) -> Tensor:
    """Flushes subnormal results to zero without saying so."""
    return total.masked_fill(total.abs() < 2.0**-126, 0).bfloat16()


@fault(OUTPUT, "round", "exact")
def sign_of_zero_lost(model: Model, total: Tensor) -> Tensor:
    """Adds a bias of zero: -0 becomes +0."""
    return Model.round(model, total) + 0.0


@fault(OUTPUT, "round", "interval")
def output_saturates(model: Model, total: Tensor) -> Tensor:
    """Stores the largest finite value where the sum overflowed."""
    largest = torch.finfo(torch.bfloat16).max
    return total.clamp(-largest, largest).bfloat16()


@fault(OUTPUT, "round", "interval")
def nan_output_zeroed(model: Model, total: Tensor) -> Tensor:
    """Stores 0 where the sum is NaN."""
    return total.masked_fill(total.isnan(), 0).bfloat16()


@fault(OUTPUT, "round", "interval", 45)
def output_half_percent_large(model: Model, total: Tensor) -> Tensor:
    """Multiplies by a gain of 1.005, as a wrong attention factor would."""
    return (total * 1.005).bfloat16()


@fault(OUTPUT, "round", "exact")
def output_slightly_large(model: Model, total: Tensor) -> Tensor:
    """Multiplies by a factor that ought to be 1 and is 1 + 2^-16."""
    return (total * (1 + 2.0**-16)).bfloat16()


# Single elements


def changed(y: Tensor, column: int, value: Tensor) -> Tensor:
    """Y with one column of the middle row replaced."""
    y = y.clone()
    y[y.shape[0] // 2, column] = value
    return y


@fault(OUTPUT, "round", "interval", 40)
def last_element_zero(model: Model, total: Tensor) -> Tensor:
    """Never reaches the last element of the output."""
    y = Model.round(model, total)
    y[-1, -1] = 0
    return y


@fault(OUTPUT, "round", "interval", 41)
def one_sign_flipped(model: Model, total: Tensor) -> Tensor:
    """Flips the sign of one element."""
    y = Model.round(model, total)
    return changed(y, 7, -y[y.shape[0] // 2, 7])


@fault(OUTPUT, "round", "interval", 42)
def one_element_doubled(model: Model, total: Tensor) -> Tensor:
    """Doubles one element."""
    y = Model.round(model, total)
    return changed(y, 7, 2 * y[y.shape[0] // 2, 7])


@fault(OUTPUT, "round", "interval", 43)
def one_element_one_ulp_off(model: Model, total: Tensor) -> Tensor:
    """Has one element one unit in the last place too large."""
    y = Model.round(model, total)
    bits(y)[y.shape[0] // 2, 7] += 1
    return y


@fault(OUTPUT, "round", "interval", 44)
def every_element_three_ulp_off(model: Model, total: Tensor) -> Tensor:
    """Has every element three units in the last place too large."""
    y = Model.round(model, total)
    bits(y).add_(3)
    return y


@fault(OUTPUT, "round", "interval", 46)
def last_block_zero(model: Model, total: Tensor) -> Tensor:
    """Leaves out the last block of 32 columns of each row."""
    y = Model.round(model, total)
    y[:, -BLOCK:] = 0
    return y


@fault(OUTPUT, "round", "interval")
def one_element_repeats_its_neighbour(model: Model, total: Tensor) -> Tensor:
    """Writes one element twice and its neighbour never."""
    y = Model.round(model, total)
    return changed(y, 8, y[y.shape[0] // 2, 7])


@fault(OUTPUT, "round", "interval")
def small_elements_zeroed(model: Model, total: Tensor) -> Tensor:
    """Stores 0 where the result is below 1e-4."""
    return total.masked_fill(total.abs() < 1e-4, 0).bfloat16()


# Rows and columns


@fault(OUTPUT, "round", "interval", 47)
def first_rows_swapped(model: Model, total: Tensor) -> Tensor:
    """Exchanges the first two tokens."""
    y = Model.round(model, total)
    if y.shape[0] > 1:
        y[[0, 1]] = y[[1, 0]]
    return y


@fault(OUTPUT, "round", "interval")
def rows_rotated(model: Model, total: Tensor) -> Tensor:
    """Stores each token one row late."""
    return Model.round(model, total).roll(1, 0)


@fault(OUTPUT, "round", "interval")
def second_tile_repeats_first(model: Model, total: Tensor) -> Tensor:
    """Tokens from 16 on come out as the first 16."""
    return Model.round(model, total)[torch.arange(total.shape[0]) % 16]


@fault(OUTPUT, "round", "interval")
def last_row_missing_at_16(model: Model, total: Tensor) -> Tensor:
    """Has the smaller variant hold 15 tokens: at T = 16 the last one comes out zero."""
    y = Model.round(model, total)
    if y.shape[0] == 16:
        y[-1] = 0
    return y


@fault(OUTPUT, "round", "interval")
def last_row_missing_at_17(model: Model, total: Tensor) -> Tensor:
    """Rounds T down to the tile: at T = 17 the last token comes out zero."""
    y = Model.round(model, total)
    if y.shape[0] == 17:
        y[-1] = 0
    return y


@fault(OUTPUT, "round", "interval")
def last_row_missing_at_6(model: Model, total: Tensor) -> Tensor:
    """Has no variant for T = 6: the last token comes out zero."""
    y = Model.round(model, total)
    if y.shape[0] == 6:
        y[-1] = 0
    return y


@fault(OUTPUT, "round", "interval")
def rows_from_24_missing_below_31(model: Model, total: Tensor) -> Tensor:
    """Rounds T from 25 to 30 down to whole tiles of 8."""
    y = Model.round(model, total)
    if y.shape[0] < 31:
        y[24:] = 0
    return y


@fault(OUTPUT, "round", "interval")
def odd_t_wrong(model: Model, total: Tensor) -> Tensor:
    """Works on pairs of tokens: with an odd T the last one is its neighbour's."""
    y = Model.round(model, total)
    if y.shape[0] % 2 and y.shape[0] > 1:
        y[-1] = y[-2]
    return y


@fault(OUTPUT, "round", "interval")
def row_31_missing(model: Model, total: Tensor) -> Tensor:
    """Has room for 31 tokens: row 31 comes out zero."""
    y = Model.round(model, total)
    y[31:] = 0
    return y


@fault(OUTPUT, "round", "interval")
def columns_interleaved_by_group(model: Model, total: Tensor) -> Tensor:
    """Stores column r * G + g instead of g * R + r."""
    groups = model.call.weight.shape[0]
    return unflatten(Model.round(model, total), 1, groups, -1).transpose(1, 2).flatten(1)


@fault(OUTPUT, "round", "interval")
def groups_exchanged(model: Model, total: Tensor) -> Tensor:
    """Stores each group in its neighbour's columns."""
    return Model.round(model, total).roll(model.call.weight.shape[1], 1)


@fault(OUTPUT, "round", "interval")
def columns_reversed_in_fours(model: Model, total: Tensor) -> Tensor:
    """Packs four neighbours from the wrong end."""
    return unflatten(Model.round(model, total), 1, -1, 4).flip(2).flatten(1)


@fault(OUTPUT, "round", "interval")
def tile_transposed(model: Model, total: Tensor) -> Tensor:
    """Stores the first 16 x 16 tile with rows and columns exchanged."""
    y = Model.round(model, total)
    if y.shape[0] >= 16:
        y[:16, :16] = y[:16, :16].T.clone()
    return y


@fault(OUTPUT, "store_y", "codes")
def bf16_form_one_ulp_off(model: Model, y: Tensor) -> None:
    """Has the BF16 form disagree with the quantised one by a unit in one small element."""
    assert model.call.out is not None
    model.call.out.copy_(y)
    column = int(y[0].abs().argmin())
    bits(model.call.out)[0, column] += 1


@fault(OUTPUT, "source", "codes", 65)
def quantised_from_fp32(model: Model, y: Tensor) -> Tensor:
    """Quantises the FP32 sums: leaves out the stop at BF16."""
    return model.total.double()


@fault(OUTPUT, "source", "codes")
def quantised_from_fp16(model: Model, y: Tensor) -> Tensor:
    """Quantises FP16 sums."""
    return model.total.half().double()


@fault(OUTPUT, "add", "codes")
def quantised_form_adds_in_bf16(model: Model, partials: Tensor) -> Tensor:
    """Adds BF16 partials when it quantises, FP32 ones when it does not."""
    return Model.add(model, partials if model.call.q is None else partials.bfloat16().float())
