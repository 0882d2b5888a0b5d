"""The files that our programs leave: whole or not at all."""

from __future__ import annotations

import json
import os
from typing import TYPE_CHECKING, Any

from verify.command import UserError

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path


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
