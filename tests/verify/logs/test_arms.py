"""Recognising files, folders, and joining several files into one arm."""

import json

import numpy as np
import pytest

from verify import logs
from verify.command import UserError
from verify.logs.log import join


def record(item="a", correct=True, **fields):  # noqa: FBT002 - a record's own field
    return {"item": item, "correct": correct} | fields


def test_nothing_is_written(shared_data, lines, tmp_path):
    path = lines("log", record())
    before = sorted(tmp_path.rglob("*"))
    logs.read(path)
    logs.read_arm([path])
    assert sorted(tmp_path.rglob("*")) == before
    logs.read(shared_data / "paired" / "sgl_eval_live")


@pytest.mark.parametrize(
    ("raw", "words", "code"),
    [
        (b"", "is empty", 4),
        (b"\n \n", "is empty", 4),
        (b"\x7fELF\x02\x01\x01\x00", "binary file", 2),
        (b"\xff\xfe{\x00", "binary file", 2),
        (b"hello\n", "begins with 'hello", 2),
        (b'{"what": 1}\n', "JSON with what", 2),
        (b"{}\n", "JSON with nothing", 2),
        (b'[{"item": "a", "correct": true}]', "JSON array", 2),
        (b'{"item": "a", "corr', "ends too early", 4),
        (b'{"item" "a"}\n', "not JSON", 4),
        (b"PK\x03\x04 no zip", "damaged zip", 4),
        (b"PAR1 no parquet", "damaged parquet", 4),
        (b'{"results": {}, "configs": {}}', "averages", 2),
    ],
)
def test_what_is_no_log_is_refused(tmp_path, refused, raw, words, code):
    path = tmp_path / "log"
    path.write_bytes(raw)
    refused(path, words, code=code)


def test_what_is_not_there_is_refused(tmp_path, refused):
    refused(tmp_path / "nowhere", "no such file", code=2)
    refused(f"{tmp_path / 'nowhere'}::arm", "no such file", code=2)
    refused(tmp_path, "holds no log", code=2)


def test_a_name_with_colons_is_a_name(lines):
    assert len(logs.read(lines("a::b", record())).suites["unnamed"]) == 1


def test_content_decides_not_the_name(lines):
    path = lines("log.eval", record())
    assert logs.read(path).format == "kernelproof records"


def test_a_folder_of_suites_is_one_log(lines, refused):
    path = lines("run/x.jsonl", record(suite="x", truncated=False))
    lines("run/deep/y.jsonl", record(suite="y"))
    (path.parent / "notes.json").write_text('{"any": "thing"}')
    log = logs.read(path.parent)
    assert sorted(log.suites) == ["x", "y"]
    assert list(logs.read(path.parent, suite="y").suites) == ["y"]
    assert "truncated" in log.unknown  # what y cannot tell, the log cannot
    refused(path.parent, "no record of suite 'z'", suite="z", code=2)


def test_a_folder_with_two_logs_of_a_suite_is_refused(lines, refused):
    path = lines("run/x.jsonl", record())
    lines("run/y.jsonl", record())
    refused(path.parent, "several logs of suite unnamed", "x.jsonl", "y.jsonl", code=2)


def test_a_broken_log_in_a_folder_is_not_passed_over(lines):
    path = lines("run/x.jsonl", record())
    lines("run/y.jsonl", {"item": "a"})
    with pytest.raises(UserError, match=r"y\.jsonl, line 1"):
        logs.read(path.parent)


def test_files_of_an_arm_are_repeats(lines):
    paths = [
        lines("0", record("a", truncated=False), record("b", 0, text="no")),
        lines("1", record("b", repeat=0), record("b", repeat=1), record("c", None, error="gone")),
        lines("2", record("a", suite="other")),
    ]
    arm = logs.read_arm(paths)
    table = arm.suites["unnamed"]
    names = list(table.items)
    found = [
        (names[code], int(repeat), int(run))
        for code, repeat, run in zip(table.item, table.repeat, table.run, strict=True)
    ]
    assert found == [("a", 0, 0), ("b", 0, 0), ("b", 1, 1), ("b", 2, 1), ("c", 1, 1)]
    assert table.score[:4].tolist() == [1, 0, 1, 1]
    assert np.isnan(table.score[4])
    assert table.errors == {4: "gone"}
    assert table.text == [None, "no", None, None, None]
    assert arm.suites["other"].run.tolist() == [2]
    assert "truncated" in arm.unknown  # which the later files cannot tell
    assert arm.paths == tuple(paths)


def test_notes_name_their_file_where_there_are_several(tmp_path):
    folders = [sgl_run(tmp_path / name, partial=True, completed_samples=1) for name in "ab"]
    (note,) = logs.read_arm(folders[:1]).notes
    assert note.startswith("the run was stopped")
    assert [note.partition(":")[0] for note in logs.read_arm(folders).notes] == ["a", "b"]


def test_one_file_twice_is_no_repeat(lines):
    path = lines("log", record())
    with pytest.raises(UserError, match="named twice"):
        logs.read_arm([path, path.parent / "." / "log"])


def sgl_run(folder, **metrics):
    folder.mkdir()
    row = {
        "id": folder.name,
        "problem": "2 + 2?",
        "expected_answer": "4",
        "generation": "4",
        "finish_reason": "stop",
        "symbolic_correct": True,
    }
    (folder / "output-rs0.jsonl").write_text(json.dumps(row) + "\n")
    content = {"name": "x", "model": "m", "base_url": "http://a", "gen": {"temperature": 0.0}}
    (folder / "metrics.json").write_text(json.dumps(content | metrics))
    return folder


def test_arms_may_differ_in_server_but_not_in_sampling_or_version(tmp_path):
    base = logs.read(sgl_run(tmp_path / "a"))
    server = logs.read(sgl_run(tmp_path / "b", base_url="http://b", model="n", num_threads=3))
    warm = logs.read(sgl_run(tmp_path / "c", gen={"temperature": 0.7}))
    newer = logs.read(sgl_run(tmp_path / "d", sgl_eval_version="0.2"))
    asked = logs.read(sgl_run(tmp_path / "e", gen={"temperature": 0.0, "system_message": "Hi."}))
    assert logs.differences(base, server) == []
    assert logs.differences(base, warm) == ["sampling.temperature: 0.0 and 0.7"]
    assert logs.differences(base, newer) == ["harness.version: None and '0.2'"]
    assert logs.differences(base, asked) == ["prompt.system: None and 'Hi.'"]
    long = logs.read(sgl_run(tmp_path / "f", gen={"x" * 5000: "y" * 5000}))
    assert max(map(len, logs.differences(base, long))) < 200


def test_repeats_of_an_arm_share_model_and_settings(tmp_path):
    folders = [sgl_run(tmp_path / "a"), sgl_run(tmp_path / "b", model="other")]
    with pytest.raises(
        UserError, match=r"not repeats of one arm.*model: 'm' and 'other'"
    ) as caught:
        logs.read_arm(folders)
    assert caught.value.exit_code == 4
    join([logs.read(folders[0])])  # alone it is an arm


def test_an_unreadable_file_is_one_line(tmp_path, refused, monkeypatch):
    path = tmp_path / "log"
    path.write_text("x")

    def denied(*_args, **_kwargs):
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(type(path), "open", denied)
    refused(path, "Permission denied", code=2)
