"""Reads sgl-eval run folders: `output-rs<repeat>.jsonl`, one a repeat, and `metrics.json`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec

from verify.logs.source import Found, document, flat, objects, typed
from verify.logs.table import Builder, Choice, Row
from verify.logs.values import as_score, refuse, sha256, shown

if TYPE_CHECKING:
    from pathlib import Path

    from verify.logs.source import Setting

NAME = "sgl-eval"
OUTPUTS = "output-rs*.jsonl"


class _Output(msgspec.Struct):
    id: str | int
    expected_answer: Any
    generation: str | None
    finish_reason: str | None
    problem: Any = None
    predicted_answer: Any = None
    num_generated_tokens: int | None = None
    generation_start_time: float | None = None
    generation_end_time: float | None = None
    symbolic_correct: bool | None = None
    is_correct: float | None = None  # its long-context suites, which give partial credit


class _Prompt(msgspec.Struct):
    yaml: Any = None


class _Metrics(msgspec.Struct):
    name: str | None = None
    model: Any = None
    base_url: Any = None
    gen: dict[str, Any] | None = None
    prompt: _Prompt | None = None
    num_threads: Any = None
    sgl_eval_version: Any = None
    ns_commit_sha: Any = None
    partial: Any = None
    completed_samples: int | None = None


def read(path: Path, builder: Builder, choice: Choice) -> Found:  # noqa: ARG001 - readers share one signature
    """Add the records of a run folder, or of one repeat's file.

    Requests that failed (finish_reason "error"), which sgl-eval scores as wrong, become
    unanswered; a repeat that only copies another's answer, as sgl-eval pads unfinished repeats
    for its own average, is dropped.
    """
    folder = path if path.is_dir() else path.parent
    files = sorted(path.glob(OUTPUTS), key=_repeat) if path.is_dir() else [path]
    metrics = _metrics(folder)
    known = metrics or _Metrics()
    prompt = {
        "system": (known.gen or {}).get("system_message"),
        "template": known.prompt.yaml if known.prompt else None,
    }
    suite = known.name or "sgl-eval"
    answered: set[tuple[str, float, float]] = set()
    counts = {"failed": 0, "padded": 0}
    for repeat, file in enumerate(files):
        ids: dict[str, int] = {}
        rows, lines = [], []
        for line, raw in objects(file):
            output = typed(_Output, raw, file, line)
            key = str(output.id)
            if key in ids:
                problem = f"id {shown(key)} stands already in line {ids[key]}; two runs wrote here"
                raise refuse(file, line, problem)
            ids[key] = line
            if _padding(output, answered):
                counts["padded"] += 1
                continue
            counts["failed"] += output.finish_reason == "error"
            row = _row(output, file, line)
            row.suite, row.repeat = suite, repeat
            row.prompt_sha256 = sha256([prompt, output.problem])
            rows.append(row)
            lines.append(line)
        builder.extend(rows, lines)
    return Found(_settings(known, prompt), notes=_notes(metrics, counts))


def _repeat(file: Path) -> tuple[int, str]:
    digits = file.stem.removeprefix("output-rs")
    return (int(digits) if digits.isdigit() else -1, digits)


def _metrics(folder: Path) -> _Metrics | None:
    """What sgl-eval writes at the end of a run; None where it did not come to that."""
    file = folder / "metrics.json"
    return typed(_Metrics, document(file), file, None) if file.is_file() else None


def _padding(output: _Output, answered: set[tuple[str, float, float]]) -> bool:
    """Whether this very request, to the microsecond, stands in an earlier repeat."""
    start, end = output.generation_start_time, output.generation_end_time
    if start is None or end is None:
        return False
    request = (str(output.id), start, end)
    if request in answered:
        return True
    answered.add(request)
    return False


def _row(output: _Output, file: Path, line: int) -> Row:
    failed = output.finish_reason == "error"
    score = output.symbolic_correct if output.is_correct is None else output.is_correct
    try:
        correct = None if failed else as_score(score)
    except ValueError as error:
        raise refuse(file, line, f"symbolic_correct: {error}") from None
    return Row(
        item=output.id,
        correct=correct,
        truncated=output.finish_reason == "length" if output.finish_reason else None,
        error="the request failed (finish_reason error)" if failed else None,
        target_sha256=sha256(output.expected_answer),
        # sgl-eval writes 0 where the server reported nothing
        completion_tokens=output.num_generated_tokens or None,
        text=output.generation,
        answer=None if output.predicted_answer is None else str(output.predicted_answer),
        rule="sgl-eval",
    )


def _settings(metrics: _Metrics, prompt: dict[str, Any]) -> dict[str, Setting]:
    generation = {k: v for k, v in (metrics.gen or {}).items() if k != "system_message"}
    harness = {
        "name": NAME,
        "version": metrics.sgl_eval_version,
        "scorer_commit": metrics.ns_commit_sha,
    }
    return {
        **flat("model", metrics.model),
        **flat("server", metrics.base_url),
        **flat("harness", harness),
        **flat("sampling", generation),
        **flat("prompt", prompt),
        **flat("load.threads", metrics.num_threads),
    }


def _notes(metrics: _Metrics | None, counts: dict[str, int]) -> tuple[str, ...]:
    notes = []
    if metrics is None:
        notes.append("no metrics.json: the run was not finished, its settings are unknown")
    elif metrics.partial:
        notes.append(
            f"the run was stopped after {metrics.completed_samples} answers; "
            "sgl-eval's own averages pad the missing repeats"
        )
    if counts["failed"]:
        notes.append(
            f"{counts['failed']} failed requests, scored wrong by sgl-eval, are unanswered"
        )
    if counts["padded"]:
        notes.append(f"{counts['padded']} answers copied from another repeat are dropped")
    return tuple(notes)
