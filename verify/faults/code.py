"""Faults of the E4M3 cast and of where codes are stored."""
# ruff: noqa: ARG001 - a replacement is handed all that its stage gets

from __future__ import annotations

import torch
from torch import Tensor

from verify.faults.model import BLOCK, Model, unflatten
from verify.faults.record import Family, fault

CODE = Family.CODE


@fault(CODE, "nearest", "codes", 66)
def code_truncated(model: Model, steps: Tensor) -> Tensor:
    """Cuts values to E4M3 instead of rounding them."""
    return steps.floor()


@fault(CODE, "nearest", "codes", 67)
def code_ties_away(model: Model, steps: Tensor) -> Tensor:
    """Rounds ties away from zero."""
    return (steps + 0.5).floor()


@fault(CODE, "nearest", "codes")
def code_ties_down(model: Model, steps: Tensor) -> Tensor:
    """Rounds ties toward zero."""
    return (steps - 0.5).ceil()


@fault(CODE, "nearest", "codes")
def code_ties_to_odd(model: Model, steps: Tensor) -> Tensor:
    """Rounds ties to odd."""
    return (steps + 1).round() - 1


@fault(CODE, "nearest", "codes")
def code_rounded_up(model: Model, steps: Tensor) -> Tensor:
    """Rounds away from zero always."""
    return steps.ceil()


@fault(CODE, "nearest", "codes")
def code_stochastic(model: Model, steps: Tensor) -> Tensor:
    """Rounds up or down by chance, though the same chance each time."""
    chance = torch.rand(steps.shape, generator=torch.Generator().manual_seed(1), dtype=steps.dtype)
    return (steps + chance).floor()


@fault(CODE, "nearest", "codes")
def smallest_tie_rounds_up(model: Model, steps: Tensor) -> Tensor:
    """Rounds half of the smallest subnormal up to it."""
    return torch.where(steps == 0.5, 1.0, steps.round())


@fault(CODE, "nearest", "codes")
def carry_lost(model: Model, steps: Tensor) -> Tensor:
    """Forgets to raise the exponent when rounding reaches the next binade."""
    rounded = steps.round()
    return torch.where((rounded == 16) & (steps < 16), 15.0, rounded)


def replaced(code: Tensor, where: Tensor, value: int | Tensor) -> Tensor:
    """`code` with the magnitude replaced at `where`, its sign kept."""
    return torch.where(where, (code & 0x80) | value, code).to(torch.uint8)


@fault(CODE, "encode", "codes")
def subnormal_codes_flushed(model: Model, scaled: Tensor) -> Tensor:
    """Has no E4M3 subnormals: magnitudes below 2^-6 become zero."""
    code = Model.encode(model, scaled)
    return replaced(code, (code & 0x7F) < 8, 0)


@fault(CODE, "encode", "codes")
def subnormal_codes_truncated(model: Model, scaled: Tensor) -> Tensor:
    """Shifts into the subnormals without rounding."""
    code = Model.encode(model, scaled)
    small = scaled.abs() < 2.0**-6
    return replaced(code, small, (scaled.abs() * 512).floor().nan_to_num(0).to(torch.uint8))


@fault(CODE, "encode", "codes")
def largest_becomes_nan(model: Model, scaled: Tensor) -> Tensor:
    """Encodes exactly 448 as NaN."""
    code = Model.encode(model, scaled)
    return replaced(code, scaled.abs() == 448, 0x7F)


@fault(CODE, "encode", "codes")
def saturates_at_240(model: Model, scaled: Tensor) -> Tensor:
    """Saturates where E4M3FNUZ would."""
    return Model.encode(model, scaled.clamp(-240, 240))


@fault(CODE, "encode", "codes")
def fnuz_bias(model: Model, scaled: Tensor) -> Tensor:
    """Encodes with E4M3FNUZ's bias of 8."""
    return Model.encode(model, scaled * 2)


@fault(CODE, "encode", "codes", 68)
def e5m2_codes(model: Model, scaled: Tensor) -> Tensor:
    """Stores E5M2."""
    return scaled.float().to(torch.float8_e5m2).view(torch.uint8)


@fault(CODE, "encode", "codes")
def e5m2_precision(model: Model, scaled: Tensor) -> Tensor:
    """Stores E4M3 codes with two mantissa bits' precision."""
    return Model.encode(model, scaled.float().to(torch.float8_e5m2).double())


@fault(CODE, "sign", "codes", 69)
def negative_zero_lost(model: Model, code: Tensor, scaled: Tensor) -> Tensor:
    """Stores 0x00 where a negative value rounds to zero."""
    return code + 0x80 * ((code != 0) & scaled.signbit()).int()


@fault(CODE, "sign", "codes")
def sign_lost_in_subnormals(model: Model, code: Tensor, scaled: Tensor) -> Tensor:
    """Loses the sign of subnormal codes."""
    return code + 0x80 * ((code >= 8) & scaled.signbit()).int()


@fault(CODE, "sign", "codes")
def zero_is_negative(model: Model, code: Tensor, scaled: Tensor) -> Tensor:
    """Stores 0x80 for every zero."""
    return code + 0x80 * (scaled.signbit() | (code == 0)).int()


@fault(CODE, "sign", "codes")
def twos_complement(model: Model, code: Tensor, scaled: Tensor) -> Tensor:
    """Negates the code as an integer."""
    return torch.where(scaled.signbit(), -code, code) & 0xFF


@fault(CODE, "scaled", "codes")
def scale_of_next_block(model: Model, source: Tensor, byte: Tensor) -> Tensor:
    """Makes codes with the neighbouring block's scale."""
    return Model.scaled(model, source, byte.roll(-1, 1))


@fault(CODE, "scaled", "codes")
def scale_of_previous_token(model: Model, source: Tensor, byte: Tensor) -> Tensor:
    """Makes codes with the scale of the token before."""
    return Model.scaled(model, source, byte.roll(1, 0))


@fault(CODE, "scaled", "codes")
def multiplied_by_scale(model: Model, source: Tensor, byte: Tensor) -> Tensor:
    """Multiplies by the scale where it should divide."""
    return Model.scaled(model, source, 254 - byte)


@fault(CODE, "scaled", "codes")
def values_cut_before_the_cast(model: Model, source: Tensor, byte: Tensor) -> Tensor:
    """Cuts values to five significant bits before the cast: just above a tie looks like one."""
    mantissa, exponent = torch.frexp(Model.scaled(model, source, byte))
    return torch.ldexp((mantissa * 32).trunc() / 32, exponent)


@fault(CODE, "store_codes", "codes")
def codes_reversed_in_fours(model: Model, codes: Tensor) -> None:
    """Packs four codes into a word from the wrong end."""
    Model.store_codes(model, unflatten(codes, 1, -1, 4).flip(2).flatten(1))


@fault(CODE, "store_codes", "codes")
def code_pairs_swapped(model: Model, codes: Tensor) -> None:
    """Exchanges the two codes of each 16-bit word."""
    Model.store_codes(model, unflatten(codes, 1, -1, 2).flip(2).flatten(1))


@fault(CODE, "store_codes", "codes")
def codes_transposed_in_block(model: Model, codes: Tensor) -> None:
    """Stores lane 8 i + j of a block as lane 4 j + i."""
    Model.store_codes(model, unflatten(codes, 1, -1, 4, 8).transpose(2, 3).flatten(1))


@fault(CODE, "store_codes", "unwritten")
def codes_of_last_block_unwritten(model: Model, codes: Tensor) -> None:
    """Never stores the last block's codes."""
    assert model.call.q is not None
    model.call.q.view(torch.uint8)[:, :-BLOCK] = codes[:, :-BLOCK]


@fault(CODE, "store_codes", "unwritten")
def codes_of_last_token_unwritten(model: Model, codes: Tensor) -> None:
    """Never stores the last token's codes."""
    assert model.call.q is not None
    model.call.q.view(torch.uint8)[:-1] = codes[:-1]


@fault(CODE, "store_codes", "unwritten")
def zero_codes_unwritten(model: Model, codes: Tensor) -> None:
    """Takes the buffer for zeroed and stores nonzero codes only."""
    assert model.call.q is not None
    model.call.q.view(torch.uint8)[codes != 0] = codes[codes != 0]
