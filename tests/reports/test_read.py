"""A folder that is no run is refused."""

from __future__ import annotations

import re

import pytest

from reports import render
from verify.command import UserError


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (None, "does not exist"),
        ("{", "is not JSON"),
        ("[]", "holds no JSON object"),
        ('{"verdict": "maybe"}', "verdict"),
        ('{"verdict": "pass", "manifest": {"arms": {"base": 7}}}', "arms"),
        ('{"verdict": "pass", "suites": [{"suite": 7, "verdict": "pass"}]}', "suites[0].suite"),
    ],
)
def test_a_folder_that_is_no_run_is_refused_in_one_line(tmp_path, content, message):
    if content is not None:
        (tmp_path / "result.json").write_text(content)
    with pytest.raises(UserError, match=re.escape(message)) as caught:
        render(tmp_path)
    assert "\n" not in str(caught.value)
    assert not (tmp_path / "report.html").exists()


def test_records_that_are_no_database_are_refused_in_one_line(write_run):
    folder = write_run(kept=None)
    (folder / "records.sqlite").write_text("not a database, but longer than a header " * 9)
    with pytest.raises(UserError, match="cannot be read"):
        render(folder)
