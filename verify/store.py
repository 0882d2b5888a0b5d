"""Where a run keeps its answers: one SQLite file, one row an answer, committed as it arrives."""

from __future__ import annotations

import sqlite3
from typing import TYPE_CHECKING, Final, Self

import msgspec

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from pathlib import Path
    from types import TracebackType

FILE_NAME: Final = "records.sqlite"


class Record(msgspec.Struct, frozen=True, kw_only=True):
    """One answer of one arm to one question, or the error that stands in its place.

    `correct` is None only beside an `error`; `truncated` and `completion_tokens` are None where
    the arm did not say.
    """

    arm: str
    suite: str
    item: str
    repeat: int = 0
    correct: bool | None
    truncated: bool | None = None
    error: str | None = None
    """The kind of failure, a colon, and what happened: `http_500: ...`."""
    prompt_sha256: str | None = None
    target_sha256: str | None = None
    completion_tokens: int | None = None
    text: str | None = None
    """The answer as the arm gave it."""
    answer: str | None = None
    """What the grader took out of `text`."""
    rule: str | None = None
    """The grader's rule that took it."""
    span_start: int | None = None
    """Where `answer` stands in `text`, from the first of its characters..."""
    span_stop: int | None = None
    """... to before this one."""


class StoredItem(msgspec.Struct, frozen=True):
    """One question as it was asked, and the answer that counts as right."""

    suite: str
    item: str
    prompt: str
    target: str


class Store:
    """Records and items of one run; an answer is on disk when `add` returns.

    The journal is a write-ahead log, so a reader can look in while a run writes, and a killed
    process loses nothing that was added. One process writes.
    """

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection

    @classmethod
    def open(cls, path: Path) -> Store:
        """Open or create the file, and bring its tables up to date.

        Raises:
            sqlite3.Error: the file is no database, or cannot be written.
        """
        # None: autocommit, each statement its own transaction
        connection = sqlite3.connect(path, isolation_level=None)
        try:
            connection.execute("PRAGMA journal_mode = WAL")
            # enough against a killed process; only a power cut could lose the last few answers
            connection.execute("PRAGMA synchronous = NORMAL")
            _migrate(connection)
        except sqlite3.Error:
            connection.close()
            raise
        return cls(connection)

    def add(self, record: Record) -> None:
        """Keep one answer.

        Raises:
            sqlite3.IntegrityError: that arm's answer to that item and repeat is already here.
        """
        self._connection.execute(_INSERT_RECORD, msgspec.structs.astuple(record))

    def replace(self, record: Record) -> None:
        """Keep one answer in the place of that arm's earlier one to that item and repeat."""
        self._connection.execute(_REPLACE_RECORD, msgspec.structs.astuple(record))

    def add_item(self, suite: str, item: str, prompt: str, target: str) -> None:
        """Keep one question."""
        self.add_items([StoredItem(suite, item, prompt, target)])

    def add_items(self, items: Iterable[StoredItem]) -> None:
        """Keep questions, all or none."""
        self._connection.execute("BEGIN")
        with self._connection:
            self._connection.executemany(_INSERT_ITEM, map(msgspec.structs.astuple, items))

    def records(self, suite: str | None = None) -> Iterator[Record]:
        """All answers, or those of one suite, in the order in which they came."""
        where, values = ("", ()) if suite is None else (" WHERE suite = ?", (suite,))
        rows = self._connection.execute(
            f"SELECT {_RECORD_COLUMNS} FROM record{where} ORDER BY rowid",  # noqa: S608 - our own column names
            values,
        )
        for row in rows:
            values_by_name = dict(zip(Record.__struct_fields__, row, strict=True))
            for name in ("correct", "truncated"):  # SQLite has no booleans
                if values_by_name[name] is not None:
                    values_by_name[name] = bool(values_by_name[name])
            yield Record(**values_by_name)

    def items(self, suite: str) -> Iterator[StoredItem]:
        """The questions of a suite, in the order in which they were added."""
        rows = self._connection.execute(
            "SELECT suite, item, prompt, target FROM item WHERE suite = ? ORDER BY rowid", (suite,)
        )
        return (StoredItem(*row) for row in rows)

    def close(self) -> None:
        """Fold the journal into the file and let go of it."""
        self._connection.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()


_RECORD_COLUMNS = ", ".join(Record.__struct_fields__)
_INSERT_RECORD = (
    f"INSERT INTO record ({_RECORD_COLUMNS}) "  # noqa: S608 - our own column names
    f"VALUES ({', '.join('?' * len(Record.__struct_fields__))})"
)
_REPLACE_RECORD = _INSERT_RECORD.replace("INSERT", "INSERT OR REPLACE", 1)
_INSERT_ITEM = "INSERT INTO item (suite, item, prompt, target) VALUES (?, ?, ?, ?)"

_MIGRATIONS: list[Callable[[sqlite3.Connection], None]] = []


def _migration(step: Callable[[sqlite3.Connection], None]) -> Callable[[sqlite3.Connection], None]:
    """Append a step; what has been released is never changed, only followed by another."""
    _MIGRATIONS.append(step)
    return step


def _migrate(connection: sqlite3.Connection) -> None:
    connection.execute("CREATE TABLE IF NOT EXISTS migration (name TEXT PRIMARY KEY) STRICT")
    applied = {name for (name,) in connection.execute("SELECT name FROM migration")}
    for step in _MIGRATIONS:
        if step.__name__ in applied:
            continue
        connection.execute("BEGIN IMMEDIATE")
        with connection:
            step(connection)
            connection.execute("INSERT INTO migration VALUES (?)", (step.__name__,))


@_migration
def m001_initial(connection: sqlite3.Connection) -> None:
    """One table of answers, one of questions."""
    connection.execute(
        "CREATE TABLE record ("
        "arm TEXT NOT NULL, suite TEXT NOT NULL, item TEXT NOT NULL, repeat INTEGER NOT NULL, "
        "correct INTEGER, truncated INTEGER, error TEXT, prompt_sha256 TEXT, target_sha256 TEXT, "
        "completion_tokens INTEGER, text TEXT, answer TEXT, rule TEXT, "
        "PRIMARY KEY (arm, suite, item, repeat), CHECK (correct IS NOT NULL OR error IS NOT NULL)"
        ") STRICT"
    )
    connection.execute(
        "CREATE TABLE item (suite TEXT NOT NULL, item TEXT NOT NULL, prompt TEXT NOT NULL, "
        "target TEXT NOT NULL, PRIMARY KEY (suite, item)) STRICT"
    )


@_migration
def m002_span(connection: sqlite3.Connection) -> None:
    """Where in its text an answer stands."""
    connection.execute("ALTER TABLE record ADD COLUMN span_start INTEGER")
    connection.execute("ALTER TABLE record ADD COLUMN span_stop INTEGER")
