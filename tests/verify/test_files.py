"""Files are written whole or not at all."""

from __future__ import annotations

import json

import pytest

from verify.command import UserError
from verify.files import made, write_json, write_text


def test_folders_are_made_and_nothing_else_is_left(tmp_path):
    path = tmp_path / "a" / "b" / "result.json"
    write_json(path, {"verdict": "pass"})
    assert json.loads(path.read_text(encoding="utf-8")) == {"verdict": "pass"}
    assert [p.name for p in path.parent.iterdir()] == ["result.json"]


def test_what_stood_there_stays_until_the_new_text_is_whole(tmp_path):
    path = tmp_path / "page.html"
    write_text(path, "old")
    with pytest.raises(UnicodeEncodeError):
        write_text(path, "new \ud800")
    assert path.read_text(encoding="utf-8") == "old"


@pytest.mark.parametrize("place", ["file/inside", ""])
def test_an_impossible_place_is_one_line(tmp_path, place):
    (tmp_path / "file").write_text("a file, not a folder", encoding="utf-8")
    with pytest.raises(UserError, match=r"cannot be written \(.+\); name another"):
        write_text(tmp_path / place, "text")


def test_a_folder_that_takes_no_files_is_told_before_the_work(tmp_path, monkeypatch):
    new = tmp_path / "a" / "b"
    assert made(new) == made(new) == new
    assert new.is_dir()
    (tmp_path / "file").write_text("a file, not a folder", encoding="utf-8")
    with pytest.raises(UserError, match=r"cannot be made \(.+\); name another"):
        made(tmp_path / "file" / "inside")
    monkeypatch.setattr("os.access", lambda *_: False)  # root may write anywhere
    with pytest.raises(UserError, match="takes no files; name another"):
        made(new)


@pytest.mark.parametrize(
    "words",
    [["grade", "gsm8k", "{}"], ["score", "--texts", "{}"], ["compare", "{}", "other.jsonl"]],
    ids=lambda words: words[0],
)
def test_a_file_without_end_is_one_line_not_all_memory(words, tmp_path, monkeypatch):
    from verify.evals import command

    monkeypatch.chdir(tmp_path)
    (tmp_path / "other.jsonl").write_text("{}\n")
    words = [word.format("/dev/zero") for word in words]
    with pytest.raises(UserError, match="/dev/zero"):
        command(words, standalone_mode=False)
