from __future__ import annotations

import json
import os
import stat

import pytest
import torch
from click.testing import CliRunner

from verify.bench import command, sanitize
from verify.bench.sanitize import TOOLS, Looked, looked, read, verdict
from verify.bench.sanitized import CONTROL, PROBE, PROBES, Control, Job, Probe
from verify.verdict import Verdict

JOB = Job("m:f", (2, 1024, 4096), 512, 64, [1])

# As compute-sanitizer 2025.3 writes.
CLEAN = """========= COMPUTE-SANITIZER
========= ERROR SUMMARY: 0 errors
"""
NO_HAZARD = """========= COMPUTE-SANITIZER
========= RACECHECK SUMMARY: 0 hazards displayed (0 errors, 0 warnings)
"""
OUT_OF_BOUNDS = """warming up
========= COMPUTE-SANITIZER
========= Invalid __global__ read of size 16 bytes
=========     at wo_a_8+0x3d0
=========     by thread (0,0,0) in block (3,0,0)
=========     Access to 0x7f20d2e00400 is out of bounds
=========     and is 1 bytes after the nearest allocation at 0x7f20d2e00000 of size 1024 bytes
=========         Host Frame: main [0x1] in python
=========
========= Invalid __global__ read of size 16 bytes
=========     at wo_a_8+0x3e0
=========
========= ERROR SUMMARY: 2 errors
"""
HAZARDS = """========= COMPUTE-SANITIZER
========= Error: Race reported between Write access at hurries+0x1a0
=========     and Read access at hurries+0x1b0 [128 hazards]
=========
========= RACECHECK SUMMARY: 1 hazard displayed (1 error, 0 warnings)
"""
DIVERGED = """========= COMPUTE-SANITIZER
========= Barrier error detected. Divergent thread(s) in warp
=========     at diverges+0x40
=========     by thread (0,0,0) in block (0,0,0)
=========
========= ERROR SUMMARY: 16 errors
"""
UNSUPPORTED = """========= COMPUTE-SANITIZER
========= Error: Device not supported. Please refer to the "Supported Devices" section
========= Target application terminated before first instrumented API call
"""


@pytest.mark.parametrize(
    ("output", "errors", "first"),
    [
        (CLEAN, 0, ""),
        (NO_HAZARD, 0, ""),
        (OUT_OF_BOUNDS, 2, "Invalid __global__ read of size 16 bytes, at wo_a_8+0x3d0"),
        (
            HAZARDS,
            1,
            "Error: Race reported between Write access at hurries+0x1a0, and Read access",
        ),
        (DIVERGED, 16, "Barrier error detected. Divergent thread(s) in warp, at diverges+0x40"),
        (OUT_OF_BOUNDS.replace("\n", "\r\n"), 2, "Invalid __global__ read of size 16 bytes"),
        (UNSUPPORTED, None, "Target application terminated before first instrumented API call"),
        ("", None, "it printed nothing"),
        ("Traceback\nNameError: x\n", None, "NameError: x"),
    ],
)
def test_what_a_tool_prints_is_read(output, errors, first):
    found = read(output)
    assert found.errors == errors
    assert found.first.startswith(first)


def answering(candidate, probe, code=0, control=CLEAN):
    """A runner that prints one thing for the candidate, others for planted fault and control."""

    def run(_, job):
        if isinstance(job, Control):
            return 0, control
        return (0, probe) if isinstance(job, Probe) else (code, candidate)

    return run


@pytest.mark.parametrize(
    ("candidate", "probe", "code", "status"),
    [
        (CLEAN, OUT_OF_BOUNDS, 0, "clean"),
        (CLEAN, CLEAN, 0, "not observable"),
        (CLEAN, UNSUPPORTED, 0, "not run"),
        (OUT_OF_BOUNDS, CLEAN, 0, "errors"),
        (OUT_OF_BOUNDS, CLEAN, 1, "errors"),
        (CLEAN + "T=9: wrong: out has 3 elements\n", OUT_OF_BOUNDS, 3, "not run"),
        (UNSUPPORTED, OUT_OF_BOUNDS, 1, "not run"),
        ("stopped after 180 s", OUT_OF_BOUNDS, 124, "not run"),
    ],
)
def test_silence_is_clean_only_where_the_planted_fault_is_noticed(candidate, probe, code, status):
    found = looked("memcheck", JOB, answering(candidate, probe, code), plain=False)
    assert found.status == status
    if code == 3:
        assert found.message == "T=9: wrong: out has 3 elements"


def test_an_accusation_falls_where_a_right_kernel_is_accused_too():
    found = looked("racecheck", JOB, answering(HAZARDS, HAZARDS, control=HAZARDS), plain=False)
    assert found.status == "not observable"
    assert found.message.startswith("accuses a kernel that is right too (Error: Race reported")


def test_without_bulk_copies_no_fault_is_planted():
    def run(_, job):
        assert isinstance(job, Job)
        return 0, CLEAN

    assert looked("initcheck", JOB, run, plain=True).status == "clean"


@pytest.mark.parametrize(
    ("statuses", "expected"),
    [
        (["clean"] * 4, Verdict.PASS),
        (["clean", "not observable"], Verdict.INCONCLUSIVE),
        (["not run", "not observable"], Verdict.INVALID),
        (["not run", "errors", "clean"], Verdict.FAIL),
    ],
)
def test_verdict_is_the_gravest(statuses, expected):
    assert verdict([Looked("memcheck", status, 0, "") for status in statuses]) is expected


def test_every_tool_has_a_planted_fault_in_the_source():
    assert set(PROBES) == set(TOOLS)
    source = PROBE.read_text()
    for kernel, _, _ in [*PROBES.values(), CONTROL]:
        assert f"__global__ void {kernel}(" in source


@pytest.fixture
def sanitizer(tmp_path, monkeypatch):
    """A compute-sanitizer that writes down how it was called and answers `answer`."""

    def make(answer=CLEAN, seconds=0):
        path = tmp_path / "compute-sanitizer"
        path.write_text(
            "#!/bin/sh\n"
            f'printf "%s\\n" "$PYTORCH_NO_CUDA_MEMORY_CACHING" "$@" >> {tmp_path}/calls\n'
            f"sleep {seconds}\ncat <<'END'\n{answer}END\n"
        )
        path.chmod(path.stat().st_mode | stat.S_IEXEC)
        monkeypatch.setenv("PATH", f"{tmp_path}{os.pathsep}{os.environ['PATH']}")
        monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
        monkeypatch.setattr(torch.cuda, "get_device_name", lambda _: "X")
        return tmp_path / "calls"

    return make


def run(*words):
    return CliRunner().invoke(command, ["sanitize", *map(str, words)], standalone_mode=False)


def test_each_tool_runs_in_its_own_process_with_the_caching_allocator_off(sanitizer, tmp_path):
    calls = sanitizer()
    found = run("--candidate", "kernel:chain", "--plain", "--json", tmp_path / "s.json")
    assert found.return_value == "pass"
    lines = calls.read_text().splitlines()
    assert [lines[i + 1] for i, line in enumerate(lines) if line == "--tool"] == list(TOOLS)
    assert lines.count("1") == 4
    assert all(json.loads(w)["candidate"] == "kernel:chain" for w in lines if w.startswith("{"))
    made = json.loads((tmp_path / "s.json").read_text())
    assert [tool["status"] for tool in made["tools"]] == ["clean"] * 4


def test_what_hangs_is_stopped(sanitizer):
    sanitizer(seconds=60)
    found = run("--candidate", "kernel:chain", "--tool", "synccheck", "--limit", "1")
    assert found.return_value == "invalid"
    assert "stopped after 1 s" in found.output


def test_without_the_tool_or_a_gpu_one_line_says_so(monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    assert "sanitize needs a CUDA GPU" in str(run().exception)
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(sanitize, "_PLACES", ())
    monkeypatch.setenv("PATH", "")
    monkeypatch.delenv("CUDA_HOME", raising=False)
    found = run()
    assert found.exception.exit_code == 2
    assert "compute-sanitizer is not installed" in str(found.exception)
