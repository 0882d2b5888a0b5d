"""docs/serving.md shows the table that its command makes, and what the table promises."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner

from verify.bench.serve.calibration import CHANGE, REQUESTS, SETTINGS, Setting, command, rates
from verify.bench.serve.program import serve
from verify.bench.serve.starts import compare
from verify.command import UserError
from verify.evals.config import read

ROOT = Path(__file__).resolve().parents[4]
PAGE = (ROOT / "docs" / "serving.md").read_text(encoding="utf-8")


def test_the_page_holds_the_table_that_the_command_makes(tmp_path):
    page = tmp_path / "serving.md"
    page.write_text(re.sub(r"(?s)(?<=edit -->\n).*(?=<!-- end)", "", PAGE))
    assert page.read_text() != PAGE
    found = CliRunner().invoke(command, ["--out", str(page)], catch_exceptions=False)
    assert found.exit_code == 0
    assert page.read_text() == PAGE


def test_forty_requests_an_arm_find_what_was_planted_and_cover_it():
    found = {s: rates(s, 4000, np.random.default_rng(5)) for s in SETTINGS}
    assert REQUESTS * 2 == 40
    assert found[Setting(0.002, 0.002, 2)].found >= 0.95
    assert found[Setting(0.006, 0.006, 3)].found >= 0.95 > found[Setting(0.006, 0.006, 2)].found
    for setting, each in found.items():
        if setting.base_sd == setting.pr_sd:
            assert each.covered > 0.93, setting


def test_a_hundred_runs_by_hand_agree():
    random = np.random.default_rng(11)
    hits = covers = 0
    for _ in range(100):
        base, pr = (
            [
                float(np.median(random.normal(speed * np.exp(random.normal(0, 0.002)), 0.005, 20)))
                for _ in range(2)
            ]
            for speed in (1.0, 1 + CHANGE)
        )
        low, high = compare(base, pr).interval
        hits += low > 1
        covers += low < 1 + CHANGE < high
    assert hits >= 95
    assert covers >= 93


def test_a_page_without_a_place_for_it_is_told(tmp_path):
    (tmp_path / "page.md").write_text("nothing")
    with pytest.raises(UserError, match="no place for the table"):
        CliRunner().invoke(
            command, ["--out", str(tmp_path / "page.md")], catch_exceptions=False,
            standalone_mode=False,
        )  # fmt: skip


def test_the_examples_are_read(tmp_path):
    cpu, gpus = re.findall(r"```toml\n(.*?)```", PAGE, re.DOTALL)
    for example, option, value in (
        (cpu, "--flash-attention", {"on", "off"}),
        (gpus, "--tp", {"4"}),
    ):
        (tmp_path / "verify.toml").write_text(example)
        arms = read(tmp_path / "verify.toml").arms
        assert list(arms) == ["base", "pr"]
        launches = [arm.launch for arm in arms.values()]
        assert {words[words.index(option) + 1] for words in launches} == value


def test_the_page_names_every_option():
    for option in serve.params:
        if option.name not in {"arms", "arm", "json_file", "model", "differ"}:
            assert f"{option.opts[0]}" in PAGE, option.name
