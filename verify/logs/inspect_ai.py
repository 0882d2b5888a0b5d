"""Reads inspect_ai's logs: `.eval`, a zip of one JSON file a sample, and `.json`."""

from __future__ import annotations

import importlib
import lzma
import math
import struct
import sys
import zlib
from typing import TYPE_CHECKING, Annotated, Any, TypeVar

import msgspec

from verify.logs.source import Found, choose, document, flat, parse, typed
from verify.logs.table import Builder, Choice, Row
from verify.logs.values import as_score, refuse, sha256, shown
from verify.verdict import WRONG_USE

if TYPE_CHECKING:
    from pathlib import Path

    from verify.logs.source import Setting

NAME = "inspect_ai"
T = TypeVar("T")
_LARGEST = 1 << 28  # bytes of one sample
# Options of generation that change how fast a server is asked, not what.
_LOAD = ("max_connections", "max_retries", "timeout", "attempt_timeout", "adaptive_connections")


class _Dataset(msgspec.Struct):
    name: str | None = None
    sample_ids: list[str | int] | None = None


class _Config(msgspec.Struct):
    # As many rows as it plans are made of a run that ended early.
    epochs: Annotated[int, msgspec.Meta(ge=1, le=10_000)] | None = None


class _Step(msgspec.Struct):
    solver: Any = None
    params: Any = None


class _Plan(msgspec.Struct):
    steps: list[_Step] | None = None
    config: dict[str, Any] | None = None


class _Eval(msgspec.Struct):
    task: str
    model: str
    dataset: _Dataset
    config: _Config = msgspec.field(default_factory=_Config)
    task_version: Any = None
    task_args: Any = None
    model_base_url: str | None = None
    model_generate_config: dict[str, Any] = {}
    packages: dict[str, Any] = {}


class _Header(msgspec.Struct):
    eval: _Eval
    status: str = "started"
    plan: _Plan = msgspec.field(default_factory=_Plan)
    samples: list[Any] | None = None


class _Score(msgspec.Struct):
    value: Any
    answer: str | None = None


class _Choice(msgspec.Struct):
    message: dict[str, Any] = {}
    stop_reason: str | None = None


class _Output(msgspec.Struct):
    choices: list[_Choice] = []
    usage: dict[str, Any] | None = None


class _Sample(msgspec.Struct):
    id: str | int
    epoch: int
    input: Any
    target: Any
    choices: Any = None
    output: _Output = msgspec.field(default_factory=_Output)
    scores: dict[str, _Score] | None = None
    error: dict[str, Any] | None = None
    limit: dict[str, Any] | None = None


def read(path: Path, builder: Builder, choice: Choice) -> Found:
    """Add a record for every sample the run planned, keyed by its id; an epoch is a repeat.

    Samples that failed, that a scorer left unscored (NaN), or that an unfinished run never
    reached are unanswered: inspect_ai leaves them out of its denominator.
    """
    header, samples = _zip(path) if is_zip(path) else _json(path)
    scorer = _scorer(samples, choice, path)
    builder.unit = "sample"
    rows = [_row(sample, scorer, path) for sample in samples]
    failed = sum(row.correct is None for row in rows)
    missing = _missing(header, rows)
    rows += missing
    for row in rows:
        row.suite = header.eval.task
    builder.extend(rows, range(1, len(rows) + 1))
    notes = []
    if header.status != "success":
        notes.append(f"the run ended with status {shown(header.status)}")
    if failed + len(missing):
        notes.append(
            f"{failed} failed and {len(missing)} missing samples, left out by inspect_ai, "
            "are unanswered"
        )
    return Found(_settings(header), notes=tuple(notes))


def is_zip(path: Path) -> bool:
    """Whether the file begins as a zip archive does."""
    with path.open("rb") as file:
        return file.read(4) == b"PK\x03\x04"


def _json(path: Path) -> tuple[_Header, list[_Sample]]:
    raw = document(path)
    header = typed(_Header, raw, path, None)
    return header, [
        typed(_Sample, sample, path / f"samples[{i}]", None)
        for i, sample in enumerate(header.samples or [])
    ]


def _zip(path: Path) -> tuple[_Header, list[_Sample]]:
    zipfile, damage = _zipfile()
    try:
        with zipfile.ZipFile(path) as archive:
            names = archive.namelist()
            # A run that was killed has its journal only.
            found = [n for n in ("header.json", "_journal/start.json") if n in names]
            if not found:
                raise refuse(path, None, "a zip without header.json, so no log of inspect_ai's")
            header = _member(archive, found[0], _Header, path)
            samples = sorted(n for n in names if n.startswith("samples/") and n.endswith(".json"))
            return header, [_member(archive, name, _Sample, path) for name in samples]
    except NotImplementedError as error:
        raise refuse(
            path,
            None,
            f"is compressed in a way not read here ({error}); for zstandard, which Python reads "
            "from 3.14 on, install kernelproof[evals]",
            WRONG_USE,
        ) from None
    except damage as error:
        raise refuse(
            path, None, f"is a damaged zip ({str(error)[:200]}); copy the log again"
        ) from None


def _member(archive: Any, name: str, kind: type[T], path: Path) -> T:
    size = archive.getinfo(name).file_size
    if size > _LARGEST:
        problem = f"unpacks to {size / 1e6:,.0f} MB, too much for one sample; is this a log?"
        raise refuse(path / name, None, problem)
    return typed(kind, parse(archive.read(name), path / name), path / name, None)


def _zipfile() -> tuple[Any, tuple[type[Exception], ...]]:
    """The zipfile module that knows zstandard, if there is one, and what it raises on damage."""
    damage = (EOFError, OverflowError, RuntimeError, ValueError, struct.error, zlib.error)
    old = sys.version_info < (3, 14)
    module, codec = (
        ("backports.zstd.zipfile", "backports.zstd") if old else ("", "compression.zstd")
    )
    try:
        zstd: Any = importlib.import_module(codec)
        zipfile: Any = importlib.import_module(module or "zipfile")
    except ImportError:
        zipfile = importlib.import_module("zipfile")
        return zipfile, (*damage, zipfile.BadZipFile, lzma.LZMAError)
    return zipfile, (*damage, zipfile.BadZipFile, lzma.LZMAError, zstd.ZstdError)


def _scorer(samples: list[_Sample], choice: Choice, path: Path) -> str:
    """The scorer to take, or `scorer/key` where its value is a dictionary."""
    held = set()
    for sample in samples:
        for name, score in (sample.scores or {}).items():
            keys = score.value if isinstance(score.value, dict) else None
            if keys is not None:
                held |= {f"{name}/{key}" for key in keys}
            elif not _is_nan(score.value):
                held.add(name)
    if not held:
        failed = next((s.error.get("message") for s in samples if s.error), None)
        why = f"every sample failed ({failed})" if failed else "run `inspect score` on it first"
        raise refuse(path, None, f"no sample was scored; {why}")
    return choose("metric", held, choice.metric, path)


def _is_nan(value: Any) -> bool:
    """Whether a scorer left the sample unscored, which inspect_ai writes as NaN."""
    return isinstance(value, float) and math.isnan(value)


def _value(sample: _Sample, scorer: str) -> Any:
    """The sample's score, or None where it has none."""
    scores = sample.scores or {}
    if scorer in scores:
        return scores[scorer].value
    name, _, key = scorer.rpartition("/")
    value = scores[name].value if name in scores else None
    return value.get(key) if isinstance(value, dict) else None


def _row(sample: _Sample, scorer: str, path: Path) -> Row:
    value = _value(sample, scorer)
    error = None
    if sample.error is not None:
        error = str(sample.error.get("message") or "the sample failed")
    elif value is None or _is_nan(value):
        error = "not scored"
    try:
        correct = None if error else as_score(value)
    except ValueError as problem:
        raise refuse(path, None, f"sample {shown(sample.id)}, {scorer}: {problem}") from None
    first = sample.output.choices[0] if sample.output.choices else _Choice()
    tokens = (sample.output.usage or {}).get("output_tokens")
    score = (sample.scores or {}).get(scorer.partition("/")[0])
    return Row(
        item=sample.id,
        correct=correct,
        repeat=max(sample.epoch - 1, 0),
        truncated=_truncated(sample, first),
        error=error,
        prompt_sha256=sha256([_content(sample.input), sample.choices]),
        target_sha256=sha256(sample.target),
        completion_tokens=tokens if isinstance(tokens, int) else None,
        text=_text(first.message.get("content")),
        answer=score.answer if score else None,
        rule=scorer,
    )


def _truncated(sample: _Sample, first: _Choice) -> bool | None:
    """Cut by the output cap, the context, or one of inspect_ai's limits on a whole sample."""
    if sample.limit is not None:
        return True
    if first.stop_reason in (None, "unknown"):
        return None
    return first.stop_reason in ("max_tokens", "model_length")


def _content(value: Any) -> Any:
    """Roles and contents of a conversation, without the ids that differ between runs."""
    if not isinstance(value, list):
        return value
    return [(m.get("role"), m.get("content")) if isinstance(m, dict) else m for m in value]


def _text(content: Any) -> str | None:
    """The text of an answer, which may come in parts."""
    if isinstance(content, list):
        return "".join(str(p.get("text", "")) for p in content if isinstance(p, dict))
    return content if isinstance(content, str) else None


def _missing(header: _Header, rows: list[Row]) -> list[Row]:
    """An unanswered row for each sample the run planned and its log lacks."""
    epochs = header.eval.config.epochs or 1
    there = {(str(row.item), row.repeat) for row in rows}
    return [
        Row(item=item, correct=None, repeat=repeat, error="not in the log")
        for item in header.eval.dataset.sample_ids or []
        for repeat in range(epochs)
        if (str(item), repeat) not in there
    ]


def _settings(header: _Header) -> dict[str, Setting]:
    run = header.eval
    generation = run.model_generate_config | (header.plan.config or {})
    load = {name: generation.pop(name) for name in _LOAD if name in generation}
    return {
        **flat("model", run.model),
        **flat("server", run.model_base_url),
        **flat("harness", {"name": NAME, "version": run.packages.get("inspect_ai")}),
        **flat("task", {"version": run.task_version, "arguments": run.task_args}),
        **flat("sampling", generation),
        **flat("load", load),
        **flat("prompt.solvers", [[s.solver, s.params] for s in header.plan.steps or []]),
    }
