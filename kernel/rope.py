"""RoPE tables: cosines and sines by absolute position, plain and YaRN."""

from __future__ import annotations

import math

import torch


def plain_table(length: int, rope_dim: int, theta: float = 10000.0) -> torch.Tensor:
    """Table of the layers without YaRN.

    Returns FP32 [length, rope_dim], each row cos0, sin0, cos1, sin1, ... with pair i turning by
    theta^(-2i/rope_dim) radians a position. Angle and functions are FP32, as serving computes
    them: an oracle has to take the same table, for FP64 angles differ by 0.03 rad near 1M.
    """
    return _table(length, _frequencies(rope_dim, theta))


def yarn_table(
    length: int,
    rope_dim: int,
    theta: float = 160000.0,
    *,
    factor: float = 16,
    beta_fast: float = 32,
    beta_slow: float = 1,
    original_length: int = 65536,
) -> torch.Tensor:
    """Table of the layers with YaRN (Peng et al. 2023, arXiv 2309.00071, section 3.2).

    Pairs that turn at least `beta_fast` times within `original_length` keep their frequency, those
    that turn at most `beta_slow` times are slowed by `factor`, those between are blended.
    No attention factor multiplies the table. Returns FP32 [length, rope_dim], as `plain_table`.
    """
    frequencies = _frequencies(rope_dim, theta)
    low, high = yarn_bounds(rope_dim, theta, beta_fast, beta_slow, original_length)
    pair = torch.arange(rope_dim // 2, dtype=torch.float32)
    width = max(high - low, 0.001)  # bounds may coincide; any tiny width then makes a step
    keep = 1 - ((pair - low) / width).clamp(0, 1)
    return _table(length, frequencies / factor * (1 - keep) + frequencies * keep)


def yarn_bounds(
    rope_dim: int, theta: float, beta_fast: float, beta_slow: float, original_length: int
) -> tuple[int, int]:
    """First pair that YaRN slows and first pair that it slows in full."""

    def pair_turning(turns: float) -> float:
        return rope_dim * math.log(original_length / (turns * math.tau)) / (2 * math.log(theta))

    low = math.floor(pair_turning(beta_fast))
    high = math.ceil(pair_turning(beta_slow))
    return max(low, 0), min(high, rope_dim - 1)


def _frequencies(rope_dim: int, theta: float) -> torch.Tensor:
    exponents = torch.arange(0, rope_dim, 2, dtype=torch.float32) / rope_dim
    return 1.0 / theta**exponents


def _table(length: int, frequencies: torch.Tensor) -> torch.Tensor:
    angles = torch.outer(torch.arange(length, dtype=torch.float32), frequencies)
    return torch.stack((angles.cos(), angles.sin()), dim=-1).flatten(1)
