"""Faults of the rotation: direction, pairing, window, table, positions and rounding."""
# ruff: noqa: ARG001 - a replacement is handed all that its stage gets

from __future__ import annotations

import torch
from torch import Tensor

from verify.faults.model import Model, unflatten
from verify.faults.record import Family, fault

ROPE = Family.ROPE
Pair = tuple[Tensor, Tensor]


# Direction and pairing


@fault(ROPE, "turn", "interval", 1)
def forward_rotation(model: Model, re: Tensor, im: Tensor, cos: Tensor, sin: Tensor) -> Pair:
    """Rotates forward instead of back."""
    return Model.turn(model, re, im, cos, -sin)


@fault(ROPE, "rotate", "interval")
def no_rotation(model: Model, x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    """Leaves the rotation to a caller that does not do it."""
    return x.float()


@fault(ROPE, "rotate", "interval")
def rotated_twice(model: Model, x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    """Rotates what the caller has rotated already."""
    return Model.rotate(model, Model.rotate(model, x, cos, sin), cos, sin)


@fault(ROPE, "turn", "interval", 3)
def cos_sin_swapped(model: Model, re: Tensor, im: Tensor, cos: Tensor, sin: Tensor) -> Pair:
    """Takes the sine for the cosine and the other way round."""
    return Model.turn(model, re, im, sin, cos)


@fault(ROPE, "turn", "interval", 10)
def updated_real_part(model: Model, re: Tensor, im: Tensor, cos: Tensor, sin: Tensor) -> Pair:
    """Computes the imaginary part from the real part it has just overwritten."""
    turned = re * cos + im * sin
    return turned, im * cos - turned * sin


@fault(ROPE, "turn", "interval")
def reflection(model: Model, re: Tensor, im: Tensor, cos: Tensor, sin: Tensor) -> Pair:
    """Has one sign wrong: a reflection, no rotation."""
    return re * cos + im * sin, re * sin - im * cos


@fault(ROPE, "turn", "interval")
def imaginary_untouched(model: Model, re: Tensor, im: Tensor, cos: Tensor, sin: Tensor) -> Pair:
    """Stores the real part only."""
    return re * cos + im * sin, im


def join_halves(model: Model, tail: Tensor, re: Tensor, im: Tensor) -> None:
    """Write the real parts into the first half, the imaginary ones into the second."""
    half = tail.shape[-1] // 2
    tail[..., :half], tail[..., half:] = model.round_rotated(re), model.round_rotated(im)


@fault(ROPE, "pairs", "interval", 2, join=join_halves)
def half_split_pairs(model: Model, tail: Tensor) -> Pair:
    """Pairs dimension i with i + rope_dim / 2, as NeoX does."""
    half = tail.shape[-1] // 2
    return tail[..., :half], tail[..., half:]


@fault(ROPE, "join", "interval")
def joined_as_halves(model: Model, tail: Tensor, re: Tensor, im: Tensor) -> None:
    """Reads neighbours but stores halves."""
    join_halves(model, tail, re, im)


# Window


@fault(ROPE, "tail", "interval", 7)
def first_dims_rotated(model: Model, x: Tensor) -> Tensor:
    """Rotates the first rope_dim of each head instead of the last."""
    heads = unflatten(x, 2, model.call.heads, model.call.head_dim)
    return heads[..., : model.call.rope_dim]


@fault(ROPE, "tail", "interval")
def window_one_pair_early(model: Model, x: Tensor) -> Tensor:
    """Starts two dimensions early: touches the unrotated part, leaves the last pair."""
    heads = unflatten(x, 2, model.call.heads, model.call.head_dim)
    start = max(model.call.head_dim - model.call.rope_dim - 2, 0)
    return heads[..., start : start + model.call.rope_dim]


@fault(ROPE, "rotate", "interval")
def unrotated_dims_touched(model: Model, x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    """Rotates the rope_dim before the window as well."""
    rotated = Model.rotate(model, x, cos, sin)
    heads = unflatten(rotated, 2, model.call.heads, model.call.head_dim)
    first = heads[..., : model.call.rope_dim]
    re, im = Model.pairs(model, first.clone())
    Model.join(model, first, *Model.turn(model, re, im, cos[:, None, None], sin[:, None, None]))
    return rotated


@fault(ROPE, "rotate", "interval", 8)
def last_head_unrotated(model: Model, x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    """Leaves out the last head of each group."""
    rotated = Model.rotate(model, x, cos, sin)
    rotated[:, :, -model.call.head_dim :] = x[:, :, -model.call.head_dim :]
    return rotated


@fault(ROPE, "rotate", "interval")
def first_head_only(model: Model, x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    """Rotates the first head of each group only, as for one shared key."""
    rotated = x.float()
    first = slice(0, model.call.head_dim)
    rotated[:, :, first] = Model.rotate(model, x, cos, sin)[:, :, first]
    return rotated


@fault(ROPE, "rotate", "interval", 9)
def last_group_unrotated(model: Model, x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    """Leaves out the last group."""
    rotated = Model.rotate(model, x, cos, sin)
    rotated[:, -1] = x[:, -1]
    return rotated


@fault(ROPE, "turn", "interval", 15)
def last_pair_unrotated(model: Model, re: Tensor, im: Tensor, cos: Tensor, sin: Tensor) -> Pair:
    """Leaves out the last pair of each head."""
    turned = Model.turn(model, re, im, cos, sin)
    turned[0][..., -1], turned[1][..., -1] = re[..., -1], im[..., -1]
    return turned


@fault(ROPE, "rotate", "interval", 17)
def last_token_unrotated(model: Model, x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    """Leaves out the last token."""
    rotated = Model.rotate(model, x, cos, sin)
    rotated[-1] = x[-1]
    return rotated


@fault(ROPE, "rotate", "interval", 18)
def tokens_from_16_unrotated(model: Model, x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    """Rotates the first 16 tokens only, the smaller variant's capacity."""
    rotated = Model.rotate(model, x, cos, sin)
    rotated[16:] = x[16:]
    return rotated


# Table


@fault(ROPE, "read_table", "interval")
def table_as_halves(model: Model, positions: Tensor) -> Pair:
    """Takes a table row for [cos | sin] halves: same shape, other layout."""
    rows = model.call.cos_sin[positions]
    half = model.call.rope_dim // 2
    return rows[:, :half], rows[:, half:]


@fault(ROPE, "read_table", "interval", 13)
def table_in_bf16(model: Model, positions: Tensor) -> Pair:
    """Keeps the table in BF16."""
    cos, sin = Model.read_table(model, positions)
    return cos.bfloat16().float(), sin.bfloat16().float()


@fault(ROPE, "read_table", "interval")
def table_in_fp16(model: Model, positions: Tensor) -> Pair:
    """Keeps the table in FP16."""
    cos, sin = Model.read_table(model, positions)
    return cos.half().float(), sin.half().float()


@fault(ROPE, "read_table", "interval")
def table_normalised(model: Model, positions: Tensor) -> Pair:
    """Makes each pair of the table one of length 1: YaRN's factor is lost."""
    cos, sin = Model.read_table(model, positions)
    length = torch.hypot(cos, sin)
    return cos / length, sin / length


@fault(ROPE, "read_table", "interval", 14)
def last_pair_previous_frequency(model: Model, positions: Tensor) -> Pair:
    """Turns the last pair by the frequency of the one before."""
    cos, sin = (part.clone() for part in Model.read_table(model, positions))
    cos[:, -1], sin[:, -1] = cos[:, -2], sin[:, -2]
    return cos, sin


@fault(ROPE, "read_table", "interval", 16)
def frequencies_one_pair_off(model: Model, positions: Tensor) -> Pair:
    """Turns each pair by its neighbour's frequency."""
    cos, sin = Model.read_table(model, positions)
    return cos.roll(1, 1), sin.roll(1, 1)


@fault(ROPE, "read_table", "interval")
def table_rebuilt_from_theta(model: Model, positions: Tensor) -> Pair:
    """Computes angles from theta 10000 instead of reading the table, blind to YaRN."""
    exponents = -torch.arange(0, model.call.rope_dim, 2) / model.call.rope_dim
    angles = positions[:, None].float() * 10000.0**exponents
    return angles.cos(), angles.sin()


@fault(ROPE, "read_table", "interval")
def row_zero_taken_for_identity(model: Model, positions: Tensor) -> Pair:
    """Skips the rotation at position 0, whatever the table says there."""
    cos, sin = Model.read_table(model, positions)
    at_zero = (positions == 0)[:, None]
    return cos.masked_fill(at_zero, 1), sin.masked_fill(at_zero, 0)


@fault(ROPE, "read_table", "interval")
def sine_from_cosine(model: Model, positions: Tensor) -> Pair:
    """Rebuilds the sine as sqrt(1 - cos^2) and loses its sign."""
    cos, _ = Model.read_table(model, positions)
    return cos, (1 - cos * cos).clamp(min=0).sqrt()


# Positions


def at(model: Model, positions: Tensor) -> Tensor:
    """Positions as a wrong address would be met: inside the table, modulo its length."""
    return positions.long() % model.call.cos_sin.shape[0]


@fault(ROPE, "read_positions", "interval", 4)
def position_plus_one(model: Model) -> Tensor:
    """Reads the table one row late."""
    return at(model, Model.read_positions(model) + 1)


@fault(ROPE, "read_positions", "interval", 5)
def position_minus_one(model: Model) -> Tensor:
    """Reads the table one row early."""
    return (Model.read_positions(model) - 1).clamp(min=0)


@fault(ROPE, "read_positions", "interval", 6)
def first_position_for_all(model: Model) -> Tensor:
    """Turns every token by the first one's position."""
    return Model.read_positions(model)[:1].expand(model.call.tokens)


@fault(ROPE, "read_positions", "interval")
def positions_taken_for_consecutive(model: Model) -> Tensor:
    """Counts up from the first position, as in a prefill."""
    first = Model.read_positions(model)[:1]
    return at(model, first + torch.arange(model.call.tokens))


@fault(ROPE, "read_positions", "interval")
def token_index_for_position(model: Model) -> Tensor:
    """Turns token t by position t."""
    return at(model, torch.arange(model.call.tokens))


@fault(ROPE, "read_positions", "interval")
def position_of_previous_token(model: Model) -> Tensor:
    """Turns each token by the position of the one before it."""
    return Model.read_positions(model).roll(1)


@fault(ROPE, "read_positions", "interval")
def second_tile_repeats_positions(model: Model) -> Tensor:
    """Tokens from 16 on take the positions of the first 16."""
    return Model.read_positions(model)[torch.arange(model.call.tokens) % 16]


@fault(ROPE, "read_positions", "interval", 19)
def position_int16(model: Model) -> Tensor:
    """Keeps positions in 16 signed bits."""
    return at(model, Model.read_positions(model).to(torch.int16).long())


@fault(ROPE, "read_positions", "interval")
def position_uint16(model: Model) -> Tensor:
    """Keeps positions in 16 unsigned bits."""
    return Model.read_positions(model) & 0xFFFF


@fault(ROPE, "read_positions", "interval", 20)
def position_12_bits(model: Model) -> Tensor:
    """Masks positions with the length of a short test table."""
    return Model.read_positions(model) & 0xFFF


@fault(ROPE, "read_positions", "interval")
def position_clamped_at_original_length(model: Model) -> Tensor:
    """Clamps positions at 65535, the length before YaRN stretched it."""
    return Model.read_positions(model).clamp(max=65535)


@fault(ROPE, "read_positions", "interval")
def last_row_never_read(model: Model) -> Tensor:
    """Clamps positions one row before the table's end."""
    return Model.read_positions(model).clamp(max=model.call.cos_sin.shape[0] - 2)


@fault(ROPE, "read_positions", "interval", 89)
def int64_positions_read_as_int32(model: Model) -> Tensor:
    """Reads an int64 buffer as int32: p0, 0, p1, 0, ..."""
    words = model.call.positions.view(torch.int32)
    return at(model, words[: model.call.tokens].long())


@fault(ROPE, "read_positions", "interval")
def int32_positions_read_as_int64(model: Model) -> Tensor:
    """Reads an int32 buffer as int64: two positions in one word."""
    given = Model.read_positions(model)
    if model.call.positions.dtype == torch.int64:
        return given
    following = torch.cat([given[1::2], given.new_zeros(len(given) % 2)])
    words = torch.cat([given[0::2] + (following << 32), given.new_zeros(len(given) // 2)])
    return at(model, words)


@fault(ROPE, "read_positions", "interval")
def position_through_fp32(model: Model) -> Tensor:
    """Carries positions in FP32, which skips odd ones above 2^24."""
    return at(model, Model.read_positions(model).float().long())


@fault(ROPE, "read_positions", "interval")
def position_through_bf16(model: Model) -> Tensor:
    """Carries positions in BF16, which skips most above 256."""
    return at(model, Model.read_positions(model).bfloat16().long())


@fault(ROPE, "read_table", "interval", 21)
def table_offset_int32_elements(model: Model, positions: Tensor) -> Pair:
    """Counts table elements in 32 signed bits."""
    return wrapped(model, positions, 1)


@fault(ROPE, "read_table", "interval")
def table_offset_int32_bytes(model: Model, positions: Tensor) -> Pair:
    """Counts table bytes in 32 signed bits."""
    return wrapped(model, positions, 4)


@fault(ROPE, "read_table", "interval")
def table_offset_uint32_bytes(model: Model, positions: Tensor) -> Pair:
    """Counts table bytes in 32 unsigned bits."""
    row_bytes = model.call.rope_dim * 4
    return Model.read_table(model, (positions * row_bytes % 2**32) // row_bytes)


def wrapped(model: Model, positions: Tensor, unit: int) -> Pair:
    """Table rows at offsets that wrap at 2^31 units; a negative one lands in the last row."""
    row = model.call.rope_dim * unit
    offset = (positions * row).to(torch.int32).long()
    return Model.read_table(model, torch.where(offset < 0, -1, offset // row))


# Rounding


@fault(ROPE, "round_rotated", "interval", 11)
def rotated_not_rounded(model: Model, part: Tensor) -> Tensor:
    """Keeps the rotated values in FP32 for the product."""
    return part


@fault(ROPE, "round_rotated", "interval", 12)
def rotated_truncated(model: Model, part: Tensor) -> Tensor:
    """Cuts the rotated values to BF16 instead of rounding them."""
    return (part.contiguous().view(torch.int32) & ~0xFFFF).view(torch.float32)


@fault(ROPE, "round_rotated", "interval")
def rotated_through_fp16(model: Model, part: Tensor) -> Tensor:
    """Rotates in FP16."""
    return part.half().bfloat16().float()


@fault(ROPE, "turn", "interval")
def products_in_bf16(model: Model, re: Tensor, im: Tensor, cos: Tensor, sin: Tensor) -> Pair:
    """Rounds each of the four products of a rotation to BF16."""
    a, b, c, d = (
        (u * v).bfloat16().float() for u, v in ((re, cos), (im, sin), (im, cos), (re, sin))
    )
    return a + b, c - d
