"""Suites whose texts may not be published: none of them reaches a file that is."""

from __future__ import annotations

import re

import pytest
from msgspec.structs import replace

from reports import render

SECRET = "electron affinity of astatine"


MANIFEST = {
    "arms": {"base": {}, "pr": {}},
    "suites": {"mini-gsm8k": {"redact": True}, "public": {}},
}


@pytest.fixture
def folder(write_run, make_suite, records):
    kept = [
        replace(
            record,
            text=f"{SECRET} is {record.answer}",
            answer="B" if record.correct else f"no {SECRET}",
            error=None if record.correct else f"http_500: {SECRET}",
        )
        for record in records(both=1, lost=2, gained=1, neither=1)
    ]
    folder = write_run(
        manifest=MANIFEST,
        suites=[make_suite(items=5, both=1, lost=2, gained=1, neither=1)],
        kept=kept,
        prompt=f"What is the {SECRET}?",
        target=f"B: {SECRET}",
    )
    render(folder)
    return folder


@pytest.mark.parametrize("name", ["report.html", "comment.md", "junit.xml"])
def test_no_text_of_the_suite_is_published(folder, name):
    assert "electron" not in (folder / name).read_text(encoding="utf-8").lower()


def test_what_flipped_is_still_told(folder, parse):
    page = parse((folder / "report.html").read_text(encoding="utf-8"))
    assert [e["text"] for e in page.all("span", "tag")] == ["lost", "lost", "gained"]
    assert "hashes stand in their place" in page.html
    assert len(re.findall(r"sha256 [0-9a-f]{64}", page.html)) > 3
    assert "base: B" in page.all("span", "gist")[0]["text"]


def test_other_suites_keep_their_texts(write_run, make_suite, records):
    folder = write_run(manifest=MANIFEST, suites=[make_suite("public")], kept=records("public"))
    render(folder)
    assert "First 40 + 2 is taken" in (folder / "report.html").read_text(encoding="utf-8")
