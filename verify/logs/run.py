"""Reads the records of a run of ours, `records.sqlite`, without touching it."""

from __future__ import annotations

import sqlite3
from itertools import islice
from typing import TYPE_CHECKING

import msgspec

from verify.logs.source import Found
from verify.logs.table import Builder, Choice, Row, refuse
from verify.store import Store

if TYPE_CHECKING:
    from pathlib import Path

NAME = "kernelproof run"
MAGIC = b"SQLite format 3\x00"
_AT_ONCE = 1000  # rows held beside their columns


def read(path: Path, builder: Builder, choice: Choice) -> Found:  # noqa: ARG001 - readers share one signature
    """Add every answer of the run; a run holds both arms, so one is named as FOLDER::ARM."""
    builder.unit = "record"
    # Only a journal that is still open needs the locks that would be written beside the file.
    journal = path.with_name(path.name + "-wal").exists()
    address = f"{path.resolve().as_uri()}?mode=ro{'' if journal else '&immutable=1'}"
    number = 1
    try:
        with Store(sqlite3.connect(address, uri=True)) as store:
            records = store.records()
            while batch := list(islice(records, _AT_ONCE)):
                rows = [Row(**msgspec.structs.asdict(record)) for record in batch]
                builder.extend(rows, range(number, number + len(rows)))
                number += len(rows)
    except sqlite3.Error as error:
        raise refuse(path, None, f"is no records.sqlite of a run ({error})") from None
    return Found({})
