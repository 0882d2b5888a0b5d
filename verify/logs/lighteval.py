"""Reads lighteval's `details_<task>_<time>.parquet`."""

from __future__ import annotations

import re
from collections import Counter
from typing import TYPE_CHECKING, Any, TypeVar

import msgspec

from verify.logs.source import Found, choose, document, flat, typed
from verify.logs.table import Builder, Choice, Row
from verify.logs.values import as_score, refuse, sha256
from verify.verdict import WRONG_USE

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from verify.logs.source import Setting

NAME = "lighteval"
T = TypeVar("T")
COLUMNS = {"doc", "metric", "model_response"}
_FILE = re.compile(r"details_(?P<task>.+)_(?P<time>\d{4}-\d\d-\d\dT.+)\.parquet")


class _Doc(msgspec.Struct):
    query: str
    choices: list[str] | None = None
    gold_index: Any = None
    task_name: str | None = None


class _Response(msgspec.Struct):
    input: Any = None
    text: list[str] | None = None
    output_tokens: list[Any] | None = None


class _Detail(msgspec.Struct):
    doc: _Doc
    metric: dict[str, Any]
    model_response: _Response


class _Model(msgspec.Struct):
    base_url: Any = None
    generation_parameters: Any = None
    system_prompt: Any = None


class _General(msgspec.Struct):
    lighteval_sha: Any = None
    model_name: Any = None
    model_config: _Model | str | None = None  # a text in older logs


class _Results(msgspec.Struct):
    config_general: _General | None = None


def columns(path: Path) -> set[str]:
    """The columns of a parquet file.

    Raises:
        UserError: a damaged file, or pyarrow is not installed.
    """
    return set(_parquet(path, lambda file: file.schema_arrow.names))


def read(path: Path, builder: Builder, choice: Choice) -> Found:
    """Add the records of one metric, keyed by the hash of question, options and answer.

    lighteval drops the item's own id, and has no place for the reason an answer ended or for
    failed requests, which become empty answers.
    """
    builder.unit = "row"
    details = _details(path)
    metric = choose("metric", (m for d in details for m in d.metric), choice.metric, path)
    match = _FILE.fullmatch(path.name)
    seen: Counter[str] = Counter()
    rows = []
    for number, detail in enumerate(details, 1):
        try:
            score = as_score(detail.metric.get(metric))
        except ValueError as error:
            raise builder.bad(number, f"{metric}: {error}") from None
        doc, response = detail.doc, detail.model_response
        item = sha256([doc.query, doc.choices, doc.gold_index])
        seen[item] += 1
        rows.append(
            Row(
                item=item if seen[item] == 1 else f"{item}#{seen[item]}",
                correct=score,
                suite=doc.task_name or (match["task"] if match else path.stem),
                prompt_sha256=sha256(doc.query if response.input is None else response.input),
                target_sha256=sha256([doc.choices, doc.gold_index]),
                completion_tokens=_tokens(response),
                text=response.text[0] if response.text else None,
                rule=metric,
            )
        )
    builder.extend(rows, range(1, len(rows) + 1))
    empty = sum(row.text == "" for row in rows)
    return Found(_settings(path, match), frozenset({"error"}), _notes(seen, empty))


def _tokens(response: _Response) -> int | None:
    tokens = response.output_tokens
    return len(tokens[0]) if tokens and isinstance(tokens[0], list) else None


def _details(path: Path) -> list[_Detail]:
    rows = _parquet(path, lambda file: file.read(columns=sorted(COLUMNS)).to_pylist())
    return [typed(_Detail, raw, path / f"row {i}", None) for i, raw in enumerate(rows, 1)]


def _parquet(path: Path, take: Callable[[Any], T]) -> T:
    """What `take` finds in a parquet file."""
    try:
        import pyarrow.parquet as pq  # noqa: PLC0415 - an extra: other formats do without it
    except ImportError:
        raise refuse(
            path, None, "is a parquet file; install kernelproof[evals] for pyarrow", WRONG_USE
        ) from None
    try:
        return take(pq.ParquetFile(path))
    except Exception as error:  # noqa: BLE001 - pyarrow knows many ways to say that it is damaged
        problem = (str(error).splitlines() or [type(error).__name__])[0]
        raise refuse(path, None, f"is a damaged parquet file ({problem[:200]})") from None


def _settings(path: Path, match: re.Match[str] | None) -> dict[str, Setting]:
    """From `results/<model>/results_<time>.json`, beside `details/<model>/<time>/`."""
    beside = None
    if match and "details" in path.parts:
        root = path.parents[len(path.parts) - 1 - path.parts.index("details")]
        name = f"results_{match['time']}.json"
        beside = next(iter(sorted((root / "results").rglob(name))), None)
    results = typed(_Results, document(beside), beside, None) if beside else _Results()
    general = results.config_general or _General()
    model = general.model_config if isinstance(general.model_config, _Model) else _Model()
    return {
        **flat("harness", {"name": NAME, "version": general.lighteval_sha}),
        **flat("model", general.model_name),
        **flat("server", model.base_url),
        **flat("sampling", model.generation_parameters),
        **flat("prompt.system", model.system_prompt),
    }


def _notes(seen: Counter[str], empty: int) -> tuple[str, ...]:
    notes = []
    again = sum(count > 1 for count in seen.values())
    if again:
        notes.append(f"{again} questions occur more than once; their copies pair in file order")
    if empty:
        notes.append(
            f"{empty} answers are empty, as lighteval leaves failed requests, scored as such"
        )
    return tuple(notes)
