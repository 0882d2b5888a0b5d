import json
import sqlite3

import pytest

from verify import logs
from verify.logs.run import columns
from verify.store import FILE_NAME, Record, Store

FIELDS = {"prompt_sha256": "ab" * 32, "completion_tokens": 5, "text": "so 4", "rule": "last number"}


@pytest.fixture
def run(tmp_path):
    with Store.open(tmp_path / FILE_NAME) as store:
        for arm in ("base", "pr"):
            right = Record(
                arm=arm, suite="x", item="a", correct=arm == "pr", truncated=False, **FIELDS
            )
            store.add(right)
            store.add(Record(arm=arm, suite="x", item="b", correct=None, error="http_500: gone"))
    return tmp_path


def test_one_arm_of_a_run(run, refused):
    refused(run, "holds the arms base, pr", "FILE::ARM", code=2)
    table = logs.read(f"{run}::pr").suites["x"]
    assert list(table.items) == ["a", "b"]
    assert table.score[0] == 1
    assert table.errors == {1: "http_500: gone"}
    assert table.truncated.tolist() == [0, -1]
    assert logs.read(f"{run / FILE_NAME}::base").suites["x"].score[0] == 0


def test_records_keep_their_number(run, monkeypatch):
    monkeypatch.setattr("verify.logs.run._AT_ONCE", 1)
    assert logs.read(f"{run}::pr").suites["x"].line.tolist() == [3, 4]


def test_records_held_already_give_the_same_columns(run):
    read = logs.read(f"{run}::pr").suites["x"]
    with Store.open(run / FILE_NAME) as store:
        held = columns([r for r in store.records() if r.arm == "pr"])
    assert list(held.items) == list(read.items)
    assert held.errors == read.errors
    for name in ("item", "repeat", "score", "truncated", "tokens", "prompt", "run"):
        assert (
            getattr(held, name).tolist() == pytest.approx(getattr(read, name).tolist(), nan_ok=True)
            if name == "score"
            else (getattr(held, name) == getattr(read, name)).all()
        )
    assert (held.text, held.rule) == (read.text, read.rule)


def test_reading_leaves_no_trace(run):
    before = {path: path.stat().st_mtime_ns for path in run.iterdir()}
    logs.read(f"{run}::base")
    assert {path: path.stat().st_mtime_ns for path in run.iterdir()} == before


def test_a_run_that_still_writes_can_be_read(run):
    with Store.open(run / FILE_NAME) as store:
        store.add(Record(arm="pr", suite="x", item="c", correct=True))
        assert len(logs.read(f"{run}::pr").suites["x"]) == 3


def test_other_databases_are_refused(tmp_path, refused):
    path = tmp_path / FILE_NAME
    connection = sqlite3.connect(path)
    connection.execute("CREATE TABLE other (x)")
    connection.close()
    refused(path, "no records.sqlite of a run")
    path.write_bytes(path.read_bytes()[:600])
    refused(path, "no records.sqlite of a run")


def test_settings_come_from_the_manifest_beside(run):
    assert logs.read(f"{run}::pr").settings == {}
    manifest = {
        "suites": {"x": {"sampling": {"temperature": 0.0, "max_tokens": 9, "stop": ["Q:"]}}},
        "arms": {"pr": {"model": "m", "base_url": "http://a/v1"}, "base": {}},
    }
    (run / "manifest.json").write_text(json.dumps(manifest))
    assert logs.read(f"{run}::pr").settings == {
        "model": "m",
        "server": "http://a/v1",
        "harness.name": "kernelproof run",
        "sampling.x.temperature": 0.0,
        "sampling.x.max_tokens": 9,
        "sampling.x.stop": '["Q:"]',
    }
    assert "model" not in logs.read(f"{run}::base").settings


@pytest.mark.parametrize(
    "manifest",
    [
        "[]",
        "{",
        '{"suites": {}}',
        '{"suites": {"x": {"margin_pt": "1"}}, "arms": {}}',
        '{"suites": {"x": {"items": ["a", "b"], "orders": [[0, 2]]}}, "arms": {}}',
        '{"suites": {}, "arms": {}, "rules": {"early_stop": 1}}',
    ],
)
def test_a_manifest_that_is_none_is_refused(run, refused, manifest):
    (run / "manifest.json").write_text(manifest)
    refused(f"{run}::pr", "manifest.json")
