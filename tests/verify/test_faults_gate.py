"""The gate: every planted fault is noticed, no honest kernel is, at a size that CI can carry."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from verify.faults.catalogue import CATALOGUE
from verify.faults.honest import VARIANTS

ROOT = Path(__file__).resolve().parents[2]

OPEN: dict[str, str] = {}
"""Faults that nothing notices yet, and the input or check that would."""


def test_open_names_faults():
    assert OPEN.keys() <= CATALOGUE.keys()


@pytest.mark.slow
@pytest.mark.timeout(1500)
def test_all_faults_are_noticed_and_no_honest_kernel_is(tmp_path):
    path = tmp_path / "scores.json"
    command = [sys.executable, "-m", "verify.faults", "--seeds", "20", "--json", str(path)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    scores = json.loads(path.read_text(encoding="utf-8"))["scores"]
    assert [s["message"] for s in scores if s["kind"] != "fault" and s["checks"]] == []
    assert {s["name"] for s in scores if s["kind"] == "honest"} == set(VARIANTS)
    faults = {s["name"]: s["noticed"] for s in scores if s["kind"] == "fault"}
    assert faults.keys() == CATALOGUE.keys()
    assert {name for name, noticed in faults.items() if not noticed} == OPEN.keys()
    assert done.returncode == (1 if OPEN else 0), done.stderr
