"""Several runs on one page."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from reports import overview, render
from verify.command import UserError
from verify.verdict import Verdict


@pytest.fixture
def overview_of(tmp_path, parse):
    def write(folders):
        path, verdict = overview(folders, tmp_path / "all")
        return parse(path.read_text(encoding="utf-8")), verdict

    return write


def began(day):
    return {"started": f"2026-11-{day:02}T09:00:00Z"}


def test_a_row_a_run_and_a_column_a_suite(write_run, make_suite, make_kernel, finding, overview_of):
    later = write_run(
        manifest=began(9),
        verdict="fail",
        kernel=make_kernel([finding()]),
        suites=[make_suite(), make_suite("mini-aime")],
    )
    first = write_run(manifest=began(2), suites=[make_suite(difference_pt=1.25)])
    page, verdict = overview_of([later, first])
    assert verdict is Verdict.FAIL
    assert page.errors == []
    heads = [e["text"] for e in page.all("th", scope="col")]
    assert heads == ["Run", "Layer 1", "Layer 2", "mini-gsm8k", "mini-aime"]
    cells = [" ".join(e["text"].split()) for e in page.all("td")]
    assert cells[:5] == [
        "Not run",
        "Not run",
        "Passes +1.25 pt (\u22123.61 to +2.41)",
        "Not run",
        "Passes 0 of 312 cases wrong",
    ]
    assert cells[5] == "Fails 1 of 312 cases wrong"
    rows = [e["text"] for e in page.all("th", scope="row")]
    assert ["2026-11-02" in rows[0], "2026-11-09" in rows[1]] == [True, True]


def test_only_what_was_asked_twice_has_a_history(write_run, make_suite, overview_of):
    once = write_run(manifest=began(1), suites=[make_suite(), make_suite("once")])
    again = write_run(manifest=began(2), suites=[make_suite()])
    page, _ = overview_of([once, again])
    assert [e["text"] for e in page.all("h3")] == ["mini-gsm8k"]
    assert len(page.all("figure", "forest")) == 1


def test_links_lead_to_each_run_and_names_are_told_apart(write_run, overview_of, tmp_path):
    folders = [write_run(manifest=began(day)) for day in (1, 2)]
    for folder in folders:
        render(folder)
    page, _ = overview_of(folders)
    links = [e["@href"] for e in page.all("a")]
    assert [(tmp_path / "all" / link).resolve() for link in links] == [
        f / "report.html" for f in folders
    ]
    assert [e["text"] for e in page.all("a")] == ["0/run", "1/run"]


def test_a_folder_cannot_pose_as_a_script(write_run, overview_of, tmp_path):
    hostile = tmp_path / "all" / "javascript:alert(1)"
    hostile.parent.mkdir()
    write_run(manifest=began(1)).rename(hostile)
    page, _ = overview_of([hostile, write_run(manifest=began(2))])
    assert not [e for e in page.all("a") if re.match(r"\w+:", e["@href"])]


def test_a_folder_that_is_no_run_is_refused_and_nothing_written(write_run, tmp_path):
    with pytest.raises(UserError, match="does not exist"):
        overview([write_run(), tmp_path / "none"], tmp_path / "all")
    assert not Path(tmp_path / "all").exists()
