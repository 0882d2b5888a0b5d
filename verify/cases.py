"""What is verified, as data: a kernel's declared properties and the grid of cases asked of it."""

from __future__ import annotations

import random
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Literal, TypeVar

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

T = TypeVar("T")

Budget = Literal["quick", "standard", "full"]
Plan = Literal["whole", "reduced", "few"]
Table = Literal["plain", "yarn", "quarter"]
Positions = Literal["zero", "short", "long", "repeated"]
IndexType = Literal["int32", "int64"]
INDEX_TYPES: tuple[IndexType, ...] = ("int32", "int64")

CONTRACT = "mxfp8-e4m3-ceil448"
CLAIMS = {
    "nondeterministic": "repeats may differ; codes and scales are judged on exact inputs only",
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


@dataclass(frozen=True)
class KernelSpec:
    """What a kernel supports and says of itself.

    Attributes:
        groups: G.
        rank: R, output columns of a group; a multiple of 32.
        k: K, input columns of a group; a multiple of head_dim.
        head_dim: columns of one head.
        rope_dim: rotated columns at the end of each head; even.
        max_tokens: the largest T.
        arithmetic: the declared accumulation; None means the calibrated bound.
        claims: names out of CLAIMS.
        contract: the quantiser's.
    """

    groups: int = 2
    rank: int = 1024
    k: int = 4096
    head_dim: int = 512
    rope_dim: int = 64
    max_tokens: int = 32
    arithmetic: Arithmetic | None = None
    claims: frozenset[str] = frozenset()
    contract: str = CONTRACT

    def __post_init__(self) -> None:
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
        if unknown := self.claims - CLAIMS.keys():
            known = ", ".join(CLAIMS)
            raise ValueError(f"no claim {', '.join(sorted(unknown))}; choose among {known}")

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
class Family:
    """One kind of input and the axes that suit it.

    Attributes:
        sees: what it is there to notice.
        exact: every order of the sums gives the same value; judged with E = 0.
        tables: the cos/sin tables it may use.
        positions: the position patterns it may use.
        needs_plain_dims: it uses dims that are not rotated.
        widest: always asked at the largest T, to hold as many values as a launch can.
    """

    sees: str
    exact: bool = False
    tables: tuple[Table, ...] = ("plain", "yarn")
    positions: tuple[Positions, ...] = ("long", "short", "repeated")
    needs_plain_dims: bool = False
    widest: bool = False


def _golden(sees: str, *, widest: bool = False) -> Family:
    """At position 0 no rotation happens: y is known exactly, and so is every byte."""
    return Family(sees, exact=True, positions=("zero",), widest=widest)


FAMILIES = {
    # Dense: every term of every sum takes part.
    "normal": Family("gross faults at the distribution that a model sees"),
    "positive": Family("bias: errors of one sign add up"),
    "outliers": Family("a few terms of 1000 times the size"),
    "cancellation": Family("large partial sums that nearly cancel, and their order"),
    "spread": Family("rows and blocks of very different size: any one swapped or shared"),
    # Dense and exact: small integers, cos and sin in {0, 1, -1}.
    "integers": Family("any lost, doubled or misplaced term; rounding of ties", True, ("quarter",)),
    "wide_integers": Family("any sum kept in fewer than 24 bits", True, ("quarter",)),
    "cancelling_integers": Family("partial sums rounded before they cancel", True, ("quarter",)),
    # Sparse: one or two terms a sum, hence a bound far below one BF16 step.
    "rotated": Family("the rotation itself, element by element"),
    "residual": Family("what the rotation rounds, and how", needs_plain_dims=True),
    # One-hot weights at position 0: y is a chosen BF16 value, so each byte is known beforehand.
    "golden_spread": _golden("misplaced scale bytes: neighbours all differ"),
    "golden_edges": _golden("block maxima at 448 * 2^k, powers of two and their neighbours"),
    "golden_zeros": _golden("zero blocks, and blocks with one element in any lane"),
    "golden_codes": _golden("every E4M3 code and every tie between two"),
    "golden_subnormal": _golden("scale byte 0 and BF16 subnormals"),
    "golden_tiny": _golden("sums below the smallest BF16 number: to -0, +0 or one step"),
    "golden_sweep": _golden("every finite BF16 value", widest=True),
    "golden_integers": Family(
        "dense sums that are known exactly", exact=True, tables=("quarter",), positions=("zero",)
    ),
}

TOKENS = (1, 2, 4, 8, 13, 16, 17, 24, 31, 32)
"""Powers of two, their neighbours and the capacity variants of kernels (16 and 32)."""

_PER_FAMILY: dict[Budget, int] = {"quick": 6, "standard": 24, "full": 150}
_FEWER = 6
_WHOLE_DRAWS: dict[Budget, int] = {"quick": 1, "standard": 3, "full": 12}
_WHOLE_FAMILIES = ("normal", "wide_integers", "golden_sweep")
"""What a slow kernel is still asked at its own shape: a bound, exact sums, exact bytes."""

REDUCED_RANK, REDUCED_HEADS = 96, 2
"""A small problem that keeps what matters: two heads, 32-column blocks that fill no multiple of
64 columns, block columns that need padding to 4."""


@dataclass(frozen=True)
class Case:
    """One input to one kernel, complete: together with a seed it fixes every byte.

    Attributes:
        family: name out of FAMILIES.
        tokens: T.
        groups: G.
        rank: R.
        heads: heads of a group; K = heads * head_dim.
        head_dim: columns of one head.
        rope_dim: rotated columns of each.
        table: how cos and sin are made.
        positions: pattern of the positions.
        index: dtype of the positions.
        buffer: heads in a row of the buffer that x is a slice of; groups * heads if it is packed.
        first: head at which that slice starts.
        draw: tells apart cases that are otherwise alike.
    """

    family: str
    tokens: int
    groups: int
    rank: int
    heads: int
    head_dim: int
    rope_dim: int
    table: Table
    positions: Positions
    index: IndexType
    buffer: int
    first: int
    draw: int

    @property
    def id(self) -> str:
        """`name=value` of every field, joined by `-`; `Case.parse` reads it back."""
        return "-".join(f"{f.name}={getattr(self, f.name)}" for f in fields(self))

    @classmethod
    def parse(cls, text: str) -> Case:
        """The case with this id.

        Raises:
            ValueError: the text is not a case's id.
        """
        words = dict(word.partition("=")[::2] for word in text.split("-"))
        names = [f.name for f in fields(cls)]
        if list(words) != names:
            raise ValueError(f"a case id reads {'=...-'.join(names)}=...")
        typed: dict[str, object] = {}
        for f in fields(cls):
            value = words[f.name]
            if f.type == "int" and not value.isdecimal():
                raise ValueError(f"{f.name} is {value!r}; it must be a number")
            typed[f.name] = int(value) if f.type == "int" else value
        case = cls(**typed)  # type: ignore[arg-type]  # each checked against its field just above
        case._check()
        return case

    def _check(self) -> None:
        if self.family not in FAMILIES:
            raise ValueError(f"no family {self.family!r}; choose one of {', '.join(FAMILIES)}")
        family = FAMILIES[self.family]
        for name, allowed in (
            ("table", family.tables),
            ("positions", ("zero", *family.positions)),
            ("index", INDEX_TYPES),
        ):
            if getattr(self, name) not in allowed:
                raise ValueError(
                    f"{name} is {getattr(self, name)!r}; "
                    f"family {self.family} takes {' or '.join(allowed)}"
                )
        if not 0 <= self.first <= self.buffer - self.groups * self.heads:
            raise ValueError(
                f"first is {self.first}; {self.groups * self.heads} heads from there "
                f"must lie inside a buffer of {self.buffer}"
            )
        KernelSpec(self.groups, self.rank, self.k, self.head_dim, self.rope_dim, self.tokens)

    @property
    def k(self) -> int:
        """K, input columns of a group."""
        return self.heads * self.head_dim

    @property
    def exact(self) -> bool:
        """Whether y is judged with E = 0."""
        return FAMILIES[self.family].exact

    @property
    def golden(self) -> bool:
        """Whether every byte is known beforehand: exact sums and no rotation."""
        return self.exact and self.positions == "zero"


def grid(spec: KernelSpec, budget: Budget, plan: Plan = "whole") -> list[Case]:
    """The cases of a budget, the same list on every run.

    Every family gets the same number of cases; each axis (T, layout of x, table, positions, index
    type) runs through its values in shuffled rounds, so that all values come equally often and
    pairs of values mix. The full cross product would spend its time on repeats: an axis that
    matters shows within a few cases.

    Args:
        spec: the kernel's sizes.
        budget: 6, 24 or 150 cases a family.
        plan: `whole`, or for a slow kernel `reduced`: R = 96 and two heads a group in all but a
            few cases; or `few`: a sixth of the cases, if it takes no other shape.
    """
    families = [
        name
        for name, family in FAMILIES.items()
        if not (family.needs_plain_dims and spec.head_dim == spec.rope_dim)
    ]
    small = reduced(spec)
    axes = random.Random(0)  # noqa: S311 - a fixed shuffle, no secret
    tokens = _rounds(tokens_of(spec), axes)
    layouts = _rounds(range(5), axes)
    indices = _rounds(INDEX_TYPES, axes)
    cases: dict[str, list[Case]] = {name: [] for name in families}
    for draw in range(_PER_FAMILY[budget] // (_FEWER if plan == "few" else 1)):
        for number, name in enumerate(families):
            family = FAMILIES[name]
            whole = plan != "reduced" or (draw < _WHOLE_DRAWS[budget] and name in _WHOLE_FAMILIES)
            pairs = [(table, where) for where in family.positions for table in family.tables]
            table, positions = pairs[(draw + number) % len(pairs)]
            case = place(
                spec if whole else small,
                layout=next(layouts),
                family=name,
                tokens=spec.max_tokens if family.widest else next(tokens),
                table=table,
                positions=positions,
                index=next(indices),
                draw=draw,
            )
            cases[name].append(case)
    # Family by family: the costly part of a case, its weight, is then made once.
    return [case for name in families for case in cases[name]]


def easy(spec: KernelSpec) -> Case:
    """A case that asks little: packed, no rotation, the largest T."""
    return place(
        spec,
        layout=0,
        family="normal",
        tokens=spec.max_tokens,
        table="plain",
        positions="zero",
        index="int32",
    )


def tokens_of(spec: KernelSpec) -> list[int]:
    """The numbers of rows asked of a kernel: those of TOKENS it supports, and its largest."""
    return sorted({t for t in TOKENS if t <= spec.max_tokens} | {spec.max_tokens})


def reduced(spec: KernelSpec) -> KernelSpec:
    """The same kernel at a size that an interpreter runs in well under a second."""
    return KernelSpec(
        groups=spec.groups,
        rank=min(spec.rank, REDUCED_RANK),
        k=min(spec.k, REDUCED_HEADS * spec.head_dim),
        head_dim=spec.head_dim,
        rope_dim=spec.rope_dim,
        max_tokens=spec.max_tokens,
        arithmetic=spec.arithmetic,
        claims=spec.claims,
        contract=spec.contract,
    )


def place(
    spec: KernelSpec,
    *,
    layout: int,
    family: str,
    tokens: int,
    table: Table,
    positions: Positions,
    index: IndexType,
    draw: int = 0,
) -> Case:
    """A case of this kernel; layout 0 is packed, 1 to 4 the quarters of a row four times as wide.

    DeepSeek-V4.1 at tensor parallelism 4 has the latter: 16 local heads of a row of 64.
    """
    heads = spec.k // spec.head_dim
    local = spec.groups * heads
    return Case(
        family=family,
        tokens=tokens,
        groups=spec.groups,
        rank=spec.rank,
        heads=heads,
        head_dim=spec.head_dim,
        rope_dim=spec.rope_dim,
        table=table,
        positions=positions,
        index=index,
        buffer=4 * local if layout else local,
        first=(layout - 1) * local if layout else 0,
        draw=draw,
    )


def _rounds(values: Sequence[T], axes: random.Random) -> Iterator[T]:
    """Run through the values forever, in a new order each round."""
    while True:
        yield from axes.sample(values, len(values))
