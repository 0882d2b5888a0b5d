"""One input to one kernel as data: a case, whose id and a seed fix every byte."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Literal

from verify.families import FAMILIES, Positions, Table
from verify.spec import KernelSpec

Probe = Literal["forms", "reuse", "every", "refuse", "graph", "stream", "pressure"]
IndexType = Literal["int32", "int64"]
INDEX_TYPES: tuple[IndexType, ...] = ("int32", "int64")

PROBES: dict[Probe, str] = {
    "forms": "each output form twice, on buffers filled differently",
    "reuse": "one allocation for several T, other contents and a NaN; the first again at the end",
    "every": "one allocation for each T in turn",
    "refuse": "calls that must raise and write nothing",
    "graph": "a CUDA graph, replayed on other contents and poisoned outputs",
    "stream": "a stream of its own, on which the inputs arrive late",
    "pressure": "many repeats while memory is nearly full and busy",
}
"""How a case is launched."""

ON_CUDA = frozenset({"graph", "stream", "pressure"})


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
        buffer: columns in a row of the buffer that x is a slice of; G * K if it is packed.
        first: column at which that slice starts.
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
            ("positions", ("zero", *family.positions, *("huge",) * family.far)),
            ("index", INDEX_TYPES),
        ):
            if getattr(self, name) not in allowed:
                raise ValueError(
                    f"{name} is {getattr(self, name)!r}; "
                    f"family {self.family} takes {' or '.join(allowed)}"
                )
        if not 0 <= self.first <= self.buffer - self.groups * self.k:
            raise ValueError(
                f"first is {self.first}; {self.groups * self.k} columns from there "
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
        return self.positions == "huge" or self.buffer * self.tokens > 2**31

    @property
    def exact(self) -> bool:
        """Whether y is judged with E = 0."""
        return FAMILIES[self.family].exact

    @property
    def golden(self) -> bool:
        """Whether every byte is known beforehand: exact sums and no rotation."""
        return self.exact and self.positions == "zero"
