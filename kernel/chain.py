"""The unfused chain: inverse RoPE, WO-A and quantisation as three steps of plain torch."""

from __future__ import annotations

import torch

from kernel import contract, mxfp8


@torch.no_grad()
def chain(
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
    """Rotate back, project each group, and write BF16 or MXFP8; any number of tokens T >= 1.

    Args:
        x: BF16 [T, G, K] attention output, K = heads * head_dim, strides (S0, K, 1), S0 >= G*K;
            left as it is.
        weight: BF16 [G, R, K] contiguous, R a multiple of 32.
        cos_sin: FP32 [S, rope_dim] contiguous, cos0, sin0, cos1, sin1, ... by absolute position.
        positions: INT32 or INT64 [T] contiguous.
        head_dim: columns of x in one head; its last rope_dim are rotated.
        out: BF16 [T, G*R] contiguous, or instead of it both of:
        q: E4M3FN [T, G*R] contiguous.
        scales: UINT8 [mxfp8.scale_bytes(T, G*R)] contiguous.

    Raises:
        ContractError: an argument breaks the contract; nothing has been written.
    """
    contract.check(x, weight, cos_sin, positions, head_dim=head_dim, out=out, q=q, scales=scales)
    y = wo_a(inverse_rope(x, cos_sin, positions, head_dim), weight)
    if out is not None:
        out.copy_(y)
    elif q is not None and scales is not None:
        mxfp8.quantise(y, q, scales)


def inverse_rope(
    x: torch.Tensor, cos_sin: torch.Tensor, positions: torch.Tensor, head_dim: int
) -> torch.Tensor:
    """Rotated copy of x, BF16 [T, G, K] contiguous.

    Products and sums are FP32 without FMA, each result rounded once to BF16. A position outside
    the table gives NaN, as it can only reach here on a GPU, where `contract.check` cannot see it.
    """
    length, rope_dim = cos_sin.shape
    tokens = x.shape[0]
    rotated = x.clone(memory_format=torch.contiguous_format)
    tail = rotated.view(tokens, -1, head_dim)[..., head_dim - rope_dim :]
    inside = (positions >= 0) & (positions < length)
    row = cos_sin[positions.clamp(0, length - 1).long()].masked_fill(~inside[:, None], torch.nan)
    cos, sin = row[:, None, 0::2], row[:, None, 1::2]
    re, im = tail[..., 0::2].float(), tail[..., 1::2].float()
    tail[..., 0::2] = re * cos + im * sin
    tail[..., 1::2] = im * cos - re * sin
    return rotated


def wo_a(rotated: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
    """Grouped projection of BF16 [T, G, K] by [G, R, K]: BF16 [T, G*R], group-major columns.

    Sums are FP32 and each is rounded once to BF16.
    """
    left, right = rotated.transpose(0, 1), weight.transpose(1, 2)  # [G, T, K], [G, K, R]
    if rotated.is_cuda:
        y = torch.bmm(left, right, out_dtype=torch.float32)
    else:
        y = torch.bmm(left.float(), right.float())
    return y.to(torch.bfloat16).transpose(0, 1).flatten(1)
