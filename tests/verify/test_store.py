import signal
import sqlite3
import subprocess
import sys
from contextlib import contextmanager

import pytest

from verify import store
from verify.store import Differs, Record, Store, StoredItem


def record(item="q1", **changes):
    return Record(
        **{
            "arm": "base",
            "suite": "gsm8k",
            "item": item,
            "correct": True,
            "truncated": False,
            "prompt_sha256": "p",
            "target_sha256": "t",
            "completion_tokens": 7,
            "text": "#### 4\ud7ff \0 \U0001f600",
            "answer": "4",
            "rule": "hashes",
            **changes,
        }
    )


def test_records_come_back_as_they_were_added(tmp_path):
    kept = [
        record("b"),
        record("a", correct=False, truncated=True),
        record("c", correct=None, error="http_500: no", truncated=None, text=None),
        record("a", arm="pr", repeat=3, completion_tokens=None),
        record("a", suite="other"),
    ]
    with Store.open(tmp_path / "r.sqlite") as opened:
        for r in kept:
            opened.add(r)
    with Store.open(tmp_path / "r.sqlite") as again:
        assert list(again.records()) == kept
        assert list(again.records("other")) == kept[-1:]
        assert list(again.records("none")) == []


def test_items_come_back_in_order_and_by_suite(tmp_path):
    items = [StoredItem("s", "2", "p2", "t2"), StoredItem("s", "1", "p1", "t1")]
    with Store.open(tmp_path / "r.sqlite") as opened:
        opened.add_items(items)
        opened.add_item("other", "1", "p", "t")
        assert list(opened.items("s")) == items
        with pytest.raises(sqlite3.IntegrityError):
            opened.add_items([StoredItem("s", "3", "p", "t"), items[0]])
        assert list(opened.items("s")) == items  # all or none


def test_a_longer_answer_takes_the_place_of_an_unfinished_one(tmp_path):
    longer = record("a", truncated=False, completion_tokens=70, max_tokens=99)
    with Store.open(tmp_path / "r.sqlite") as opened:
        opened.add(record("a", truncated=True, max_tokens=9))
        opened.add(record("b"))
        opened.add(longer)
        assert list(opened.records()) == [record("b"), longer]


def test_every_attempt_is_kept_and_an_answer_counts_before_errors(tmp_path):
    failed = {"correct": None, "truncated": None, "text": None}
    tries = [record("a", error=f"http_500: {i}", **failed) for i in range(3)]
    with Store.open(tmp_path / "r.sqlite") as opened:
        opened.add(*tries[:2])
        opened.add(record("b"))
        assert list(opened.records()) == [tries[1], record("b")]
        opened.add(record("a", start=1, seconds=0.5, prompt_tokens=3, reasoning="so"))
        opened.add(tries[2])
        assert [(r.item, r.error, r.start) for r in opened.records()] == [
            ("b", None, 0),
            ("a", None, 1),
        ]
        assert [r.error for r in opened.attempts() if r.item == "a"] == [
            "http_500: 0",
            "http_500: 1",
            None,
            "http_500: 2",
        ]


def test_what_is_answered_and_by_which_start(tmp_path):
    failed = {"correct": None, "truncated": None, "error": "timeout: 600 s"}
    with Store.open(tmp_path / "r.sqlite") as opened:
        assert (opened.starts("base"), opened.answered("base", "gsm8k")) == (0, set())
        opened.add(record("a", **failed), record("a", repeat=1))
        opened.add(record("b", start=1), record("c", start=2, **failed))
        opened.add(record("d", arm="pr"), record("d", suite="other"))
        assert opened.answered("base", "gsm8k") == {("a", 1), ("b", 0)}
        assert (opened.starts("base"), opened.starts("pr")) == (3, 1)


def test_what_must_not_change_is_kept_and_compared(tmp_path):
    with Store.open(tmp_path / "r.sqlite") as opened:
        opened.claim({"seed": "0", "model": "m"})
    with Store.open(tmp_path / "r.sqlite") as opened:
        opened.claim({"model": "m", "seed": "0"})
        opened.claim({"later": "1"})
        with pytest.raises(Differs, match=r"^seed was 0, and is 1$") as caught:
            opened.claim({"model": "m", "seed": "1"})
        assert (caught.value.name, caught.value.was, caught.value.now) == ("seed", "0", "1")


def test_a_run_of_an_earlier_version_is_read_and_goes_on(tmp_path):
    path = tmp_path / "r.sqlite"
    with monkeypatched_migrations(store._MIGRATIONS[:1]), Store.open(path) as old:
        old._connection.execute(
            "INSERT INTO record (arm, suite, item, repeat, correct) VALUES ('base', 's', 'a', 0, 1)"
        )
    expected = [Record(arm="base", suite="s", item="a", correct=True)]
    with Store(sqlite3.connect(f"file:{path}?mode=ro", uri=True)) as read:
        assert list(read.records()) == expected
    with Store.open(path) as opened:
        assert list(opened.records()) == expected
        with pytest.raises(sqlite3.IntegrityError):
            opened.add(expected[0])


@contextmanager
def monkeypatched_migrations(steps):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(store, "_MIGRATIONS", steps)
        yield


def test_an_answer_is_kept_once(tmp_path):
    with Store.open(tmp_path / "r.sqlite") as opened:
        opened.add(record())
        with pytest.raises(sqlite3.IntegrityError):
            opened.add(record(correct=False))
        assert [r.correct for r in opened.records()] == [True]


def test_neither_right_nor_wrong_needs_an_error(tmp_path):
    with Store.open(tmp_path / "r.sqlite") as opened, pytest.raises(sqlite3.IntegrityError):
        opened.add(record(correct=None))


def test_what_was_added_survives_a_killed_process(tmp_path):
    path = tmp_path / "r.sqlite"
    source = (
        "import os, signal, sys\nfrom pathlib import Path\nfrom verify.store import Record, Store\n"
        "opened = Store.open(Path(sys.argv[1]))\n"
        "for i in range(50):\n"
        "    opened.add(Record(arm='a', suite='s', item=str(i), correct=True))\n"
        "os.kill(os.getpid(), signal.SIGKILL)\n"
    )
    killed = subprocess.run([sys.executable, "-c", source, str(path)], check=False)
    assert killed.returncode == -signal.SIGKILL
    with Store.open(path) as opened:
        assert [r.item for r in opened.records()] == [str(i) for i in range(50)]


def test_a_reader_sees_a_running_run(tmp_path):
    path = tmp_path / "r.sqlite"
    with Store.open(path) as writer, Store.open(path) as reader:
        writer.add(record())
        assert len(list(reader.records())) == 1


def test_migrations_apply_once_in_order_and_to_old_files(tmp_path, monkeypatch):
    path = tmp_path / "r.sqlite"
    with Store.open(path) as old:
        old.add(record())

    def m999_note(connection):
        connection.execute("ALTER TABLE item ADD COLUMN note TEXT")

    monkeypatch.setattr(store, "_MIGRATIONS", [*store._MIGRATIONS, m999_note])
    for _ in range(2):
        with Store.open(path) as opened:
            assert list(opened.records()) == [record()]
    names = [row[0] for row in sqlite3.connect(path).execute("SELECT name FROM migration")]
    assert names == [step.__name__ for step in store._MIGRATIONS]


def test_a_migration_that_fails_leaves_nothing_behind(tmp_path, monkeypatch):
    def m999_breaks(connection):
        connection.execute("CREATE TABLE half (x)")
        connection.execute("nonsense")

    path = tmp_path / "r.sqlite"
    monkeypatch.setattr(store, "_MIGRATIONS", [*store._MIGRATIONS, m999_breaks])
    with pytest.raises(sqlite3.OperationalError):
        Store.open(path)
    tables = {row[0] for row in sqlite3.connect(path).execute("SELECT name FROM sqlite_master")}
    assert "half" not in tables


def test_a_file_that_is_no_database_is_refused(tmp_path):
    path = tmp_path / "r.sqlite"
    path.write_bytes(b"not a database, but long enough to be looked at" * 40)
    with pytest.raises(sqlite3.DatabaseError):
        Store.open(path)
