"""Events of a Chrome trace one by one: JSON of any length, in the memory of one event."""

from __future__ import annotations

import gzip
import io
import json
import re
import zlib
from typing import IO, TYPE_CHECKING, Any, cast

from verify.command import UserError

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

_GZIP = b"\x1f\x8b"
_CHUNK = 1 << 20
_LARGEST = 1 << 25  # characters of one event, or of one of the values beside the events
_BLANK = re.compile(r"[ \t\n\r]*")


def events(path: Path) -> Iterator[dict[str, Any]]:
    """The events of a trace, an object with `traceEvents` or an array of them, plain or gzip.

    Raises:
        UserError: the file is missing, broken off, no JSON, or no Chrome trace.
    """
    count = 0
    try:
        with _opened(path) as raw:
            # names hold whatever bytes a kernel's author chose
            for event in _listed(_Text(io.TextIOWrapper(raw, encoding="utf-8", errors="replace"))):
                if not isinstance(event, dict):
                    raise UserError(f"{path} is not a Chrome trace: an event is no object")
                count += 1
                yield event
    except OSError as error:
        raise UserError(f"{path} cannot be read ({error.strerror or error})") from None
    except (EOFError, zlib.error) as error:
        raise UserError(f"{path} is broken off ({error}); copy it again") from None
    except (ValueError, RecursionError):
        raise UserError(
            f"{path} is no JSON or broken off, after {count:,} events; copy it again"
        ) from None
    if not count:
        raise UserError(
            f"{path} has no traceEvents; name a Chrome trace, as torch's profiler writes"
        )


class _Text:
    """Text of which only what is still to be read is held."""

    def __init__(self, file: IO[str]) -> None:
        self.file, self.text, self.at = file, "", 0
        self.decoder = json.JSONDecoder()

    def sign(self) -> str:
        """The next character that is not blank, empty at the end."""
        while True:
            blank = _BLANK.match(self.text, self.at)
            self.at = blank.end() if blank else self.at
            if self.at < len(self.text):
                return self.text[self.at]
            if not self._more():
                return ""

    def take(self, signs: str) -> str:
        """The next character, which must be one of these; ValueError if not."""
        sign = self.sign()
        if not sign or sign not in signs:
            raise ValueError(f"{sign!r} in place of one of {signs!r}")
        self.at += 1
        return sign

    def value(self) -> Any:
        """The next value; ValueError if there is none."""
        self.sign()
        while True:
            try:
                found, end = self.decoder.raw_decode(self.text, self.at)
            except ValueError:
                if len(self.text) - self.at > _LARGEST or not self._more():
                    raise
                continue
            # a number may go on in what is not read yet
            if end == len(self.text) and self._more():
                continue
            self.at = end
            return found

    def _more(self) -> bool:
        chunk = self.file.read(_CHUNK)
        if chunk:
            self.text, self.at = self.text[self.at :] + chunk, 0
        return bool(chunk)


def _listed(text: _Text) -> Iterator[Any]:
    """The elements of the trace's list."""
    if text.take("{[") == "[":
        yield from _elements(text)
        return
    if text.sign() == "}":
        return
    while True:
        key = text.value()
        text.take(":")
        if key == "traceEvents":
            text.take("[")
            yield from _elements(text)
        else:
            text.value()
        if text.take(",}") == "}":
            return


def _elements(text: _Text) -> Iterator[Any]:
    """Those of an array whose bracket has been taken."""
    if text.sign() == "]":
        text.take("]")
        return
    while True:
        yield text.value()
        if text.take(",]") == "]":
            return


def _opened(path: Path) -> IO[bytes]:
    with path.open("rb") as file:
        packed = file.read(2) == _GZIP
    return cast("IO[bytes]", gzip.open(path, "rb")) if packed else path.open("rb")
