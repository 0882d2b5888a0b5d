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
            try:
                rows = _DECODER.decode_lines(chunk)
            except (msgspec.MsgspecError, UnicodeDecodeError):
                raise _explain(path, chunk, line) from None
            newlines = chunk.count(b"\n")
            lines: range | list[int] = range(line, line + len(rows))
            if len(rows) != newlines + (not chunk.endswith(b"\n")):
                # Blank lines, or records that do not keep to their line.
                parts = chunk.split(b"\n")
                lines = [line + i for i, part in enumerate(parts) if part.strip()]
                if len(lines) != len(rows):
                    raise _explain(path, chunk, line)
            builder.extend(rows, lines)
            line += newlines
    return Found({})


def _explain(path: Path, chunk: bytes, first: int) -> UserError:
    """Which line of `chunk` cannot be read, and why."""
    parts = chunk.split(b"\n")
    for number, part in enumerate(parts, first):
        if not part.strip():
            continue
        try:
            _DECODER.decode(part)
        except msgspec.ValidationError as error:
            return refuse(path, number, _wrong_value(part, str(error)))
        except (msgspec.MsgspecError, UnicodeDecodeError) as error:
            if number == first + len(parts) - 1:
                problem = "the file ends inside this record; drop the line or write the log again"
            elif b"NaN" in part:
                problem = "NaN is not JSON; write null and, beside it, the error"
            else:
                problem = f"not JSON ({error}): {_shown(part)}; write one object a line"
            return refuse(path, number, problem)
    raise AssertionError("a chunk that cannot be decoded has a line that cannot")


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
