"""The right answer and how far from it an honest kernel may be: FP64, from the definitions.

Layer 1: y[t, n] = sum over k of x'[t, k] * w[n, k], x' being x rotated back by the FP32 table and
rounded once to BF16. Layer 2: the quantiser contracts and the 128x4 layout.
No line is shared with kernel/.
"""

from __future__ import annotations

import functools
from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch

from verify import formats
from verify.contracts import CONTRACTS, DEFAULT, Contract
from verify.formats import BLOCK

if TYPE_CHECKING:
    from torch import Tensor

UNIT = 2.0**-24
"""u: the unit roundoff of FP32, round to nearest."""

_SAFE = 1.001
"""Covers what the bounds leave out: their own FP32 evaluation (below 2.5e-4 at 4096 terms) and
the higher-order terms of (1 + u)^n."""

_TOP = 2.0**8
"""The largest power of two that E4M3 holds: where the OCP rule puts a block's largest binade."""

_ROUNDS_UP = 1.9375
"""The least significand that rounds up to 2 in four bits."""

_TILE_ROWS, _TILE_COLUMNS = 128, 4


class Weight:
    """A weight and the forms the oracle needs of it, computed once and kept.

    Attributes:
        bf16: [G, R, K], what the kernel gets.
    """

    def __init__(self, bf16: Tensor) -> None:
        self.bf16 = bf16

    @functools.cached_property
    def wide(self) -> Tensor:
        """FP64 [G, R, K]."""
        return self.bf16.to(torch.float64)

    @functools.cached_property
    def flushed(self) -> Weight:
        """The weight as a multiplier reads it that takes subnormals for zero."""
        return Weight(formats.flush(self.bf16))

    @functools.cached_property
    def magnitude(self) -> Tensor:
        """abs(w) as FP32 [G, R, K]; its sums overflow to Inf where the kernel's own may."""
        return self.bf16.to(torch.float32).abs()


@dataclass(frozen=True)
class Rotated:
    """x after the inverse rotation.

    Attributes:
        value: FP64 [T, G, K], every element a BF16 value.
        slack: FP64 [T, G, K], how far an honest FP32 rotation may round elsewhere; zero almost
            everywhere.
    """

    value: Tensor
    slack: Tensor


@dataclass(frozen=True)
class Reference:
    """What layer 1 compares with.

    Attributes:
        value: FP64 [T, G * R].
        bound: FP64 [T, G * R], E: the largest honest error before the final rounding to BF16.
        slack: FP64 [T, G * R], the part of E that comes from rotations that may round two ways.
    """

    value: Tensor
    bound: Tensor
    slack: Tensor

    @property
    def lower(self) -> Tensor:
        """The smallest acceptable BF16 value, as FP64."""
        return formats.round_bf16(self.value - self.bound)

    @property
    def upper(self) -> Tensor:
        """The largest acceptable BF16 value, as FP64."""
        return formats.round_bf16(self.value + self.bound)


@dataclass(frozen=True)
class Quantised:
    """What layer 2 compares with.

    Attributes:
        codes: uint8 [T, N], E4M3FN.
        scales: uint8 [T, N / 32], E8M0.
        judged: bool [T, N / 32], false where the contract says nothing of a block's NaN or Inf.
    """

    codes: Tensor
    scales: Tensor
    judged: Tensor


def rotate(x: Tensor, cos_sin: Tensor, positions: Tensor, head_dim: int) -> Rotated:
    """Rotate the last rope_dim dims of each head by minus the position's angle.

    Args:
        x: BF16 [T, G, K], K a multiple of head_dim.
        cos_sin: FP32 [S, rope_dim], interleaved cos0, sin0, cos1, sin1, ...
        positions: integer [T].
        head_dim: dims of a head; neighbours (2i, 2i + 1) of its tail are one pair.

    The contract computes this in FP32 and rounds to BF16. Whether the compiler contracts to FMA is
    open, so where the exact value lies within the FP32 error of a BF16 midpoint both roundings are
    honest, and the difference is slack.
    """
    tokens, groups, k = x.shape
    rope_dim = cos_sin.shape[1]
    value = x.to(torch.float64).view(tokens, groups, k // head_dim, head_dim).clone()
    slack = torch.zeros_like(value)
    tail = value[..., head_dim - rope_dim :]
    re, im = tail[..., 0::2].clone(), tail[..., 1::2].clone()
    rows = cos_sin[positions.to(torch.int64)].to(torch.float64)[:, None, None, :]
    cos, sin = rows[..., 0::2], rows[..., 1::2]
    for offset, first, second in ((0, re * cos, im * sin), (1, im * cos, -(re * sin))):
        exact = first + second
        # Three roundings at most, each below u of a magnitude below |first| + |second|; the
        # products' own underflow adds 2^-149.
        error = 2 * UNIT * _SAFE * (first.abs() + second.abs()) + 2.0**-149
        rounded = formats.round_bf16(exact)
        above = formats.round_bf16(exact + error) - rounded
        below = rounded - formats.round_bf16(exact - error)
        tail[..., offset::2] = rounded
        # NaN - NaN and Inf - Inf: nothing to choose between
        honest = torch.maximum(above, below).nan_to_num(nan=0.0)
        slack[..., head_dim - rope_dim + offset :: 2] = honest
    return Rotated(value.view(tokens, groups, k), slack.view(tokens, groups, k))


def reference(rotated: Rotated, weight: Weight, c: float, *, exact: bool = False) -> Reference:
    """The FP64 product and its bound E = c u S + sum |w| slack + K 2^-149, S = sum |w| |x'|.

    Args:
        rotated: what the weight is applied to.
        weight: BF16 [G, R, K].
        c: how many units of u * S the accumulation may err; 0 has no meaning beside `exact`.
        exact: every order and grouping of the sums gives this value (the inputs are built so),
            hence E = 0.

    Where S, of the terms that are numbers, reaches the FP32 maximum the bound is Inf: anything
    will do. Where an operand is NaN or Inf, `value` says what the sum must be.
    """
    k = rotated.value.shape[2]
    value = _product(rotated.value, weight.wide)
    if exact:
        if bool(rotated.slack.any()):
            raise ValueError("an input declared exact has a rotation that may round two ways")
        zero = torch.zeros_like(value)
        return Reference(value, zero, zero)
    numbers = torch.where(rotated.value.isfinite(), rotated.value, 0.0)
    magnitude = numbers.to(torch.float32).abs()
    condition = _product(magnitude, weight.magnitude).to(torch.float64)
    touched = rotated.slack.view(-1, k).any(dim=0).nonzero()[:, 0]
    spread = _product(
        rotated.slack[..., touched].to(torch.float32), weight.magnitude[..., touched]
    ).to(torch.float64)
    # 2^-149: each FP32 product or partial sum may lose that much to underflow.
    bound = _SAFE * (c * UNIT * condition + spread) + k * 2.0**-149
    return Reference(value, bound, _SAFE * spread)


def flushed_reference(
    rotated: Rotated, weight: Weight, c: float, *, exact: bool = False
) -> Reference:
    """The same for arithmetic that takes subnormal operands, sums and results for zero.

    Some hardware knows no other: AVX512_BF16 and AMX dot products do so by definition.
    """
    operands = Rotated(formats.flush(rotated.value), rotated.slack)
    plain = reference(operands, weight.flushed, c, exact=exact)
    lost = 0.0 if exact else rotated.value.shape[2] * formats.SMALLEST_NORMAL
    return Reference(formats.flush(plain.value), plain.bound + lost, plain.slack)


def _product(x: Tensor, weight: Tensor) -> Tensor:
    """[T, G, K] x [G, R, K] -> [T, G * R]."""
    tokens = x.shape[0]
    product = torch.bmm(x.transpose(0, 1), weight.transpose(1, 2))
    return product.transpose(0, 1).reshape(tokens, -1)


def quantise(y: Tensor, contract: Contract = CONTRACTS[DEFAULT]) -> Quantised:
    """Quantise BF16 [T, N] by a contract; every step is exact in FP64."""
    blocks = y.to(torch.float64).view(y.shape[0], -1, BLOCK)
    amax = blocks.abs().amax(dim=2)
    judged = amax.isfinite()
    scales = scale_byte(amax, contract)
    powers = formats.e8m0_values(y.device)[scales][:, :, None]
    at_zero = (scales == 0)[:, :, None]
    if contract.byte_zero == "halved":
        powers = torch.where(at_zero, 2 * powers, powers)
    codes = formats.e4m3_codes(blocks / powers)
    if contract.byte_zero == "zeros":
        codes = torch.where(at_zero, codes & 0x80, codes)
    if contract.specials == "nan":
        scales = torch.where(amax.isnan(), 0xFF, scales)
        codes = torch.where(amax.isnan()[:, :, None], formats.E4M3_NAN, codes)
        judged = torch.ones_like(judged)
    return Quantised(codes.view(y.shape), scales.to(torch.uint8), judged)


def scale_byte(amax: Tensor, contract: Contract = CONTRACTS[DEFAULT]) -> Tensor:
    """The byte of FP64 block maxima, INT64; for NaN and Inf 254.

    Found by search in the table of all 255 powers of two: the smallest that 448 (or 256) times it
    is not below amax, or the largest that 256 times it is not above.
    """
    powers = formats.e8m0_values(amax.device)[:255]
    if contract.least_amax:
        least = torch.tensor(contract.least_amax, dtype=torch.float32).to(torch.float64)
        amax = torch.maximum(amax, least.to(amax.device))
    if contract.scale in ("floor", "even"):
        least = _TOP * powers * (1 if contract.scale == "floor" else _ROUNDS_UP / 2)
        byte = torch.searchsorted(least, amax, right=True) - 1
    else:
        most = (_TOP if contract.scale == "ceil" else formats.E4M3_MAX) * powers
        byte = torch.searchsorted(most, amax)
    return byte.clamp(0, 254)


def swizzle(scales: Tensor) -> Tensor:
    """Lay [T, B] out flat in the 128x4 layout: padded by zeros, tiles of 128 rows by 4 columns.

    Inside a tile the 32 rows of equal row % 32 come together, as the tensor core reads them:
    [row tile, column tile, row % 32, row // 32, column % 4].
    """
    rows, columns = scales.shape
    row_tiles, column_tiles = -(-rows // _TILE_ROWS), -(-columns // _TILE_COLUMNS)
    padded = scales.new_zeros(row_tiles * _TILE_ROWS, column_tiles * _TILE_COLUMNS)
    padded[:rows, :columns] = scales
    tiles = padded.view(row_tiles, 4, 32, column_tiles, _TILE_COLUMNS)
    return tiles.permute(0, 3, 2, 1, 4).reshape(-1)


def unswizzle(buffer: Tensor, columns: int) -> Tensor:
    """The padded [rows, columns] matrix of a scale buffer: the inverse of `swizzle`."""
    column_tiles = -(-columns // _TILE_COLUMNS)
    tiles = buffer.view(-1, column_tiles, 32, 4, _TILE_COLUMNS).permute(0, 3, 2, 1, 4)
    return tiles.reshape(-1, column_tiles * _TILE_COLUMNS)


def scale_bytes(rows: int, columns: int) -> int:
    """Bytes of the scale buffer of `rows` rows and `columns` output columns."""
    block_columns = columns // BLOCK
    return -(-rows // _TILE_ROWS) * _TILE_ROWS * -(-block_columns // _TILE_COLUMNS) * _TILE_COLUMNS
