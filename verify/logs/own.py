"""Reads kernelproof's own records, one JSON object a line, fast enough for millions of them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from verify.logs.source import Found
from verify.logs.table import Builder, Choice, Row
from verify.logs.values import refuse, shown

if TYPE_CHECKING:
    from pathlib import Path

    from verify.command import UserError

NAME = "kernelproof records"

# Rows live only as long as their chunk: this keeps them in the cache, which halves the time.
CHUNK = 1 << 17
BOM = b"\xef\xbb\xbf"
_DECODER = msgspec.json.Decoder(Row)

_REMEDY = {
    "item": "write the item's id as text",
    "correct": "write true, false, a number from 0 to 1, or null beside an error",
    "truncated": "write true, false or null",
    "repeat": "write a whole number from 0",
    "completion_tokens": "write a whole number from 0, or null",
}


def read(path: Path, builder: Builder, choice: Choice) -> Found:  # noqa: ARG001 - readers share one signature
    """Add every record of `path` to `builder`; raises UserError naming the first bad line."""
    line = 1
    with path.open("rb") as file:
        if file.read(len(BOM)) != BOM:
            file.seek(0)
        while chunk := file.read(CHUNK):
            chunk += file.readline()
            lines = chunk.count(b"\n") + (not chunk.endswith(b"\n"))
            try:
                rows = _DECODER.decode_lines(chunk)
            except (msgspec.MsgspecError, UnicodeDecodeError):
                rows = []
            if len(rows) == lines:
                builder.extend(rows, range(line, line + lines))
            else:
                _line_by_line(path, chunk, line, builder)
            line += lines
    return Found({})


def _line_by_line(path: Path, chunk: bytes, first: int, builder: Builder) -> None:
    """Add the records of a chunk that has blank lines; raise at the first that cannot be read."""
    rows: list[Row] = []
    lines: list[int] = []
    parts = chunk.split(b"\n")
    for number, part in enumerate(parts, first):
        if not part.strip():
            continue
        try:
            rows.append(_DECODER.decode(part))
        except (msgspec.MsgspecError, UnicodeDecodeError) as error:
            builder.extend(rows, lines)  # what is wrong further up is named first
            raise _refused(
                path, number, part, error, cut=number == first + len(parts) - 1
            ) from None
        lines.append(number)
    builder.extend(rows, lines)


def _refused(path: Path, line: int, part: bytes, error: Exception, *, cut: bool) -> UserError:
    """Why a line cannot be read; `cut` if the file ends without ending it."""
    if isinstance(error, msgspec.ValidationError):
        problem = _wrong_value(part, str(error))
    elif cut:
        problem = "the file ends inside this record; drop the line or write the log again"
    elif b"NaN" in part:
        problem = "NaN is not JSON; write null and, beside it, the error"
    else:
        problem = f"not JSON ({error}): {_shown(part)}; write one object a line"
    return refuse(path, line, problem)


def _wrong_value(part: bytes, error: str) -> str:
    """What msgspec found, with the value itself and the remedy."""
    reason, _, place = error.partition(" - at `$")
    name = place.strip("`.")
    if not name:
        return f"{reason}: {_shown(part)}; write one object a line with `item` and `correct`"
    try:
        value = shown(msgspec.json.decode(part)[name])
    except msgspec.MsgspecError:  # what follows on the line is no JSON either
        value = f"wrong in {_shown(part)}"
    return f"{name} is {value}: {reason}; {_REMEDY.get(name, 'write it as a JSON text')}"


def _shown(part: bytes) -> str:
    return repr(part[:60].decode("utf-8", "replace"))
