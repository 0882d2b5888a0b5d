"""A log: one arm's records by suite, and what is known of how they were made."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from verify.command import UserError
from verify.logs.names import Names
from verify.logs.table import Columns
from verify.logs.values import INVALID, shown

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from verify.logs.source import Setting

# First words of the settings that two arms must share. Model, server and load may differ: they
# are what a comparison is about.
COMPARABLE = ("harness", "prompt", "sampling", "task")


@dataclass(frozen=True, eq=False)
class Log:
    """What one arm answered.

    Attributes:
        paths: the files it was read from, in the order of `Columns.run`.
        format: the name of the format.
        suites: its records, a table a suite.
        settings: what was recorded of model, server, prompts, sampling and versions.
        unknown: fields of a record that no record of this log can tell, so that nothing may be
            concluded from their absence: `truncated`, `completion_tokens`, `prompt_sha256`,
            `target_sha256`, `error`.
        notes: one line each, for whoever reads the comparison.
    """

    paths: tuple[Path, ...]
    format: str
    suites: dict[str, Columns]
    settings: dict[str, Setting]
    unknown: frozenset[str]
    notes: tuple[str, ...] = ()


def unknown(suites: dict[str, Columns]) -> frozenset[str]:
    """The fields that not one record carries."""
    tables = suites.values()
    carried = {
        "truncated": any((t.truncated >= 0).any() for t in tables),
        "completion_tokens": any((t.tokens >= 0).any() for t in tables),
        "prompt_sha256": any(t.prompt.any() for t in tables),
        "target_sha256": any(t.target.any() for t in tables),
    }
    return frozenset(name for name, known in carried.items() if not known)


def differences(one: Log, other: Log, words: Sequence[str] = COMPARABLE) -> list[str]:
    """Settings under `words` in which the logs differ, as "name: value and value".

    A setting that only one of them records counts where both come from the same harness, which
    would have recorded it in the other.
    """
    a, b = one.settings, other.settings
    same_harness = one.format == other.format and len(a) > 1 and len(b) > 1
    names = a.keys() | b.keys() if same_harness else a.keys() & b.keys()
    return [
        f"{name[:60]}: {shown(a.get(name))} and {shown(b.get(name))}"
        for name in sorted(names)
        if name.partition(".")[0] in words and a.get(name) != b.get(name)
    ]


def join(logs: Sequence[Log]) -> Log:
    """One arm out of several logs, each a further repeat of the suites it holds.

    Raises:
        UserError: logs of different models or settings, or the same file twice.
    """
    first = logs[0]
    for log in logs[1:]:
        differing = differences(first, log, (*COMPARABLE, "model"))
        if differing:
            raise UserError(
                f"{first.paths[0]} and {log.paths[0]} are not repeats of one arm; "
                f"they differ in {differing[0]}",
                INVALID,
            )
    paths = [path for log in logs for path in log.paths]
    twice = [path for path, count in Counter(p.resolve() for p in paths).items() if count > 1]
    if twice:
        raise UserError(f"{twice[0]} is named twice in one arm; a copy is no repeat")
    suites: dict[str, Columns] = {}
    run = 0
    for log in logs:
        for suite, table in log.suites.items():
            before = suites.get(suite)
            here = replace(table, run=table.run + run)
            suites[suite] = here if before is None else _after(before, here)
        run += len(log.paths)
    return Log(
        paths=tuple(paths),
        format=first.format,
        suites=suites,
        settings=first.settings,
        # What one file cannot tell, the arm cannot.
        unknown=frozenset().union(*(log.unknown for log in logs)),
        notes=named_notes(logs),
    )


def named_notes(logs: Sequence[Log]) -> tuple[str, ...]:
    """The notes of all logs; of several, each with the name of its file."""
    if len(logs) == 1:
        return logs[0].notes
    return tuple(dict.fromkeys(f"{log.paths[0].name}: {n}" for log in logs for n in log.notes))


def _after(a: Columns, b: Columns) -> Columns:
    """The rows of `a`, then those of `b` as further repeats."""
    place = b.items.places(a.items)
    new = np.flatnonzero(place < 0)
    place[new] = np.arange(len(new)) + len(a.items)
    size = len(a)
    return Columns(
        items=Names.joined([a.items, b.items.taken(new)]) if new.size else a.items,
        item=np.concatenate([a.item, place.astype(np.int32)[b.item]]),
        repeat=np.concatenate([a.repeat, b.repeat + (a.repeat.max() + 1)]),
        score=np.concatenate([a.score, b.score]),
        truncated=np.concatenate([a.truncated, b.truncated]),
        tokens=np.concatenate([a.tokens, b.tokens]),
        prompt=np.concatenate([a.prompt, b.prompt]),
        target=np.concatenate([a.target, b.target]),
        run=np.concatenate([a.run, b.run]),
        line=np.concatenate([a.line, b.line]),
        errors=a.errors | {row + size: error for row, error in b.errors.items()},
        text=_texts(a.text, b.text, a, b),
        answer=_texts(a.answer, b.answer, a, b),
        rule=_texts(a.rule, b.rule, a, b),
    )


def _texts(
    one: list[str | None] | None, other: list[str | None] | None, a: Columns, b: Columns
) -> list[str | None] | None:
    if one is None and other is None:
        return None
    return (one or [None] * len(a)) + (other or [None] * len(b))
