"""Faults that need more than one launch: what is kept, cached or left over from call to call."""

from __future__ import annotations

import hashlib
from typing import Any

import torch
from torch import Tensor

from verify.faults.model import Model
from verify.faults.record import Family, fault

STATE = Family.STATE


def kept(model: Model, key: object, value: Any) -> Any:
    """What was kept under `key` in an earlier launch; `value`, from now on, where nothing was."""
    return model.memory.setdefault(key, value)


@fault(STATE, "add", "repeat", 34)
def accumulator_never_zeroed(model: Model, partials: Tensor) -> Tensor:
    """Adds to the sums of the previous launch of this shape."""
    total: Tensor = Model.add(model, partials) + kept(model, partials.shape, 0)
    model.memory[partials.shape] = total
    return total


@fault(STATE, "add", "interval")
def last_split_of_previous_launch(model: Model, partials: Tensor) -> Tensor:
    """Reads the last split's inbox before it is filled: it holds the previous launch's sums."""
    stale = kept(model, partials.shape, torch.zeros_like(partials[-1]))
    model.memory[partials.shape] = partials[-1]
    return Model.add(model, torch.cat([partials[:-1], stale[None]]))


@fault(STATE, "read_x", "exact", 86)
def x_cached_by_shape(model: Model) -> Tensor:
    """Keeps the first address of x that it saw for a shape."""
    x = model.call.x
    cached: Tensor = kept(model, ("x", x.shape, x.stride()), x)
    return cached


@fault(STATE, "read_x", "exact")
def x_cached_by_address(model: Model) -> Tensor:
    """Keeps a copy of x by its address, though the content may change."""
    x = model.call.x
    cached: Tensor = kept(model, ("x", x.data_ptr(), x.shape, x.stride()), x.clone())
    return cached


@fault(STATE, "read_weight", "interval")
def weight_cached_by_address(model: Model) -> Tensor:
    """Keeps a repacked weight by its address, though the content may change."""
    weight = model.call.weight
    cached: Tensor = kept(model, ("weight", weight.data_ptr(), weight.shape), weight.clone())
    return cached


@fault(STATE, "read_weight", "interval")
def weight_cached_by_shape(model: Model) -> Tensor:
    """Keeps the first weight it saw of a shape: the next layer gets it too."""
    cached: Tensor = kept(model, ("weight", model.call.weight.shape), model.call.weight.clone())
    return cached


@fault(STATE, "read_table", "interval")
def table_cached_by_shape(model: Model, positions: Tensor) -> tuple[Tensor, Tensor]:
    """Keeps the first table it saw of a shape: a YaRN layer gets the plain one."""
    table = kept(model, ("table", model.call.cos_sin.shape), model.call.cos_sin)
    return table[positions, 0::2], table[positions, 1::2]


@fault(STATE, "read_positions", "exact")
def positions_cached_by_address(model: Model) -> Tensor:
    """Keeps positions by their address, as a captured graph keeps a value."""
    positions = model.call.positions
    key = ("positions", positions.data_ptr(), positions.shape)
    cached: Tensor = kept(model, key, Model.read_positions(model).clone())
    return cached


@fault(STATE, "read_positions", "exact")
def positions_of_first_launch(model: Model) -> Tensor:
    """Uses the first launch's positions for every launch of the same T."""
    positions = kept(model, model.call.tokens, Model.read_positions(model).clone())
    rotated: Tensor = positions % model.call.cos_sin.shape[0]
    return rotated


@fault(STATE, "rotate", "interval")
def rotation_cached_by_address(model: Model, x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    """Keeps the rows of the table that it gathered for the positions at an address."""
    key = ("rows", model.call.positions.data_ptr(), cos.shape)
    return Model.rotate(model, x, *kept(model, key, (cos.clone(), sin.clone())))


def content(*tensors: Tensor) -> tuple[bytes, ...]:
    """What stands in the tensors, wherever they lie."""
    whole = (tensor.contiguous().view(torch.uint8).numpy().tobytes() for tensor in tensors)
    return tuple(hashlib.sha256(each).digest() for each in whole)


def looked_up(model: Model, key: object, total: Tensor) -> Tensor:
    """The result of the first launch of this key."""
    y: Tensor = kept(model, key, Model.round(model, total))
    return y.clone()


@fault(STATE, "round", "interval")
def result_kept_by_x_and_weight(model: Model, total: Tensor) -> Tensor:
    """Looks results up by the content of x and of the weight: the positions do not count."""
    key = content(model.call.x, model.call.weight)
    return looked_up(model, key, total)


@fault(STATE, "round", "interval")
def result_kept_for_every_table(model: Model, total: Tensor) -> Tensor:
    """Looks results up by the content of all arguments but the table."""
    key = content(model.call.x, model.call.weight, model.call.positions)
    return looked_up(model, key, total)


@fault(STATE, "round", "interval")
def result_kept_for_every_weight(model: Model, total: Tensor) -> Tensor:
    """Looks results up by the content of all arguments but the weight."""
    key = content(model.call.x, model.call.cos_sin[model.call.positions.long()])
    return looked_up(model, (*key, total.shape), total)


@fault(STATE, "launch", "inputs")
def previous_output_written_again(model: Model) -> None:
    """Still writes to the output of the launch before."""
    Model.launch(model)
    before = model.memory.get("before")
    if before is not None and before.shape == (model.call.tokens, model.call.columns):
        before.zero_()
    model.memory["before"] = model.call.out


@fault(STATE, "round", "interval")
def workspace_rows_left_over(model: Model, total: Tensor) -> Tensor:
    """Rows of a smaller launch that follow a larger one hold its last token's result."""
    y = Model.round(model, total)
    most = kept(model, ("most", y.shape[1]), y)
    if most.shape[0] > y.shape[0]:
        y[-1] = most[y.shape[0] - 1]
    elif most is not y:
        model.memory["most", y.shape[1]] = y
    return y


@fault(STATE, "round", "interval")
def nan_once_nan_ever(model: Model, total: Tensor) -> Tensor:
    """Keeps an error flag: after a NaN in any launch every later result is NaN."""
    y = Model.round(model, total)
    flag = kept(model, "flag", torch.zeros((), dtype=torch.bool))
    flag |= y.isnan().any()
    return torch.where(flag, torch.nan, y)


@fault(STATE, "round", "repeat")
def half_lost_after_a_larger_launch(model: Model, total: Tensor) -> Tensor:
    """Loses half of a launch that is smaller than the one before."""
    y = Model.round(model, total)
    before = model.memory.get("before", 0)
    model.memory["before"] = y.shape[0]
    if y.shape[0] < before:
        y[:, : y.shape[1] // 2] = 0
    return y


@fault(STATE, "round", "interval")
def wrong_at_first_launch(model: Model, total: Tensor) -> Tensor:
    """Is right from the second launch on: the first one finds its workspace empty."""
    return torch.zeros_like(total).bfloat16() if model.calls == 0 else Model.round(model, total)


@fault(STATE, "round", "repeat")
def wrong_at_second_launch(model: Model, total: Tensor) -> Tensor:
    """Does not flip a barrier's parity: the second launch reads too early."""
    return torch.zeros_like(total).bfloat16() if model.calls == 1 else Model.round(model, total)


@fault(STATE, "round", "interval")
def wrong_at_first_launch_of_each_t(model: Model, total: Tensor) -> Tensor:
    """Leaves tuning rubbish behind at the first launch of each T."""
    y = Model.round(model, total)
    if kept(model, ("tuned", y.shape[0]), model.calls) == model.calls:
        y[0, 0] += 1
    return y


@fault(STATE, "round", "repeat")
def wrong_at_every_third_launch(model: Model, total: Tensor) -> Tensor:
    """Reuses one of three buffers too early."""
    y = Model.round(model, total)
    if model.calls % 3 == 2:
        y[-1] = 0
    return y


@fault(STATE, "round", "repeat")
def drifts_with_every_launch(model: Model, total: Tensor) -> Tensor:
    """Adds a little more at every launch."""
    return (total * (1 + model.calls * 2.0**-12)).bfloat16()


@fault(STATE, "round", "repeat")
def one_element_random(model: Model, total: Tensor) -> Tensor:
    """Has one element one unit too large by chance, in half of all launches."""
    y = Model.round(model, total)
    generator = kept(model, "chance", torch.Generator().manual_seed(0))
    if torch.rand((), generator=generator) < 0.5:
        y.view(torch.int16)[0, y[0].abs().argmin()] += 1
    return y
