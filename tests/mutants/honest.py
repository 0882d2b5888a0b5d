"""Right kernels in plain torch, written as a stranger would, in several orders of summation.

`build` makes a candidate out of five steps; the mutants beside this file replace one each.
"""

from __future__ import annotations

import functools

import torch
from torch import Tensor

BLOCK = 32


def rotate(x: Tensor, cos_sin: Tensor, positions: Tensor, head_dim: int) -> Tensor:
    """FP32 [T, G, K] of BF16 values."""
    rope_dim = cos_sin.shape[1]
    heads = x.float().view(*x.shape[:2], -1, head_dim).clone()
    re, im = heads[..., -rope_dim::2].clone(), heads[..., head_dim - rope_dim + 1 :: 2].clone()
    row = cos_sin[positions.long()][:, None, None]
    cos, sin = row[..., 0::2], row[..., 1::2]
    heads[..., -rope_dim::2] = (re * cos + im * sin).bfloat16().float()
    heads[..., head_dim - rope_dim + 1 :: 2] = (im * cos - re * sin).bfloat16().float()
    return heads.view(x.shape)


def rotate_contracted(x: Tensor, cos_sin: Tensor, positions: Tensor, head_dim: int) -> Tensor:
    """With fused multiply-add: the first product is not rounded. FP64 stands in for it."""
    rope_dim = cos_sin.shape[1]
    heads = x.double().view(*x.shape[:2], -1, head_dim).clone()
    re, im = heads[..., -rope_dim::2].clone(), heads[..., head_dim - rope_dim + 1 :: 2].clone()
    row = cos_sin[positions.long()].double()[:, None, None]
    cos, sin = row[..., 0::2], row[..., 1::2]
    first = re * cos + (im * sin).float()
    second = im * cos - (re * sin).float()
    heads[..., -rope_dim::2] = first.float().bfloat16().double()
    heads[..., head_dim - rope_dim + 1 :: 2] = second.float().bfloat16().double()
    return heads.float().view(x.shape)


def project(x: Tensor, weight: Tensor) -> Tensor:
    """FP32 [T, G * R]."""
    return torch.einsum("tgk,grk->tgr", x, weight.float()).flatten(1)


def project_split(splits: int, x: Tensor, weight: Tensor) -> Tensor:
    """K in `splits` parts, added in order."""
    parts = zip(x.chunk(splits, 2), weight.chunk(splits, 2), strict=True)
    return functools.reduce(torch.add, (project(a, b) for a, b in parts))


def project_reversed(x: Tensor, weight: Tensor) -> Tensor:
    """From the last term of each sum to the first, 64 at a time."""
    parts = list(zip(x.split(64, 2), weight.split(64, 2), strict=True))
    return functools.reduce(torch.add, (project(a.flip(2), b.flip(2)) for a, b in reversed(parts)))


def project_fp64(x: Tensor, weight: Tensor) -> Tensor:
    """In FP64, rounded once."""
    return torch.einsum("tgk,grk->tgr", x.double(), weight.double()).flatten(1)


def project_rows(x: Tensor, weight: Tensor) -> Tensor:
    """One row after the other, as a matrix times a vector."""
    rows = [torch.bmm(weight.float(), row[:, :, None]).flatten() for row in x]
    return torch.stack(rows)


def project_bf16(x: Tensor, weight: Tensor) -> Tensor:
    """The library's BF16 product."""
    return torch.bmm(x.bfloat16().transpose(0, 1), weight.mT).transpose(0, 1).flatten(1)


def project_flushing(x: Tensor, weight: Tensor) -> Tensor:
    """With subnormal operands and results taken for zero, as AVX512_BF16 and AMX do."""
    small = 2.0**-126
    x, weight = (torch.where(v.float().abs() < small, 0.0, v.float()) for v in (x, weight))
    y = project(x, weight)
    return torch.where(y.abs() < small, 0.0, y)


def scale(amax: Tensor) -> Tensor:
    """Scale bytes INT64 of FP32 block maxima: the exponent of amax / 448, rounded up."""
    mantissa, exponent = torch.frexp(amax.double() / 448)
    byte = exponent + 127 - (mantissa == 0.5).int()
    return torch.where(amax == 0, 0, byte.clamp(0, 254)).long()


def encode(scaled: Tensor) -> Tensor:
    """E4M3 codes of FP64 values; clamped first, as casts differ beyond 448."""
    return scaled.float().clamp(-448, 448).to(torch.float8_e4m3fn)


def place(byte: Tensor, out: Tensor) -> None:
    """Write scale bytes [T, B] into the 128x4 swizzle, zeros around them."""
    out.zero_()
    rows, columns = byte.shape
    row, column = torch.arange(rows)[:, None], torch.arange(columns)
    tile = row // 128 * -(-columns // 4) + column // 4
    out[tile * 512 + row % 32 * 16 + row % 128 // 32 * 4 + column % 4] = byte.to(torch.uint8)


def quantise(y, q, scales, *, scale=scale, encode=encode, place=place) -> None:
    blocks = y.double().view(y.shape[0], -1, BLOCK)
    byte = scale(blocks.abs().amax(2))
    q.copy_(encode(blocks * torch.exp2((127 - byte).double())[..., None]).view(y.shape))
    place(byte, scales)


def build(*, rotate=rotate, project=project, cast=Tensor.bfloat16, quantise=quantise, **steps):
    """A candidate out of its steps; `scale`, `encode` and `place` are those of `quantise`."""

    def kernel(
        x, weight, cos_sin, positions, *, head_dim=512, out=None, q=None, scales=None
    ) -> None:
        y = cast(project(rotate(x, cos_sin, positions, head_dim), weight))
        if out is not None:
            out.copy_(y)
        else:
            quantise(y, q, scales, **steps)

    return kernel


plain = build()
splits_8 = build(project=functools.partial(project_split, 8))
backwards = build(project=project_reversed)
fp64 = build(project=project_fp64)
rows = build(project=project_rows)
library_bf16 = build(project=project_bf16)
flushing = build(project=project_flushing)
contracted = build(rotate=rotate_contracted)
