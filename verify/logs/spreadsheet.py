"""Reads CSV: one row an answer, columns named in the first line."""

from __future__ import annotations

import csv
from typing import TYPE_CHECKING, Any

from verify.logs.source import Found
from verify.logs.table import Builder, Choice, Row
from verify.logs.values import as_score, refuse, shown

if TYPE_CHECKING:
    from pathlib import Path

NAME = "CSV"

# Our name of each field, and what others call it.
COLUMNS = {
    "item": ("item", "question_id", "prompt_id", "sample_id", "id"),
    "correct": ("correct", "score", "is_correct"),
    "suite": ("suite", "benchmark", "task"),
    "arm": ("arm", "model"),
    "repeat": ("repeat", "epoch"),
    "truncated": ("truncated",),
    "finish_reason": ("finish_reason", "stop_reason"),
    "error": ("error",),
    "prompt_sha256": ("prompt_sha256", "prompt_sha"),
    "target_sha256": ("target_sha256", "target_sha"),
    "completion_tokens": ("completion_tokens", "tokens"),
    "text": ("text",),
    "answer": ("answer",),
}
_CUT = ("length", "max_tokens", "model_length")
_DELIMITERS = ",;\t"


def header(first: str) -> dict[str, str] | None:
    """Our fields by the file's own columns, or None where `first` is no header of a log."""
    try:
        names = next(csv.reader([first], delimiter=_delimiter(first)), [])
    except csv.Error:  # no header is as long as that
        return None
    found = {}
    for ours, theirs in COLUMNS.items():
        column = next((name for name in theirs if name in names), None)
        if column is not None:
            found[ours] = column
    return found if {"item", "correct"} <= found.keys() else None


def read(path: Path, builder: Builder, choice: Choice) -> Found:  # noqa: ARG001 - readers share one signature
    """Add every row; raises UserError naming the first bad line."""
    rows, lines = [], []
    line = 1
    try:
        with path.open(encoding="utf-8-sig", newline="") as file:
            first = file.readline()
            names = header(first) or {}
            file.seek(0)
            reader = csv.reader(file, delimiter=_delimiter(first), strict=True)
            columns = next(reader)
            start = reader.line_num + 1
            for values in reader:
                line, start = start, reader.line_num + 1
                if not values:
                    continue
                if len(values) != len(columns):
                    problem = f"{len(values)} values under {len(columns)} columns; was it cut?"
                    raise refuse(path, line, problem)
                record = dict(zip(columns, values, strict=True))
                fields = {ours: record[theirs].strip() for ours, theirs in names.items()}
                rows.append(_row(fields, path, line))
                lines.append(line)
    except UnicodeDecodeError as error:
        raise refuse(path, line, f"is no UTF-8 ({error.reason}); save it as UTF-8") from None
    except csv.Error as error:
        raise refuse(path, reader.line_num, f"is no CSV ({error}); was it cut?") from None
    builder.extend(rows, lines)
    known = {"error", "finish_reason"} & names.keys()
    return Found({}, frozenset() if known else frozenset({"error"}))


def _delimiter(first: str) -> str:
    return max(_DELIMITERS, key=first.count)


def _row(fields: dict[str, str], path: Path, line: int) -> Row:
    if not fields["item"]:
        raise refuse(path, line, "the item is empty; write its id")
    reason = fields.get("finish_reason")
    error = fields.get("error") or ("the request failed" if reason == "error" else None)
    truncated = _truth(fields.get("truncated"), "truncated", path, line)
    if truncated is None and reason:
        truncated = reason in _CUT
    row = Row(
        item=fields["item"],
        correct=_score(fields["correct"], path, line),
        repeat=_number(fields.get("repeat"), "repeat", path, line) or 0,
        truncated=truncated,
        error=error,
        completion_tokens=_number(fields.get("completion_tokens"), "tokens", path, line),
    )
    row.suite = fields.get("suite") or row.suite
    for name in ("arm", "prompt_sha256", "target_sha256", "text", "answer"):
        setattr(row, name, fields.get(name) or None)
    return row


def _score(value: str, path: Path, line: int) -> float | None:
    if not value:
        return None
    try:
        return as_score(value)
    except ValueError as error:
        raise refuse(path, line, str(error)) from None


def _number(value: str | None, name: str, path: Path, line: int) -> int | None:
    if not value:
        return None
    if not (value.isascii() and value.isdigit() and len(value) < 10):
        raise refuse(path, line, f"{name} is {shown(value)}; write a whole number from 0")
    return int(value)


def _truth(value: str | None, name: str, path: Path, line: int) -> bool | None:
    words: dict[Any, bool | None] = {None: None, "": None, "true": True, "false": False}
    words |= {"1": True, "0": False, "yes": True, "no": False}
    key = value.lower() if value else value
    if key not in words:
        raise refuse(path, line, f"{name} is {shown(value)}; write true or false")
    return words[key]
