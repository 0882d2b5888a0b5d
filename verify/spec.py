"""What a kernel supports and says of itself, as data: sizes, arithmetic, claims, contract."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from verify import contracts

CLAIMS = {
    "nondeterministic": "repeats may differ; codes and scales are judged on exact inputs only",
    "batch-invariant": "a row's bits do not depend on the rows beside it",
    "rejects": "T = 0, T > max and malformed arguments raise, and nothing is written",
    "unbounded": "any T is right; the largest is only how far it is asked",
    "ftz": "subnormals may be taken for zero here and there; unclaimed, all are or none is",
}
"""What a kernel may say of itself with --claims."""

CALIBRATED_AT_4096 = 768.0
"""c for a kernel that declares nothing, at K = 4096, in units of u * S.

Twice the worst honest error measured on an H200 over eight kinds of input, 379 for cuBLAS in FP32
(218 for an unsplit tensor-core product, which truncates). Not a proof, hence called calibrated;
what it is too wide to see, cases with few or exactly representable terms must.
"""

CALIBRATED_LEAST = 64.0
"""c does not shrink with K below this: short sums err by single roundings."""


@dataclass(frozen=True)
class Arithmetic:
    """How a kernel accumulates, as its author declares it.

    Attributes:
        k_step: products that one instruction adds to an FP32 accumulator: 16 for a BF16 MMA, 1 for
            scalar FMA.
        splits: accumulators of one output, added up in FP32 at the end.
        rounding: of the accumulator; tensor cores truncate.
    """

    k_step: int
    splits: int = 1
    rounding: Literal["nearest", "truncate"] = "nearest"

    def __post_init__(self) -> None:
        for name in ("k_step", "splits"):
            if getattr(self, name) < 1:
                raise ValueError(f"{name} is {getattr(self, name)}; it must be at least 1")
        if self.rounding not in ("nearest", "truncate"):
            raise ValueError(f"rounding is {self.rounding!r}; it must be nearest or truncate")

    def roundings(self, k: int) -> float:
        """The bound c: |computed - exact| <= c u S for sums of k products.

        To nearest, each step costs u and the k_step products inside it up to k_step - 1 more, on
        their own share of S. A truncating step aligns k_step products and the accumulator to the
        largest and drops bits below 2^-25 of it, u / 2 for each of the k_step + 1 terms, then
        truncates the result, 2 u (the block-FMA model of Fasi, Higham, Mikaitis and Pranesh 2021,
        with the alignment width of Hopper). The splits' sum adds one rounding each.
        """
        steps = -(-k // (self.splits * self.k_step))
        if self.rounding == "nearest":
            return steps + (self.k_step - 1) + (self.splits - 1)
        return steps * ((self.k_step + 1) / 2 + 2) + (self.splits - 1)


@dataclass(frozen=True, kw_only=True)
class Promises:
    """What a kernel of any operator says of itself.

    Attributes:
        arithmetic: the declared accumulation; None means the calibrated bound.
        claims: names out of CLAIMS.
        contract: the quantiser's, a name out of contracts.CONTRACTS.
    """

    arithmetic: Arithmetic | None = None
    claims: frozenset[str] = frozenset()
    contract: str = contracts.DEFAULT

    def __post_init__(self) -> None:
        if unknown := self.claims - CLAIMS.keys():
            known = ", ".join(CLAIMS)
            raise ValueError(f"no claim {', '.join(sorted(unknown))}; choose among {known}")
        if self.contract not in contracts.CONTRACTS:
            known = ", ".join(contracts.CONTRACTS)
            raise ValueError(f"no contract {self.contract!r}; choose among {known}")

    @property
    def tier(self) -> str:
        """What decides a case that is not exact."""
        return "calibrated" if self.arithmetic is None else "declared"

    def roundings(self, k: int) -> float:
        """c, in units of u * S, for sums of k products."""
        if self.arithmetic is not None:
            return self.arithmetic.roundings(k)
        return max(CALIBRATED_AT_4096 * k / 4096, CALIBRATED_LEAST)


@dataclass(frozen=True)
class KernelSpec(Promises):
    """What a WO-A kernel supports, and what it promises.

    Attributes:
        groups: G.
        rank: R, output columns of a group; a multiple of 32.
        k: K, input columns of a group; a multiple of head_dim.
        head_dim: columns of one head.
        rope_dim: rotated columns at the end of each head; even.
        max_tokens: the largest T.
    """

    groups: int = 2
    rank: int = 1024
    k: int = 4096
    head_dim: int = 512
    rope_dim: int = 64
    max_tokens: int = 32

    def __post_init__(self) -> None:
        super().__post_init__()
        for holds, name, rule in (
            (self.groups >= 1, "groups", "be at least 1"),
            (self.rank >= 32 and self.rank % 32 == 0, "rank", "be a multiple of 32"),
            (self.head_dim >= 2, "head_dim", "be at least 2"),
            (
                2 <= self.rope_dim <= self.head_dim and self.rope_dim % 2 == 0,
                "rope_dim",
                f"be even and at most head_dim = {self.head_dim}",
            ),
            (
                self.k >= 1 and self.head_dim >= 1 and self.k % self.head_dim == 0,
                "k",
                f"be a multiple of head_dim = {self.head_dim}",
            ),
            (self.max_tokens >= 1, "max_tokens", "be at least 1"),
        ):
            if not holds:
                raise ValueError(f"{name} is {getattr(self, name)}; it must {rule}")
