"""The yardsticks: the best unfused chains known, three launches each, as candidates in Triton.

They are what a fused kernel has to beat. Their arithmetic is the fused Triton kernel's own, so
that what is compared is one launch against three.
"""

# mypy: disallow-untyped-decorators=False
# ruff: noqa: PLR0917 - Triton kernels take neither keyword-only nor grouped arguments

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
import triton
import triton.language as tl

from kernel import contract
from kernel.fused_triton import _bf16_bits, _rotate, _swizzled

if TYPE_CHECKING:
    from kernel.contract import Problem

SPLITS = 8
_BLOCK_N, _BLOCK_K, _STAGES = 64, 64, 4  # the fastest of those tried on an H200
_BLOCK_OUT = 128  # columns of a token that one program of the last launch reduces


def split_k(
    x: torch.Tensor,
    weight: torch.Tensor,
    cos_sin: torch.Tensor,
    positions: torch.Tensor,
    *,
    head_dim: int = 512,
    out: torch.Tensor | None = None,
    q: torch.Tensor | None = None,
    scales: torch.Tensor | None = None,
) -> None:
    """Rotate; project with K split eightfold; reduce and write. Arguments as `kernel.chain`.

    Raises:
        ContractError: an argument breaks the contract, or lies on a CPU.
    """
    problem = _checked(x, weight, cos_sin, positions, head_dim, out, q, scales)
    rotated = _rotated(x, cos_sin, positions, problem)
    columns = problem.groups * problem.rank
    partials = x.new_empty((SPLITS, problem.tokens, columns), dtype=torch.float32)
    tiles = triton.cdiv(problem.rank, _BLOCK_N)
    steps = triton.cdiv(problem.k, _BLOCK_K)
    _project[(problem.groups * tiles, SPLITS)](
        rotated,
        weight,
        partials,
        problem.tokens,
        GROUPS=problem.groups,
        RANK=problem.rank,
        K=problem.k,
        TILES=tiles,
        SPAN=triton.cdiv(steps, SPLITS) * _BLOCK_K,
        BLOCK_T=16 if problem.tokens <= 16 else 32,
        BLOCK_N=_BLOCK_N,
        BLOCK_K=_BLOCK_K,
        num_warps=4,
        num_stages=_STAGES,
    )
    _write_out(partials, SPLITS, out, q, scales, problem)


def bmm(
    x: torch.Tensor,
    weight: torch.Tensor,
    cos_sin: torch.Tensor,
    positions: torch.Tensor,
    *,
    head_dim: int = 512,
    out: torch.Tensor | None = None,
    q: torch.Tensor | None = None,
    scales: torch.Tensor | None = None,
) -> None:
    """Rotate; `torch.bmm` with a BF16 result; quantise (two launches for BF16). As `split_k`."""
    problem = _checked(x, weight, cos_sin, positions, head_dim, out, q, scales)
    rotated = _rotated(x, cos_sin, positions, problem)
    y = x.new_empty((problem.tokens, problem.groups * problem.rank)) if out is None else out
    by_group = y.view(problem.tokens, problem.groups, problem.rank).transpose(0, 1)
    torch.bmm(rotated.transpose(0, 1), weight.transpose(1, 2), out=by_group)
    if out is None:
        _write_out(y, 1, None, q, scales, problem)


def _checked(
    x: torch.Tensor,
    weight: torch.Tensor,
    cos_sin: torch.Tensor,
    positions: torch.Tensor,
    head_dim: int,
    out: torch.Tensor | None,
    q: torch.Tensor | None,
    scales: torch.Tensor | None,
) -> Problem:
    problem = contract.check(
        x,
        weight,
        cos_sin,
        positions,
        head_dim=head_dim,
        out=out,
        q=q,
        scales=scales,
        max_tokens=32,
    )
    if not x.is_cuda:
        raise contract.ContractError(f"x is on {x.device}; this chain runs on a GPU only")
    return problem


def _rotated(
    x: torch.Tensor, cos_sin: torch.Tensor, positions: torch.Tensor, problem: Problem
) -> torch.Tensor:
    """First launch: a rotated copy of x, BF16 [T, G, K] contiguous."""
    rotated = x.new_empty((problem.tokens, problem.groups, problem.k))
    width = triton.next_power_of_2(problem.head_dim)
    _turn[(problem.tokens, problem.groups * problem.k // problem.head_dim)](
        x,
        cos_sin,
        positions,
        rotated,
        x.stride(0),
        cos_sin.shape[0],
        COLUMNS=problem.groups * problem.k,
        HEAD_DIM=problem.head_dim,
        ROPE_DIM=problem.rope_dim,
        WIDTH=width,
        num_warps=1,
        enable_fp_fusion=False,
    )
    return rotated


def _write_out(
    sums: torch.Tensor,  # FP32 [splits, T, N], or BF16 [T, N]
    splits: int,
    out: torch.Tensor | None,
    q: torch.Tensor | None,
    scales: torch.Tensor | None,
    problem: Problem,
) -> None:
    """Last launch: add the splits in their order, and write BF16 or MXFP8."""
    columns = problem.groups * problem.rank
    _reduce[(triton.cdiv(columns, _BLOCK_OUT), problem.tokens)](
        sums,
        out,
        None if q is None else q.view(torch.uint8),
        scales,
        problem.tokens,
        SPLITS=splits,
        COLUMNS=columns,
        WIDTH=_BLOCK_OUT,
        num_warps=1,
        enable_fp_fusion=False,
    )


@triton.jit(do_not_specialize=["table_rows"])
def _turn(
    x: tl.tensor,
    cos_sin: tl.tensor,
    positions: tl.tensor,
    rotated: tl.tensor,
    row_stride: tl.tensor,
    table_rows: tl.tensor,
    COLUMNS: tl.constexpr,
    HEAD_DIM: tl.constexpr,
    ROPE_DIM: tl.constexpr,
    WIDTH: tl.constexpr,
) -> None:
    """One head of one token."""
    token = tl.program_id(0).to(tl.int64)
    start = tl.program_id(1) * HEAD_DIM
    within = tl.arange(0, WIDTH)[None, :]
    position = tl.load(positions + token + tl.arange(0, 1)).to(tl.int64)[:, None]
    inside = (position >= 0) & (position < table_rows)
    table_row = cos_sin + position * ROPE_DIM
    tile = tl.load(x + token * row_stride + start + within, mask=within < HEAD_DIM, other=0.0)
    bits = _rotate(tile, 0, table_row, inside, HEAD_DIM, ROPE_DIM, 1, WIDTH)
    turned = bits.to(tl.int16).to(tl.bfloat16, bitcast=True)
    tl.store(rotated + token * COLUMNS + start + within, turned, mask=within < HEAD_DIM)


@triton.jit(do_not_specialize=["tokens"])
def _project(
    x: tl.tensor,  # BF16 [tokens, GROUPS, K] contiguous
    weight: tl.tensor,
    partials: tl.tensor,  # FP32 [splits, tokens, GROUPS * RANK]
    tokens: tl.tensor,
    GROUPS: tl.constexpr,
    RANK: tl.constexpr,
    K: tl.constexpr,
    TILES: tl.constexpr,
    SPAN: tl.constexpr,
    BLOCK_T: tl.constexpr,
    BLOCK_N: tl.constexpr,
    BLOCK_K: tl.constexpr,
) -> None:
    """One tile of columns over one span of K."""
    tile = tl.program_id(0)
    split = tl.program_id(1)
    group = (tile // TILES).to(tl.int64)
    token = tl.arange(0, BLOCK_T)
    in_group = tile % TILES * BLOCK_N + tl.arange(0, BLOCK_N)
    live = (token < tokens)[:, None]
    in_rank = (in_group < RANK)[:, None]
    x_row = x + token[:, None].to(tl.int64) * (GROUPS * K) + group * K
    weight_row = weight + (group * RANK + in_group[:, None]) * K
    sums = tl.full((BLOCK_T, BLOCK_N), 0.0, tl.float32)
    for step in range(0, SPAN, BLOCK_K):
        k = split * SPAN + step + tl.arange(0, BLOCK_K)[None, :]
        left = tl.load(x_row + k, mask=live & (k < K), other=0.0)
        right = tl.load(weight_row + k, mask=in_rank & (k < K), other=0.0)
        sums = tl.dot(left, tl.trans(right), sums)
    row = (split * tokens + token[:, None]).to(tl.int64) * (GROUPS * RANK)
    column = (group * RANK + in_group)[None, :]
    tl.store(partials + row + column, sums, mask=live & (in_group < RANK)[None, :])


@triton.jit(do_not_specialize=["tokens"])
def _reduce(
    sums: tl.tensor,
    out: tl.tensor,
    q: tl.tensor,
    scales: tl.tensor,
    tokens: tl.tensor,
    SPLITS: tl.constexpr,
    COLUMNS: tl.constexpr,
    WIDTH: tl.constexpr,  # four blocks of 32: a column of tiles of scales
) -> None:
    """Some columns of one token; of the scales' padding, every tokens-th row from that token on."""
    token = tl.program_id(1)
    column = tl.program_id(0) * WIDTH + tl.arange(0, WIDTH)
    stored = column < COLUMNS
    y = tl.full((WIDTH,), 0.0, tl.float32)
    for split in tl.static_range(SPLITS):
        y += tl.load(sums + (split * tokens + token) * COLUMNS + column, mask=stored, other=0.0)
    bits = _bf16_bits(y)
    place = token * COLUMNS + column
    if q is None:
        tl.store(out + place, bits.to(tl.int16).to(tl.bfloat16, bitcast=True), mask=stored)
    else:
        bits = tl.reshape(bits, (WIDTH // 32, 32))
        # magnitudes of floats order as their bits do, NaN above Inf
        amax = tl.max(bits & 0x7FFF, 1)
        scale = tl.maximum((amax + 0x1F >> 7) - 8, 0)  # 448 = 1.75 * 2^8
        scale = tl.where(amax >= 0x7F80, 255, scale)
        inverse = ((254 - scale) << 23).to(tl.float32, bitcast=True)[:, None]  # 2^(127-s)
        scaled = (bits << 16).to(tl.float32, bitcast=True) * inverse
        code = scaled.to(tl.float8e4nv).to(tl.uint8, bitcast=True)
        code = tl.where((scale == 255)[:, None], 0x7F, code)
        tl.store(q + place, tl.reshape(code, (WIDTH,)), mask=stored)
        block = tl.program_id(0) * (WIDTH // 32) + tl.arange(0, WIDTH // 32)
        tl.store(scales + _swizzled(token, block), scale.to(tl.uint8))
        row = tl.arange(0, 128)[:, None]
        padding = (row >= tokens) & (row % tokens == token)
        tl.store(scales + _swizzled(row, block[None, :]), 0, mask=padding & (block >= 0)[None, :])
