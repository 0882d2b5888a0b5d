"""MXFP8 as the kernels write it: E4M3 codes, rounded-up UE8M0 scales, 128x4 swizzle.

The contract is `mxfp8-e4m3-ceil448` (OCP Microscaling Formats 1.0 for the formats; scale rule and
layout as FlashInfer's layout_128x4). All of it is integer arithmetic or exact in FP32, so that
CPU, GPU and Triton's interpreter agree to the bit. With ceil448 |y| * 2^(127-s) never passes 448,
so saturation needs no code.

A block that holds NaN or Inf gets the NaN scale 255 and NaN codes 0x7F: what is broken before the
quantiser stays visible behind it. (The formats leave this open; most kernels hide it.)
"""

from __future__ import annotations

import torch

BLOCK = 32
"""Columns that share one scale."""

NAN_SCALE = 255
NAN_CODE = 0x7F

_TILE_ROWS = 128
_TILE_COLUMNS = 4
_INFINITY_BITS = 0x7F80  # BF16


def scale_bytes(rows: int, columns: int) -> int:
    """Bytes of the swizzled scale buffer for [rows, columns] values, padding included."""
    return _padded_rows(rows) * _padded_columns(columns // BLOCK)


def swizzle_offsets(
    rows: int, block_columns: int, device: torch.device | None = None
) -> torch.Tensor:
    """Place of each block's scale byte in the 128x4 swizzle: INT64 [rows, block_columns]."""
    row = torch.arange(rows, device=device)[:, None]
    column = torch.arange(block_columns, device=device)[None, :]
    tile = row // _TILE_ROWS * (_padded_columns(block_columns) // _TILE_COLUMNS) + (
        column // _TILE_COLUMNS
    )
    within = row % 32 * 16 + row % _TILE_ROWS // 32 * 4 + column % _TILE_COLUMNS
    return tile * (_TILE_ROWS * _TILE_COLUMNS) + within


def quantise(y: torch.Tensor, q: torch.Tensor, scales: torch.Tensor) -> None:
    """Write the codes of `y` and every scale byte, padding as 0.

    Args:
        y: BF16 [T, N], N a multiple of 32.
        q: E4M3FN [T, N], written.
        scales: UINT8 [scale_bytes(T, N)], written.
    """
    rows, columns = y.shape
    blocks = y.view(rows, columns // BLOCK, BLOCK)
    scale = _scales(blocks)
    q.view(torch.uint8).copy_(_codes(blocks, scale).view(rows, columns))
    scales.zero_()
    offsets = swizzle_offsets(rows, columns // BLOCK, y.device)
    scales[offsets.flatten()] = scale.flatten().to(torch.uint8)


def dequantise(q: torch.Tensor, scales: torch.Tensor) -> torch.Tensor:
    """Values of codes [T, N] with their swizzled scales: FP32 [T, N]; scale 255 gives NaN."""
    rows, columns = q.shape
    offsets = swizzle_offsets(rows, columns // BLOCK, q.device)
    scale = scales[offsets.flatten()].view(rows, columns // BLOCK).int()
    # ldexp in two exact steps: 2^(s-127) alone may be subnormal, its root never is
    exponent = (scale - 127).float()
    half = torch.floor(exponent / 2)
    factors = torch.exp2(half), torch.exp2(exponent - half)
    values = q.float().view(rows, columns // BLOCK, BLOCK)
    scaled = values * factors[0][..., None] * factors[1][..., None]
    return scaled.masked_fill(scale[..., None] == NAN_SCALE, torch.nan).view(rows, columns)


def _scales(blocks: torch.Tensor) -> torch.Tensor:
    """Scale bytes of BF16 [T, B, 32]: INT32 [T, B]."""
    # magnitudes of floats order as their bits do, NaN above Inf
    amax = (blocks.view(torch.int16).int() & 0x7FFF).amax(dim=-1)
    # 448 = 1.75 * 2^8: one binade less 8, and one more where the significand passes 1.75
    rounded_up = (amax + 0x1F >> 7) - 8
    return rounded_up.clamp(min=0).masked_fill(amax >= _INFINITY_BITS, NAN_SCALE)


def _codes(blocks: torch.Tensor, scale: torch.Tensor) -> torch.Tensor:
    """E4M3FN bytes of BF16 [T, B, 32] under INT32 scales [T, B]: UINT8 [T, B, 32]."""
    inverse = ((254 - scale).clamp(min=1) << 23).view(torch.float32)  # 2^(127-s)
    scaled = blocks.float() * inverse[..., None]
    magnitude = scaled.abs()
    # Below 2^-6 codes step by 2^-9: adding 2^14 makes FP32 round there, ties to even.
    bits = magnitude.view(torch.int32)
    subnormal = (magnitude + 2.0**14).view(torch.int32) - 0x46800000
    # Elsewhere keep three mantissa bits, ties to even, and rebias the exponent by 7 - 127.
    normal = ((bits + 0x7FFFF + (bits >> 20 & 1)) >> 20) - (120 << 3)
    code = torch.where(magnitude < 2.0**-6, subnormal, normal)
    code |= (blocks.view(torch.int16).int() >> 8) & 0x80
    return code.masked_fill(scale[..., None] == NAN_SCALE, NAN_CODE).to(torch.uint8)


def _padded_rows(rows: int) -> int:
    return -(-rows // _TILE_ROWS) * _TILE_ROWS


def _padded_columns(block_columns: int) -> int:
    return -(-block_columns // _TILE_COLUMNS) * _TILE_COLUMNS
