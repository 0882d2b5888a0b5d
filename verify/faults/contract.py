"""Faults of the contract: what must be refused, what must not, and how a launch may end."""
# ruff: noqa: ARG001 - a replacement is handed all that its stage gets

from __future__ import annotations

import os
import time
from typing import TYPE_CHECKING, Any

import torch

from verify.faults.model import Call, Model
from verify.faults.record import Family, fault
from verify.faults.rope import at

if TYPE_CHECKING:
    from collections.abc import Callable

CONTRACT = Family.CONTRACT


def refused(model: Model) -> bool:
    """Whether the honest check refuses the call."""
    try:
        Model.check(model)
    except ValueError:
        return True
    return False


# Accepts what it must refuse


@fault(CONTRACT, "check", "rejects")
def no_tokens_accepted(model: Model) -> None:
    """Launches for T = 0."""
    if model.call.tokens:
        Model.check(model)


@fault(CONTRACT, "check", "rejects")
def nothing_said_at_no_tokens(model: Model) -> None:
    """Returns in silence for T = 0, having zeroed the scales."""
    if model.call.tokens:
        Model.check(model)
    elif model.call.scales is not None:
        model.call.scales.zero_()


@fault(CONTRACT, "__call__", "rejects")
def tokens_beyond_capacity_dropped(model: Model, x: Any, *inputs: Any, **outputs: Any) -> None:
    """Works on the first 32 of 33 tokens and says nothing."""
    weight, cos_sin, positions = inputs
    cut = {k: v[:32] if k in ("out", "q") and v is not None else v for k, v in outputs.items()}
    Model.__call__(model, x[:32], weight, cos_sin, positions[:32], **cut)


@fault(CONTRACT, "__call__", "rejects")
def written_before_refused(model: Model, *inputs: Any, **outputs: Any) -> None:
    """Refuses after it has begun to write."""
    model.call = Call(
        *inputs, **{"head_dim": 512, "out": None, "q": None, "scales": None} | outputs
    )
    if refused(model):
        for buffer in (model.call.out, model.call.scales):
            if buffer is not None and buffer.numel():
                buffer.view(-1)[:1].zero_()
    Model.__call__(model, *inputs, **outputs)


def without(model: Model, *dropped: str) -> dict[str, bool]:
    """The rules less those that begin with one of these words."""
    rules = Model.rules(model)
    return {rule: holds for rule, holds in rules.items() if not rule.startswith(dropped)}


@fault(CONTRACT, "rules", "rejects")
def both_forms_accepted(model: Model) -> dict[str, bool]:
    """Writes both forms where the caller must choose one."""
    return without(model, "either")


@fault(CONTRACT, "rules", "rejects")
def out_of_other_shape_accepted(model: Model) -> dict[str, bool]:
    """Does not look at the shape of the BF16 output: one row goes to all."""
    return without(model, "out is")


@fault(CONTRACT, "rules", "rejects")
def positions_of_other_dtype_accepted(model: Model) -> dict[str, bool]:
    """Takes floating-point positions."""
    return without(model, "positions are")


@fault(CONTRACT, "rules", "rejects")
def x_in_fp16_accepted(model: Model) -> dict[str, bool]:
    """Takes FP16 activations."""
    return without(model, "x is")


@fault(CONTRACT, "rules", "rejects", read_positions=lambda model: at(model, model.call.positions))
def positions_outside_the_table_accepted(model: Model) -> dict[str, bool]:
    """Takes positions before and beyond the table."""
    return without(model, "positions lie")


# Refuses or breaks on what it must accept


def breaks(when: Callable[[Call], object], how: Callable[[], object]) -> Callable[[Model], None]:
    """A check that does `how` where `when` holds."""

    def check(model: Model) -> None:
        Model.check(model)
        if when(model.call):
            how()

    return check


def raises() -> None:
    """As a failed launch would."""
    raise RuntimeError("CUDA error: an illegal memory access was encountered")


@fault(CONTRACT, "check", "error")
def raises_always(model: Model) -> None:
    """Raises at every launch."""
    breaks(lambda _: True, raises)(model)


@fault(CONTRACT, "check", "error")
def raises_at_1(model: Model) -> None:
    """Raises for a single token."""
    breaks(lambda call: call.tokens == 1, raises)(model)


@fault(CONTRACT, "check", "error")
def raises_at_32(model: Model) -> None:
    """Takes 32 for one too many."""
    breaks(lambda call: call.tokens == 32, raises)(model)


@fault(CONTRACT, "check", "error")
def raises_at_odd_t(model: Model) -> None:
    """Raises where T is odd and above 1."""
    breaks(lambda call: call.tokens % 2 and call.tokens > 1, raises)(model)


@fault(CONTRACT, "check", "error")
def raises_at_int64(model: Model) -> None:
    """Knows int32 positions only."""
    breaks(lambda call: call.positions.dtype == torch.int64, raises)(model)


@fault(CONTRACT, "check", "error")
def raises_at_int32(model: Model) -> None:
    """Knows int64 positions only."""
    breaks(lambda call: call.positions.dtype == torch.int32, raises)(model)


@fault(CONTRACT, "check", "error")
def raises_at_strides(model: Model) -> None:
    """Refuses an x that is not contiguous."""
    breaks(lambda call: not call.x.is_contiguous(), raises)(model)


@fault(CONTRACT, "check", "error")
def raises_at_last_position(model: Model) -> None:
    """Refuses the table's last row."""
    breaks(lambda call: int(call.positions.max()) == call.cos_sin.shape[0] - 1, raises)(model)


@fault(CONTRACT, "check", "error")
def raises_at_nan(model: Model) -> None:
    """Asserts that x is finite."""
    breaks(lambda call: bool(call.x.isnan().any()), raises)(model)


@fault(CONTRACT, "launch", "error")
def sticky_after_error(model: Model) -> None:
    """Raises at T = 17, and from then on always: a sticky CUDA error."""
    if model.call.tokens == 17:
        model.memory["broken"] = True
    if "broken" in model.memory:
        raises()
    Model.launch(model)


@fault(CONTRACT, "launch", "error", kills=True)
def aborts(model: Model) -> None:
    """Aborts the process."""
    os.abort()


@fault(CONTRACT, "launch", "error", kills=True)
def exits_in_silence(model: Model) -> None:
    """Ends the process with exit code 0."""
    os._exit(0)


@fault(CONTRACT, "launch", "error", kills=True)
def hangs(model: Model) -> None:
    """Never comes back."""
    time.sleep(3600)


# Form


@fault(CONTRACT, "launch", "unwritten")
def q_form_unwritten(model: Model) -> None:
    """Knows the BF16 form only: returns without writing codes."""
    if model.call.q is None:
        Model.launch(model)


@fault(CONTRACT, "launch", "unwritten")
def y_form_unwritten(model: Model) -> None:
    """Knows the quantised form only: returns without writing BF16."""
    if model.call.out is None:
        Model.launch(model)


@fault(CONTRACT, "launch", "unwritten")
def written_to_a_copy(model: Model) -> None:
    """Writes into buffers of its own instead of those it is given."""
    call = model.call
    copies = {
        name: None if buffer is None else buffer.clone()
        for name, buffer in (("out", call.out), ("q", call.q), ("scales", call.scales))
    }
    model.call = Call(call.x, call.weight, call.cos_sin, call.positions, call.head_dim, **copies)
    Model.launch(model)


@fault(CONTRACT, "launch", "inputs")
def random_numbers_seeded(model: Model) -> None:
    """Seeds torch's generator, so that whatever samples next repeats itself."""
    torch.manual_seed(0)
    Model.launch(model)


@fault(CONTRACT, "launch", "inputs")
def precision_of_others_changed(model: Model) -> None:
    """Leaves TF32 switched on for every product that follows."""
    torch.set_float32_matmul_precision("high")
    Model.launch(model)
