"""Faults of the scale bytes' layout and of the padding around them."""
# ruff: noqa: ARG001 - a replacement is handed all that its stage gets

from __future__ import annotations

import torch
from torch import Tensor

from verify.faults.model import TILE_BYTES, Model
from verify.faults.record import Family, fault

LAYOUT = Family.LAYOUT
Frame = tuple[Tensor, Tensor]


def place(rows: int, columns: int) -> tuple[Tensor, Tensor]:
    """Row and column indices of the padded scale matrix."""
    return torch.arange(rows)[:, None], torch.arange(columns)


# Order of the bytes


@fault(LAYOUT, "offsets", "scales", 71)
def linear_layout(model: Model, rows: int, columns: int) -> Tensor:
    """Stores bytes row by row, not swizzled."""
    row, column = place(rows, columns)
    return row * columns + column


@fault(LAYOUT, "offsets", "scales")
def column_major_layout(model: Model, rows: int, columns: int) -> Tensor:
    """Stores bytes column by column."""
    row, column = place(rows, columns)
    return column * rows + row


@fault(LAYOUT, "offsets", "scales")
def packed_int32_layout(model: Model, rows: int, columns: int) -> Tensor:
    """Packs four columns into a word and stores words column by column, as DeepGEMM does."""
    row, column = place(rows, columns)
    return column // 4 * rows * 4 + row * 4 + column % 4


@fault(LAYOUT, "offsets", "scales", 82)
def layout_8x4(model: Model, rows: int, columns: int) -> Tensor:
    """Swizzles tiles of 8 x 4 instead of 128 x 4."""
    row, column = place(rows, columns)
    return (row // 8 * (columns // 4) + column // 4) * 32 + row % 8 * 4 + column % 4


@fault(LAYOUT, "offsets", "scales", 72)
def tile_index_transposed(model: Model, rows: int, columns: int) -> Tensor:
    """Counts column tiles with their two digits exchanged."""
    column = torch.arange(columns)
    tiles = columns // 4
    inner = next((d for d in (8, 4, 3, 2) if tiles % d == 0 and tiles > d), 1)
    tile = column // 4
    exchanged = tile % inner * (tiles // inner) + tile // inner
    return Model.offsets(model, rows, columns) + (exchanged - tile) * TILE_BYTES


@fault(LAYOUT, "offsets", "scales", 73)
def row_digits_exchanged(model: Model, rows: int, columns: int) -> Tensor:
    """Exchanges row % 32 and row // 32 inside a tile."""
    row, column = place(rows, columns)
    return column // 4 * TILE_BYTES + row // 32 * 128 + row % 32 * 4 + column % 4


@fault(LAYOUT, "offsets", "scales")
def column_before_row_quarter(model: Model, rows: int, columns: int) -> Tensor:
    """Exchanges column % 4 and row // 32 inside a tile."""
    row, column = place(rows, columns)
    return column // 4 * TILE_BYTES + row % 32 * 16 + column % 4 * 4 + row // 32


@fault(LAYOUT, "offsets", "scales")
def rows_reversed_in_tile(model: Model, rows: int, columns: int) -> Tensor:
    """Counts the rows of a tile from its end."""
    return Model.offsets(model, rows, columns).flip(0)


@fault(LAYOUT, "offsets", "scales")
def bytes_reversed_in_word(model: Model, rows: int, columns: int) -> Tensor:
    """Packs the four columns of a tile from the wrong end."""
    return Model.offsets(model, rows, columns) + 3 - 2 * (torch.arange(columns) % 4)


@fault(LAYOUT, "frame", "scales", 74)
def first_blocks_swapped(model: Model, byte: Tensor) -> Frame:
    """Exchanges the scales of the first two blocks."""
    values, written = Model.frame(model, byte)
    values[:, [0, 1]] = values[:, [1, 0]]
    return values, written


@fault(LAYOUT, "frame", "scales", 75)
def last_group_over_first(model: Model, byte: Tensor) -> Frame:
    """Leaves the group out of the address: the last one's bytes lie over the first one's."""
    values, written = Model.frame(model, byte)
    blocks = model.call.weight.shape[1] // 32
    values[: byte.shape[0], :blocks] = byte[:, -blocks:]
    return values, written


@fault(LAYOUT, "frame", "scales")
def scale_rows_one_late(model: Model, byte: Tensor) -> Frame:
    """Stores each token's scales one row late."""
    values, written = Model.frame(model, byte)
    return values.roll(1, 0), written


@fault(LAYOUT, "frame", "scales")
def scales_of_first_token_for_all(model: Model, byte: Tensor) -> Frame:
    """Stores the first token's scales in every row."""
    return Model.frame(model, byte[:1].expand_as(byte))


@fault(LAYOUT, "frame", "unwritten")
def scales_from_token_16_unwritten(model: Model, byte: Tensor) -> Frame:
    """Stores the scales of 16 tokens only."""
    values, written = Model.frame(model, byte)
    written[16 : byte.shape[0]] = False
    return values, written


@fault(LAYOUT, "frame", "unwritten")
def last_scale_column_unwritten(model: Model, byte: Tensor) -> Frame:
    """Never stores the last block's scale."""
    values, written = Model.frame(model, byte)
    written[: byte.shape[0], byte.shape[1] - 1] = False
    return values, written


@fault(LAYOUT, "frame", "unwritten")
def zero_scales_unwritten(model: Model, byte: Tensor) -> Frame:
    """Takes the buffer for zeroed and stores nonzero bytes of live rows only."""
    values, written = Model.frame(model, byte)
    written[: byte.shape[0], : byte.shape[1]] = byte != 0
    return values, written


# Padding


@fault(LAYOUT, "frame", "padding", 76)
def padding_unwritten(model: Model, byte: Tensor) -> Frame:
    """Leaves the padding as it was."""
    values, written = Model.frame(model, byte)
    written[byte.shape[0] :] = False
    written[:, byte.shape[1] :] = False
    return values, written


@fault(LAYOUT, "frame", "padding")
def padding_columns_unwritten(model: Model, byte: Tensor) -> Frame:
    """Leaves the padding beside the last column as it was, in the rows of tokens."""
    values, written = Model.frame(model, byte)
    written[: byte.shape[0], byte.shape[1] :] = False
    return values, written


@fault(LAYOUT, "frame", "padding")
def padding_columns_repeat_last(model: Model, byte: Tensor) -> Frame:
    """Fills the padding beside the last column with that column's bytes."""
    values, written = Model.frame(model, byte)
    values[: byte.shape[0], byte.shape[1] :] = byte[:, -1:]
    return values, written


@fault(LAYOUT, "frame", "padding", 77)
def padding_one_row_late(model: Model, byte: Tensor) -> Frame:
    """Starts zeroing one row late."""
    values, written = Model.frame(model, byte)
    written[byte.shape[0]] = False
    return values, written


@fault(LAYOUT, "frame", "scales", 78)
def padding_over_last_token(model: Model, byte: Tensor) -> Frame:
    """Starts zeroing one row early, over the last token's bytes."""
    values, written = Model.frame(model, byte)
    values[byte.shape[0] - 1] = 0
    return values, written


@fault(LAYOUT, "frame", "padding", 79)
def padding_to_row_32(model: Model, byte: Tensor) -> Frame:
    """Zeroes up to row 32, the capacity, instead of 128."""
    values, written = Model.frame(model, byte)
    written[32:] = False
    return values, written


@fault(LAYOUT, "frame", "padding", 80)
def padding_from_row_32(model: Model, byte: Tensor) -> Frame:
    """Zeroes from the capacity on instead of from T."""
    values, written = Model.frame(model, byte)
    written[byte.shape[0] : 32] = False
    return values, written


@fault(LAYOUT, "frame", "padding")
def last_padding_row_unwritten(model: Model, byte: Tensor) -> Frame:
    """Stops zeroing one row early."""
    values, written = Model.frame(model, byte)
    written[-1] = False
    return values, written


@fault(LAYOUT, "frame", "padding")
def padding_of_last_tile_unwritten(model: Model, byte: Tensor) -> Frame:
    """Leaves the padding rows of the last column tile as they were."""
    values, written = Model.frame(model, byte)
    written[byte.shape[0] :, -4:] = False
    return values, written


@fault(LAYOUT, "frame", "padding")
def padding_unwritten_at_32(model: Model, byte: Tensor) -> Frame:
    """Takes a full launch to need no padding."""
    values, written = Model.frame(model, byte)
    if byte.shape[0] == 32:
        written[32:] = False
    return values, written


@fault(LAYOUT, "frame", "padding")
def padding_127(model: Model, byte: Tensor) -> Frame:
    """Fills the padding with the scale 1."""
    values, written = Model.frame(model, byte)
    values[byte.shape[0] :] = 127
    return values, written


@fault(LAYOUT, "frame", "padding")
def padding_255(model: Model, byte: Tensor) -> Frame:
    """Fills the padding with NaN scales."""
    values, written = Model.frame(model, byte)
    values[byte.shape[0] :] = 255
    return values, written


@fault(LAYOUT, "frame", "padding")
def padding_repeats_last_token(model: Model, byte: Tensor) -> Frame:
    """Fills the padding rows up to the capacity with the last token's scales."""
    values, written = Model.frame(model, byte)
    values[byte.shape[0] : 32, : byte.shape[1]] = byte[-1]
    return values, written


@fault(LAYOUT, "frame", "repeat")
def padding_in_first_launch_only(model: Model, byte: Tensor) -> Frame:
    """Zeroes the padding once and trusts it ever after."""
    values, written = Model.frame(model, byte)
    if model.memory.setdefault("padded", model.calls) != model.calls:
        written[byte.shape[0] :] = False
    return values, written


@fault(LAYOUT, "frame", "padding", 81)
def padding_by_first_t(model: Model, byte: Tensor) -> Frame:
    """Zeroes from the first launch's T on, as a captured argument would."""
    first = model.memory.setdefault("first", byte.shape[0])
    values, written = Model.frame(model, byte)
    written[byte.shape[0] : max(first, byte.shape[0])] = False
    return values, written
