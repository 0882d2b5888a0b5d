"""The embedded model: a decoder whose attention output is DeepSeek-V4.1's in small.

One normed latent a token is key and value of every head. RoPE turns the last columns of queries
and of the latent, so the attention output comes out turned and is turned back; then WO-A projects
each group of heads, the result becomes MXFP8, and WO-B works on the dequantised values.
Turning back, WO-A and the quantiser are one function, `Mix`, handed in by the caller.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import cast

import torch
from safetensors.torch import load_file
from torch import Tensor, nn
from torch.nn import functional as F  # noqa: N812 - torch's own name for it

from evals.mini import tokenizer
from kernel import rope

WEIGHTS = Path(__file__).with_name("model.safetensors")

Mix = Callable[[Tensor, Tensor, Tensor, Tensor], Tensor]
"""(x BF16 [T, G, K], weight BF16 [G, R, K], cos_sin FP32 [S, rope_dim], positions [T]) to the
dequantised result [T, G*R]."""

Remember = Callable[[int, Tensor], Tensor]
"""(layer, its new latents [B, L, head_dim]) to those that may be looked at [B, S, head_dim]."""


@dataclass(frozen=True)
class Config:
    """Sizes of the embedded model."""

    width: int = 320
    heads: int = 8
    head_dim: int = 64
    rope_dim: int = 32
    groups: int = 2
    rank: int = 64
    hidden: int = 896
    tables: tuple[str, ...] = ("plain", "yarn", "yarn")  # one a layer
    first_position: int = 65_536  # far out, where wrong tables and skipped pairs show
    context: int = 104  # tokens of prompt and answer together

    @property
    def k(self) -> int:
        """Columns of one group's attention output."""
        return self.heads * self.head_dim // self.groups


CONFIG = Config()


def make_tables(config: Config, device: torch.device | str = "cpu") -> list[Tensor]:
    """One RoPE table a layer, FP32 [first_position + context, rope_dim]."""
    make = {"plain": rope.plain_table, "yarn": rope.yarn_table}
    length = config.first_position + config.context
    tables = {kind: make[kind](length, config.rope_dim).to(device) for kind in set(config.tables)}
    return [tables[kind] for kind in config.tables]


def rotate(x: Tensor, row: Tensor) -> Tensor:
    """Turn the last columns of x [..., head_dim] by table rows [..., rope_dim]; FP32 inside."""
    keep, turn = x[..., : -row.shape[-1]], x[..., -row.shape[-1] :]
    re, im = turn[..., 0::2].float(), turn[..., 1::2].float()
    cos, sin = row[..., 0::2], row[..., 1::2]
    turned = torch.stack((re * cos - im * sin, re * sin + im * cos), dim=-1).flatten(-2)
    return torch.cat((keep, turned.to(x.dtype)), dim=-1)


class Layer(nn.Module):
    """Weights of one layer."""

    def __init__(self, config: Config) -> None:
        super().__init__()
        c = config
        self.attention_norm = nn.RMSNorm(c.width, eps=1e-6)
        self.query = nn.Linear(c.width, c.heads * c.head_dim, bias=False)
        self.query_norm = nn.RMSNorm(c.head_dim, eps=1e-6)
        self.latent = nn.Linear(c.width, c.head_dim, bias=False)
        self.latent_norm = nn.RMSNorm(c.head_dim, eps=1e-6)
        self.wo_a = nn.Parameter(torch.empty(c.groups, c.rank, c.k))
        self.wo_b = nn.Linear(c.groups * c.rank, c.width, bias=False)
        self.hidden_norm = nn.RMSNorm(c.width, eps=1e-6)
        self.gate_up = nn.Linear(c.width, 2 * c.hidden, bias=False)
        self.down = nn.Linear(c.hidden, c.width, bias=False)

    def queries(self, h: Tensor, heads: int) -> Tensor:
        """Queries of normed h [B, L, width]: [B, L, heads, head_dim]."""
        return cast("Tensor", self.query_norm(self.query(h).view(*h.shape[:-1], heads, -1)))

    def latents(self, h: Tensor) -> Tensor:
        """Shared key and value of normed h [B, L, width]: [B, L, head_dim]."""
        return cast("Tensor", self.latent_norm(self.latent(h)))

    def feed_forward(self, h: Tensor) -> Tensor:
        """SwiGLU of h [B, L, width]."""
        gate, up = self.gate_up(self.hidden_norm(h)).chunk(2, dim=-1)
        return cast("Tensor", self.down(F.silu(gate) * up))


class Mini(nn.Module):
    """Tokens to logits; the same code learns, reads prompts and decodes."""

    def __init__(self, config: Config = CONFIG) -> None:
        super().__init__()
        self.config = config
        self.embedding = nn.Embedding(tokenizer.size(), config.width)
        self.layers = nn.ModuleList(Layer(config) for _ in config.tables)
        self.norm = nn.RMSNorm(config.width, eps=1e-6)

    def forward(
        self,
        tokens: Tensor,
        positions: Tensor,
        tables: list[Tensor],
        mix: Mix,
        *,
        remember: Remember = lambda _, latents: latents,
        visible: Tensor | None = None,
    ) -> Tensor:
        """Logits [B, L, vocabulary] of tokens [B, L] at absolute positions [B, L].

        `visible`, bool [B, 1, L, S], says which latents each token may look at; left out, those
        up to its own (causal).
        """
        c = self.config
        h = self.embedding(tokens)
        flat = positions.flatten()
        for index, (module, table) in enumerate(zip(self.layers, tables, strict=True)):
            layer = cast("Layer", module)
            normed = layer.attention_norm(h)
            row = table[positions.long()]
            query = rotate(layer.queries(normed, c.heads), row[:, :, None]).transpose(1, 2)
            seen = remember(index, rotate(layer.latents(normed), row))
            seen = seen[:, None].expand(-1, c.heads, -1, -1)
            o = F.scaled_dot_product_attention(
                query, seen, seen, attn_mask=visible, is_causal=visible is None
            )
            x = o.transpose(1, 2).reshape(-1, c.groups, c.k).bfloat16()
            mixed = mix(x, layer.wo_a.bfloat16(), table, flat)
            h = h + layer.wo_b(mixed.to(h.dtype)).view_as(h)
            h = h + layer.feed_forward(h)
        return F.linear(self.norm(h), self.embedding.weight)


def load(path: Path = WEIGHTS, config: Config = CONFIG) -> Mini:
    """The trained model: BF16 weights held as FP32, for CPUs are faster so and sum more exactly."""
    model = Mini(config)
    model.load_state_dict({name: w.float() for name, w in load_file(path).items()})
    return model.eval().requires_grad_(False)
