"""Honest kernels: right by the contract, whatever their order of sums. None may raise an alarm."""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch

import kernel
from verify.faults.model import Model

if TYPE_CHECKING:
    from collections.abc import Callable

    from torch import Tensor

    from verify.harness import Candidate


class Unsplit(Model):
    """One sum over all of K."""

    splits = 1


class TwoSplits(Model):
    """Two sums, then one addition."""

    splits = 2


class FourSplits(Model):
    """Four sums; half of them where there are only two heads of 16 steps each."""

    splits = 4


class EightSplits(Model):
    """Eight sums."""

    splits = 8


class Reversed(Model):
    """Short steps, added from the last to the first, splits likewise."""

    step = 64

    def accumulate(self, products: Tensor) -> Tensor:
        """From the last step on."""
        return super().accumulate(products.flip(1))

    def add(self, partials: Tensor) -> Tensor:
        """From the last split on."""
        return super().add(partials.flip(0))


class PairwiseTree(Model):
    """Splits added as a tree, as a butterfly of shuffles does."""

    splits = 8

    def add(self, partials: Tensor) -> Tensor:
        """Neighbours first."""
        while len(partials) > 1:
            partials = partials[0::2] + partials[1::2]
        return partials[0]


class Double(Model):
    """Accumulates in FP64 and rounds to FP32 once."""

    def multiply(self, x: Tensor, weight: Tensor) -> Tensor:
        """All of K at once."""
        product = torch.einsum("tgk,grk->tgr", x.double(), weight.double())
        return product.float()[None, None]


class FusedRotation(Model):
    """The rotation contracted to fused multiply-adds."""

    def turn(self, re: Tensor, im: Tensor, cos: Tensor, sin: Tensor) -> tuple[Tensor, Tensor]:
        """The first product is not rounded, the second one is; FP64 holds the rest."""
        left = (re.double() * cos.double() + (im * sin).double()).float()
        right = (im.double() * cos.double() - (re * sin).double()).float()
        return left, right


class RowByRow(Model):
    """Each token on its own, by the library's matrix-vector product."""

    def multiply(self, x: Tensor, weight: Tensor) -> Tensor:
        """All of K at once."""
        wide = weight.float()
        rows = [torch.bmm(wide, row.unsqueeze(2)).squeeze(2) for row in x]
        return torch.stack(rows)[None, None]


class LibraryBF16(Model):
    """The library's own BF16 product, which accumulates in FP32."""

    def multiply(self, x: Tensor, weight: Tensor) -> Tensor:
        """All of K at once, rounded to BF16 by the library."""
        product = torch.bmm(x.bfloat16().transpose(0, 1), weight.transpose(1, 2))
        return product.transpose(0, 1).float()[None, None]


class TensorCore(Model):
    """Steps of 16 products as Hopper's tensor cores add them: aligned, cut and cut again.

    The model of Fasi, Higham, Mikaitis and Pranesh (2021): the products and the accumulator are
    aligned to the largest of them, bits below 2^-25 of it are dropped, the sum is truncated.
    """

    splits = 1
    k_step = 16
    last: tuple[Tensor, Tensor, Tensor] | None = None

    def multiply(self, x: Tensor, weight: Tensor) -> Tensor:
        """The product; it is simulated slowly, so the last one is kept for a launch like it."""
        if not (self.last and torch.equal(self.last[0], x) and torch.equal(self.last[1], weight)):
            self.last = (x, weight.clone(), self.simulated(x, weight))
        return self.last[2]

    def simulated(self, x: Tensor, weight: Tensor) -> Tensor:
        """One accumulator over all of K."""
        total = torch.zeros(x.shape[0], x.shape[1], weight.shape[1], dtype=torch.float64)
        wide, weights = x.double(), weight.double()
        for start in range(0, x.shape[2], self.k_step):
            step = slice(start, start + self.k_step)
            total = self.step_of(wide[:, :, None, step] * weights[None, :, :, step], total)
        return total.float()[None, None]

    def step_of(self, terms: Tensor, total: Tensor) -> Tensor:
        """Add [T, G, R, k_step] to [T, G, R]; all FP64, which holds every value exactly."""
        largest = torch.maximum(terms.abs().amax(3), total.abs())
        if not bool(largest.isfinite().all()):  # Inf and NaN are not aligned
            return cut(terms.sum(3) + total)
        unit = unit_below(largest, 25)
        inverse = 1 / unit
        kept = (terms * inverse[..., None]).int().sum(3) + (total * inverse).int()
        return cut(kept * unit)


def unit_below(value: Tensor, bits: int) -> Tensor:
    """The power of two that lies `bits` below the leading bit of FP64 values, at least 2^-149."""
    exponent = torch.frexp(value).exponent - 1
    ones = torch.ones(exponent.shape, dtype=torch.float64)
    return torch.ldexp(ones, (exponent - bits).clamp(min=-149))


def cut(total: Tensor) -> Tensor:
    """Truncate to FP32: 24 bits, none below 2^-149; beyond its range Inf."""
    unit = unit_below(total, 23)
    truncated = torch.where(total.isfinite(), (total / unit).int() * unit, total)
    return truncated.abs().masked_fill(total.abs() >= 2.0**128, torch.inf).copysign(total)


class TensorCoreSplit(TensorCore):
    """The same by FP8-wide steps of 32 in two halves of K."""

    k_step = 32

    def simulated(self, x: Tensor, weight: Tensor) -> Tensor:
        """Two accumulators, one after the other."""
        halves = zip(x.chunk(2, 2), weight.chunk(2, 2), strict=True)
        return torch.cat(list(itertools.starmap(super().simulated, halves)))


REJECTS = frozenset({"rejects"})


@dataclass(frozen=True)
class Honest:
    """A kernel that must pass.

    Attributes:
        name: unique.
        build: makes a fresh candidate.
        claims: what it says of itself, and is held to.
        slow: takes seconds at the full shape, so it runs at the reduced one only.
    """

    name: str
    build: Callable[[], Candidate]
    claims: frozenset[str] = frozenset({"batch-invariant", "rejects"})
    slow: bool = False

    @property
    def description(self) -> str:
        """What it is, in one line."""
        return (self.build.__doc__ or "").strip().partition("\n")[0]


def chain() -> Candidate:
    """The unfused chain of kernel/."""
    return kernel.chain


def fused_triton() -> Candidate:
    """The fused Triton kernel of kernel/, interpreted where there is no GPU."""
    return kernel.fused_triton


VARIANTS = {
    honest.name: honest
    for honest in (
        Honest("a split a head", Model),
        Honest("1 split", Unsplit),
        Honest("2 splits", TwoSplits),
        Honest("4 splits", FourSplits),
        Honest("8 splits", EightSplits),
        Honest("reversed order", Reversed),
        Honest("pairwise tree", PairwiseTree),
        Honest("FP64 accumulation", Double, REJECTS, slow=True),
        Honest("FMA rotation", FusedRotation),
        Honest("row by row", RowByRow, slow=True),
        Honest("library BF16 product", LibraryBF16, REJECTS),
        Honest("tensor core, truncating", TensorCore, slow=True),
        Honest("tensor core, two splits", TensorCoreSplit, slow=True),
        Honest("kernel:chain", chain, REJECTS | {"unbounded"}),
        Honest("kernel:fused_triton", fused_triton, REJECTS, slow=True),
    )
}
