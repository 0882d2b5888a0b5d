"""Faults of addressing and memory: strides, offsets, bounds, inputs overwritten, outputs read."""

from __future__ import annotations

import torch
from torch import Tensor

from verify.faults.model import Model
from verify.faults.record import Family, fault

MEMORY = Family.MEMORY


def around(tensor: Tensor, start: int, count: int) -> Tensor:
    """`count` elements from `start` on, counted from the tensor's first, in or out of its bounds.

    What lies outside the storage is left out: a CPU would fault there, a GPU perhaps not.
    """
    size = tensor.untyped_storage().nbytes() // tensor.element_size()
    first = max(tensor.storage_offset() + start, 0)
    last = min(tensor.storage_offset() + start + count, size)
    return tensor.as_strided((max(last - first, 0),), (1,), min(first, size))


# Addresses


@fault(MEMORY, "read_x", "interval", 87)
def row_stride_ignored(model: Model) -> Tensor:
    """Takes x for contiguous."""
    x = model.call.x
    return x.as_strided(x.shape, (x.shape[1] * x.shape[2], x.shape[2], 1))


@fault(MEMORY, "read_x", "interval", 88)
def storage_offset_ignored(model: Model) -> Tensor:
    """Reads from the start of the buffer that x is a slice of."""
    x = model.call.x
    return x.as_strided(x.shape, x.stride(), 0)


@fault(MEMORY, "read_x", "interval")
def row_stride_of_64_heads(model: Model) -> Tensor:
    """Takes every row for 64 heads wide; what lies outside the buffer is read from its start."""
    x = model.call.x
    size, row = x.untyped_storage().nbytes() // x.element_size(), x.shape[1] * x.shape[2]
    first, wide = int(x.storage_offset()), 64 * model.call.head_dim
    starts = [(first + token * wide) % (size - row + 1) for token in range(x.shape[0])]
    return torch.cat([around(x, start - first, row) for start in starts]).view(x.shape)


@fault(MEMORY, "read_x", "interval")
def two_row_strides_known(model: Model) -> Tensor:
    """Takes what is not packed for four times as wide."""
    x = model.call.x
    row = x.shape[1] * x.shape[2]
    if x.stride(0) in (row, 4 * row):
        return x
    size = x.untyped_storage().nbytes() // x.element_size()
    first = int(x.storage_offset())
    starts = [(first + token * 4 * row) % (size - row + 1) for token in range(x.shape[0])]
    return torch.cat([around(x, start - first, row) for start in starts]).view(x.shape)


@fault(MEMORY, "read_x", "interval")
def row_stride_in_whole_heads(model: Model) -> Tensor:
    """Counts the row stride of x in heads, and drops what is left over."""
    x, head = model.call.x, model.call.head_dim
    stride = max(x.stride(0) // head * head, x.shape[1] * x.shape[2])
    return x.as_strided(x.shape, (stride, *x.stride()[1:]))


@fault(MEMORY, "read_x", "interval")
def x_aligned_to_128_bytes(model: Model) -> Tensor:
    """Rounds the address of x down to 128 bytes, as a bulk copy asks."""
    x = model.call.x
    before = x.data_ptr() % 128 // x.element_size()
    return x.as_strided(x.shape, x.stride(), max(x.storage_offset() - before, 0))


@fault(MEMORY, "read_x", "interval")
def row_offset_int32_elements(model: Model) -> Tensor:
    """Counts the elements of x in 32 signed bits."""
    return narrowed(model, 2**31)


@fault(MEMORY, "read_x", "interval")
def row_offset_int32_bytes(model: Model) -> Tensor:
    """Counts the bytes of x in 32 signed bits."""
    return narrowed(model, 2**30)


def narrowed(model: Model, elements: int) -> Tensor:
    """X with the rows that begin at or after `elements` read from the first row instead."""
    x = model.call.x
    wraps = torch.arange(x.shape[0]) * x.stride(0) >= elements
    return x if not wraps.any() else x[torch.where(wraps, 0, torch.arange(x.shape[0]))]


@fault(MEMORY, "read_x", "interval", 91)
def row_after_the_last_read(model: Model) -> Tensor:
    """Loads one row too many and multiplies it by zero: NaN there reaches the last token."""
    x = model.call.x
    width = x.shape[1] * x.shape[2]
    beyond = around(x, x.shape[0] * x.stride(0), width)
    leak = beyond.float().sum() * 0 if beyond.numel() == width else torch.zeros(())
    read = x.clone()
    read[-1] += leak.bfloat16()
    return read


@fault(MEMORY, "read_x", "interval")
def head_after_the_last_read(model: Model) -> Tensor:
    """Loads one head too many of each row and multiplies it by zero."""
    x = model.call.x
    read = x.clone(memory_format=torch.contiguous_format)
    width = x.shape[1] * x.shape[2]
    for row in range(x.shape[0]):
        next_head = around(x, row * x.stride(0) + width, model.call.head_dim)
        read[row, -1, -1] += (next_head.float().sum() * 0).bfloat16()
    return read


@fault(MEMORY, "read_x", "interval")
def element_before_x_read(model: Model) -> Tensor:
    """Loads from one element before x and multiplies it by zero."""
    read = model.call.x.clone()
    read[0, 0, 0] += (around(model.call.x, -1, 1).float().sum() * 0).bfloat16()
    return read


# Writes outside the outputs


@fault(MEMORY, "store_y", "guard", 83)
def row_after_y_written(model: Model, y: Tensor) -> None:
    """Writes one row past the end of the BF16 output."""
    assert model.call.out is not None
    Model.store_y(model, y)
    around(model.call.out, y.numel(), y.shape[1]).fill_(1)


@fault(MEMORY, "store_y", "guard")
def element_before_y_written(model: Model, y: Tensor) -> None:
    """Writes one element before the BF16 output."""
    assert model.call.out is not None
    Model.store_y(model, y)
    around(model.call.out, -1, 1).fill_(1)


@fault(MEMORY, "store_y", "guard")
def capacity_written_to_y(model: Model, y: Tensor) -> None:
    """Writes all 16 or 32 rows of its tile, whatever T is."""
    assert model.call.out is not None
    Model.store_y(model, y)
    rows = 16 if y.shape[0] <= 16 else 32
    around(model.call.out, y.numel(), (rows - y.shape[0]) * y.shape[1]).zero_()


@fault(MEMORY, "store_codes", "guard")
def byte_after_q_written(model: Model, codes: Tensor) -> None:
    """Writes one byte past the end of the codes."""
    assert model.call.q is not None
    Model.store_codes(model, codes)
    around(model.call.q.view(torch.uint8), codes.numel(), 1).bitwise_xor_(0x55)


@fault(MEMORY, "store_codes", "guard")
def row_after_q_written(model: Model, codes: Tensor) -> None:
    """Writes one row past the end of the codes."""
    assert model.call.q is not None
    Model.store_codes(model, codes)
    around(model.call.q.view(torch.uint8), codes.numel(), codes.shape[1]).zero_()


@fault(MEMORY, "store_scales", "guard")
def byte_after_scales_written(model: Model, values: Tensor, written: Tensor, at: Tensor) -> None:
    """Writes one byte past the end of the scales."""
    assert model.call.scales is not None
    Model.store_scales(model, values, written, at)
    around(model.call.scales, model.call.scales.numel(), 1).zero_()


@fault(MEMORY, "store_scales", "guard")
def tile_after_scales_zeroed(model: Model, values: Tensor, written: Tensor, at: Tensor) -> None:
    """Zeroes one tile too many."""
    assert model.call.scales is not None
    Model.store_scales(model, values, written, at)
    around(model.call.scales, model.call.scales.numel(), 512).zero_()


@fault(MEMORY, "store_scales", "guard")
def byte_before_scales_written(model: Model, values: Tensor, written: Tensor, at: Tensor) -> None:
    """Writes one byte before the scales."""
    assert model.call.scales is not None
    Model.store_scales(model, values, written, at)
    around(model.call.scales, -1, 1).zero_()


# Writes into the inputs


@fault(MEMORY, "rotate", "inputs", 85)
def rotated_in_place(model: Model, x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    """Writes the rotated activations back: a second reader rotates them again."""
    rotated = Model.rotate(model, x, cos, sin)
    model.call.x.copy_(rotated)
    return rotated


@fault(MEMORY, "launch", "inputs")
def unused_heads_zeroed(model: Model) -> None:
    """Zeroes the heads beside its own in the wider buffer."""
    x = model.call.x
    width = x.shape[1] * x.shape[2]
    for row in range(x.shape[0]):
        around(x, row * x.stride(0) + width, x.stride(0) - width).zero_()
    Model.launch(model)


@fault(MEMORY, "launch", "inputs")
def row_after_x_zeroed(model: Model) -> None:
    """Pads x in place: the rows after the last token become zero."""
    x = model.call.x
    around(x, x.shape[0] * x.stride(0), x.shape[1] * x.shape[2]).zero_()
    Model.launch(model)


@fault(MEMORY, "launch", "inputs")
def positions_counted_on(model: Model) -> None:
    """Advances the positions for the next step."""
    Model.launch(model)
    model.call.positions.add_(1)


@fault(MEMORY, "launch", "inputs")
def nan_inputs_cleaned_in_place(model: Model) -> None:
    """Replaces NaN in x by zero, in place."""
    model.call.x.nan_to_num_(nan=0.0, posinf=float("inf"), neginf=float("-inf"))
    Model.launch(model)


@fault(MEMORY, "launch", "inputs")
def weight_element_overwritten(model: Model) -> None:
    """Uses the weight's last element for a flag."""
    Model.launch(model)
    model.call.weight[-1, -1, -1] = 1


@fault(MEMORY, "launch", "inputs")
def table_row_overwritten(model: Model) -> None:
    """Keeps a scratch value in the table's first row."""
    Model.launch(model)
    model.call.cos_sin[0, 0] += 1


# Outputs not written, or read


@fault(MEMORY, "launch", "unwritten", 84)
def nothing_written(model: Model) -> None:
    """Returns without writing."""


@fault(MEMORY, "store_y", "unwritten")
def y_only_written_up_to_16(model: Model, y: Tensor) -> None:
    """Stores 16 rows of the BF16 output at most."""
    assert model.call.out is not None
    model.call.out[:16] = y[:16]


@fault(MEMORY, "store_y", "unwritten")
def last_element_of_y_unwritten(model: Model, y: Tensor) -> None:
    """Never stores the last element of the BF16 output."""
    assert model.call.out is not None
    before = model.call.out[-1, -1].clone()
    Model.store_y(model, y)
    model.call.out[-1, -1] = before


@fault(MEMORY, "store_y", "repeat")
def added_to_what_was_there(model: Model, y: Tensor) -> None:
    """Adds to the BF16 output, which it takes for zeroed."""
    assert model.call.out is not None
    model.call.out.add_(y)


@fault(MEMORY, "store_y", "unwritten")
def zeros_of_y_unwritten(model: Model, y: Tensor) -> None:
    """Takes the BF16 output for zeroed and stores nonzero results only."""
    assert model.call.out is not None
    model.call.out[y != 0] = y[y != 0]


@fault(MEMORY, "store_y", "repeat")
def kept_where_already_finite(model: Model, y: Tensor) -> None:
    """Stores only where the buffer does not hold a finite number yet."""
    assert model.call.out is not None
    Model.store_y(model, torch.where(model.call.out.isfinite(), model.call.out, y))


@fault(MEMORY, "store_scales", "unwritten")
def scales_raised_only(model: Model, values: Tensor, written: Tensor, at: Tensor) -> None:
    """Stores the larger of the new scale and the old, as an atomic maximum would."""
    assert model.call.scales is not None
    before = model.call.scales[at]
    Model.store_scales(model, torch.maximum(values, before), written, at)
