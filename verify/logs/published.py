"""Reads two published sets of answers: OpenAI's GSM8K solutions and reflexion's MBPP runs."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from verify.logs.source import Found, choose, objects, typed
from verify.logs.table import Builder, Choice, Row
from verify.logs.values import sha256

if TYPE_CHECKING:
    from pathlib import Path

GSM8K = "OpenAI's GSM8K model solutions"
REFLEXION = "reflexion run"
_CANNOT_TELL = frozenset({"error"})


class _Question(msgspec.Struct):
    question: str
    ground_truth: str


class _Solution(msgspec.Struct):
    is_correct: bool
    solution: str


class _Task(msgspec.Struct):
    name: str
    prompt: str
    test: str
    solution: str
    is_solved: bool


def read_gsm8k(path: Path, builder: Builder, choice: Choice) -> Found:  # noqa: ARG001 - readers share one signature
    """Add one model's answers, keyed by the hash of the question."""
    lines = list(objects(path))
    models = {key for _, raw in lines for key, value in raw.items() if isinstance(value, dict)}
    model = choose("arm", models, builder.arm, path)
    rows = []
    for line, raw in lines:
        question = typed(_Question, raw, path, line)
        solution = typed(_Solution, raw.get(model), path, line)
        rows.append(
            Row(
                item=sha256(question.question),
                correct=solution.is_correct,
                suite="gsm8k",
                arm=model,
                prompt_sha256=sha256(question.question),
                target_sha256=sha256(question.ground_truth),
                text=solution.solution,
            )
        )
    builder.extend(rows, [line for line, _ in lines])
    return Found({"model": model}, _CANNOT_TELL)


def read_reflexion(path: Path, builder: Builder, choice: Choice) -> Found:  # noqa: ARG001 - readers share one signature
    """Add one run's answers, keyed by the task's name."""
    rows, lines = [], []
    for line, raw in objects(path):
        task = typed(_Task, raw, path, line)
        rows.append(
            Row(
                item=task.name,
                correct=task.is_solved,
                suite="mbpp",
                prompt_sha256=sha256(task.prompt),
                target_sha256=sha256(task.test),
                text=task.solution,
            )
        )
        lines.append(line)
    builder.extend(rows, lines)
    return Found({}, _CANNOT_TELL)
