"""The grid of cases asked of a kernel: every family, every axis, and ways of launching."""

from __future__ import annotations

import math
import random
from dataclasses import dataclass, fields, replace
from typing import TYPE_CHECKING, Literal, TypeVar

from verify.families import FAMILIES, Family, Positions, Table
from verify.spec import CLAIMS, Arithmetic, KernelSpec

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

__all__ = ["CLAIMS", "FAMILIES", "Arithmetic", "Case", "Family", "KernelSpec", "grid"]

T = TypeVar("T")

Budget = Literal["quick", "standard", "full"]
Plan = Literal["whole", "reduced", "few"]
Probe = Literal["forms", "reuse", "refuse", "graph", "stream", "pressure"]
IndexType = Literal["int32", "int64"]
INDEX_TYPES: tuple[IndexType, ...] = ("int32", "int64")

PROBES: dict[Probe, str] = {
    "forms": "each output form twice, on buffers filled differently",
    "reuse": "one allocation for several T, other contents and a NaN; the first again at the end",
    "refuse": "calls that must raise and write nothing",
    "graph": "a CUDA graph, replayed on other contents and poisoned outputs",
    "stream": "a stream of its own, on which the inputs arrive late",
    "pressure": "many repeats while memory is nearly full and busy",
}
"""How a case is launched."""

ON_CUDA = frozenset({"graph", "stream", "pressure"})

TOKENS = (*range(1, 33), 48, 63, 64, 65, 96, 127, 128, 129, 255, 256)
"""Every T of a decode step, and beyond it the tiles of kernels and their neighbours."""

FAR = 6
"""The layout of x in which its last row begins past 2^31 elements."""

_PER_FAMILY: dict[Budget, int] = {"quick": 6, "standard": 24, "full": 150}
_FEWER = 6
_WHOLE_DRAWS: dict[Budget, int] = {"quick": 1, "standard": 3, "full": 12}
_WHOLE_FAMILIES = ("normal", "wide_integers", "golden_sweep")
"""What a slow kernel is still asked at its own shape: a bound, exact sums, exact bytes."""

_EXTRAS: tuple[tuple[Probe, str, Positions | None, int | None], ...] = (
    ("reuse", "normal", None, None),
    ("reuse", "cancellation", None, None),
    ("reuse", "wide_integers", None, None),
    ("reuse", "golden_spread", None, None),
    ("refuse", "normal", None, None),
    ("forms", "normal", "huge", None),
    ("forms", "rotated", "huge", None),
    ("forms", "normal", None, FAR),
    ("graph", "normal", None, None),
    ("graph", "golden_spread", None, None),
    ("stream", "normal", None, None),
    ("pressure", "cancellation", None, None),
    ("pressure", "wide_integers", None, None),
)
"""What is asked beside the families: probe, family, and where it matters positions and layout."""

_EXTRA_DRAWS: dict[Budget, int] = {"quick": 1, "standard": 3, "full": 12}

REDUCED_RANK, REDUCED_HEADS, ORDERED_HEADS = 96, 2, 4
"""A small problem that keeps what matters: two heads (four where the order of their sums does),
32-column blocks that fill no multiple of 64 columns, block columns that need padding to 4."""


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
        probe: how it is launched.
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
    probe: Probe
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
            ("probe", tuple(PROBES)),
            ("table", family.tables),
            ("positions", ("zero", *family.positions, *_huge(self.family))),
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
    def mapped(self) -> bool:
        """Whether an input is larger than memory: a kernel that copies all of it cannot be judged.

        What a kernel does to the whole table, and not to the rows in use, is its own affair.
        """
        return self.positions == "huge" or self.buffer * self.head_dim * self.tokens > 2**31

    @property
    def exact(self) -> bool:
        """Whether y is judged with E = 0."""
        return FAMILIES[self.family].exact

    @property
    def golden(self) -> bool:
        """Whether every byte is known beforehand: exact sums and no rotation."""
        return self.exact and self.positions == "zero"


def _huge(family: str) -> tuple[Positions, ...]:
    return tuple({where for _, name, where, _ in _EXTRAS if name == family and where})


def grid(
    spec: KernelSpec, budget: Budget, plan: Plan = "whole", *, cuda: bool = False
) -> list[Case]:
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
        cuda: whether to ask what only a GPU can do.
    """
    families = [
        name
        for name, family in FAMILIES.items()
        if not (family.needs_plain_dims and spec.head_dim == spec.rope_dim)
    ]
    small = reduced(spec)
    axes = random.Random(0)  # noqa: S311 - a fixed shuffle, no secret
    tokens = _rounds(tokens_of(spec), axes)
    layouts = _rounds(range(FAR), axes)
    indices = _rounds(INDEX_TYPES, axes)
    cases: dict[str, list[Case]] = {name: [] for name in families}
    for draw in range(_PER_FAMILY[budget] // (_FEWER if plan == "few" else 1)):
        for number, name in enumerate(families):
            family = FAMILIES[name]
            whole = plan != "reduced" or (draw < _WHOLE_DRAWS[budget] and name in _WHOLE_FAMILIES)
            table, positions = _axes_of(family, draw + number)
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
    for draw in range(1 if plan == "few" else _EXTRA_DRAWS[budget]):
        for case in extras(_ordered(spec) if plan == "reduced" else spec, draw, cuda=cuda):
            if plan != "few" or case.family == "normal":
                cases[case.family].append(replace(case, index=next(indices)))
    # Family by family: the costly part of a case, its weight, is then made once.
    return [case for name in families for case in cases[name]]


def _axes_of(family: Family, turn: int) -> tuple[Table, Positions]:
    """Table and positions of a draw: each value equally often, and their pairs in turn."""
    tables, positions = family.tables, family.positions
    lap = turn // math.lcm(len(tables), len(positions))
    return tables[turn % len(tables)], positions[(turn + lap) % len(positions)]


def extras(spec: KernelSpec, draw: int = 0, *, cuda: bool = False) -> list[Case]:
    """The cases beside the families, as far as the kernel and the machine can be asked."""
    found = []
    for number, (probe, name, where, layout) in enumerate(_EXTRAS):
        if (
            (probe in ON_CUDA and not cuda)
            or (probe == "refuse" and "rejects" not in spec.claims)
            or (layout == FAR and spec.max_tokens == 1)
        ):
            continue
        table, positions = _axes_of(FAMILIES[name], draw + number)
        case = place(
            spec,
            layout=(draw + number) % FAR if layout is None else layout,
            family=name,
            tokens=spec.max_tokens,
            probe=probe,
            table=table,
            positions=where or positions,
            index="int32",
            draw=draw,
        )
        found.append(case)
    return found


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
    return replace(
        spec, rank=min(spec.rank, REDUCED_RANK), k=min(spec.k, REDUCED_HEADS * spec.head_dim)
    )


def _ordered(spec: KernelSpec) -> KernelSpec:
    """Reduced, but with enough splits that their order can matter."""
    return replace(reduced(spec), k=min(spec.k, ORDERED_HEADS * spec.head_dim))


def place(
    spec: KernelSpec,
    *,
    layout: int,
    family: str,
    tokens: int,
    table: Table,
    positions: Positions,
    index: IndexType,
    probe: Probe = "forms",
    draw: int = 0,
) -> Case:
    """A case of this kernel; layout 0 is packed, 1 to 4 the quarters of a row four times as wide.

    Layout 5 has rows one head wider than x, and FAR rows so wide that the last of them begins past
    2^31 elements.

    DeepSeek-V4.1 at tensor parallelism 4 has the latter: 16 local heads of a row of 64.
    """
    heads = spec.k // spec.head_dim
    local = spec.groups * heads
    buffer, first = (4 * local, (layout - 1) * local) if layout else (local, 0)
    if layout == FAR - 1:
        buffer, first = local + 1, 0
    if layout == FAR:
        buffer, first = 2**31 // ((tokens - 1) * spec.head_dim) + 1, 0
    return Case(
        family=family,
        tokens=tokens,
        groups=spec.groups,
        rank=spec.rank,
        heads=heads,
        head_dim=spec.head_dim,
        rope_dim=spec.rope_dim,
        probe=probe,
        table=table,
        positions=positions,
        index=index,
        buffer=buffer,
        first=first,
        draw=draw,
    )


def _rounds(values: Sequence[T], axes: random.Random) -> Iterator[T]:
    """Run through the values forever, in a new order each round."""
    while True:
        yield from axes.sample(values, len(values))
