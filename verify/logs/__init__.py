"""Reads result logs, ours and other tools', into records; formats are recognised by content.

`read` takes one file or folder, `read_arm` several as repeats of one arm, `pair` matches the
records of two arms by item. All raise UserError, one line naming file, line, bad value and
remedy: exit code 2 where something else should have been asked for, 4 where the data themselves
are broken. Nothing is ever written.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from verify.command import UserError
from verify.logs import (
    evalscope,
    inspect_ai,
    lighteval,
    lm_eval,
    own,
    published,
    run,
    sgl_eval,
    spreadsheet,
)
from verify.logs.log import COMPARABLE, Log, differences, join, named_notes, unknown
from verify.logs.pairs import Pairs, grid, pair
from verify.logs.source import Found, parse
from verify.logs.table import Builder, Choice, Columns
from verify.logs.values import listed, refuse
from verify.verdict import WRONG_USE

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

__all__ = [
    "COMPARABLE",
    "Choice",
    "Columns",
    "Log",
    "Pairs",
    "differences",
    "grid",
    "pair",
    "read",
    "read_arm",
]


class NotALog(UserError):  # noqa: N818 - names the file, as StopIteration names an end
    """A file in no format we read; inside a folder it is passed over."""


@dataclass(frozen=True)
class Format:
    """A format's name, and the reader that fills a Builder from a file of it."""

    name: str
    read: Callable[[Path, Builder, Choice], Found]


_LM_EVAL = Format(lm_eval.NAME, lm_eval.read)
_SGL_EVAL = Format(sgl_eval.NAME, sgl_eval.read)
_EVALSCOPE = Format(evalscope.NAME, evalscope.read)
_INSPECT = Format(inspect_ai.NAME, inspect_ai.read)
_LIGHTEVAL = Format(lighteval.NAME, lighteval.read)

# The keys of a line, or of a whole JSON document, that give a format away; the first that fits.
_BY_KEYS: list[tuple[set[str], Format]] = [
    ({"doc_id", "resps"}, _LM_EVAL),
    ({"expected_answer", "generation", "finish_reason"}, _SGL_EVAL),
    ({"index", "sample_score"}, _EVALSCOPE),
    ({"eval", "status"}, _INSPECT),
    ({"question", "ground_truth"}, Format(published.GSM8K, published.read_gsm8k)),
    ({"name", "is_solved"}, Format(published.REFLEXION, published.read_reflexion)),
    ({"item"}, Format(own.NAME, own.read)),
    ({"correct"}, Format(own.NAME, own.read)),
]
# Files that stand beside a log and are not it, with what to give instead.
_COMPANIONS: list[tuple[set[str], str]] = [
    ({"results", "configs"}, "lm-evaluation-harness's averages; give the samples_*.jsonl beside"),
    ({"aggregate", "n_repeats"}, "sgl-eval's averages; give the folder that holds it"),
    ({"index", "model_output"}, "evalscope's predictions; give the file of reviews, or the folder"),
    ({"dataset_name", "metrics"}, "evalscope's averages; give the file of reviews, or the folder"),
]
_NAMES = (
    "kernelproof records and runs, lm-evaluation-harness samples, inspect_ai .eval or .json, "
    "sgl-eval run folders, evalscope reviews, lighteval parquet, CSV with columns item and correct"
)
_SUFFIXES = (".jsonl", ".json", ".eval", ".parquet", ".csv", ".sqlite")


def read(source: str | Path, *, suite: str | None = None, choice: Choice | None = None) -> Log:
    """The log at `source`: a file, a folder of one run, or `FILE::ARM`, one arm of a file.

    `suite` keeps that suite only, and names the records that name none.

    Raises:
        UserError: nothing there, no known format, several arms, filters or metrics and none
            chosen, or broken data.
    """
    path, arm = _split(source)
    choice = choice or Choice()
    try:
        if path.is_dir() and not _is_sgl_folder(path):
            return _read_folder(path, suite, arm, choice)
        return _read_one(path, suite, arm, choice)
    except OSError as error:
        raise UserError(f"{path}: cannot be read ({error.strerror or error})") from None
    except RecursionError:
        raise refuse(path, None, "is nested too deeply for a log; is this one?") from None


def read_arm(
    sources: Sequence[str | Path], *, suite: str | None = None, choice: Choice | None = None
) -> Log:
    """Several logs as repeats of one arm; `Columns.run` says which file a record came from.

    Raises:
        UserError: as `read`; besides, logs whose models or settings differ.
    """
    return join([read(source, suite=suite, choice=choice) for source in sources])


def _split(source: str | Path) -> tuple[Path, str | None]:
    path = Path(source)
    if path.exists():
        return path, None
    name, separator, arm = str(source).rpartition("::")
    if separator and Path(name).exists():
        return Path(name), arm
    raise UserError(f"{source}: no such file or folder")


def _is_sgl_folder(path: Path) -> bool:
    return any(path.glob(sgl_eval.OUTPUTS))


def _read_one(path: Path, suite: str | None, arm: str | None, choice: Choice) -> Log:
    form = _SGL_EVAL if path.is_dir() else _recognise(path)
    builder = Builder(path, suite, arm)
    found = form.read(path, builder, choice)
    suites = builder.finish()
    return Log(
        paths=(path,),
        format=form.name,
        suites=suites,
        settings=found.settings,
        unknown=unknown(suites) | found.cannot_tell,
        notes=(*found.notes, *builder.notes),
    )


def _read_folder(folder: Path, suite: str | None, arm: str | None, choice: Choice) -> Log:
    """Every log in a folder, one a suite, as one."""
    logs: list[Log] = []
    for path in _inside(folder):
        try:
            log = _read_one(path, None, arm, choice)
        except NotALog:
            continue
        for before in logs:
            shared = sorted(before.suites.keys() & log.suites.keys())
            if shared:
                raise refuse(
                    folder,
                    None,
                    f"holds several logs of suite {shared[0]} ({before.paths[0]}, {path}); "
                    "name one, or several as repeats",
                    WRONG_USE,
                )
        logs.append(log)
    if suite is not None:
        logs = [log for log in logs if suite in log.suites] or logs
    if not logs:
        raise NotALog(f"{folder}: holds no log; known are {_NAMES}")
    return _side_by_side(logs, suite, folder)


def _inside(folder: Path) -> list[Path]:
    found = [p for p in sorted(folder.rglob("*")) if p.suffix in _SUFFIXES and p.is_file()]
    runs = {path.parent for path in found if path.match(sgl_eval.OUTPUTS)}
    return sorted(runs | {path for path in found if path.parent not in runs})


def _side_by_side(logs: list[Log], suite: str | None, folder: Path) -> Log:
    """Logs of different suites as one; settings they do not share carry their suite's name."""
    suites = {name: table for log in logs for name, table in log.suites.items()}
    if suite is not None and suite not in suites:
        held = listed(suites)
        raise refuse(folder, None, f"no record of suite {suite!r}; it holds {held}", WRONG_USE)
    shared = {
        name: value
        for name, value in logs[0].settings.items()
        if all(name in log.settings and log.settings[name] == value for log in logs)
    }
    for log in logs:
        label = "+".join(log.suites)
        shared |= {f"{k} ({label})": v for k, v in log.settings.items() if k not in shared}
    return Log(
        paths=tuple(path for log in logs for path in log.paths),
        format=", ".join(sorted({log.format for log in logs})),
        suites=suites if suite is None else {suite: suites[suite]},
        settings=shared,
        unknown=frozenset().union(*(log.unknown for log in logs)),
        notes=named_notes(logs),
    )


def _recognise(path: Path) -> Format:
    """The format of a file, by its first bytes or its first line.

    Raises:
        NotALog: none we know.
        UserError: empty, or cut within the first line.
    """
    magic, first = _beginning(path)
    if magic == run.MAGIC:
        return Format(run.NAME, run.read)
    if magic.startswith(b"PK\x03\x04"):
        return _INSPECT
    if magic.startswith(b"PAR1"):
        if lighteval.columns(path) >= lighteval.COLUMNS:
            return _LIGHTEVAL
        raise NotALog(f"{path}: a parquet file, but not lighteval's details; known are {_NAMES}")
    if not first:
        raise refuse(path, None, "is empty; give the log of a run that has answers")
    try:
        text = first.decode("utf-8-sig")
    except UnicodeDecodeError:
        text = "\0"
    if "\0" in text:
        raise NotALog(f"{path}: is a binary file of no known kind; known are {_NAMES}")
    if text.lstrip().startswith(("{", "[")):
        return _by_keys(_first_value(path, text), path)
    if spreadsheet.header(text):
        return Format(spreadsheet.NAME, spreadsheet.read)
    raise NotALog(f"{path}: is no log that begins with {text[:40]!r}; known are {_NAMES}")


def _beginning(path: Path) -> tuple[bytes, bytes]:
    """The first bytes of a file, and its first line that is not blank."""
    if not path.is_file():  # a device may have no end, and a pipe can be read only once
        raise refuse(path, None, "is no regular file; copy it into one")
    with path.open("rb") as file:
        magic = file.read(16)
        file.seek(0)
        return magic, next((line for line in file if line.strip()), b"")


def _first_value(path: Path, first: str) -> Any:
    """The value on the first line, or the whole file where it is one JSON document."""
    try:
        return json.loads(first)
    except (ValueError, RecursionError):
        return parse(path.read_bytes(), path)


def _by_keys(value: Any, path: Path) -> Format:
    if not isinstance(value, dict):
        raise NotALog(f"{path}: is a JSON array; write one object a line, as jq -c '.[]' does")
    keys = value.keys()
    for needed, instead in _COMPANIONS:
        if needed <= keys:
            raise NotALog(f"{path}: holds {instead}")
    for needed, form in _BY_KEYS:
        if needed <= keys:
            return form
    held = listed(keys) or "nothing"
    raise NotALog(f"{path}: is JSON with {held}, no log; known are {_NAMES}")
