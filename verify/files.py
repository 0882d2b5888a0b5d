"""Files: those our programs leave, whole or not at all, and lines of those they are given."""

from __future__ import annotations

import json
import os
from typing import TYPE_CHECKING, Any

from verify.command import UserError

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path
    from typing import BinaryIO

LONGEST_LINE = 1 << 26
"""Bytes of a line; what goes on longer is no file of lines, and may never end."""


def lines(file: BinaryIO, name: object) -> Iterator[tuple[int, bytes]]:
    """Number, from 1, and bytes of each line of what is called `name`.

    Raises:
        UserError: a line is longer than LONGEST_LINE.
    """
    number = 0
    while line := file.readline(LONGEST_LINE + 1):
        number += 1
        if len(line) > LONGEST_LINE:
            raise UserError(
                f"{name}: line {number} is longer than {LONGEST_LINE:,} bytes; name a file of lines"
            )
        yield number, line


def made(folder: Path) -> Path:
    """The folder, which is there and takes files: better known before the work than after it.

    Raises:
        UserError: it cannot be made, or not be written into.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UserError(f"{folder} cannot be made ({error.strerror}); name another") from None
    if not os.access(folder, os.W_OK | os.X_OK):
        raise UserError(f"{folder} takes no files; name another, or change its permissions")
    return folder


def write_json(path: Path, document: Mapping[str, Any]) -> None:
    """Write `document` as a file of JSON, as `write_text` does."""
    write_text(path, json.dumps(document, indent=1) + "\n")


def write_text(path: Path, text: str) -> None:
    """Write `text` aside and rename it, so that nobody reads half a file; folders are made.

    Raises:
        UserError: it cannot be written; what stood there still does.
    """
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        aside = path.with_name(path.name + ".part")
        aside.write_text(text, encoding="utf-8", newline="\n")
        aside.replace(path)
    except OSError as error:
        raise UserError(f"{path} cannot be written ({error.strerror}); name another") from None
