"""The page of the source's numbers is what its command makes."""

from __future__ import annotations

from pathlib import Path

from click.testing import CliRunner

from verify.stats.source_numbers import command

PAGE = Path(__file__).resolve().parents[3] / "docs" / "source-numbers.md"


def test_the_page_is_what_the_command_writes(tmp_path):
    made = tmp_path / "page.md"
    result = CliRunner().invoke(command, ["--out", str(made)], catch_exceptions=False)
    assert result.exit_code == 0
    assert made.read_text(encoding="utf-8") == PAGE.read_text(encoding="utf-8")


def test_what_was_published_and_derived_by_hand_stands_in_it():
    text = PAGE.read_text(encoding="utf-8")
    for figure in (
        "| difference | -0.304 |",
        "McNemar exact, mid-p | 0.344, 0.227",
        "Tango | [-0.894, +0.202]",
        "Newcombe 10 | [-0.891, +0.239]",
        "non-inferior at 0.5: Tango, exact | p = 0.224, 0.248",
        "variance / 6.6",
        "GPQA passes down to | 76.1 %",
    ):
        assert figure in text
