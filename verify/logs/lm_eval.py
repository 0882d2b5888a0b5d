"""Reads lm-evaluation-harness's `samples_<task>_<time>.jsonl`: one row per document and filter."""

from __future__ import annotations

import re
from collections import defaultdict
from typing import TYPE_CHECKING, Any

import msgspec

from verify.logs.source import Found, choose, document, flat, objects, typed
from verify.logs.table import Builder, Choice, Row
from verify.logs.values import as_score, refuse

if TYPE_CHECKING:
    from pathlib import Path

    from verify.logs.source import Setting

NAME = "lm-evaluation-harness"
_FILE = re.compile(r"samples_(?P<task>.+)_(?P<time>\d{4}-\d\d-\d\dT[^_]+)\.jsonl")


class _Sample(msgspec.Struct):
    doc_id: int
    doc_hash: str
    prompt_hash: str
    target_hash: str
    filter: str
    metrics: list[str]
    resps: list[Any] = []
    filtered_resps: list[Any] = []


class _Run(msgspec.Struct):
    model_args: dict[str, Any] | str | None = None
    gen_kwargs: dict[str, Any] | str | None = None
    fewshot_seed: Any = None


class _Task(msgspec.Struct):
    generation_kwargs: dict[str, Any] | None = None
    num_fewshot: Any = None
    doc_to_text: Any = None
    description: Any = None


class _Results(msgspec.Struct):
    config: _Run | None = None
    configs: dict[str, _Task] | None = None
    versions: dict[str, Any] | None = None
    model_name: Any = None
    lm_eval_version: Any = None
    chat_template_sha: Any = None
    system_instruction_sha: Any = None


def read(path: Path, builder: Builder, choice: Choice) -> Found:
    """Add the records of one filter and metric, keyed by the document's hash.

    The log has no place for truncation, token counts or failed requests (a run that has one
    ends without a log).
    """
    samples = [(line, typed(_Sample, raw, path, line), raw) for line, raw in objects(path)]
    chosen = choose("filter", (s.filter for _, s, _ in samples), choice.filter, path)
    samples = [row for row in samples if row[1].filter == chosen]
    metric = choose("metric", (m for _, s, _ in samples for m in s.metrics), choice.metric, path)
    match = _FILE.fullmatch(path.name)
    results = _results(path, match["time"]) if match else _Results()
    task = match["task"] if match else path.stem
    keys = _keys([sample for _, sample, _ in samples])
    rows = []
    for line, sample, raw in samples:
        if metric not in raw:
            raise refuse(path, line, f"no metric {metric!r}; did two tasks go into one file?")
        try:
            score = as_score(raw[metric])
        except ValueError as error:
            raise refuse(path, line, f"{metric}: {error}") from None
        rows.append(
            Row(
                item=keys[sample.doc_hash, sample.doc_id],
                correct=score,
                suite=task,
                prompt_sha256=sample.prompt_hash,
                target_sha256=sample.target_hash,
                text=_first_text(sample.resps),
                answer=_first_text(sample.filtered_resps),
                rule=f"{chosen}, {metric}",
            )
        )
    builder.extend(rows, [line for line, _, _ in samples])
    return Found(_settings(results, task), frozenset({"error"}))


def _keys(samples: list[_Sample]) -> dict[tuple[str, int], str]:
    """An item's key: the document's hash; where the benchmark repeats a document, numbered."""
    ids = defaultdict(set)
    for sample in samples:
        ids[sample.doc_hash].add(sample.doc_id)
    return {
        (doc, doc_id): doc if number == 1 else f"{doc}#{number}"
        for doc, doc_ids in ids.items()
        for number, doc_id in enumerate(sorted(doc_ids), 1)
    }


def _first_text(answers: Any) -> str | None:
    while isinstance(answers, list) and answers:
        answers = answers[0]
    return answers if isinstance(answers, str) else None


def _results(path: Path, time: str) -> _Results:
    """The run's `results_<time>.json`, which stands beside the samples."""
    beside = path.with_name(f"results_{time}.json")
    return typed(_Results, document(beside), beside, None) if beside.is_file() else _Results()


def _settings(results: _Results, task: str) -> dict[str, Setting]:
    run = results.config or _Run()
    of_task = (results.configs or {}).get(task) or _Task()
    arguments = run.model_args if isinstance(run.model_args, dict) else {}
    words = run.gen_kwargs or {}
    asked = words if isinstance(words, dict) else {"asked": words}
    prompt = {
        "shots": of_task.num_fewshot,
        "template": of_task.doc_to_text,
        "description": of_task.description,
        "shot_seed": run.fewshot_seed,
        "chat_template_sha256": results.chat_template_sha,
        "system_sha256": results.system_instruction_sha,
    }
    return {
        **flat("model", results.model_name),
        **flat("server", arguments.get("base_url")),
        **flat("harness", {"name": NAME, "version": results.lm_eval_version}),
        **flat("task.version", (results.versions or {}).get(task)),
        **flat("sampling", {**(of_task.generation_kwargs or {}), **asked}),
        **flat("prompt", prompt),
    }
