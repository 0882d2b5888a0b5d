"""The console script `kernelproof`: the same words as `python -m verify.<program>`."""

from __future__ import annotations

import importlib
import sys

import click

from verify.command import run

PROGRAMS = {
    "kernel": "layers 1 and 2 on one kernel",
    "evals": "layer 3: two arms, question by question",
    "bench": "latency beside chains and the read floor, launch evidence, sanitizers",
    "faults": "what the verifier catches: planted faults, and honest kernels beside them",
}
MODULES = {"faults": "verify.faults.program"}
"""Where a program's command stands, if not in verify.<program>: what others import of the package
lies far below it."""


def main() -> None:
    """Run the program named by the first word."""
    words = sys.argv[1:]
    if not words or words[0] not in PROGRAMS:
        run(_overview, "kernelproof")
    sys.argv.pop(1)
    program = importlib.import_module(MODULES.get(words[0], f"verify.{words[0]}"))
    run(program.command, f"kernelproof {words[0]}")


@click.command(
    context_settings={"ignore_unknown_options": True, "allow_extra_args": True},
    epilog="Programs: " + "; ".join(f"{name} ({what})" for name, what in PROGRAMS.items()),
)
@click.pass_context
def _overview(context: click.Context) -> None:
    """Verify a fused serving kernel. Each program has its own --help."""
    if context.args:
        known = ", ".join(PROGRAMS)
        raise click.UsageError(f"no program {context.args[0]!r}; choose one of {known}")
    click.echo(context.get_help())


if __name__ == "__main__":
    main()
