"""Faults of scale bytes and codes."""

import torch

from tests.mutants.honest import build, encode, quantise, scale


def _floor(amax):
    exponent = torch.frexp(amax.double() / 448).exponent - 1
    return torch.where(amax == 0, 0, (exponent + 127).clamp(0, 254)).long()


def _without_last_lane(y, q, scales):
    """Leaves lane 31 out of the maximum."""
    blocks = y.double().view(y.shape[0], -1, 32)
    lanes = blocks.clone()
    lanes[..., -1] = 0
    quantise(y, q, scales, scale=lambda _: scale(lanes.abs().amax(2)))


def _subnormals_flushed(y, q, scales):
    quantise(torch.where(y.abs() < 2.0**-126, torch.zeros_like(y), y), q, scales)


def _truncating(scaled):
    """Rounds codes towards zero."""
    code = encode(scaled).view(torch.uint8).int()
    over = encode(scaled).double().abs() > scaled.abs()
    return (code - over.int()).to(torch.uint8).view(torch.float8_e4m3fn)


def _zero_without_sign(scaled):
    code = encode(scaled).view(torch.uint8)
    return torch.where(code == 0x80, 0, code).view(torch.float8_e4m3fn)


floor_scale = build(scale=_floor)
bump_at_powers = build(scale=lambda amax: scale(amax * (1 + 2.0**-40)))
amax_floor = build(scale=lambda amax: scale(amax.clamp(min=1e-4)))
scale_one_for_zero_blocks = build(scale=lambda a: torch.where(a == 0, 127, scale(a)))
last_lane_left_out = build(quantise=_without_last_lane)
subnormals_flushed = build(quantise=_subnormals_flushed)
truncated_codes = build(encode=_truncating)
zero_without_sign = build(encode=_zero_without_sign)
