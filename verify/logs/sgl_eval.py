"""Reads sgl-eval run folders: `output-rs<repeat>.jsonl`, one a repeat, and `metrics.json`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec

from verify.logs.source import Found, document, flat, objects, typed
from verify.logs.table import Builder, Choice, Row, as_score, refuse, sha256

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


def read(path: Path, builder: Builder, choice: Choice) -> Found:  # noqa: ARG001 - readers share one signature
    """Add the records of a run folder, or of one repeat's file.

    Requests that failed (finish_reason "error"), which sgl-eval scores as wrong, become
    unanswered; a repeat that only copies another's answer, as sgl-eval pads unfinished repeats
    for its own average, is dropped.
    """
    folder = path if path.is_dir() else path.parent
    files = sorted(path.glob(OUTPUTS), key=_repeat) if path.is_dir() else [path]
    metrics = _metrics(folder)
    prompt = {"system": (metrics.get("gen") or {}).get("system_message")}
    prompt["template"] = (metrics.get("prompt") or {}).get("yaml")
    suite = str(metrics.get("name", "sgl-eval"))
    answered: set[tuple[str, float, float]] = set()
    counts = {"failed": 0, "padded": 0}
    for repeat, file in enumerate(files):
        ids: dict[str, int] = {}
        rows, lines = [], []
        for line, raw in objects(file):
            output = typed(_Output, raw, file, line)
            key = str(output.id)
            if key in ids:
                raise refuse(
                    file, line, f"id {key!r} stands already in line {ids[key]}; two runs wrote here"
                )
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
    return Found(_settings(metrics), notes=_notes(metrics, counts))


def _repeat(file: Path) -> tuple[int, str]:
    digits = file.stem.removeprefix("output-rs")
    return (int(digits) if digits.isdigit() else -1, digits)


def _metrics(folder: Path) -> dict[str, Any]:
    file = folder / "metrics.json"
    metrics = document(file) if file.is_file() else {}
    return metrics if isinstance(metrics, dict) else {}


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


def _settings(metrics: dict[str, Any]) -> dict[str, Setting]:
    generation = {k: v for k, v in (metrics.get("gen") or {}).items() if k != "system_message"}
    harness = {
        "name": NAME,
        "version": metrics.get("sgl_eval_version"),
        "scorer_commit": metrics.get("ns_commit_sha"),
    }
    return {
        **flat("model", metrics.get("model")),
        **flat("server", metrics.get("base_url")),
        **flat("harness", harness),
        **flat("sampling", generation),
        **flat("prompt.system", (metrics.get("gen") or {}).get("system_message")),
        **flat("prompt.template", (metrics.get("prompt") or {}).get("yaml")),
        **flat("load.threads", metrics.get("num_threads")),
    }


def _notes(metrics: dict[str, Any], counts: dict[str, int]) -> tuple[str, ...]:
    notes = []
    if not metrics:
        notes.append("no metrics.json: the run was not finished, its settings are unknown")
    if metrics.get("partial"):
        notes.append(
            f"the run was stopped after {metrics.get('completed_samples')} answers; "
            "sgl-eval's own averages pad the missing repeats"
        )
    if counts["failed"]:
        notes.append(
            f"{counts['failed']} failed requests, scored wrong by sgl-eval, are unanswered"
        )
    if counts["padded"]:
        notes.append(f"{counts['padded']} answers copied from another repeat are dropped")
    return tuple(notes)
