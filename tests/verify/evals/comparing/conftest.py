"""What the tests of `compare` share: arms made up, and the program run on them."""

from __future__ import annotations

import json

import pytest

from tests.verify.evals.comparing.arms import PUBLISHED, records, write


@pytest.fixture
def arms(here):
    """Write both arms, after `edit` has had its way with each record, and return the files."""

    def make(edit=lambda _, row: row, name="", **table):
        made = records(**(table or PUBLISHED))
        return [
            write(here / f"{name}{arm}.jsonl", [r for row in rows if (r := edit(arm, row))])
            for arm, rows in made.items()
        ]

    return make


@pytest.fixture
def compared(evals, here):
    """Compare, and return exit code, output and the result; nothing else may be written."""

    def invoke(*words):
        before = set(here.rglob("*"))
        code, out, err = evals("compare", *words, "--json", "result.json")
        assert err == ""
        written = here / "result.json"
        found = json.loads(written.read_text())
        written.unlink()
        assert set(here.rglob("*")) == before
        return code, out, found

    return invoke


@pytest.fixture
def refused(evals, here):
    """Compare what must be refused: one line with all of `words`, and nothing written."""

    def invoke(given, *words, code):
        before = set(here.rglob("*"))
        found, out, err = evals("compare", *given, "--json", "result.json")
        assert (found, out, err.count("\n")) == (code, "", 1)
        assert len(err) < 1000
        for word in words:
            assert word in err
        assert set(here.rglob("*")) == before

    return invoke
