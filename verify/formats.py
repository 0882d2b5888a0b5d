"""BF16, E4M3FN and E8M0 as data: exact values, one-step rounding and bit patterns.

Everything follows from the formats' definitions (OCP Microscaling Formats 1.0, section 5; BF16 as
the upper half of IEEE binary32) in exact FP64 arithmetic: no cast of a library is trusted, since
torch's, ml_dtypes' and CUDA's differ in what they do on overflow.
"""

from __future__ import annotations

import functools

import torch
from torch import Tensor

BF16_MAX = 255.0 * 2.0**120
BF16_INFINITY_BITS = 0x7F80
SMALLEST_NORMAL = 2.0**-126
"""Of BF16 and FP32 alike; what is smaller is subnormal."""

E4M3_MAX = 448.0
E4M3_NAN = 0x7F
E8M0_BIAS = 127
BLOCK = 32
"""Columns that share one scale byte."""


def power_of_two(exponent: Tensor) -> Tensor:
    """2^exponent as FP64, exactly, for integers in [-1022, 1023]."""
    return ((exponent.to(torch.int64) + 1023) << 52).view(torch.float64)


def exponent_of(values: Tensor) -> Tensor:
    """floor(log2(abs(v))) of FP64 values, from their bits; -1023 for zero, 1024 for Inf and NaN."""
    return ((values.view(torch.int64) >> 52) & 0x7FF) - 1023


def round_bf16(values: Tensor) -> Tensor:
    """The BF16 values nearest to FP64 `values`, ties to even, as FP64: one rounding, not two."""
    quantum = power_of_two(exponent_of(values).clamp(min=-126) - 7)
    rounded = torch.round(values / quantum) * quantum
    infinite = torch.copysign(torch.full_like(values, torch.inf), values)
    return torch.where(rounded.abs() > BF16_MAX, infinite, rounded)


def flush(values: Tensor) -> Tensor:
    """Zero, with the sign kept, in place of what is subnormal in BF16 and FP32."""
    return torch.where(values.abs() < SMALLEST_NORMAL, values * 0.0, values)


def as_bf16(values: Tensor) -> Tensor:
    """FP64 values that BF16 holds exactly, as torch.bfloat16."""
    return values.to(torch.float32).to(torch.bfloat16)


def bf16_bits(values: Tensor) -> Tensor:
    """The 16 bits of each BF16 element, as int32 in [0, 65535]."""
    return values.view(torch.int16).to(torch.int32) & 0xFFFF


def bf16_from_bits(bits: Tensor) -> Tensor:
    """The inverse of `bf16_bits`."""
    return bits.to(torch.int32).to(torch.int16).view(torch.bfloat16)


def bf16_ordinal(values: Tensor) -> Tensor:
    """BF16 elements counted in order of value, int32: neighbours differ by 1, both zeros are 0."""
    bits = bf16_bits(values)
    return torch.where(bits >= 0x8000, 0x8000 - bits, bits)


def ordinal_value(ordinal: Tensor) -> Tensor:
    """The FP64 value at a BF16 ordinal; Inf's place is taken by 2^128, the next step of the scale.

    That makes midpoints right up to the overflow threshold.
    """
    magnitude = ordinal.abs().to(torch.int64)
    exponent, fraction = magnitude >> 7, (magnitude & 127).to(torch.float64)
    normal = (128 + fraction) * power_of_two(exponent - 134)
    value = torch.where(exponent == 0, fraction * 2.0**-133, normal)
    return torch.where(ordinal < 0, -value, value)


def rounding_interval(values: Tensor) -> tuple[Tensor, Tensor]:
    """Per BF16 element the FP64 interval of the reals that round to it, ends included."""
    ordinal = bf16_ordinal(values)
    here = ordinal_value(ordinal)
    below, above = ordinal_value(ordinal - 1), ordinal_value(ordinal + 1)
    return (below + here) / 2, (here + above) / 2


def e4m3_value(code: int) -> float:
    """The value of one E4M3FN code: bias 7, subnormals, no infinities, NaN at 0x7F and 0xFF."""
    sign = -1.0 if code & 0x80 else 1.0
    exponent, fraction = (code >> 3) & 0xF, code & 0x7
    if code & 0x7F == E4M3_NAN:
        return float("nan")
    if exponent == 0:
        return sign * fraction * 2.0**-9
    return sign * (8 + fraction) * 2.0 ** (exponent - 10)


@functools.cache
def e4m3_values(device: torch.device) -> Tensor:
    """FP64 [256]: the value of every E4M3FN code."""
    return torch.tensor([e4m3_value(c) for c in range(256)], dtype=torch.float64, device=device)


@functools.cache
def e8m0_values(device: torch.device) -> Tensor:
    """FP64 [256]: the value of every E8M0 byte, 2^(byte - 127), and NaN for 255."""
    values = [2.0 ** (byte - E8M0_BIAS) for byte in range(255)] + [float("nan")]
    return torch.tensor(values, dtype=torch.float64, device=device)


@functools.cache
def _e4m3_midpoints(device: torch.device) -> Tensor:
    """FP64 [126]: midpoint i lies between the positive codes i and i + 1."""
    positive = e4m3_values(device)[:E4M3_NAN]
    return (positive[:-1] + positive[1:]) / 2


def e4m3_codes(values: Tensor) -> Tensor:
    """The E4M3FN code nearest to each FP64 value, uint8: ties to the even code, saturating.

    Beyond 448, Inf included, stands 448; the sign of zero is kept; NaN becomes 0x7F.
    """
    midpoints = _e4m3_midpoints(values.device)
    magnitude = values.abs()
    lower = torch.searchsorted(midpoints, magnitude)
    upper = torch.searchsorted(midpoints, magnitude, right=True)
    # The two differ only on a midpoint, where `lower` is the smaller neighbour.
    code = torch.where(lower % 2 == 0, lower, upper)
    code = torch.where(values.isnan(), E4M3_NAN, code + 0x80 * torch.signbit(values))
    return code.to(torch.uint8)
