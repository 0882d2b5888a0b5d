"""Command line of the bench: `latency` unless another of its programs is named."""

from __future__ import annotations

import click

from verify.bench.latency_command import latency
from verify.bench.sanitize_command import sanitize
from verify.bench.serve.program import serve
from verify.bench.trace_command import trace
from verify.command import Programs


@click.group(cls=Programs)
def command() -> None:
    """How fast a kernel and its server are, and whether it ran; by default latency."""


for program in (latency, trace, sanitize, serve):
    command.add_command(program)
