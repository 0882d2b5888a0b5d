"""`report`: one run again, several together, and what GitHub Actions shows."""

from __future__ import annotations

import json

import pytest
from click.testing import CliRunner

from verify.command import UserError
from verify.evals.reporting import report

SUITE = {
    "suite": "gsm8k",
    "items": 1314,
    "verdict": "inconclusive",
    "reason": "100 % of a, b: c\nd",
    "accuracy": {"base": 0.976, "pr": 0.973},
    "difference_pt": -0.3,
    "interval_pt": [-0.89, 0.2],
    "lost": 7,
    "gained": 3,
    "noninferiority": {"margin_pt": 1.0, "p": 0.013, "method": "Tango score"},
    "sequential": None,
}
FINDING = {
    "case": "T=1",
    "check": "scales",
    "layer": 2,
    "message": "3 of 512 scale bytes differ",
    "replay": "python -m verify.kernel --case T=1",
}
KERNEL = {
    "verdict": "fail",
    "layers": {"1": "pass", "2": "fail"},
    "cases": 30,
    "executed": 30,
    "findings": [{**FINDING, "case": f"T={n}"} for n in range(30)],
    "tiers": {},
    "adequacy": {},
    "environment": {},
    "seconds": 1.0,
}


@pytest.fixture
def run_at(tmp_path):
    def write(name, **document):
        folder = tmp_path / name
        folder.mkdir()
        (folder / "result.json").write_text(
            json.dumps({"verdict": "pass", "suites": [], **document})
        )
        return folder

    return write


def call(*words):
    return CliRunner().invoke(report, [str(w) for w in words], standalone_mode=False)


def test_several_runs_go_beside_them_by_default(run_at, tmp_path):
    done = call(run_at("a"), run_at("b", verdict="inconclusive"))
    assert done.output == f"INCONCLUSIVE  {tmp_path / 'overview.html'}\n"
    assert done.return_value.exit_code == 3
    assert (tmp_path / "overview.html").exists()


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["a", "b", "--github"], "one run, not of 2"),
        (["a", "--out", "o"], "leave it out"),
        (["a", "nowhere"], "does not exist"),
        (["nowhere"], "holds no result.json"),
        (["c"], "missing required field"),
        (["a", "--github"], "GITHUB_STEP_SUMMARY is not set"),
    ],
)
def test_wrong_use_is_one_line(run_at, tmp_path, monkeypatch, words, message):
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("GITHUB_STEP_SUMMARY", raising=False)
    for name in ("a", "b"):
        run_at(name)
    run_at("c", suites=[{"verdict": "pass"}])
    done = call(*words)
    assert isinstance(done.exception, UserError)
    assert message in str(done.exception)
    assert not (tmp_path / "o").exists()


def test_github_gets_the_summary_and_annotations_it_cannot_misread(run_at, tmp_path, monkeypatch):
    summary = tmp_path / "summary.md"
    summary.write_text("earlier\n")
    monkeypatch.setenv("GITHUB_STEP_SUMMARY", str(summary))
    done = call(run_at("a", verdict="fail", suites=[SUITE], kernel=KERNEL), "--github")
    assert summary.read_text(encoding="utf-8").startswith("earlier\n### kernelproof: \u2717 Fails.")
    lines = [line for line in done.output.splitlines() if line.startswith("::")]
    assert lines[0] == "::warning title=gsm8k%3A inconclusive::100 %25 of a, b: c%0Ad"
    assert lines[1].startswith("::error title=layer 2%3A scales::T=0: 3 of 512 scale bytes")
    assert len(lines) == 10


@pytest.mark.parametrize(
    ("texts", "code", "words"), [("fail", "fail", "FAIL"), ("pass", "pass", "PASS")]
)
def test_texts_that_were_scored_count_too(run_at, texts, code, words):
    run = run_at("run")
    kind = {"name": "t", "source": "s", "items": 2, "tokens": 9, "verdict": texts, "reason": "r"}
    score = {"verdict": texts, "texts": [{**kind, "margin_nats": 0.1}]}
    (run / "score.json").write_text(json.dumps(score))
    outcome = call(run)
    assert outcome.return_value == code
    assert words in outcome.output
