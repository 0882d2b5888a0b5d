"""The console of layer 3's programs."""

from __future__ import annotations

import io
import sys

from rich.console import Console


def console_for_people() -> Console:
    """Standard output, as wide as a table needs."""
    if isinstance(sys.stdout, io.TextIOWrapper):  # a file's name may be no text at all
        sys.stdout.reconfigure(errors="backslashreplace")
    console = Console(highlight=False, soft_wrap=True)
    if not console.is_terminal:  # a file or pipe has no width that a table must fit
        console.width = 120
    return console
