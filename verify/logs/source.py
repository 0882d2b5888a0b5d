"""Opens the files of other tools: JSON lines, JSON documents, typed fields, choices to make."""

from __future__ import annotations

import json
import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar

import msgspec

from verify.logs.values import listed, refuse, shown
from verify.verdict import WRONG_USE

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from pathlib import Path

T = TypeVar("T")
Setting = str | int | float | bool | None


@dataclass(frozen=True)
class Found:
    """What a reader learned beside the records.

    Attributes:
        settings: of model, server, prompts, sampling and versions, as far as recorded. Keys that
            begin with a word of `log.COMPARABLE` must agree between arms.
        cannot_tell: what this format has no place for, by the name of the record's field.
        notes: one line each for what a reader of the comparison should know.
    """

    settings: dict[str, Setting]
    cannot_tell: frozenset[str] = frozenset()
    notes: tuple[str, ...] = ()


def objects(path: Path) -> Iterator[tuple[int, dict[str, Any]]]:
    """Each line's number and object; NaN is read as such.

    Raises:
        UserError: a line that is no JSON object, or a file cut inside one.
    """
    with path.open("rb") as file:
        for line, raw in enumerate(file, 1):
            if not raw.strip():
                continue
            try:
                value = json.loads(raw.decode("utf-8-sig" if line == 1 else "utf-8"))
            except (ValueError, RecursionError) as error:
                if not raw.endswith(b"\n"):
                    problem = "the file ends inside this record; drop the line or copy it again"
                else:
                    problem = f"not JSON ({error}); write one object a line"
                raise refuse(path, line, problem) from None
            if not isinstance(value, dict):
                raise refuse(path, line, f"{shown(value)} is no JSON object; write one a line")
            yield line, value


def document(path: Path) -> Any:
    """The whole file as one JSON value; raises UserError where it is none."""
    return parse(path.read_bytes(), path)


def parse(raw: bytes, path: Path) -> Any:
    """`raw`, found at `path`, as one JSON value; raises UserError where it is none."""
    try:
        text = raw.decode("utf-8-sig")
        return json.loads(text)
    except json.JSONDecodeError as error:
        cut = error.msg.startswith("Unterminated") or not text[error.pos :].strip()
        problem = "the file ends too early; copy it again" if cut else f"not JSON ({error.msg})"
        raise refuse(path, error.lineno, problem) from None
    except (ValueError, RecursionError) as error:
        raise refuse(path, None, f"not JSON ({error})") from None


def typed(kind: type[T], value: Any, path: Path, line: int | None) -> T:
    """`value` as `kind`; raises UserError naming the field, what it is and what it should be."""
    try:
        return msgspec.convert(value, kind)
    except msgspec.ValidationError as error:
        reason, _, place = str(error).partition(" - at `$")
        name = place.strip("`.") or "the record"
        found = shown(_at(value, name))
        raise refuse(
            path, line, f"{name} is {found}: {reason}; is this file as its harness wrote it?"
        ) from None
    except UnicodeEncodeError:  # half a character, which JSON can write and text cannot hold
        raise refuse(path, line, "holds a broken character; copy the log again") from None


def _at(value: Any, place: str) -> Any:
    """The value at a place as msgspec writes it, as far as plain names lead."""
    for name in place.split("."):
        if not isinstance(value, dict) or name not in value:
            break
        value = value[name]
    return value


def choose(kind: str, held: Iterable[str], chosen: str | None, path: Path) -> str:
    """The one of `held` to take; `chosen` decides where there are several.

    Raises:
        UserError: several and none chosen, or one chosen that is not there.
    """
    names = sorted(set(held))
    if not names:
        raise refuse(path, None, "holds no record; give the log of a run that has some")
    if chosen is not None:
        if chosen in names:
            return chosen
        raise refuse(path, None, f"no {kind} {chosen!r}; it holds {listed(names)}", WRONG_USE)
    if len(names) == 1:
        return names[0]
    how = "as FILE::ARM" if kind == "arm" else f"with --{kind} NAME"
    raise refuse(path, None, f"holds the {kind}s {listed(names)}; choose one {how}", WRONG_USE)


def flat(prefix: str, value: Any) -> dict[str, Setting]:
    """Settings out of nested ones: scalars by dotted name, lists as JSON."""
    if isinstance(value, dict):
        found: dict[str, Setting] = {}
        for name, inner in value.items():
            found |= flat(f"{prefix}.{name}" if prefix else str(name), inner)
        return found
    if value is None:
        return {}
    if isinstance(value, float) and not math.isfinite(value):
        return {prefix: str(value)}
    if isinstance(value, (str, int, float)):
        return {prefix: value}
    return {prefix: json.dumps(value, sort_keys=True)}
