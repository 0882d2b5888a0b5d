"""Faults of the grouped product: tiles, groups, heads, splits, accumulators and their order."""
# ruff: noqa: ARG001 - a replacement is handed all that its stage gets

from __future__ import annotations

import torch
from torch import Tensor

from verify.faults.model import Model, unflatten
from verify.faults.record import Family, fault

PRODUCT = Family.PRODUCT


def zeroed(x: Tensor, columns: slice) -> Tensor:
    """X with some of its K columns left out of the sum."""
    kept = x.clone()
    kept[..., columns] = 0
    return kept


# Loop bounds


@fault(PRODUCT, "multiply", "interval", 22)
def last_64_of_k_skipped(model: Model, x: Tensor, weight: Tensor) -> Tensor:
    """Stops one tile of 64 short of K."""
    return Model.multiply(model, zeroed(x, slice(-64, None)), weight)


@fault(PRODUCT, "multiply", "interval", 23)
def last_16_of_k_skipped(model: Model, x: Tensor, weight: Tensor) -> Tensor:
    """Stops one tensor-core step short of K."""
    return Model.multiply(model, zeroed(x, slice(-16, None)), weight)


@fault(PRODUCT, "multiply", "interval", 24)
def last_k_skipped(model: Model, x: Tensor, weight: Tensor) -> Tensor:
    """Has < where <= belongs: the last k is missing."""
    return Model.multiply(model, zeroed(x, slice(-1, None)), weight)


@fault(PRODUCT, "multiply", "interval")
def first_k_skipped(model: Model, x: Tensor, weight: Tensor) -> Tensor:
    """Starts at k = 1."""
    return Model.multiply(model, zeroed(x, slice(0, 1)), weight)


@fault(PRODUCT, "multiply", "interval")
def last_16_of_k_doubled(model: Model, x: Tensor, weight: Tensor) -> Tensor:
    """Adds the last tensor-core step twice."""
    doubled = x.clone()
    doubled[..., -16:] *= 2
    return Model.multiply(model, doubled, weight)


@fault(PRODUCT, "multiply", "interval")
def last_16_of_each_head_skipped(model: Model, x: Tensor, weight: Tensor) -> Tensor:
    """Stops one step short of every head."""
    kept = x.clone()
    unflatten(kept, 2, -1, model.call.head_dim)[..., -16:] = 0
    return Model.multiply(model, kept, weight)


@fault(PRODUCT, "multiply", "interval")
def k_steps_swapped(model: Model, x: Tensor, weight: Tensor) -> Tensor:
    """Meets the weights of step 1 with the activations of step 0 and the other way round."""
    swapped = x.clone()
    swapped[..., :16], swapped[..., 16:32] = x[..., 16:32], x[..., :16]
    return Model.multiply(model, swapped, weight)


# Groups, heads and rows


@fault(PRODUCT, "read_weight", "interval", 25)
def first_group_weights_for_all(model: Model) -> Tensor:
    """Leaves the group out of the weight's address."""
    return model.call.weight[:1].expand_as(model.call.weight)


@fault(PRODUCT, "multiply", "interval", 26)
def groups_of_x_swapped(model: Model, x: Tensor, weight: Tensor) -> Tensor:
    """Gives each group its neighbour's heads."""
    return Model.multiply(model, x.roll(1, 1), weight)


@fault(PRODUCT, "add", "interval")
def last_group_left_out(model: Model, partials: Tensor) -> Tensor:
    """Launches one group too few; its columns come out zero."""
    total = Model.add(model, partials).clone()
    total[:, -1] = 0
    return total


@fault(PRODUCT, "read_x", "interval")
def heads_interleaved_among_groups(model: Model) -> Tensor:
    """Deals heads to the groups in turn, h % G instead of h // (H / G)."""
    x = model.call.x.contiguous()
    tokens, groups, width = x.shape
    heads = x.view(tokens, model.call.heads, groups, model.call.head_dim)
    return heads.transpose(1, 2).reshape(tokens, groups, width)


@fault(PRODUCT, "multiply", "interval")
def heads_reversed(model: Model, x: Tensor, weight: Tensor) -> Tensor:
    """Counts heads from the last."""
    heads = unflatten(x, 2, -1, model.call.head_dim)
    return Model.multiply(model, heads.flip(2).flatten(2), weight)


@fault(PRODUCT, "read_weight", "interval", 27)
def last_row_of_tile_duplicated(model: Model) -> Tensor:
    """Clamps a row index one row early: the last of each 64 repeats the one before."""
    weight = model.call.weight.clone()
    weight[:, 31::32] = weight[:, 30::32]
    return weight


@fault(PRODUCT, "read_weight", "interval")
def weight_rows_one_off(model: Model) -> Tensor:
    """Reads each weight row one late."""
    return model.call.weight.roll(-1, 1)


@fault(PRODUCT, "read_weight", "interval")
def weight_tiles_transposed(model: Model) -> Tensor:
    """Loads 16 x 16 weight tiles with rows and columns exchanged."""
    tiles = unflatten(unflatten(model.call.weight, 2, -1, 16), 1, -1, 16)
    return tiles.transpose(2, 4).flatten(3, 4).flatten(1, 2)


@fault(PRODUCT, "read_weight", "interval")
def weight_preshuffled(model: Model) -> Tensor:
    """Reads weights that another backend has permuted in place: same shape, dtype, strides."""
    halves = unflatten(model.call.weight, 2, -1, 2, 8)
    return halves.transpose(3, 4).flatten(2)


@fault(PRODUCT, "read_weight", "interval")
def weight_interleaved_by_row(model: Model) -> Tensor:
    """Takes the weight for [R, G, K] instead of [G, R, K]."""
    groups, rows, width = model.call.weight.shape
    return model.call.weight.reshape(rows, groups, width).transpose(0, 1).contiguous()


@fault(PRODUCT, "read_weight", "interval")
def weight_in_e4m3(model: Model) -> Tensor:
    """Keeps the weight in FP8 as the checkpoint has it, without its scales."""
    return model.call.weight.clamp(-448, 448).to(torch.float8_e4m3fn).bfloat16()


@fault(PRODUCT, "multiply", "interval")
def operands_in_fp16(model: Model, x: Tensor, weight: Tensor) -> Tensor:
    """Converts activations to FP16: right digits, too little range."""
    return Model.multiply(model, x.half().float(), weight)


@fault(PRODUCT, "multiply", "exact")
def subnormal_inputs_flushed(model: Model, x: Tensor, weight: Tensor) -> Tensor:
    """Flushes subnormal activations to zero without saying so."""
    return Model.multiply(model, x.masked_fill(x.abs() < 2.0**-126, 0), weight)


@fault(PRODUCT, "multiply", "interval")
def small_inputs_skipped(model: Model, x: Tensor, weight: Tensor) -> Tensor:
    """Treats activations below 1e-6 as zero."""
    return Model.multiply(model, x.masked_fill(x.abs() < 1e-6, 0), weight)


@fault(PRODUCT, "multiply", "interval")
def nan_inputs_zeroed(model: Model, x: Tensor, weight: Tensor) -> Tensor:
    """Hides NaN: an upstream failure becomes a plausible number."""
    return Model.multiply(model, x.masked_fill(x.isnan(), 0), weight)


@fault(PRODUCT, "multiply", "interval")
def infinite_inputs_zeroed(model: Model, x: Tensor, weight: Tensor) -> Tensor:
    """Hides Inf likewise."""
    return Model.multiply(model, x.masked_fill(x.isinf(), 0), weight)


@fault(PRODUCT, "multiply", "interval")
def infinite_inputs_clamped(model: Model, x: Tensor, weight: Tensor) -> Tensor:
    """Takes Inf for the largest finite value."""
    return Model.multiply(model, x.clamp(-3.3895314e38, 3.3895314e38), weight)


@fault(PRODUCT, "multiply", "interval")
def sign_of_infinity_lost(model: Model, x: Tensor, weight: Tensor) -> Tensor:
    """Takes -Inf for Inf."""
    return Model.multiply(model, x.masked_fill(x.isinf(), torch.inf), weight)


@fault(PRODUCT, "multiply", "interval")
def weights_of_zero_skipped(model: Model, x: Tensor, weight: Tensor) -> Tensor:
    """Leaves out what a zero weight would multiply, NaN included."""
    clean = torch.where(x.isfinite(), x, 0)
    of_clean, of_all = Model.multiply(model, clean, weight), Model.multiply(model, x, weight)
    return torch.where((weight == 0).any(2), of_clean, of_all)


@fault(PRODUCT, "round", "interval")
def row_after_an_infinite_one_zeroed(model: Model, total: Tensor) -> Tensor:
    """Clears the token after one that holds Inf."""
    y = Model.round(model, total)
    after = model.call.x.isinf().flatten(1).any(1).roll(1, 0)
    after[0] = False
    return y.masked_fill(after[:, None], 0)


@fault(PRODUCT, "round", "interval")
def equal_rows_share_a_result(model: Model, total: Tensor) -> Tensor:
    """Computes rows of equal x once, whatever their positions."""
    _, same = torch.unique(model.call.x.flatten(1).view(torch.int16), dim=0, return_inverse=True)
    first = torch.stack([(same == same[row]).int().argmax() for row in range(len(same))])
    return Model.round(model, total)[first]


@fault(PRODUCT, "add", "interval")
def overflow_clamped(model: Model, partials: Tensor) -> Tensor:
    """Stops sums at the largest finite value instead of Inf."""
    return Model.add(model, partials).clamp(-3.3895314e38, 3.3895314e38)


# Splits


@fault(PRODUCT, "add", "interval", 28)
def last_split_dropped(model: Model, partials: Tensor) -> Tensor:
    """Adds all splits but the last."""
    return Model.add(model, partials[:-1])


@fault(PRODUCT, "add", "interval", 29)
def first_split_doubled(model: Model, partials: Tensor) -> Tensor:
    """Adds the owner's split twice."""
    return Model.add(model, partials) + partials[0]


@fault(PRODUCT, "add", "interval")
def split_replaced_by_neighbour(model: Model, partials: Tensor) -> Tensor:
    """Reads one inbox twice and another never."""
    order = [*range(len(partials) - 1), len(partials) - 2]
    return Model.add(model, partials[order])


@fault(PRODUCT, "add", "interval", 30)
def partials_in_bf16(model: Model, partials: Tensor) -> Tensor:
    """Passes the splits' sums on in BF16."""
    return Model.add(model, partials.bfloat16().float())


@fault(PRODUCT, "add", "interval", 31)
def partials_in_fp16(model: Model, partials: Tensor) -> Tensor:
    """Passes the splits' sums on in FP16."""
    return Model.add(model, partials.half().float())


@fault(PRODUCT, "add", "interval")
def partials_in_tf32(model: Model, partials: Tensor) -> Tensor:
    """Cuts the splits' sums to TF32."""
    return Model.add(model, (partials.view(torch.int32) & ~0x1FFF).view(torch.float32))


@fault(PRODUCT, "add", "interval")
def splits_added_in_bf16(model: Model, partials: Tensor) -> Tensor:
    """Adds the splits in BF16, as an atomic add on the output would."""
    total = partials[0].bfloat16()
    for partial in partials[1:]:
        total += partial.bfloat16()
    return total.float()


@fault(PRODUCT, "accumulate", "interval", 33, step=64)
def accumulator_in_bf16(model: Model, products: Tensor) -> Tensor:
    """Accumulates in BF16."""
    return stepwise(products, torch.bfloat16)


@fault(PRODUCT, "accumulate", "interval", 32, step=64)
def accumulator_in_fp16(model: Model, products: Tensor) -> Tensor:
    """Accumulates in FP16."""
    return stepwise(products, torch.float16)


def stepwise(products: Tensor, dtype: torch.dtype) -> Tensor:
    """Sums kept in `dtype` between steps."""
    partial = products[:, 0].to(dtype)
    for step in range(1, products.shape[1]):
        partial = (partial.float() + products[:, step]).to(dtype)
    return partial.float()


@fault(PRODUCT, "accumulate", "interval", step=64)
def accumulator_of_14_bits(model: Model, products: Tensor) -> Tensor:
    """Accumulates with 13 fraction bits, as FP8 tensor cores do."""
    partial = torch.zeros_like(products[:, 0])
    for step in range(products.shape[1]):
        partial = ((partial + products[:, step]).view(torch.int32) & ~0x3FF).view(torch.float32)
    return partial


@fault(PRODUCT, "accumulate", "exact", step=64)
def accumulator_of_20_bits(model: Model, products: Tensor) -> Tensor:
    """Accumulates with 19 fraction bits."""
    partial = torch.zeros_like(products[:, 0])
    for step in range(products.shape[1]):
        partial = ((partial + products[:, step]).view(torch.int32) & ~0xF).view(torch.float32)
    return partial


@fault(PRODUCT, "add", "interval")
def partials_in_bf16_at_19(model: Model, partials: Tensor) -> Tensor:
    """Has another plan for T = 19, which exchanges partial sums as BF16."""
    at_19 = model.call.tokens == 19
    return Model.add(model, partials.bfloat16().float() if at_19 else partials)


# Order and time


@fault(PRODUCT, "add", "repeat", 36)
def splits_added_in_any_order(model: Model, partials: Tensor) -> Tensor:
    """Adds splits as they arrive, without claiming to be nondeterministic."""
    order = torch.randperm(len(partials), generator=arrivals(model))
    return Model.add(model, partials[order])


@fault(PRODUCT, "add", "batch", 37)
def order_depends_on_t(model: Model, partials: Tensor) -> Tensor:
    """Adds in another order for more than 16 tokens, and claims batch invariance."""
    return Model.add(model, partials.flip(0) if model.call.tokens > 16 else partials)


@fault(PRODUCT, "parts", "batch")
def splits_depend_on_t(model: Model) -> int:
    """Splits K only for few tokens, and claims batch invariance."""
    return model.call.heads if model.call.tokens <= 8 else 1


@fault(PRODUCT, "add", "batch")
def order_depends_on_row(model: Model, partials: Tensor) -> Tensor:
    """Starts the sum at another split in each row, and claims batch invariance."""
    rows = [Model.add(model, partials[:, row].roll(row, 0)) for row in range(model.call.tokens)]
    return torch.stack(rows)


@fault(PRODUCT, "add", "repeat", 35)
def split_sometimes_missing(model: Model, partials: Tensor) -> Tensor:
    """Reads a split before it is written, one launch in ten."""
    late = torch.rand((), generator=arrivals(model)) < 0.1
    return Model.add(model, partials[:-1] if late else partials)


@fault(PRODUCT, "add", "repeat")
def tile_sometimes_missing(model: Model, partials: Tensor) -> Tensor:
    """Loses one split of one tile of 32 columns, one launch in five."""
    if torch.rand((), generator=arrivals(model)) >= 0.2:
        return Model.add(model, partials)
    raced = partials.clone()
    raced[-1, ..., -32:] = 0
    return Model.add(model, raced)


def arrivals(model: Model) -> torch.Generator:
    """A source of chance that goes on from call to call and starts alike in each candidate."""
    generator: torch.Generator = model.memory.setdefault("chance", torch.Generator())
    return generator.manual_seed(0) if model.calls == 0 else generator
