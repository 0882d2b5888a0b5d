"""Inputs and poisoned outputs for the kernel's own tests."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import pytest
import torch

from kernel import mxfp8, rope
from kernel.chain import inverse_rope

if TYPE_CHECKING:
    from collections.abc import Callable

POISON = 0xA5


@dataclass
class Call:
    """One call of a candidate: change a field, then run it in either output form."""

    x: torch.Tensor
    weight: torch.Tensor
    cos_sin: torch.Tensor
    positions: torch.Tensor
    head_dim: int

    @property
    def columns(self) -> int:
        return self.weight.shape[0] * self.weight.shape[1]

    def bf16(self, candidate: Callable[..., Any]) -> torch.Tensor:
        out = _poisoned((self.x.shape[0], self.columns), torch.bfloat16, self.x.device)
        candidate(
            self.x, self.weight, self.cos_sin, self.positions, head_dim=self.head_dim, out=out
        )
        return out

    def mxfp8(self, candidate: Callable[..., Any]) -> tuple[torch.Tensor, torch.Tensor]:
        """Codes and scales as bytes."""
        tokens = self.x.shape[0]
        q = _poisoned((tokens, self.columns), torch.float8_e4m3fn, self.x.device)
        size = mxfp8.scale_bytes(tokens, self.columns)
        scales = _poisoned((size,), torch.uint8, self.x.device)
        candidate(
            self.x,
            self.weight,
            self.cos_sin,
            self.positions,
            head_dim=self.head_dim,
            q=q,
            scales=scales,
        )
        return q.view(torch.uint8), scales

    def with_integers(self) -> Call:
        """Small integers and quarter turns, with which every order of summation is exact."""
        generator = torch.Generator().manual_seed(5)
        length, rope_dim = self.cos_sin.shape
        turns = torch.randint(0, 4, (length, rope_dim // 2), generator=generator)
        circle = torch.tensor([[1.0, 0.0], [0.0, 1.0], [-1.0, 0.0], [0.0, -1.0]])
        return replace(
            self,
            x=torch.randint(-3, 4, self.x.shape, generator=generator).bfloat16(),
            weight=torch.randint(-1, 2, self.weight.shape, generator=generator).bfloat16(),
            cos_sin=circle[turns].flatten(1),
        )

    def bounds(self, roundings: int) -> tuple[torch.Tensor, torch.Tensor]:
        """Least and greatest BF16 output of at most `roundings` FP32 errors a sum."""
        rotated = inverse_rope(self.x, self.cos_sin, self.positions, self.head_dim).double()
        weight = self.weight.double()
        exact = torch.einsum("tgk,grk->tgr", rotated, weight).flatten(1)
        size = torch.einsum("tgk,grk->tgr", rotated.abs(), weight.abs()).flatten(1)
        error = roundings * 2.0**-24 * size
        return (exact - error).bfloat16(), (exact + error).bfloat16()


def _poisoned(
    shape: tuple[int, ...], dtype: torch.dtype, device: torch.device | None = None
) -> torch.Tensor:
    tensor = torch.empty(shape, dtype=dtype, device=device)
    tensor.view(torch.uint8).fill_(POISON)
    return tensor


@pytest.fixture
def quantised() -> Callable[[torch.Tensor], tuple[torch.Tensor, torch.Tensor]]:
    """Code bytes and scale bytes that the torch quantiser writes over poison."""

    def quantise(y: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        q = _poisoned(tuple(y.shape), torch.float8_e4m3fn, y.device)
        scales = _poisoned((mxfp8.scale_bytes(*y.shape),), torch.uint8, y.device)
        mxfp8.quantise(y, q, scales)
        return q.view(torch.uint8), scales

    return quantise


@pytest.fixture
def make_call() -> Callable[..., Call]:
    def make(
        *,
        tokens: int = 5,
        groups: int = 2,
        rank: int = 64,
        heads: int = 4,
        head_dim: int = 64,
        rope_dim: int = 16,
        length: int = 512,
    ) -> Call:
        generator = torch.Generator().manual_seed(tokens)
        k = heads * head_dim
        return Call(
            x=torch.randn(tokens, groups, k, generator=generator).bfloat16(),
            weight=(0.05 * torch.randn(groups, rank, k, generator=generator)).bfloat16(),
            cos_sin=rope.yarn_table(length, rope_dim),
            positions=torch.randint(0, length, (tokens,), generator=generator),
            head_dim=head_dim,
        )

    return make
