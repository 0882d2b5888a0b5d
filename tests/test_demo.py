"""README's demonstration, as a user runs it: honest, and with two faults planted in the kernel."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]


def demo(candidate, folder):
    """What `make demo` printed, and its result."""
    ended = subprocess.run(
        ["make", "demo", f"CANDIDATE={candidate}", f"RUN={folder}"],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    result = json.loads((folder / "result.json").read_text())
    assert (ended.returncode == 0) == (result["verdict"] == "pass"), ended.stdout
    assert (folder / "report.html").stat().st_size > 0
    assert f"{result['verdict'].upper()}  {folder / 'report.html'}" in ended.stdout
    return result


def suites(result):
    return {suite["suite"]: suite["verdict"] for suite in result["suites"]}


def test_an_honest_kernel_passes_all_three_layers(tmp_path):
    result = demo("kernel:fused_triton", tmp_path / "run")
    assert result["verdict"] == "pass"
    assert result["kernel"]["layers"] == {"1": "pass", "2": "pass"}
    assert suites(result) == dict.fromkeys(("mini-gsm8k", "mini-aime", "mini-gpqa"), "pass")
    assert result["manifest"]["arms"]["pr"]["calls"]["fused"] > 0


def test_a_wrong_sign_fails_layers_one_and_three_and_passes_two(tmp_path):
    result = demo("tests.mutants.fused_wrong_sign:fused_triton", tmp_path / "run")
    assert result["verdict"] == "fail"
    assert result["kernel"]["layers"] == {"1": "fail", "2": "pass"}
    assert suites(result) == dict.fromkeys(("mini-gsm8k", "mini-aime", "mini-gpqa"), "fail")


def test_a_floored_scale_fails_layer_two(tmp_path):
    candidate = "tests.mutants.fused_floor_scale:fused_triton"
    ended = subprocess.run(
        [sys.executable, "-m", "verify.kernel", "--candidate", candidate, "--out", str(tmp_path)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert ended.returncode == 1, ended.stdout + ended.stderr
    result = json.loads((tmp_path / "kernel.json").read_text())
    assert result["layers"] == {"1": "pass", "2": "fail"}
