"""The grid of cases asked of a kernel: every family, every axis, and ways of launching."""

from __future__ import annotations

import math
import random
from dataclasses import replace
from typing import TYPE_CHECKING, Literal, TypeVar

from verify.case import INDEX_TYPES, ON_CUDA, PROBES, Case, IndexType, Probe
from verify.families import FAMILIES, Family, Positions, Table
from verify.formats import BF16_INFINITY_BITS, BLOCK
from verify.spec import CLAIMS, Arithmetic, KernelSpec

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

__all__ = [
    "CLAIMS",
    "FAMILIES",
    "ON_CUDA",
    "PROBES",
    "Arithmetic",
    "Case",
    "Family",
    "KernelSpec",
    "Probe",
    "grid",
]

T = TypeVar("T")

Budget = Literal["quick", "standard", "full"]
Plan = Literal["whole", "reduced", "few"]

TOKENS = (*range(1, 33), 48, 63, 64, 65, 96, 127, 128, 129, 255, 256)
"""Every T of a decode step, and beyond it the tiles of kernels and their neighbours."""

_STEP = 8
"""Columns in 16 bytes, the least alignment that kernels ask of x."""

FAR = 6
"""The layout of x in which its last row begins past 2^31 elements."""

_PER_FAMILY: dict[Budget, int] = {"quick": 6, "standard": 24, "full": 150}
_FEWER = 6
_MOST_SWEEPS = 16
"""Launches that all block maxima may take at most for each budget to go through all of them."""

_WHOLE_DRAWS: dict[Budget, int] = {"quick": 1, "standard": 3, "full": 12}
_WHOLE_FAMILIES = ("normal", "wide_integers", "golden_sweep")
"""What a slow kernel is still asked at its own shape: a bound, exact sums, exact bytes."""

_EXTRAS: tuple[tuple[Probe, str, Positions | None, int | None], ...] = (
    ("reuse", "normal", None, None),
    ("reuse", "cancellation", None, None),
    ("reuse", "wide_integers", None, None),
    ("reuse", "golden_spread", None, None),
    ("every", "wide_integers", None, None),
    ("every", "rotated", None, None),
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


def grid(
    spec: KernelSpec, budget: Budget, plan: Plan = "whole", *, cuda: bool = False
) -> list[Case]:
    """The cases of a budget, the same list on every run.

    Every family gets the same number of cases, those that go through every block maximum as many
    as that takes at the kernel's own shape. Each axis (T, layout of x, table, positions, index
    type) runs through its values in shuffled rounds, so that all values come equally often and
    pairs of values mix; once for the families without rotation, which know each byte, and once for
    the others. The full cross product would spend its time on repeats: an axis that matters shows
    within a few cases.

    Args:
        spec: the kernel's sizes.
        budget: 6, 24 or 150 cases a family.
        plan: `whole`, or for a slow kernel `reduced`: R = 96 and two heads a group in all but a
            few cases; or `few`: a sixth of the cases, if it takes no other shape.
        cuda: whether to ask what only a GPU can do.
    """
    small = reduced(spec)
    axes = {still: _Axes(spec) for still in (False, True)}
    counts = {
        name: _count(family, spec, budget, plan)
        for name, family in FAMILIES.items()
        if not (family.needs_plain_dims and spec.head_dim == spec.rope_dim)
    }
    cases: dict[str, list[Case]] = {name: [] for name in counts}
    for draw in range(max(counts.values())):
        for number, name in enumerate(counts):
            if draw >= counts[name]:
                continue
            family, mine = FAMILIES[name], axes[FAMILIES[name].still]
            whole = plan != "reduced" or (draw < _WHOLE_DRAWS[budget] and name in _WHOLE_FAMILIES)
            table, positions = _axes_of(family, draw + number)
            case = place(
                spec if whole else small,
                layout=next(mine.layouts),
                family=name,
                tokens=spec.max_tokens if family.widest else next(mine.tokens),
                table=table,
                positions=positions,
                index=next(mine.indices),
                draw=draw,
            )
            cases[name].append(case)
    for draw in range(1 if plan == "few" else _EXTRA_DRAWS[budget]):
        for case in extras(_ordered(spec) if plan == "reduced" else spec, draw, cuda=cuda):
            if plan != "few" or case.family == "normal":
                cases[case.family].append(replace(case, index=next(axes[False].indices)))
    # Family by family: the costly part of a case, its weight, is then made once.
    return [case for name in counts for case in cases[name]]


class _Axes:
    """Values in shuffled rounds, without end."""

    def __init__(self, spec: KernelSpec) -> None:
        shuffle = random.Random(0)  # noqa: S311 - a fixed shuffle, no secret
        self.tokens = _rounds(tokens_of(spec), shuffle)
        self.layouts = _rounds(range(FAR), shuffle)
        self.indices = _rounds(INDEX_TYPES, shuffle)


def _rounds(values: Sequence[T], shuffle: random.Random) -> Iterator[T]:
    """Run through the values forever, in a new order each round."""
    while True:
        yield from shuffle.sample(values, len(values))


def _count(family: Family, spec: KernelSpec, budget: Budget, plan: Plan) -> int:
    """Cases of a family."""
    count = _PER_FAMILY[budget] // (_FEWER if plan == "few" else 1)
    if family.sweeps and plan == "whole":
        blocks = spec.max_tokens * spec.groups * spec.rank // BLOCK
        launches = -(-BF16_INFINITY_BITS // blocks)
        return max(count, launches) if launches <= _MOST_SWEEPS else count
    return count


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

    DeepSeek-V4.1 at tensor parallelism 4 has the quarters: 16 local heads of a row of 64. Layout 5
    begins 16 bytes into rows that are 16 bytes wider than x, so that nothing is a multiple of a
    head, and FAR has rows so wide that the last of them begins past 2^31 elements.
    """
    local = spec.groups * spec.k
    buffer, first = (4 * local, (layout - 1) * local) if layout else (local, 0)
    if layout == FAR - 1:
        buffer, first = local + _STEP, _STEP
    if layout == FAR:
        buffer, first = (2**31 // (tokens - 1) // _STEP + 1) * _STEP, 0
    return Case(
        family=family,
        tokens=tokens,
        groups=spec.groups,
        rank=spec.rank,
        heads=spec.k // spec.head_dim,
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
