"""The four tools of compute-sanitizer: run, and their words read.

A tool's silence counts as `clean` only if it notices a planted fault, planted where it can be in a
bulk copy; if it does not, its answer about a kernel that works by bulk copies is `not observable`.
"""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import msgspec

from verify.bench.sanitized import Control, Job, Probe
from verify.command import ROOT, UserError
from verify.verdict import Verdict

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

Tool = Literal["memcheck", "racecheck", "synccheck", "initcheck"]
TOOLS: tuple[Tool, ...] = ("memcheck", "racecheck", "synccheck", "initcheck")
Status = Literal["clean", "errors", "not observable", "not run"]

_SUMMARY = re.compile(
    r"^=+ (?:ERROR SUMMARY: (?P<errors>\d+) errors?"
    r"|RACECHECK SUMMARY: (?P<hazards>\d+) hazards? displayed)",
    re.MULTILINE,
)
_BLOCK = re.compile(r"^=+ (?! )(?P<title>\S.*)\n(?P<more>(?:=+ {2,}.*\n)*)", re.MULTILINE)
_PLACE = re.compile(r"^=+ +(?P<place>(?:at|and|by) .*)$", re.MULTILINE)
_NO_FINDING = re.compile(
    r"COMPUTE-SANITIZER|ERROR SUMMARY|RACECHECK SUMMARY|Program hit|Target app"
)
_PLACES = ("/usr/local/cuda/bin", "/opt/cuda/bin")


@dataclass(frozen=True)
class Said:
    """What a tool printed.

    Attributes:
        errors: it counted; None if it came to no summary.
        first: the first of them, in one line; or why there is no summary.
    """

    errors: int | None
    first: str = ""


@dataclass(frozen=True)
class Looked:
    """One tool's answer about a candidate."""

    tool: Tool
    status: Status
    errors: int | None
    message: str


def read(output: str) -> Said:
    """The summary and the first error of a tool's output."""
    found = _SUMMARY.search(output)
    if found is None:
        lines = [line.strip("= ") for line in output.splitlines() if line.strip("= ")]
        return Said(None, lines[-1][:200] if lines else "it printed nothing")
    errors = int(found["errors"] or found["hazards"] or 0)
    return Said(errors, _first(output) if errors else "")


def _first(output: str) -> str:
    for block in _BLOCK.finditer(output):
        if not _NO_FINDING.search(block["title"]):
            place = _PLACE.search(block["more"])
            return block["title"].strip() + (f", {place['place'].strip()}" if place else "")
    return ""


def looked(
    tool: Tool,
    job: Job,
    run: Callable[[Tool, Job | Probe | Control], tuple[int, str]],
    *,
    plain: bool,
) -> Looked:
    """Run one tool on the candidate, and where its answer has to be weighed on a planted fault.

    An accusation stands unless the same tool accuses a bulk copy that is right as well.
    """
    code, output = run(tool, job)
    said = read(output)
    if said.errors:
        return _accused(tool, said, None if plain else read(run(tool, Control())[1]))
    if said.errors is None or code:
        why = said.first if said.errors is None else _last(output)
        return Looked(tool, "not run", said.errors, why)
    return _silent(tool, None if plain else read(run(tool, Probe(tool))[1]))


def _accused(tool: Tool, said: Said, of_a_right_one: Said | None) -> Looked:
    if of_a_right_one is not None and of_a_right_one.errors:
        why = f"accuses a kernel that is right too ({of_a_right_one.first}); here: {said.first}"
        return Looked(tool, "not observable", said.errors, why)
    return Looked(tool, "errors", said.errors, said.first)


def _silent(tool: Tool, of_the_fault: Said | None) -> Looked:
    if of_the_fault is None:
        return Looked(tool, "clean", 0, "")
    if of_the_fault.errors is None:
        return Looked(tool, "not run", None, f"its planted fault: {of_the_fault.first}")
    if of_the_fault.errors == 0:
        return Looked(tool, "not observable", 0, "silent, and silent about the planted fault too")
    return Looked(tool, "clean", 0, f"notices the planted fault: {of_the_fault.first}")


def _last(output: str) -> str:
    lines = [line for line in output.splitlines() if line and not line.startswith("=====")]
    return lines[-1][:200] if lines else "the candidate's process failed"


def verdict(all_looked: Sequence[Looked]) -> Verdict:
    """Fail on an error, invalid if a tool did not run, inconclusive if one cannot see."""
    by_status: dict[Status, Verdict] = {
        "errors": Verdict.FAIL,
        "not run": Verdict.INVALID,
        "not observable": Verdict.INCONCLUSIVE,
    }
    present = {each.status for each in all_looked}
    return next((v for status, v in by_status.items() if status in present), Verdict.PASS)


def program() -> str:
    """Where compute-sanitizer is.

    Raises:
        UserError: nowhere.
    """
    beside = [str(Path(os.environ["CUDA_HOME"]) / "bin")] if "CUDA_HOME" in os.environ else []
    places = os.pathsep.join([os.environ.get("PATH", ""), *beside, *_PLACES])
    found = shutil.which("compute-sanitizer", path=places)
    if found is None:
        raise UserError("compute-sanitizer is not installed; it comes with the CUDA toolkit")
    return found


def runner(
    sanitizer: str, limit_s: float
) -> Callable[[Tool, Job | Probe | Control], tuple[int, str]]:
    """Runs jobs in processes of their own, torch's caching allocator off."""

    def run(tool: Tool, job: Job | Probe | Control) -> tuple[int, str]:
        command = [sanitizer, "--tool", tool, "--report-api-errors", "no"]
        command += [
            sys.executable,
            "-m",
            "verify.bench.sanitized",
            msgspec.json.encode(job).decode(),
        ]
        path = os.pathsep.join(filter(None, (str(ROOT), os.environ.get("PYTHONPATH"))))
        environment = os.environ | {"PYTORCH_NO_CUDA_MEMORY_CACHING": "1", "PYTHONPATH": path}
        process = subprocess.Popen(  # noqa: S603 - our own words and a path that the user named
            command,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
            env=environment,
            start_new_session=True,  # the tool and what it runs can then be ended together
        )
        try:
            output, _ = process.communicate(timeout=limit_s)
        except subprocess.TimeoutExpired:
            return 124, f"stopped after {limit_s:g} s: it hangs, or takes longer than --limit"
        finally:
            _end(process)
        return process.returncode, output

    return run


def _end(process: subprocess.Popen[str]) -> None:
    """End what is left of a process and of those it started."""
    if process.poll() is None:
        os.killpg(process.pid, signal.SIGKILL)
        process.communicate()
