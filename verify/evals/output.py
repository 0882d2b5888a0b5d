"""The console of layer 3's programs."""

from __future__ import annotations

from rich.console import Console


def console_for_people() -> Console:
    """Standard output, as wide as a table needs."""
    console = Console(highlight=False, soft_wrap=True)
    if not console.is_terminal:  # a file or pipe has no width that a table must fit
        console.width = 120
    return console
