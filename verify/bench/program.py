"""Command line of the bench: `latency` unless another of its programs is named."""

from __future__ import annotations

import click

from verify.bench.latency_command import latency
from verify.bench.sanitize_command import sanitize
from verify.bench.trace_command import trace


class _Programs(click.Group):
    """A group whose first program is meant where none is named."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Put `latency` before options that follow no program's name."""
        if not args or (args[0].startswith("-") and args[0] != "--help"):
            args = ["latency", *args]
        return super().parse_args(ctx, args)


@click.group(cls=_Programs)
def command() -> None:
    """How fast a kernel is, whether it ran, and what the sanitizers say; by default latency."""


for program in (latency, trace, sanitize):
    command.add_command(program)
