"""Faults of the scale byte: its rule, its edges and the amax it comes from."""
# ruff: noqa: ARG001 - a replacement is handed all that its stage gets

from __future__ import annotations

import torch
from torch import Tensor

from verify.faults.model import BLOCK, Model, unflatten
from verify.faults.record import Family, fault

SCALE = Family.SCALE


def floor_log2(ratio: Tensor) -> Tensor:
    """floor(log2(ratio)), exactly."""
    return torch.frexp(ratio).exponent.long() - 1


# The rule


@fault(SCALE, "exponent", "scales", 48)
def scale_floored(model: Model, ratio: Tensor) -> Tensor:
    """Rounds the scale down: the block's largest values saturate."""
    return floor_log2(ratio)


@fault(SCALE, "exponent", "scales", 49)
def scale_to_nearest(model: Model, ratio: Tensor) -> Tensor:
    """Rounds the scale to the nearest power of two, as a cast to E8M0 does."""
    return floor_log2(ratio) + (torch.frexp(ratio).mantissa >= 0.75).long()


@fault(SCALE, "exponent", "scales", 50)
def scale_always_bumped(model: Model, ratio: Tensor) -> Tensor:
    """Adds one to the floor also where the ratio is a power of two."""
    return floor_log2(ratio) + 1


@fault(SCALE, "exponent", "scales", 51)
def scale_by_ocp_floor(model: Model, ratio: Tensor) -> Tensor:
    """Takes floor(log2(amax)) - 8, the rule of the OCP paper."""
    return floor_log2(ratio * 448) - 8


@fault(SCALE, "scale", "scales")
def scale_one_down(model: Model, amax: Tensor) -> Tensor:
    """Has every byte one too small."""
    return (Model.scale(model, amax) - 1).clamp(min=0)


@fault(SCALE, "quantise", "scales")
def scale_one_up_codes_right(model: Model, y: Tensor) -> None:
    """Stores bytes one larger than those the codes were made with."""
    skewed(model, y, stored=1)


@fault(SCALE, "quantise", "codes")
def codes_one_binade_small(model: Model, y: Tensor) -> None:
    """Makes codes with a byte one larger than the one stored: half the value comes back."""
    skewed(model, y, used=1)


def skewed(model: Model, y: Tensor, stored: int = 0, used: int = 0) -> None:
    """The quantiser with one byte stored and another used."""
    byte = model.scale(model.amax(unflatten(y.double(), 1, -1, BLOCK)))
    model.store_codes(model.encode(model.scaled(y.double(), byte + used)))
    values, written = model.frame((byte + stored).clamp(max=254).to(torch.uint8))
    model.store_scales(values, written, model.offsets(*values.shape))


@fault(SCALE, "exponent", "scales")
def bias_128(model: Model, ratio: Tensor) -> Tensor:
    """Biases the exponent by 128."""
    return Model.exponent(model, ratio) + 1


@fault(SCALE, "scale", "scales")
def reciprocal_one_ulp_large(model: Model, amax: Tensor) -> Tensor:
    """Multiplies by 1/448 rounded up: blocks of exactly 448 * 2^k get twice the scale."""
    up = torch.tensor(0x3B124926, dtype=torch.int32).view(torch.float32)
    ratio = (amax.float() * up).double()
    return model.clamp_byte(model.exponent(ratio) + 127, amax)


@fault(SCALE, "exponent", "scales")
def bump_needs_high_mantissa(model: Model, ratio: Tensor) -> Tensor:
    """Looks at the mantissa's upper bits only: ratios just above a power of two round down."""
    return floor_log2(ratio) + (torch.frexp(ratio).mantissa >= 0.5 + 2.0**-5).long()


@fault(SCALE, "scale", "scales", 54)
def maximum_440(model: Model, amax: Tensor) -> Tensor:
    """Takes 440 for the largest E4M3 value."""
    return Model.scale(model, amax * 448 / 440)


@fault(SCALE, "scale", "scales", 55)
def maximum_240(model: Model, amax: Tensor) -> Tensor:
    """Takes 240, the largest value of E4M3FNUZ."""
    return Model.scale(model, amax * 448 / 240)


@fault(SCALE, "scale", "scales")
def maximum_256(model: Model, amax: Tensor) -> Tensor:
    """Takes 256, the largest power of two of the format."""
    return Model.scale(model, amax * 448 / 256)


@fault(SCALE, "scaled", "codes")
def codes_by_unrounded_scale(model: Model, source: Tensor, byte: Tensor) -> Tensor:
    """Makes codes with amax / 448 itself and stores the rounded-up power of two."""
    blocks = unflatten(source, 1, -1, BLOCK)
    factor = 448 / blocks.abs().amax(2, keepdim=True)
    return (blocks * factor.masked_fill(factor.isinf(), 0)).flatten(1)


# Edges


@fault(SCALE, "scale", "scales", 52)
def subnormal_ratio_bumped(model: Model, amax: Tensor) -> Tensor:
    """Has no rule for subnormal ratios: byte 1 where 0 is enough."""
    byte = Model.scale(model, amax)
    return torch.where((byte == 0) & (amax > 0), 1, byte)


@fault(SCALE, "scale", "scales", 53)
def subnormal_ratio_flushed(model: Model, amax: Tensor) -> Tensor:
    """Flushes subnormal ratios: byte 0 where 1 is needed."""
    return Model.scale(model, amax).masked_fill(amax / 448 < 2.0**-126, 0)


@fault(SCALE, "scale", "scales", 56)
def amax_floor_1e_4(model: Model, amax: Tensor) -> Tensor:
    """Raises amax to 1e-4."""
    return Model.scale(model, amax.clamp(min=1e-4))


@fault(SCALE, "scale", "scales", 57)
def amax_floor_1e_10(model: Model, amax: Tensor) -> Tensor:
    """Raises amax to 1e-10."""
    return Model.scale(model, amax.clamp(min=1e-10))


@fault(SCALE, "scale", "scales")
def epsilon_added_to_amax(model: Model, amax: Tensor) -> Tensor:
    """Adds 1e-8 to amax."""
    return Model.scale(model, amax + 1e-8)


@fault(SCALE, "clamp_byte", "scales", 59)
def zero_block_127(model: Model, byte: Tensor, amax: Tensor) -> Tensor:
    """Gives a block of zeros the scale 1."""
    return Model.clamp_byte(model, byte, amax).masked_fill(amax == 0, 127)


@fault(SCALE, "clamp_byte", "scales")
def zero_block_1(model: Model, byte: Tensor, amax: Tensor) -> Tensor:
    """Keeps byte 0 for padding: live blocks start at 1."""
    return Model.clamp_byte(model, byte, amax).clamp(min=1)


@fault(SCALE, "clamp_byte", "scales")
def byte_at_most_240(model: Model, byte: Tensor, amax: Tensor) -> Tensor:
    """Keeps bytes below 2^113, out of caution."""
    return Model.clamp_byte(model, byte, amax).clamp(max=240)


@fault(SCALE, "clamp_byte", "scales")
def byte_at_least_64(model: Model, byte: Tensor, amax: Tensor) -> Tensor:
    """Keeps bytes above 2^-63, out of caution."""
    clamped = Model.clamp_byte(model, byte, amax)
    return torch.where(amax == 0, clamped, clamped.clamp(min=64))


@fault(SCALE, "scaled", "codes")
def byte_0_means_nothing(model: Model, source: Tensor, byte: Tensor) -> Tensor:
    """Stores zero codes under byte 0, though tiny values are representable there."""
    return Model.scaled(model, source, byte) * (byte != 0).repeat_interleave(BLOCK, 1)


@fault(SCALE, "scaled", "codes")
def byte_0_means_one(model: Model, source: Tensor, byte: Tensor) -> Tensor:
    """Makes the codes under byte 0 with scale 1."""
    return Model.scaled(model, source, torch.where(byte == 0, 127, byte))


@fault(SCALE, "scaled", "codes")
def inverse_scale_overflows(model: Model, source: Tensor, byte: Tensor) -> Tensor:
    """Inverts subnormal scales in FP16's range: codes under bytes below 112 lose their scale."""
    return Model.scaled(model, source, byte.clamp(min=112))


# Where amax comes from


@fault(SCALE, "amax", "scales", 60)
def amax_signed(model: Model, blocks: Tensor) -> Tensor:
    """Forgets the magnitude: the largest value, negative ones lost."""
    return blocks.amax(2).clamp(min=0)


@fault(SCALE, "amax", "scales")
def amax_of_smaller_end(model: Model, blocks: Tensor) -> Tensor:
    """Takes the smaller of max and -min."""
    return torch.minimum(blocks.amax(2).abs(), blocks.amin(2).abs())


@fault(SCALE, "amax", "scales", 61)
def amax_without_lane_31(model: Model, blocks: Tensor) -> Tensor:
    """Reduces over 31 lanes: the last is left out."""
    return Model.amax(model, blocks[..., :31])


@fault(SCALE, "amax", "scales")
def amax_without_lane_0(model: Model, blocks: Tensor) -> Tensor:
    """Reduces over 31 lanes: the first is left out."""
    return Model.amax(model, blocks[..., 1:])


@fault(SCALE, "amax", "scales")
def amax_of_half_block(model: Model, blocks: Tensor) -> Tensor:
    """Leaves out the last step of the butterfly: 16 lanes."""
    return Model.amax(model, blocks[..., :16])


@fault(SCALE, "amax", "scales", 62)
def amax_over_64(model: Model, blocks: Tensor) -> Tensor:
    """Shares one amax between two blocks."""
    amax = Model.amax(model, blocks)
    pairs = unflatten(amax[:, : amax.shape[1] // 2 * 2], 1, -1, 2).amax(2)
    shared = amax.clone()
    shared[:, : pairs.shape[1] * 2] = pairs.repeat_interleave(2, 1)
    return shared


@fault(SCALE, "amax", "scales", 63)
def blocks_one_column_off(model: Model, blocks: Tensor) -> Tensor:
    """Starts each block one column late."""
    return Model.amax(model, unflatten(blocks.flatten(1).roll(-1, 1), 1, -1, BLOCK))


@fault(SCALE, "amax", "scales")
def amax_of_next_block(model: Model, blocks: Tensor) -> Tensor:
    """Reads its neighbour's reduction."""
    return Model.amax(model, blocks).roll(-1, 1)


@fault(SCALE, "amax", "scales")
def amax_of_row(model: Model, blocks: Tensor) -> Tensor:
    """Scales by token instead of by block."""
    return Model.amax(model, blocks).amax(1, keepdim=True).expand(blocks.shape[:2])


@fault(SCALE, "amax", "scales")
def amax_over_tokens(model: Model, blocks: Tensor) -> Tensor:
    """Reduces over the tokens of a block column as well."""
    return Model.amax(model, blocks).amax(0, keepdim=True).expand(blocks.shape[:2])


@fault(SCALE, "amax", "scales")
def amax_of_first_group_for_all(model: Model, blocks: Tensor) -> Tensor:
    """Gives every group the first one's scales."""
    groups = model.call.weight.shape[0]
    amax = unflatten(Model.amax(model, blocks), 1, groups, -1)
    return amax[:, :1].expand_as(amax).flatten(1)


@fault(SCALE, "amax", "scales")
def amax_never_reset(model: Model, blocks: Tensor) -> Tensor:
    """Carries the running maximum on to the next block of the row."""
    return Model.amax(model, blocks).cummax(1).values


@fault(SCALE, "amax", "scales")
def amax_carried_over_tokens(model: Model, blocks: Tensor) -> Tensor:
    """Carries the running maximum on to the next token."""
    return Model.amax(model, blocks).cummax(0).values


@fault(SCALE, "amax", "scales", 64)
def amax_from_fp32(model: Model, blocks: Tensor) -> Tensor:
    """Takes amax of the sums before their BF16 stop."""
    return Model.amax(model, unflatten(model.total.double(), 1, -1, BLOCK))


@fault(SCALE, "amax", "scales")
def amax_in_fp16(model: Model, blocks: Tensor) -> Tensor:
    """Takes amax in FP16: right digits, too little range."""
    return Model.amax(model, blocks.half().double())


@fault(SCALE, "amax", "scales")
def amax_is_mean_times_four(model: Model, blocks: Tensor) -> Tensor:
    """Estimates amax by four times the mean magnitude."""
    return blocks.abs().mean(2) * 4


@fault(SCALE, "amax", "scales")
def amax_of_rotated_x(model: Model, blocks: Tensor) -> Tensor:
    """Takes scales from the activations instead of the result."""
    largest = model.call.x.abs().flatten(1).amax(1, keepdim=True).double()
    return largest.expand(blocks.shape[:2])


@fault(SCALE, "amax", "repeat")
def amax_of_previous_launch(model: Model, blocks: Tensor) -> Tensor:
    """Scales by the previous launch's amax, as delayed scaling does."""
    amax = Model.amax(model, blocks)
    previous: Tensor = model.memory.get("amax", amax)
    model.memory["amax"] = amax
    return previous if previous.shape == amax.shape else amax
