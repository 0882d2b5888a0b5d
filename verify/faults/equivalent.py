"""Deviations that no check can see, because under the contract they make no difference."""
# ruff: noqa: ARG001 - a replacement is handed all that its stage gets

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from verify.faults.model import Model
from verify.faults.record import Family, StageFault

if TYPE_CHECKING:
    from collections.abc import Callable


@dataclass(frozen=True)
class Equivalent:
    """A deviation and why it is none.

    Attributes:
        fault: how it is planted; its description says what it does.
        reason: why the contract cannot tell it from an honest kernel.
    """

    fault: StageFault
    reason: str


EQUIVALENTS: dict[str, Equivalent] = {}


def equivalent(
    family: Family, stage: str, reason: str, number: int | None = None, **attributes: Any
) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Enter the decorated function into the list of equivalents."""

    def enter(replacement: Callable[..., Any]) -> Callable[..., Any]:
        name = replacement.__name__
        description = (replacement.__doc__ or "").strip()
        planted = StageFault(
            name=name,
            family=family,
            description=description,
            sees="",
            number=number,
            stage=stage,
            replacement=replacement,
            attributes=attributes,
        )
        EQUIVALENTS[name] = Equivalent(planted, reason)
        return replacement

    return enter


def ratio_by(model: Model, amax: Tensor, bits: int) -> Tensor:
    """Scale bytes from an FP32 product of amax with the factor of these bits."""
    factor = torch.tensor(bits, dtype=torch.int32).view(torch.float32)
    ratio = (amax.float() * factor).double()
    return model.clamp_byte(model.exponent(ratio) + 127, amax)


ALL_AMAX = "the byte is the same for all 32,640 non-negative finite BF16 amax"
NEVER_ABOVE = "a scale rounded up leaves no finite |y| * 2^(127 - s) above 448"


@equivalent(Family.SCALE, "scale", ALL_AMAX)
def reciprocal_of_448(model: Model, amax: Tensor) -> Tensor:
    """Multiplies amax by fl(1/448) instead of dividing by 448."""
    return ratio_by(model, amax, 0x3B124925)


@equivalent(Family.SCALE, "scale", ALL_AMAX)
def reciprocal_one_ulp_small(model: Model, amax: Tensor) -> Tensor:
    """Multiplies amax by the FP32 number below fl(1/448)."""
    return ratio_by(model, amax, 0x3B124924)


@equivalent(Family.SCALE, "exponent", ALL_AMAX)
def log2_in_fp64(model: Model, ratio: Tensor) -> Tensor:
    """Takes ceil(log2(ratio)) with a library's FP64 logarithm."""
    return ratio.log2().ceil().nan_to_num(0, 0, 0).long()


@equivalent(Family.SCALE, "clamp_byte", "finite BF16 amax give bytes up to 247 only", 58)
def byte_not_clamped_at_254(model: Model, byte: Tensor, amax: Tensor) -> Tensor:
    """Has no upper limit for the byte."""
    return byte.clamp(min=0).masked_fill(amax == 0, 0).masked_fill(~amax.isfinite(), 255)


@equivalent(Family.CODE, "encode", NEVER_ABOVE)
def overflow_becomes_nan(model: Model, scaled: Tensor) -> Tensor:
    """Casts values above 448 to NaN instead of saturating."""
    code = Model.encode(model, scaled)
    return torch.where(scaled.abs() > 448, 0x7F, code).to(torch.uint8)


@equivalent(Family.CODE, "encode", "8 significant bits times a power of two are exact in FP16")
def code_through_fp16(model: Model, scaled: Tensor) -> Tensor:
    """Rounds to FP16 before the cast."""
    return Model.encode(model, scaled.half().double())


@equivalent(Family.CODE, "encode", "8 significant bits times a power of two are exact in BF16")
def code_through_bf16(model: Model, scaled: Tensor) -> Tensor:
    """Rounds to BF16 before the cast."""
    return Model.encode(model, scaled.bfloat16().double())


@equivalent(Family.CODE, "encode", "a block that holds NaN is reported, not judged", 70)
def nan_laundered(model: Model, scaled: Tensor) -> Tensor:
    """Stores 448 where the value is NaN."""
    return Model.encode(model, scaled.nan_to_num(nan=448.0))


@equivalent(Family.SCALE, "amax", "a block that holds NaN is reported, not judged")
def amax_ignores_nan(model: Model, blocks: Tensor) -> Tensor:
    """Takes amax over the numbers of a block, as fmaxf does."""
    return Model.amax(model, blocks.nan_to_num(nan=0.0, posinf=torch.inf, neginf=-torch.inf))


@equivalent(Family.PRODUCT, "add", "any order of the sums is honest")
def splits_added_backwards(model: Model, partials: Tensor) -> Tensor:
    """Adds the splits from the last to the first."""
    return Model.add(model, partials.flip(0))


@equivalent(Family.PRODUCT, "add", "+0 + x = x, and no BF16 sum is -0 unless it underflows")
def accumulator_starts_at_zero(model: Model, partials: Tensor) -> Tensor:
    """Adds the first split to +0."""
    return Model.add(model, torch.cat([torch.zeros_like(partials[:1]), partials]))


@equivalent(Family.ROPE, "read_positions", "the table is indexed by the same numbers")
def positions_narrowed_to_int32(model: Model) -> Tensor:
    """Converts INT64 positions to INT32: no table has 2^31 rows."""
    return model.call.positions.int().long()


@equivalent(Family.LAYOUT, "store_scales", "what a launch leaves behind is the same")
def padding_zeroed_first(model: Model, values: Tensor, written: Tensor, offsets: Tensor) -> None:
    """Zeroes the whole buffer before it stores the live bytes."""
    assert model.call.scales is not None
    model.call.scales.zero_()
    Model.store_scales(model, values, written, offsets)
