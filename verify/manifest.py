"""What a run was made with: versions, machine, source, suites, arms."""

from __future__ import annotations

import hashlib
import os
import platform
import shlex
import subprocess
import sys
from datetime import UTC, datetime
from importlib import metadata
from typing import TYPE_CHECKING, Any

from verify.command import ROOT
from verify.stats.sizes import detectable_margin, least_margin
from verify.stats.tango import detectable_difference

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    from verify.task import Task

# What two runs of one server on GSM8K may disagree on; stated beside the figure.
_FLIPS = 0.02
PACKAGES = (
    "kernelproof",
    "torch",
    "triton",
    "numpy",
    "scipy",
    "aiohttp",
    "datasets",
    "math-verify",
    "msgspec",
    "ray",
)


def now() -> str:
    """The time in UTC, to the second."""
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def environment() -> dict[str, Any]:
    """Versions, platform, processors, and the commit of kernelproof's own checkout if any."""
    return {
        "versions": {
            "python": platform.python_version(),
            **{name: found for name in PACKAGES if (found := _version(name))},
        },
        "platform": platform.platform(),
        "cpus": os.cpu_count(),
        "gpus": _gpus(),
        "git": _git(),
    }


def command_line(program: str) -> list[str]:
    """The command as it can be given again."""
    if program.startswith("kernelproof"):
        return [*program.split(), *sys.argv[1:]]
    return ["python", "-m", program, *sys.argv[1:]]


def go_on_with(program: str, folder: Path) -> str:
    """The command that goes on with a run of ours that is interrupted, for a shell."""
    words = command_line(program)
    named = any(word == "--out" or word.startswith("--out=") for word in words)
    return shlex.join(words if named else [*words, "--out", str(folder)])


def suite(task: Task) -> dict[str, Any]:
    """A suite as it was asked: pins, prompt, sampling, examples, items, margin."""
    spec, questions = task.suite.spec, task.questions
    return {
        "title": spec.title,
        "licence": spec.licence,
        "redact": spec.redact,
        "margin_pt": task.margin_pt,
        "margin_from": task.margin_from,
        "detectable_pt": _detectable(len(task.items), len(task.orders)),
        "floor": spec.floor,
        "source": questions.source,
        "data_sha256": questions.sha256,
        "data_pinned": questions.pinned,
        "suite_sha256": task.suite.sha256,
        "prompt_style": spec.prompt.style,
        "prompt_template": spec.prompt.template,
        "sampling": {
            "temperature": spec.sampling.temperature,
            "max_tokens": spec.sampling.max_tokens,
            "stop": list(spec.sampling.stop),
        },
        "shots": [{"row": shot.row + 1, "item": shot.id} for shot in questions.shots],
        "shots_note": (
            f"rows {questions.shots[0].row + 1} to {questions.shots[-1].row + 1} of the source are "
            "the worked examples of every prompt, and are not scored"
            if questions.shots
            else "none"
        ),
        "items_in_suite": len(questions.items),
        "items_asked": len(task.items),
        "prompts_sha256": _together(item.prompt_sha256 for item in task.items),
        "targets_sha256": _together(item.target_sha256 for item in task.items),
        "items": [item.id for item in task.items],
        "orders": task.orders,
    }


def _detectable(items: int, repeats: int) -> dict[str, float]:
    """Before the run: the loss it rules out in four of five cases if the arms are equal."""
    some = (
        detectable_difference(items, _FLIPS)
        if repeats == 1
        else detectable_margin(items, (repeats, repeats), _FLIPS)
    )
    return {
        "if no answer flips": round(100 * least_margin(items), 3),
        f"if {100 * _FLIPS:g} % of answers flip": round(100 * some, 3),
    }


def _together(hashes: Iterable[str]) -> str:
    """One hash of many, in their order."""
    return hashlib.sha256("".join(hashes).encode()).hexdigest()


def _version(package: str) -> str | None:
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return None


def _gpus() -> list[str] | None:
    """Name, driver and memory of each GPU of this machine, as nvidia-smi lists them."""
    query = "--query-gpu=name,driver_version,memory.total"
    try:
        done = subprocess.run(  # noqa: S603 - our own words
            ["nvidia-smi", query, "--format=csv,noheader"],  # noqa: S607 - as the user has it
            capture_output=True,
            text=True,
            check=True,
            timeout=20,
        )
    except (OSError, subprocess.SubprocessError):
        return None
    return done.stdout.splitlines()


def _git() -> dict[str, Any] | None:
    if not (ROOT / ".git").exists():
        return None
    try:
        commit = _git_says("rev-parse", "HEAD")
        return {"commit": commit, "dirty": bool(_git_says("status", "--porcelain"))}
    except (OSError, subprocess.SubprocessError):
        return None


def _git_says(*words: str) -> str:
    done = subprocess.run(  # noqa: S603 - git and our own words
        ["git", "-C", str(ROOT), *words],  # noqa: S607 - git as the user has it
        capture_output=True,
        text=True,
        check=True,
        timeout=10,
    )
    return done.stdout.strip()
