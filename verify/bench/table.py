"""The latency table for a terminal: contenders by T, then their ratios to what stands beside."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich.table import Table

from verify.bench.ratio import CONFIDENCE
from verify.launch import FORMS

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from verify.bench.latency import Cell
    from verify.launch import Form

_TITLES: dict[Form, str] = {"bf16": "BF16 output", "mxfp8": "MXFP8 output"}


def tables(cells: Sequence[Cell]) -> Iterator[Table]:
    """Microseconds and ratios for each output form."""
    for form in FORMS:
        mine = [cell for cell in cells if cell.form == form]
        if not mine:
            continue
        tokens = sorted({cell.tokens for cell in mine})
        names = list(dict.fromkeys(cell.contender for cell in mine))
        by = {(cell.contender, cell.tokens): cell for cell in mine}
        yield _table(
            f"{_TITLES[form]}, microseconds a launch",
            tokens,
            [(name, [_time(by.get((name, count))) for count in tokens]) for name in names],
        )
        pairs = list(
            dict.fromkeys((cell.contender, other) for cell in mine for other in cell.beside)
        )
        yield _table(
            f"{_TITLES[form]}, ratios with {CONFIDENCE:.0%} intervals",
            tokens,
            [
                (f"{name} / {other}", [_ratio(by.get((name, count)), other) for count in tokens])
                for name, other in pairs
            ],
        )


def remarks(cells: Sequence[Cell]) -> Iterator[str]:
    """One line for each contender that refused or was wrong, however many T it concerns."""
    said: dict[tuple[str, str, str], list[str]] = {}
    for cell in cells:
        for kind, message in (("refused", cell.refused), ("WRONG", cell.wrong)):
            if message:
                where = f"T={cell.tokens} {cell.form}"
                said.setdefault((kind, cell.contender, message), []).append(where)
    for (kind, name, message), places in said.items():
        many = f"{places[0]} and {len(places) - 1} more" if len(places) > 1 else places[0]
        yield f"{kind}: {name} at {many}: {message}"


def _table(title: str, tokens: Sequence[int], rows: Sequence[tuple[str, list[str]]]) -> Table:
    table = Table(title=title, title_justify="left")
    table.add_column("", no_wrap=True)
    for count in tokens:
        table.add_column(f"T={count}", justify="right", no_wrap=True)
    for name, texts in rows:
        table.add_row(name, *texts)
    return table


def _time(cell: Cell | None) -> str:
    if cell is None:
        return ""
    if cell.us is None:
        return "-"
    return f"{cell.us:.2f}" + (" !" if cell.wrong else "")


def _ratio(cell: Cell | None, other: str) -> str:
    if cell is None or other not in cell.beside:
        return "-"
    found = cell.beside[other]
    return f"{found.value:.3f} [{found.low:.3f}, {found.high:.3f}]"
