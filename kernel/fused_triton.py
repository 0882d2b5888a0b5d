"""The fused kernel in Triton: one source for the GPU and, through Triton's interpreter, the CPU.

On a GPU K is split over programs, each leaving FP32 partial sums in a workspace, and a small
second launch adds them in split order; on the CPU one launch does all. Tiles, splits and order do
not depend on T or on the data: the same row gives the same bits in any batch.

BF16 is rounded and E4M3 encoded by integer arithmetic, so that no FP8 hardware is needed and the
interpreter (which truncates to BF16 and multiplies BF16 as integers) gives the same bits.
"""

# mypy: disallow-untyped-decorators=False
# ruff: noqa: PLR0917 - Triton kernels take neither keyword-only nor grouped arguments

from __future__ import annotations

import contextlib
import functools
import types
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
import triton
import triton.language as tl
from triton.runtime.interpreter import InterpretedFunction, interpreter_builder

from kernel import contract

if TYPE_CHECKING:
    from collections.abc import Iterator

MAX_TOKENS = 32

_NATIVE_SPLITS = 8
_INTERPRETED_TILE = 1 << 20  # elements, the most Triton allows: the interpreter pays by the call


@dataclass(frozen=True)
class _Plan:
    """Tiling of one launch."""

    block_t: int
    block_n: int
    block_k: int
    splits: int


def fused_triton(
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
    """Rotate back, project and write BF16 or MXFP8 for T from 1 to 32; arguments as `chain`.

    On a GPU a position outside the table gives a row of NaN.

    Raises:
        ContractError: an argument breaks the contract; nothing has been written.
    """
    problem = contract.check(
        x,
        weight,
        cos_sin,
        positions,
        head_dim=head_dim,
        out=out,
        q=q,
        scales=scales,
        max_tokens=MAX_TOKENS,
    )
    tokens, columns = problem.tokens, problem.groups * problem.rank
    # under TRITON_INTERPRET=1 Triton interprets GPU tensors too
    native = x.is_cuda and isinstance(_project, triton.JITFunction)
    plan = _native_plan(problem) if native else _interpreted_plan(problem)
    tiles = triton.cdiv(problem.rank, plan.block_n)
    steps = triton.cdiv(problem.k, plan.block_k)
    partials = (
        torch.empty(plan.splits, tokens, columns, dtype=torch.float32, device=x.device)
        if plan.splits > 1
        else None
    )
    # Triton has no E4M3 pointers below compute capability 8.9; codes are bytes here anyway.
    outputs = (out, None if q is None else q.view(torch.uint8), scales)
    tiling = {
        "GROUPS": problem.groups,
        "RANK": problem.rank,
        "TILES": tiles,
        "BLOCK_T": plan.block_t,
        "BLOCK_N": plan.block_n,
    }
    project = _launcher(_project, native=native)
    finish = _launcher(_finish, native=native)
    # FMA would round the rotation once where the chain rounds twice
    options = {"enable_fp_fusion": False, "num_warps": 4}
    with torch.cuda.device(x.device) if native else _interpreter():
        project[(problem.groups * tiles, plan.splits)](
            x,
            weight,
            cos_sin,
            positions,
            *outputs,
            partials,
            tokens,
            x.stride(0),
            cos_sin.shape[0],
            K=problem.k,
            HEAD_DIM=head_dim,
            ROPE_DIM=problem.rope_dim,
            BLOCK_K=plan.block_k,
            SPAN=triton.cdiv(steps, plan.splits) * plan.block_k,
            WIDEN=not native,
            **tiling,
            **options,
            num_stages=3,
        )
        if partials is not None:
            finish[(problem.groups * tiles,)](
                partials, *outputs, tokens, SPLITS=plan.splits, **tiling, **options
            )


def _native_plan(problem: contract.Problem) -> _Plan:
    block_t = 16 if problem.tokens <= 16 else 32  # rows of one tensor-core tile never mix
    block_k = 128
    splits = min(_NATIVE_SPLITS, triton.cdiv(problem.k, block_k))
    return _Plan(block_t, min(64, triton.next_power_of_2(problem.rank)), block_k, splits)


def _interpreted_plan(problem: contract.Problem) -> _Plan:
    # always 32 rows: BLAS may order its sums by the number of rows
    block_n = min(triton.next_power_of_2(problem.rank), 1024)
    block_k = min(triton.next_power_of_2(problem.k), _INTERPRETED_TILE // block_n)
    return _Plan(32, block_n, block_k, splits=1)


@contextlib.contextmanager
def _interpreter() -> Iterator[None]:
    """IEEE arithmetic without numpy's warnings, and without checks whose outcome is dropped.

    The interpreter computes an overflow check for each integer operation (half of its time) but
    acts on it in debug mode only.
    """
    options = interpreter_builder.options
    interpreter_builder.options = replace(options, sanitize_overflow=False)
    try:
        with np.errstate(all="ignore"):
            yield
    finally:
        interpreter_builder.options = options


@triton.jit
def _bf16_bits(value: tl.tensor) -> tl.tensor:
    """FP32 to the 16 bits of BF16 in INT32, ties to even; every NaN gives 0x7FC0."""
    bits = value.to(tl.int32, bitcast=True)
    magnitude = bits & 0x7FFFFFFF
    rounded = (magnitude + 0x7FFF + ((magnitude >> 16) & 1)) >> 16
    rounded = tl.where(magnitude > 0x7F800000, 0x7FC0, rounded)
    return rounded | ((bits >> 16) & 0x8000)


@triton.jit
def _swizzled(row: tl.tensor, block: tl.tensor) -> tl.tensor:
    """Place of a scale byte in the 128x4 swizzle, for rows below 128."""
    return block // 4 * 512 + row % 32 * 16 + row // 32 * 4 + block % 4


@triton.jit
def _rotate(
    tile: tl.tensor,  # BF16 [BLOCK_T, BLOCK_K] of x
    start: tl.tensor,  # column of x that the tile begins with, even
    table_row: tl.tensor,  # pointers [BLOCK_T, 1]
    inside: tl.tensor,  # [BLOCK_T, 1], whether the position is in the table
    HEAD_DIM: tl.constexpr,
    ROPE_DIM: tl.constexpr,
    BLOCK_T: tl.constexpr,
    BLOCK_K: tl.constexpr,
) -> tl.tensor:
    """Bits of the tile, INT32 [BLOCK_T, BLOCK_K], the tail of each head rotated back."""
    bits = tile.to(tl.int16, bitcast=True).to(tl.int32)
    value = (bits << 16).to(tl.float32, bitcast=True)
    re, im = tl.split(tl.reshape(value, (BLOCK_T, BLOCK_K // 2, 2)))
    pair = (start + 2 * tl.arange(0, BLOCK_K // 2))[None, :] % HEAD_DIM - (HEAD_DIM - ROPE_DIM)
    known = inside & (pair >= 0)
    cos = tl.load(table_row + pair, mask=known, other=float("nan"))
    sin = tl.load(table_row + pair + 1, mask=known, other=float("nan"))
    turned = tl.reshape(tl.join(re * cos + im * sin, im * cos - re * sin), (BLOCK_T, BLOCK_K))
    in_tail = (start + tl.arange(0, BLOCK_K))[None, :] % HEAD_DIM >= HEAD_DIM - ROPE_DIM
    return tl.where(in_tail, _bf16_bits(turned), bits)


@triton.jit
def _write(
    y: tl.tensor,  # FP32 [BLOCK_T, BLOCK_N], finished sums
    tile: tl.tensor,
    out: tl.tensor,  # BF16 [tokens, GROUPS * RANK] or None
    q: tl.tensor,  # UINT8, same shape, or None
    scales: tl.tensor,
    tokens: tl.tensor,
    GROUPS: tl.constexpr,
    RANK: tl.constexpr,
    TILES: tl.constexpr,
    BLOCK_T: tl.constexpr,
    BLOCK_N: tl.constexpr,
) -> None:
    """Round one tile of sums to BF16 and write it, or its codes and scale bytes."""
    token = tl.arange(0, BLOCK_T)
    in_group = tile % TILES * BLOCK_N + tl.arange(0, BLOCK_N)
    place = token[:, None].to(tl.int64) * (GROUPS * RANK) + (tile // TILES * RANK + in_group)
    stored = (token < tokens)[:, None] & (in_group < RANK)[None, :]
    bits = _bf16_bits(y)
    if q is None:
        tl.store(out + place, bits.to(tl.int16).to(tl.bfloat16, bitcast=True), mask=stored)
    else:
        # magnitudes of floats order as their bits do, NaN above Inf
        bits = tl.reshape(bits, (BLOCK_T, BLOCK_N // 32, 32))
        magnitude = bits & 0x7FFF
        # tl.max is itself a jit function, which the interpreter cannot call
        amax = tl.reduce(magnitude, 2, tl.standard._elementwise_max)  # noqa: SLF001 - see above
        # 448 = 1.75 * 2^8: one binade less 8, and one more where the significand passes 1.75
        scale = tl.maximum((amax + 0x1F >> 7) - 8, 0)
        scale = tl.where(amax >= 0x7F80, 255, scale)
        inverse = ((254 - scale) << 23).to(tl.float32, bitcast=True)  # 2^(127-s), unused for 255
        scaled = (magnitude << 16).to(tl.float32, bitcast=True) * inverse[:, :, None]
        # Codes of binade e, at least -6, step by 2^(e-3): adding 2^(e+20) makes FP32 round there,
        # ties to even, and leaves the number of steps in its low bits.
        binade = tl.maximum(scaled.to(tl.int32, bitcast=True) & 0x7F800000, 121 << 23)
        anchor = binade + (20 << 23)
        steps = (scaled + anchor.to(tl.float32, bitcast=True)).to(tl.int32, bitcast=True) - anchor
        code = ((binade >> 20) - (121 << 3) + steps) | ((bits >> 8) & 0x80)
        code = tl.where((scale == 255)[:, :, None], 0x7F, code)
        tl.store(q + place, tl.reshape(code, (BLOCK_T, BLOCK_N)).to(tl.uint8), mask=stored)

        block = tile % TILES * (BLOCK_N // 32) + tl.arange(0, BLOCK_N // 32)
        in_rank = (block < RANK // 32)[None, :]
        block = (tile // TILES * (RANK // 32) + block)[None, :]
        row = tl.arange(0, 128)[:, None]
        live = (token < tokens)[:, None]
        tl.store(scales + _swizzled(token[:, None], block), scale.to(tl.uint8), mask=live & in_rank)
        tl.store(scales + _swizzled(row, block), 0, mask=(row >= tokens) & in_rank)
        if GROUPS * RANK // 32 % 4 != 0:  # the last tile also fills the padding columns
            padding = GROUPS * RANK // 32 + tl.arange(0, 4)[None, :]
            outside = (padding % 4 >= GROUPS * RANK // 32 % 4) & (tile == GROUPS * TILES - 1)
            tl.store(scales + _swizzled(row, padding), 0, mask=(row >= 0) & outside)


@triton.jit(do_not_specialize=["tokens", "table_rows"])
def _project(
    x: tl.tensor,
    weight: tl.tensor,
    cos_sin: tl.tensor,
    positions: tl.tensor,
    out: tl.tensor,
    q: tl.tensor,
    scales: tl.tensor,
    partials: tl.tensor,  # FP32 [splits, tokens, GROUPS * RANK], or None where K is not split
    tokens: tl.tensor,
    row_stride: tl.tensor,
    table_rows: tl.tensor,
    GROUPS: tl.constexpr,
    RANK: tl.constexpr,
    K: tl.constexpr,
    HEAD_DIM: tl.constexpr,
    ROPE_DIM: tl.constexpr,
    TILES: tl.constexpr,  # tiles of BLOCK_N columns in a group
    SPAN: tl.constexpr,  # columns of x in a split, a multiple of BLOCK_K
    BLOCK_T: tl.constexpr,
    BLOCK_N: tl.constexpr,
    BLOCK_K: tl.constexpr,
    WIDEN: tl.constexpr,  # multiply FP32 copies: the interpreter has no BF16 product
) -> None:
    """One tile of columns over one span of K."""
    tile = tl.program_id(0)
    split = tl.program_id(1)
    group = (tile // TILES).to(tl.int64)
    token = tl.arange(0, BLOCK_T)
    in_group = tile % TILES * BLOCK_N + tl.arange(0, BLOCK_N)
    live = (token < tokens)[:, None]
    in_rank = (in_group < RANK)[:, None]
    position = tl.load(positions + token, mask=token < tokens, other=0).to(tl.int64)[:, None]
    inside = live & (position >= 0) & (position < table_rows)
    table_row = cos_sin + position * ROPE_DIM
    x_row = x + token[:, None].to(tl.int64) * row_stride + group * K
    weight_row = weight + (group * RANK + in_group[:, None]) * K
    sums = tl.full((BLOCK_T, BLOCK_N), 0.0, tl.float32)
    for step in range(0, SPAN, BLOCK_K):
        start = split * SPAN + step
        k = start + tl.arange(0, BLOCK_K)[None, :]
        a = tl.load(x_row + k, mask=live & (k < K), other=0.0)
        w = tl.load(weight_row + k, mask=in_rank & (k < K), other=0.0)
        bits = _rotate(a, start, table_row, inside, HEAD_DIM, ROPE_DIM, BLOCK_T, BLOCK_K)
        if WIDEN:
            wide = w.to(tl.int16, bitcast=True).to(tl.int32) << 16
            right = tl.trans(wide.to(tl.float32, bitcast=True))
            left = (bits << 16).to(tl.float32, bitcast=True)
            sums = tl.dot(left, right, sums)
        else:
            left = bits.to(tl.int16).to(tl.bfloat16, bitcast=True)
            sums = tl.dot(left, tl.trans(w), sums)
    if partials is None:
        _write(sums, tile, out, q, scales, tokens, GROUPS, RANK, TILES, BLOCK_T, BLOCK_N)
    else:
        row = (split * tokens + token[:, None]).to(tl.int64) * (GROUPS * RANK)
        column = (group * RANK + in_group)[None, :]
        tl.store(partials + row + column, sums, mask=live & (in_group < RANK)[None, :])


@triton.jit(do_not_specialize=["tokens"])
def _finish(
    partials: tl.tensor,
    out: tl.tensor,
    q: tl.tensor,
    scales: tl.tensor,
    tokens: tl.tensor,
    SPLITS: tl.constexpr,
    GROUPS: tl.constexpr,
    RANK: tl.constexpr,
    TILES: tl.constexpr,
    BLOCK_T: tl.constexpr,
    BLOCK_N: tl.constexpr,
) -> None:
    """Add the partial sums of one tile in split order and write it."""
    tile = tl.program_id(0)
    token = tl.arange(0, BLOCK_T)[:, None]
    in_group = tile % TILES * BLOCK_N + tl.arange(0, BLOCK_N)[None, :]
    stored = (token < tokens) & (in_group < RANK)
    column = tile // TILES * RANK + in_group
    sums = tl.full((BLOCK_T, BLOCK_N), 0.0, tl.float32)
    for split in range(SPLITS):
        row = (split * tokens + token).to(tl.int64) * (GROUPS * RANK)
        sums += tl.load(partials + row + column, mask=stored, other=0.0)
    _write(sums, tile, out, q, scales, tokens, GROUPS, RANK, TILES, BLOCK_T, BLOCK_N)


@functools.cache
def _launcher(kernel: Any, *, native: bool) -> Any:
    """The kernel itself, or the same source bound to Triton's interpreter.

    Triton's own switch, TRITON_INTERPRET, must be set before triton is first imported and then
    holds for the whole process; binding the source here lets each call go by its tensors' device.
    """
    if native:
        return kernel
    scope = dict(kernel.fn.__globals__)
    for helper in (_bf16_bits, _swizzled, _rotate, _write):
        scope[helper.fn.__name__] = InterpretedFunction(_rebound(helper.fn, scope)).rewrite()
    return InterpretedFunction(_rebound(kernel.fn, scope))


def _rebound(function: types.FunctionType, scope: dict[str, Any]) -> types.FunctionType:
    copy = types.FunctionType(function.__code__, scope, function.__name__)
    copy.__annotations__ = function.__annotations__
    copy.__module__ = function.__module__
    copy.__qualname__ = function.__qualname__
    return copy
