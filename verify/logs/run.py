"""Reads the records of a run of ours, `records.sqlite`, without touching it."""

from __future__ import annotations

import sqlite3
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from verify.logs.source import Found, document, flat, typed
from verify.logs.table import Builder, Choice, Row
from verify.logs.values import refuse
from verify.store import FILE_NAME, Store

if TYPE_CHECKING:
    from collections.abc import Sequence

    from verify.logs.source import Setting
    from verify.logs.table import Columns
    from verify.store import Record

NAME = "kernelproof run"
MAGIC = b"SQLite format 3\x00"
_AT_ONCE = 1000  # rows held beside their columns


class Asked(msgspec.Struct):
    """A suite, as a run's manifest says it was asked."""

    margin_pt: float | None = None
    floor: float | None = None
    sampling: dict[str, Any] = {}
    items: list[str] = []
    orders: list[list[int]] = []
    """For each repeat, the order of `items`."""

    def __post_init__(self) -> None:
        everything = list(range(len(self.items)))
        if any(sorted(order) != everything for order in self.orders):
            raise ValueError("an order does not hold every item once")


class _Arm(msgspec.Struct):
    kind: str | None = None
    model: Any = None
    base_url: Any = None
    launch: Any = None


class _Rules(msgspec.Struct):
    early_stop: bool = False
    certify: bool = False


class Manifest(msgspec.Struct):
    """What is used of the `manifest.json` that stands beside a run's records."""

    suites: dict[str, Asked]
    arms: dict[str, _Arm]
    rules: _Rules = msgspec.field(default_factory=_Rules)

    @property
    def fresh(self) -> bool:
        """Whether the servers were started anew for every repeat."""
        return all(arm.launch for arm in self.arms.values())


def manifest_beside(records: Path) -> Manifest | None:
    """The manifest of the run that `records` are of; None where there is none.

    Raises:
        UserError: it is not a run's manifest.
    """
    path = records.with_name("manifest.json")
    return typed(Manifest, document(path), path, None) if path.is_file() else None


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
                rows = _rows(batch)
                builder.extend(rows, range(number, number + len(rows)))
                number += len(rows)
    except (sqlite3.Error, UnicodeDecodeError) as error:
        raise refuse(path, None, f"is no records.sqlite of a run ({error})") from None
    return Found(_settings(path, builder))


def _settings(path: Path, builder: Builder) -> dict[str, Setting]:
    """Of the arm and of the suites that are kept."""
    manifest = manifest_beside(path)
    if manifest is None:
        return {}  # the records stand without it
    suites = {
        name: suite.sampling
        for name, suite in manifest.suites.items()
        if builder.suite in (None, name)
    }
    arm = manifest.arms.get(builder.arm or "", _Arm())
    return {
        **flat("model", arm.model),
        **flat("server", arm.base_url),
        **flat("harness.name", NAME),
        **flat("sampling", suites),
    }


def columns(records: Sequence[Record]) -> Columns:
    """Records of one arm and one suite, at least one, as `read` would give them."""
    builder = Builder(Path(FILE_NAME), unit="record")
    builder.extend(_rows(records), range(1, len(records) + 1))
    (table,) = builder.finish().values()
    return table


def _rows(records: Sequence[Record]) -> list[Row]:
    kept = Row.__struct_fields__
    return [Row(**{name: getattr(record, name) for name in kept}) for record in records]
