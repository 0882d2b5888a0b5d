"""Reads lm-evaluation-harness's `samples_<task>_<time>.jsonl`: one row per document and filter."""

from __future__ import annotations

import re
from collections import defaultdict
from typing import TYPE_CHECKING, Any

import msgspec

from verify.logs.source import Found, choose, document, flat, objects, typed
from verify.logs.table import Builder, Choice, Row, as_score, refuse

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
    results = _results(path, match["time"]) if match else {}
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


def _results(path: Path, time: str) -> dict[str, Any]:
    """The run's `results_<time>.json`, which stands beside the samples."""
    beside = path.with_name(f"results_{time}.json")
    results = document(beside) if beside.is_file() else {}
    return results if isinstance(results, dict) else {}


def _settings(results: dict[str, Any], task: str) -> dict[str, Setting]:
    config = results.get("config") or {}
    task_config = (results.get("configs") or {}).get(task) or {}
    arguments = config.get("model_args")
    arguments = arguments if isinstance(arguments, dict) else {"model_args": arguments}
    sampling = {**(task_config.get("generation_kwargs") or {}), **(config.get("gen_kwargs") or {})}
    prompt = {
        "shots": task_config.get("num_fewshot"),
        "template": task_config.get("doc_to_text"),
        "description": task_config.get("description"),
        "shot_seed": config.get("fewshot_seed"),
        "chat_template_sha256": results.get("chat_template_sha"),
        "system_sha256": results.get("system_instruction_sha"),
    }
    return {
        **flat("model", results.get("model_name")),
        **flat("server", arguments.get("base_url")),
        **flat("harness", {"name": NAME, "version": results.get("lm_eval_version")}),
        **flat("task.version", (results.get("versions") or {}).get(task)),
        **flat("sampling", sampling),
        **flat("prompt", prompt),
    }
