"""RMSNorm + MXFP8 quantisation as an operator: its cases and what they give a kernel.

A candidate is `fn(x, weight, *, eps, out=None, q=None, scales=None)`: x BF16 [T, N] of any row
stride, weight BF16 [N], outputs as those of WO-A.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import torch

from tests.operators.rmsnorm import oracle
from verify.inputs import draw
from verify.inputs.argument import Argument, Malformed

EPS = 1e-6
PROBES = ("forms", "reuse", "refuse")


def _spread(sizes, random):
    """Rows of powers of two from 2^-24 to 2^24."""
    rows = torch.exp2(draw.scattered(sizes[0], 24, random).float())
    return draw.normal(sizes, random) * rows[:, None]


FAMILIES = {
    "normal": draw.normal,
    "positive": draw.uniform,
    "spread": _spread,
    "subnormal": lambda sizes, random: draw.normal(sizes, random) * 2.0**-128,
    "huge": lambda sizes, random: draw.normal(sizes, random) * 2.0**50,
}


@dataclass(frozen=True)
class Case:
    family: str
    tokens: int
    columns: int
    probe: str = "forms"
    draw: int = 0
    exact = False
    golden = False

    @property
    def id(self):
        return (
            f"family={self.family}-tokens={self.tokens}-columns={self.columns}"
            f"-probe={self.probe}-draw={self.draw}"
        )


@dataclass(frozen=True)
class Inputs:
    case: Case
    x: torch.Tensor
    weight: torch.Tensor

    @property
    def rows(self):
        return len(self.x)

    @property
    def columns(self):
        return self.case.columns

    @property
    def terms(self):
        return self.case.columns

    @property
    def device(self):
        return self.x.device

    @property
    def options(self):
        return {"eps": EPS}

    def arguments(self):
        wide = self.x.new_full((self.rows, self.columns + 64), torch.nan)
        wide[:, 32:-32] = self.x
        return (
            Argument("x", wide, lambda buffer: buffer[:, 32:-32], guard=2 * wide.shape[1]),
            Argument("weight", self.weight),
        )

    def reference(self, c, *, flushed=False):
        return oracle.reference(self.x, self.weight, EPS, c, flushed=flushed)

    def column_name(self, column):
        return f"column {column}"

    def slabs(self):
        return {}

    def take(self, rows):
        return replace(self, x=self.x[rows])

    def variants(self):
        yield replace(self, weight=-self.weight)
        yield replace(self, x=self.x[:1].expand_as(self.x))
        x = self.x.clone()
        x[0, 0] = torch.nan
        yield replace(self, x=x)

    def malformed(self):
        yield Malformed("x in FP32", lambda a, o: (a | {"x": a["x"].float()}, o))
        yield Malformed("a weight too short", lambda a, o: (a | {"weight": a["weight"][1:]}, o))
        yield Malformed("no output", lambda a, _: (a, {}))


def make(case, seed=0, device="cpu"):
    random = draw.generator(case.id, seed)
    x = FAMILIES[case.family]((case.tokens, case.columns), random)
    weight = 1 + draw.normal((case.columns,), random) / 4
    return Inputs(case, x.bfloat16().to(device), weight.bfloat16().to(device))
