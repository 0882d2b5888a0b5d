"""`python -m verify.evals export RUN`: every answer of a run as one table, for other tools."""

from __future__ import annotations

import json
import sqlite3
import types
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, get_args, get_type_hints

import click
import msgspec

from verify.command import UserError
from verify.store import FILE_NAME, Record, Store

if TYPE_CHECKING:
    from collections.abc import Iterator

WITHHELD = ("prompt", "target", "text", "reasoning", "answer")
"""What of a suite whose texts may not be spread is left empty."""
_KINDS = {str: "string", int: "int64", bool: "bool", float: "float64"}


@click.command()
@click.argument("run", type=click.Path(path_type=Path, file_okay=False))
@click.option(
    "--parquet", type=click.Path(path_type=Path, dir_okay=False), help="Write this parquet file."
)
@click.option(
    "--jsonl",
    type=click.Path(path_type=Path, dir_okay=False),
    help="Write this file, one JSON object a line.",
)
def export(run: Path, parquet: Path | None, jsonl: Path | None) -> None:
    """Write every answer of a run, with its question, as one table.

    Texts of redacted suites are left empty, and of their errors all but the kind.
    """
    if parquet is None and jsonl is None:
        raise UserError("export writes --parquet FILE, --jsonl FILE, or both; name one")
    try:
        import datasets  # noqa: PLC0415 - seconds of import, and an optional extra
    except ModuleNotFoundError as error:
        raise UserError(
            f"export needs {error.name}; install kernelproof with its extra: evals"
        ) from None
    datasets.disable_progress_bars()
    rows = list(_rows(run))
    features = datasets.Features({name: datasets.Value(kind) for name, kind in columns().items()})
    table = datasets.Dataset.from_list(rows, features=features)
    to_json = partial(table.to_json, double_precision=15)  # the most that it can
    for path, write in ((parquet, table.to_parquet), (jsonl, to_json)):
        if path is not None:
            _whole(path, write)
            click.echo(f"{len(rows):,} answers in {path}")


def columns() -> dict[str, str]:
    """Names of the columns and what they hold, as pyarrow calls it."""
    hints = get_type_hints(Record)
    found = {name: _kind(hints[name]) for name in Record.__struct_fields__}
    return {**found, "prompt": "string", "target": "string"}


def _kind(hint: Any) -> str:
    """`int | None` is int64."""
    options = get_args(hint) if isinstance(hint, types.UnionType) else (hint,)
    (kind,) = (_KINDS[option] for option in options if option is not type(None))
    return kind


def _rows(run: Path) -> Iterator[dict[str, Any]]:
    path = run / FILE_NAME
    if not path.exists():
        raise UserError(f"{run} holds no {FILE_NAME}; name the folder of a run")
    public = _public(run / "manifest.json")
    try:
        with Store.open(path) as store:
            questions: dict[str, dict[str, tuple[str, str]]] = {}
            for record in store.records():
                if record.suite not in questions:
                    items = store.items(record.suite)
                    questions[record.suite] = {i.item: (i.prompt, i.target) for i in items}
                prompt, target = questions[record.suite].get(record.item, (None, None))
                row = {**msgspec.structs.asdict(record), "prompt": prompt, "target": target}
                yield row if record.suite in public else _withheld(row)
    except sqlite3.Error as error:
        raise UserError(f"{path} is no store of a run ({error}); name another folder") from None


def _public(path: Path) -> set[str]:
    """Suites whose texts may be spread: those of which the manifest says so."""
    try:
        suites = json.loads(path.read_text(encoding="utf-8"))["suites"]
        return {name for name, suite in suites.items() if suite["redact"] is False}
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        raise UserError(
            f"{path} does not say which texts may be spread; name the folder of a run"
        ) from None


def _withheld(row: dict[str, Any]) -> dict[str, Any]:
    error = row["error"]
    kind = error.partition(":")[0] if error else None
    return {**row, **dict.fromkeys(WITHHELD), "error": kind}


def _whole(path: Path, write: Any) -> None:
    """Write a file aside and rename it."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        aside = path.with_name(path.name + ".part")
        write(str(aside))
        aside.replace(path)
    except OSError as error:
        raise UserError(f"{path} cannot be written ({error.strerror}); name another") from None
