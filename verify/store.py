"""Where a run keeps its answers: one SQLite file, one row an attempt, committed as it arrives."""

from __future__ import annotations

import sqlite3
from typing import TYPE_CHECKING, Any, Final, Self

import msgspec

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping
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
    prompt_tokens: int | None = None
    max_tokens: int | None = None
    """The limit under which it was asked."""
    start: int = 0
    """Which start of the arm's server gave it, from 0."""
    seconds: float | None = None
    """From the request to the whole answer."""
    text: str | None = None
    """The answer as the arm gave it."""
    answer: str | None = None
    """What the grader took out of `text`."""
    rule: str | None = None
    """The grader's rule that took it."""
    reasoning: str | None = None
    """What the server kept apart from the answer; nobody grades it."""
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


class Differs(Exception):  # noqa: N818 - said of a run, not of the program
    """A run cannot go on: something is not as it was when it began."""

    def __init__(self, name: str, was: str, now: str) -> None:
        super().__init__(f"{name} was {was}, and is {now}")
        self.name, self.was, self.now = name, was, now


class Store:
    """Records and items of one run; an answer is on disk when `add` returns.

    Nothing is ever changed or removed. Of several attempts at one question the last answer counts,
    or the last error where there is none.

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

    def claim(self, fixed: Mapping[str, str]) -> None:
        """Keep by name what must be equal whenever this run goes on.

        Raises:
            Differs: it was claimed before, and is now another.
        """
        held = dict(self._connection.execute("SELECT name, value FROM fixed"))
        for name, now in fixed.items():
            if held.get(name, now) != now:
                raise Differs(name, held[name], now)
        self._connection.executemany("INSERT OR IGNORE INTO fixed VALUES (?, ?)", fixed.items())

    def add(self, *records: Record) -> None:
        """Keep attempts at one question, all or none: the answer, and what failed before it.

        Raises:
            sqlite3.IntegrityError: that arm's answer to that item and repeat, under that limit of
                tokens, is already here.
        """
        self._connection.execute("BEGIN")
        with self._connection:
            for record in records:
                values = msgspec.structs.astuple(record)
                key = record.arm, record.suite, record.item, record.repeat
                self._connection.execute(_INSERT_RECORD, (*values, *key))

    def answered(self, arm: str, suite: str) -> set[tuple[str, int]]:
        """Item and repeat of every question that needs no asking any more."""
        rows = self._connection.execute(
            "SELECT DISTINCT item, repeat FROM record "
            "WHERE arm = ? AND suite = ? AND error IS NULL",
            (arm, suite),
        )
        return set(rows)

    def starts(self, arm: str) -> int:
        """How often the arm's server was started so far, as far as attempts tell."""
        ((last,),) = self._connection.execute("SELECT max(start) FROM record WHERE arm = ?", (arm,))
        return 0 if last is None else last + 1

    def told(self, arm: str) -> dict[str, Any]:
        """What the manifest says of an arm, as of the last process of this run that started it."""
        row = self._connection.execute("SELECT settings FROM told WHERE arm = ?", (arm,)).fetchone()
        return msgspec.json.decode(row[0], type=dict[str, Any]) if row else {}

    def tell(self, arm: str, settings: Mapping[str, Any]) -> None:
        """Keep that, in place of what was kept."""
        content = msgspec.json.encode(settings).decode()
        self._connection.execute("INSERT OR REPLACE INTO told VALUES (?, ?)", (arm, content))

    def add_item(self, suite: str, item: str, prompt: str, target: str) -> None:
        """Keep one question."""
        self.add_items([StoredItem(suite, item, prompt, target)])

    def add_items(self, items: Iterable[StoredItem]) -> None:
        """Keep questions, all or none."""
        self._connection.execute("BEGIN")
        with self._connection:
            self._connection.executemany(_INSERT_ITEM, map(msgspec.structs.astuple, items))

    def records(self, suite: str | None = None) -> Iterator[Record]:
        """What counts of all questions, or those of one suite, in the order in which it came."""
        where, values = ("", ()) if suite is None else ("WHERE suite = ?", (suite,))
        # of a group, SQLite takes the other columns from the row with the maximum
        chosen = (
            "SELECT rowid FROM (SELECT rowid, max((error IS NULL) * (1 << 62) + rowid) "  # noqa: S608 - our own words
            f"FROM record {where} GROUP BY arm, suite, item, repeat)"
        )
        return self._rows(f"WHERE rowid IN ({chosen})", values)

    def attempts(self, suite: str | None = None) -> Iterator[Record]:
        """Every row, or those of one suite, in the order in which they came."""
        return self._rows(*(("", ()) if suite is None else ("WHERE suite = ?", (suite,))))

    def _rows(self, where: str, values: tuple[str, ...]) -> Iterator[Record]:
        # a run of an earlier version, which is read without being brought up to date, has fewer
        held = {name for _, name, *_ in self._connection.execute("PRAGMA table_info(record)")}
        names = [name for name in Record.__struct_fields__ if name in held]
        rows = self._connection.execute(
            f"SELECT {', '.join(names)} FROM record {where} ORDER BY rowid",  # noqa: S608 - our own column names
            values,
        )
        for row in rows:
            values_by_name = dict(zip(names, row, strict=True))
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


_INSERT_RECORD = (
    f"INSERT INTO record ({', '.join(Record.__struct_fields__)}, attempt) "  # noqa: S608 - our own column names
    f"SELECT {', '.join('?' * len(Record.__struct_fields__))}, count(*) "
    "FROM record WHERE arm = ? AND suite = ? AND item = ? AND repeat = ?"
)
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


@_migration
def m003_attempts(connection: sqlite3.Connection) -> None:
    """Every attempt is a row; what is fixed for the whole run is kept."""
    columns = (
        "arm, suite, item, repeat, correct, truncated, error, prompt_sha256, target_sha256, "
        "completion_tokens, text, answer, rule, span_start, span_stop"
    )
    connection.execute("ALTER TABLE record RENAME TO old")
    connection.execute(
        "CREATE TABLE record ("
        "arm TEXT NOT NULL, start INTEGER NOT NULL, suite TEXT NOT NULL, item TEXT NOT NULL, "
        "repeat INTEGER NOT NULL, attempt INTEGER NOT NULL, "
        "correct INTEGER, truncated INTEGER, error TEXT, prompt_sha256 TEXT, target_sha256 TEXT, "
        "completion_tokens INTEGER, prompt_tokens INTEGER, max_tokens INTEGER, seconds REAL, "
        "text TEXT, answer TEXT, rule TEXT, span_start INTEGER, span_stop INTEGER, reasoning TEXT, "
        "PRIMARY KEY (arm, suite, item, repeat, attempt), "
        "CHECK (correct IS NOT NULL OR error IS NOT NULL)) STRICT"
    )
    connection.execute(
        f"INSERT INTO record ({columns}, start, attempt) "  # noqa: S608 - our own column names
        f"SELECT {columns}, 0, 0 FROM old ORDER BY rowid"
    )
    connection.execute("DROP TABLE old")
    connection.execute(
        "CREATE UNIQUE INDEX one_answer ON record "
        "(arm, suite, item, repeat, ifnull(max_tokens, 0)) WHERE error IS NULL"
    )
    connection.execute("CREATE TABLE fixed (name TEXT PRIMARY KEY, value TEXT NOT NULL) STRICT")


@_migration
def m004_told(connection: sqlite3.Connection) -> None:
    """What arms said of themselves, for a process that need not start them again."""
    connection.execute("CREATE TABLE told (arm TEXT PRIMARY KEY, settings TEXT NOT NULL) STRICT")
