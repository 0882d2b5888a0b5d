"""The program, end to end on a small shape."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections import Counter

import pytest
from click.testing import CliRunner

from verify import kernel
from verify.cases import Case
from verify.command import ROOT, UserError
from verify.compare import Finding
from verify.verdict import Verdict

SHAPE = ["--shape", "2,32,64", "--head-dim", "32", "--rope-dim", "8", "--max-tokens", "8"]


def run(*words, shape=SHAPE):
    result = CliRunner().invoke(kernel.command, [*words, *shape], standalone_mode=False)
    if result.exception is not None and not isinstance(result.exception, UserError):
        import click

        if not isinstance(result.exception, click.ClickException):
            raise result.exception
    return result


def test_right_kernel_passes_and_the_json_says_what_was_done(tmp_path):
    result = run("--candidate", "tests.mutants.honest:plain", "--out", str(tmp_path / "run"))
    assert result.return_value is Verdict.PASS
    said = json.loads((tmp_path / "run" / "kernel.json").read_text())
    assert {"verdict", "cases", "executed", "findings", "tiers", "adequacy"} < said.keys()
    assert {"environment", "seconds"} < said.keys()
    assert (said["verdict"], said["findings"]) == ("pass", [])
    assert said["cases"] == said["executed"] == sum(said["tiers"].values()) > 130
    assert set(said["tiers"]) == {"exact", "calibrated"}
    assert sum(said["uses"].values()) == said["cases"]
    assert said["uses"]["over 1"] == 0
    assert all(isinstance(count, int) for count in said["adequacy"].values())
    assert "layer 1  pass" in result.output
    assert "layer 2  pass" in result.output
    assert not list((tmp_path / "run").glob("*.part"))


def test_wrong_kernel_fails_on_its_layer_and_the_replay_shows_it_again(tmp_path):
    path = tmp_path / "deep" / "result.json"
    words = ("--candidate", "tests.mutants.rotation:forward", "--seed", "5")
    result = run(*words, "--json", str(path))
    assert result.return_value is Verdict.FAIL
    assert "layer 1  fail" in result.output
    assert "layer 2  pass" in result.output
    said = json.loads(path.read_text())
    assert said["executed"] == said["cases"] > 130
    finding = next(f for f in said["findings"] if f["check"] == "interval")
    assert finding["layer"] == 1
    assert finding["first_bad"].keys() == {"index", "byte", "actual", "expected"}
    program = ["python", "-m", "verify.kernel"]
    replay = finding["replay"].split()
    assert replay[:3] == program
    assert replay[-2:] == ["--case", finding["case"]]
    again = tmp_path / "again.json"
    assert run(*replay[3:], "--json", str(again), shape=[]).return_value is Verdict.FAIL
    assert finding in json.loads(again.read_text())["findings"]


def test_a_case_that_is_right_when_asked_alone_is_replayed_by_the_whole_run(tmp_path):
    path = tmp_path / "result.json"
    words = ("--candidate", "tests.mutants.memory:wrong_after_a_hundred_calls", "--seed", "5")
    assert run(*words, "--json", str(path)).return_value is Verdict.FAIL
    findings = json.loads(path.read_text())["findings"]
    told = [f for f in findings if "asked alone it is right" in f["message"]]
    assert len({finding["layer"] for finding in told}) == len(told) > 0
    for finding in told:
        replay = finding["replay"].split()
        assert "--case" not in replay
        assert replay[7:] == ["--budget", "quick", *SHAPE]
    alone = run(*words, "--case", told[0]["case"], "--json", str(path), shape=[])
    assert alone.return_value is Verdict.PASS


def test_a_kernel_that_raises_what_a_keyboard_does_is_a_finding_without_a_traceback(capfd):
    result = run("--candidate", "tests.mutants.memory:interrupts", "--fail-fast")
    assert result.return_value is Verdict.FAIL
    assert "the process ended with exit code 130" in result.output
    assert "Traceback" not in result.output + "".join(capfd.readouterr())


def test_a_kernel_that_needs_a_gpu_says_so_before_any_case(monkeypatch):
    monkeypatch.setattr("torch.cuda.is_available", lambda: False)
    error = run("--candidate", "kernel:fused_cuda").exception
    assert str(error) == (
        "--candidate kernel:fused_cuda: it needs a CUDA GPU, and torch finds none here"
    )


def test_fail_fast_stops_at_the_first_case_that_finds_something(tmp_path):
    path = tmp_path / "result.json"
    result = run("--candidate", "tests.mutants.layout:linear", "--fail-fast", "--json", str(path))
    assert result.return_value is Verdict.FAIL
    said = json.loads(path.read_text())
    assert said["executed"] < said["cases"]
    assert len({finding["case"] for finding in said["findings"]}) == 1


def test_kernel_that_kills_its_process_is_found_out_case_by_case(tmp_path):
    path = tmp_path / "result.json"
    result = run("--candidate", "tests.mutants.memory:dies_on_tiny_weights", "--json", str(path))
    assert result.return_value is Verdict.FAIL
    said = json.loads(path.read_text())
    assert said["executed"] == said["cases"]
    assert {f["check"] for f in said["findings"]} == {"error"}
    cases = [Case.parse(finding["case"]) for finding in said["findings"]]
    assert {case.family for case in cases} == {"golden_tiny"}
    assert {case.tokens for case in cases} <= {1, 2, 3, 4}
    assert "exit code 9" in said["findings"][0]["message"]
    assert "layer 2  invalid" in result.output


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["--candidate", "nowhere"], "write it as module:function"),
        (["--candidate", "no.such.module:f"], "module 'no.such.module' cannot be imported"),
        (["--candidate", "tests.mutants.honest:absent"], "has no function 'absent'; it has"),
        (["--candidate", "tests.mutants.honest:BLOCK"], "holds something not callable as 'BLOCK'"),
        (["--shape", "2,1024"], "is not three numbers; write G,R,K such as 2,1024,4096"),
        (["--shape", "2,1000,4096"], "rank is 1000; it must be a multiple of 32"),
        (["--shape", "2,1024,4000"], "k is 4000; it must be a multiple of head_dim = 512"),
        (["--head-dim", "0"], "head_dim is 0; it must be at least 2"),
        (["--rope-dim", "7"], "rope_dim is 7"),
        (["--max-tokens", "0"], "max_tokens is 0"),
        (["--claims", "quick"], "no claim quick; choose among nondeterministic"),
        (["--arithmetic", "splits=8"], "leaves out k_step"),
        (["--arithmetic", "k_step=x"], "'k_step=x'; write k_step=N"),
        (["--arithmetic", "k_step=16,rounding=up"], "rounding is 'up'"),
        (["--budget", "tiny"], "'tiny' is not one of"),
        (["--case", "normal"], "a case id reads family="),
    ],
)
def test_wrong_use_is_told_in_one_line(words, told):
    result = run(*words, shape=[])
    message = getattr(result.exception, "message", None) or str(result.exception)
    assert told in message
    assert "\n" not in message


def test_result_that_cannot_be_written_is_told_in_one_line(tmp_path):
    (tmp_path / "file").write_text("")
    words = ["--candidate", "tests.mutants.honest:plain", "--case", a_small_case()]
    result = run(*words, "--json", str(tmp_path / "file" / "result.json"))
    assert isinstance(result.exception, UserError)
    assert "cannot be written" in str(result.exception)
    assert "layer" not in result.output, "told before anything is run"


def test_module_that_exits_when_imported_is_wrong_use_not_a_pass(tmp_path, monkeypatch):
    (tmp_path / "exits_at_import.py").write_text("import sys; sys.exit(0)")
    monkeypatch.chdir(tmp_path)
    result = run("--candidate", "exits_at_import:fn")
    assert isinstance(result.exception, UserError)
    assert "SystemExit: 0" in str(result.exception)


def test_folder_with_a_kernel_package_of_its_own(tmp_path):
    (tmp_path / "kernel").mkdir()
    (tmp_path / "kernel" / "__init__.py").write_text("def mine(*args, **kwargs): pass")
    arguments = [*SHAPE, "--fail-fast", "--max-tokens", "1"]
    script = f"import sys; sys.path.append({str(ROOT)!r}); from verify.__main__ import main; main()"

    def ended(*words):
        return subprocess.run(
            [sys.executable, "-P", "-c", script, "kernel", *arguments, *words],
            cwd=tmp_path,
            env={**os.environ, "PYTHONPATH": str(ROOT)},
            capture_output=True,
            text=True,
            check=False,
        )

    assert ended("--candidate", "kernel:chain").returncode == 0
    own = ended("--candidate", "kernel:mine")
    assert own.returncode == 1
    replay = next(line for line in own.stdout.splitlines() if "--case" in line)
    assert replay.strip().startswith("kernelproof kernel --candidate kernel:mine")


def a_finding():
    return Finding("family=normal", "interval", 1, "off", None, "")


def a_small_case():
    from verify import cases

    spec = cases.KernelSpec(1, 32, 32, head_dim=32, rope_dim=8, max_tokens=2)
    return cases.grid(spec, "quick")[0].id


@pytest.mark.parametrize(
    ("executed", "findings", "verdict"),
    [(0, 0, "invalid"), (9, 0, "invalid"), (10, 0, "pass"), (10, 1, "fail"), (3, 1, "fail")],
)
def test_nothing_is_a_pass_unless_every_case_was_executed(executed, findings, verdict):
    tally = kernel.Tally(planned=10, executed=executed, findings=[a_finding()] * findings)
    assert tally.verdict == verdict


def test_layer_that_could_not_judge_every_case_is_no_pass():
    tally = kernel.Tally(planned=10, executed=10, judged=Counter({1: 10, 2: 9}))
    assert [tally.layer(1), tally.layer(2)] == ["pass", "invalid"]
    assert kernel.Tally(planned=0).layer(1) == "invalid"
