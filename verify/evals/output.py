"""Where the programs of layer 3 write: a console for people, files of JSON for scripts."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from rich.console import Console

from verify.command import UserError

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path


def console_for_people() -> Console:
    """Standard output, as wide as a table needs."""
    console = Console(highlight=False, soft_wrap=True)
    if not console.is_terminal:  # a file or pipe has no width that a table must fit
        console.width = 120
    return console


def write_json(path: Path, document: Mapping[str, Any]) -> None:
    """Written aside, then renamed: nobody reads half a file.

    Raises:
        UserError: it cannot be written.
    """
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        aside = path.with_name(path.name + ".part")
        aside.write_text(json.dumps(document, indent=1) + "\n", encoding="utf-8")
        aside.replace(path)
    except OSError as error:
        raise UserError(f"{path} cannot be written ({error.strerror}); name another") from None
