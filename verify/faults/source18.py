"""The 18 cases and tolerances with which the source pull request tested its kernel, on any kernel.

They stand here so that a reader sees the difference: one global norm below 1e-2, one seed, one kind
of input, short positions, one padding test into memory that happens to be clean. Source:
sgl-project/sglang, pull request 39957, test_wo_a_fused.py; written anew from its description.
"""

from __future__ import annotations

import functools
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import torch

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from torch import Tensor

    from verify.harness import Candidate

GROUPS, RANK, K, HEAD_DIM, ROPE_DIM, LENGTH = 2, 1024, 4096, 512, 64, 4096
COLUMNS, LOCAL_HEADS, ALL_HEADS = GROUPS * RANK, 16, 64
TOLERANCE = 1e-2

Failure = tuple[str, str]


@dataclass(frozen=True)
class Sample:
    """One input, fresh for each test: a candidate may write into it.

    Attributes:
        exact: FP64 [T, N], the right result.
        x: BF16 [T, G, K].
        weight: BF16 [G, R, K].
        cos_sin: FP32 [S, rope_dim].
        positions: INT32 or INT64 [T].
    """

    exact: Tensor
    x: Tensor
    weight: Tensor
    cos_sin: Tensor
    positions: Tensor


def questions() -> Iterator[tuple[str, Callable[[Candidate], list[Failure]]]]:
    """The 18 cases: the name of each, and what says how a candidate fails it."""
    for tokens in (1, 2, 4, 8, 13, 16, 17, 32):
        for padded in (False, True):
            name = f"matches_reference-T={tokens}-padded={padded}"
            yield name, guarded(matches_reference, tokens, padded=padded)
    yield "scale_padding_is_zeroed-T=4", guarded(padding_zeroed, 4)
    yield "int64_positions_match_int32-T=6", guarded(positions_match, 6)


def guarded(
    test: Callable[[Candidate, Sample], Iterator[Failure]], tokens: int, *, padded: bool = False
) -> Callable[[Candidate], list[Failure]]:
    """A test on inputs of its own; an exception fails it as an assertion does."""

    def failures(candidate: Candidate) -> list[Failure]:
        try:
            return list(test(candidate, sample(tokens, padded=padded)))
        except Exception as error:  # noqa: BLE001 - whatever it raises fails the test
            return [("raised", f"{type(error).__name__}: {error}")]

    return failures


def matches_reference(candidate: Candidate, given: Sample) -> Iterator[Failure]:
    """The norm of the BF16 form's error, then codes and live scales of its own quantisation."""
    y, (q, scales) = launch_y(candidate, given), launch_q(candidate, given)
    error = float((y.double() - given.exact).norm() / given.exact.norm())
    if not error < TOLERANCE:
        yield "norm", f"relative error {error:.3g}"
    codes, byte = quantise(y)
    if not torch.equal(q.float(), codes.float()):
        yield "codes", "codes differ as floats from those of its own BF16 output"
    row, column = torch.arange(y.shape[0])[:, None], torch.arange(COLUMNS // 32)
    live = scales[column // 4 * 512 + row % 32 * 16 + row // 32 * 4 + column % 4]
    if not torch.equal(live, byte):
        yield "scales", "live scale bytes differ from those of its own BF16 output"


def padding_zeroed(candidate: Candidate, given: Sample) -> Iterator[Failure]:
    """Rows of the scale buffer from T on are zero."""
    _, scales = launch_q(candidate, given)
    rows = scales.view(-1, 32, 4, 4).permute(2, 1, 0, 3).reshape(128, -1)
    if bool(rows[given.x.shape[0] :].any()):
        yield "padding", "padding rows are not zero"


def positions_match(candidate: Candidate, given: Sample) -> Iterator[Failure]:
    """INT64 and INT32 positions give the same bits."""
    wide = replace(given, positions=given.positions.long())
    if not torch.equal(launch_y(candidate, given), launch_y(candidate, wide)):
        yield "positions", "INT64 positions give another result than INT32"


def launch_y(candidate: Candidate, given: Sample) -> Tensor:
    """The BF16 form, into fresh memory, which happens to be zero here as it often is on a GPU."""
    y = torch.zeros(given.x.shape[0], COLUMNS, dtype=torch.bfloat16)
    candidate(given.x, given.weight, given.cos_sin, given.positions, head_dim=HEAD_DIM, out=y)
    return y


def launch_q(candidate: Candidate, given: Sample) -> tuple[Tensor, Tensor]:
    """The quantised form, likewise."""
    q = torch.zeros(given.x.shape[0], COLUMNS, dtype=torch.uint8).view(torch.float8_e4m3fn)
    scales = torch.zeros(128 * COLUMNS // 32, dtype=torch.uint8)
    candidate(
        given.x, given.weight, given.cos_sin, given.positions,
        head_dim=HEAD_DIM, q=q, scales=scales,
    )  # fmt: skip
    return q, scales


def sample(tokens: int, *, padded: bool = False) -> Sample:
    """The one seed: normal activations, normal weights of 0.05, a plain table of 4096 rows."""
    x, positions = activations(tokens, padded=padded)
    exact = reference(tokens, padded=padded)
    return Sample(exact, x, weight().clone(), table().clone(), positions)


def activations(tokens: int, *, padded: bool) -> tuple[Tensor, Tensor]:
    """BF16 [T, G, K], a slice of 64 heads if padded, and INT32 [T] positions."""
    random = torch.Generator().manual_seed(1234)
    heads = ALL_HEADS if padded else LOCAL_HEADS
    buffer = torch.randn(tokens, heads * HEAD_DIM, generator=random).bfloat16()
    positions = torch.randint(0, LENGTH, (tokens,), generator=random, dtype=torch.int32)
    return buffer[:, : LOCAL_HEADS * HEAD_DIM].view(tokens, GROUPS, K), positions


@functools.cache
def weight() -> Tensor:
    """BF16 [G, R, K]."""
    random = torch.Generator().manual_seed(1235)
    return (0.05 * torch.randn(GROUPS, RANK, K, generator=random)).bfloat16()


@functools.cache
def table() -> Tensor:
    """FP32 [S, rope_dim], theta 10000."""
    frequency = 10000.0 ** (-torch.arange(0, ROPE_DIM, 2) / ROPE_DIM)
    angle = torch.arange(LENGTH)[:, None] * frequency
    return torch.stack([angle.cos(), angle.sin()], 2).flatten(1)


@functools.cache
def reference(tokens: int, *, padded: bool) -> Tensor:
    """FP64 [T, N] from activations rotated in FP32 and rounded to BF16."""
    given, positions = activations(tokens, padded=padded)
    x = given.float().reshape(tokens, LOCAL_HEADS, HEAD_DIM)
    rows = table()[positions.long()][:, None]
    cos, sin = rows[..., 0::2], rows[..., 1::2]
    start = HEAD_DIM - ROPE_DIM
    even, odd = x[..., start::2].clone(), x[..., start + 1 :: 2].clone()
    x[..., start::2], x[..., start + 1 :: 2] = even * cos + odd * sin, odd * cos - even * sin
    rotated = x.bfloat16().double().view(-1, GROUPS, K)
    return torch.einsum("tgk,grk->tgr", rotated, wide_weight()).flatten(1)


@functools.cache
def wide_weight() -> Tensor:
    """FP64 [G, R, K]."""
    return weight().double()


def quantise(y: Tensor) -> tuple[Tensor, Tensor]:
    """Codes and scale bytes of BF16 [T, N], as the test has them."""
    blocks = y.float().view(y.shape[0], -1, 32)
    ratio = blocks.abs().amax(2) / 448.0
    mantissa, exponent = torch.frexp(ratio)
    byte = (exponent + 126 + (mantissa > 0.5).int()).clamp(0, 254).masked_fill(ratio == 0, 0)
    scaled = (blocks * torch.exp2(127.0 - byte)[..., None]).clamp(-448, 448)
    codes = scaled.to(torch.float8_e4m3fn).view(y.shape)
    return codes, byte.to(torch.uint8)
