"""How a bad element is named and shown, and what the bad ones together look like."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING

import torch

from verify import formats, oracle
from verify.findings import FirstBad
from verify.formats import BLOCK

if TYPE_CHECKING:
    from torch import Tensor

    from verify.launch import Given

_LINES, _CELLS = 16, 64
"""Most lines and cells of a picture."""

_SHADES = " ░▒▓█"


@dataclass(frozen=True)
class Printer:
    """Names elements of one output.

    Attributes:
        name: `out`, `q` or `scales`.
        inputs: what the kernel was given.
    """

    name: str
    inputs: Given

    def layout(self) -> tuple[Tensor, Tensor]:
        """Row and block column of each byte of the scale buffer, -1 where it is padding."""
        rows, columns = self.inputs.rows, self.inputs.columns // BLOCK
        device = self.inputs.device
        row = torch.arange(1, rows + 1, device=device)[:, None].expand(rows, columns)
        column = torch.arange(1, columns + 1, device=device).expand(rows, columns)
        return oracle.swizzle(row) - 1, oracle.swizzle(column) - 1

    def coordinate(self, at: tuple[int, ...]) -> tuple[int, ...]:
        """Row and column, row and block column, or the flat index of a padding byte."""
        if self.name != "scales":
            return at
        rows, columns = self.layout()
        row, column = int(rows[at]), int(columns[at])
        return at if row < 0 else (row, column)

    def place(self, at: tuple[int, ...]) -> str:
        """In words."""
        where = self.coordinate(at)
        if self.name == "scales":
            if len(where) == 1:
                return f"padding byte {at[0]}"
            return f"byte {at[0]} (row {where[0]}, block column {where[1]})"
        return f"[{where[0]}, {where[1]}] ({self.inputs.column_name(where[1])})"

    def shown(self, bits: Tensor) -> str:
        """Bits and value."""
        pattern = int(bits)
        if self.name == "out":
            value = formats.bf16_from_bits(torch.tensor(pattern)).item()
            return f"0x{pattern:04x} ({value:.9g})"
        if self.name == "q":
            return f"0x{pattern:02x} ({formats.e4m3_value(pattern):.9g})"
        return f"0x{pattern:02x} (2^{pattern - formats.E8M0_BIAS})"

    def bad(self, at: tuple[int, ...], actual: Tensor, expected: str) -> FirstBad:
        """The first bad element as data."""
        size = 2 if self.name == "out" else 1
        flat = at[0] if len(at) == 1 else at[0] * actual.shape[1] + at[1]
        return FirstBad(self.coordinate(at), flat * size, self.shown(actual[at]), expected)

    def matrix(self, bad: Tensor) -> Tensor:
        """Bad elements by row and column, or block column, padding included if any of it is bad."""
        if self.name != "scales":
            return bad.cpu()
        flat = oracle.unswizzle(bad, self.inputs.columns // BLOCK).cpu()
        live = flat[: self.inputs.rows, : self.inputs.columns // BLOCK]
        return live if int(live.sum()) == int(flat.sum()) else flat

    def pattern(self, bad: Tensor) -> str:
        """A guess at what the bad elements have in common; empty if that is nothing."""
        matrix = self.matrix(bad)
        if self.name == "scales":
            live = self.inputs.rows, self.inputs.columns // BLOCK
            if not bool(matrix[: live[0], : live[1]].any()):
                return "padding " + _padding(matrix, *live)
            return pattern(matrix, unit="block column")
        return pattern(matrix, slabs=self.inputs.slabs())


def pattern(bad: Tensor, unit: str = "column", slabs: dict[str, slice] | None = None) -> str:
    """What the bad elements of a matrix have in common, in a few words.

    Args:
        bad: bool [rows, columns], something in it.
        unit: what a column is.
        slabs: names of ranges of columns.
    """
    if int(bad.sum()) == 1:
        return ""
    blocks = _whole_blocks(bad) if unit == "column" else ""
    return blocks or _area(bad, unit, slabs or {})


def _area(bad: Tensor, unit: str, slabs: dict[str, slice]) -> str:
    """The rows and columns that hold what is bad, if they hold little else."""
    rows, columns = _where(bad.any(1)), _where(bad.any(0))
    share = float(bad[rows][:, columns].double().mean())
    dense = "" if share > 0.99 else "in part " if share > 0.2 else None
    if dense is None:
        return _periodic(bad, columns) if unit == "column" else ""
    full_rows, full_columns = len(rows) == bad.shape[0], len(columns) == bad.shape[1]
    if full_rows and full_columns:
        return f"{dense}everything"
    if len(columns) > _MOST * bad.shape[1]:
        return f"{dense}{'whole' if full_columns else 'most of'} {_span('row', rows)}"
    for name, columns_of in slabs.items():
        slab = range(bad.shape[1])[columns_of]
        if set(columns) <= set(slab) and len(columns) > _MOST * len(slab):
            much = "all" if len(columns) == len(slab) else "most"
            return f"{dense}{much} of {name}" + ("" if full_rows else f", {_span('row', rows)}")
    what = _periodic(bad, columns) if unit == "column" and len(columns) > 2 else ""
    what = what or _span(unit, columns)
    return f"{dense}{what}" + ("" if full_rows else f" of {_span('row', rows)}")


_MOST = 0.75
"""Share of a row's columns, or a group's, of which the rest may be right by chance."""


def _whole_blocks(bad: Tensor) -> str:
    """The blocks of 32 columns, if what is bad are whole ones and not whole rows or groups."""
    blocks = bad.view(bad.shape[0], -1, BLOCK)
    some = blocks.any(2)
    rows, columns = _where(some.any(1)), _where(some.any(0))
    if not bool((blocks.all(2) == some).all()) or len(columns) > bad.shape[1] // BLOCK // 4:
        return ""
    if int(some.sum()) < len(rows) * len(columns):
        return f"{int(some.sum())} whole blocks of {BLOCK} columns"
    where = "" if len(rows) == bad.shape[0] else f" of {_span('row', rows)}"
    return _span("block column", columns) + where


def _periodic(bad: Tensor, columns: list[int]) -> str:
    """One lane of each block, or every second column, if that is all that is bad."""
    lanes = sorted({column % BLOCK for column in columns})
    if len(lanes) == 1 and bad.shape[1] > BLOCK:
        return f"lane {lanes[0]} of blocks"
    parities = {column % 2 for column in columns}
    if len(parities) == 1 and len(lanes) > 2:
        return "even columns" if parities == {0} else "odd columns"
    return ""


def _where(mask: Tensor) -> list[int]:
    found: list[int] = mask.nonzero()[:, 0].tolist()
    return found


def _span(name: str, places: list[int]) -> str:
    if len(places) == 1:
        return f"{name} {places[0]}"
    if places == list(range(places[0], places[-1] + 1)):
        return f"{name}s {places[0]} to {places[-1]}"
    steps = {b - a for a, b in pairwise(places)}
    if len(steps) == 1:
        return f"{name}s {places[0]}, {places[1]}, ... {places[-1]}"
    return f"{len(places)} {name}s from {places[0]} to {places[-1]}"


def _padding(bad: Tensor, rows: int, columns: int) -> str:
    below, beside = bad[rows:].any(1), bad[:, columns:].any(0)
    words = []
    if bool(below.any()):
        words.append(_span("row", [rows + row for row in _where(below)]))
    if bool(beside.any()):
        words.append(_span("block column", [columns + column for column in _where(beside)]))
    return " and ".join(words)


def picture(bad: Tensor) -> str:
    """The matrix in at most 16 lines of 64 cells, darker where more of a cell is bad."""
    lines, cells = min(_LINES, bad.shape[0]), min(_CELLS, bad.shape[1])
    shades = []
    for row in bad.double().tensor_split(lines, 0):
        shares = [float(cell.mean()) for cell in row.tensor_split(cells, 1)]
        levels = [0 if share == 0 else 1 + min(3, int(share * 4)) for share in shares]
        shades.append("|" + "".join(_SHADES[level] for level in levels) + "|")
    return "\n".join(shades)
