"""`python -m verify.kernel`: layers 1 and 2 on one kernel, from its name to a verdict."""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any, get_args

import click
from rich.console import Console

from verify import cases, session
from verify.cases import Arithmetic, Budget, Case, KernelSpec
from verify.command import UserError, run
from verify.contracts import CONTRACTS, DEFAULT
from verify.files import write_json
from verify.job import Job, heading, result
from verify.show import told
from verify.tally import Tally

if TYPE_CHECKING:
    from verify.verdict import Verdict


def _shape(_: click.Context, __: click.Parameter, text: str) -> tuple[int, int, int]:
    words = text.split(",")
    if len(words) != 3 or not all(word.strip().isdecimal() for word in words):
        raise click.BadParameter(f"{text!r} is not three numbers; write G,R,K such as 2,1024,4096")
    groups, rank, k = map(int, words)
    return groups, rank, k


def _claims(_: click.Context, __: click.Parameter, text: str) -> frozenset[str]:
    return frozenset(filter(None, (word.strip() for word in text.split(","))))


def _arithmetic(_: click.Context, __: click.Parameter, text: str | None) -> Arithmetic | None:
    if text is None:
        return None
    values: dict[str, Any] = {}
    for word in text.split(","):
        name, _equals, value = (part.strip() for part in word.partition("="))
        if name in ("k_step", "splits") and value.isdecimal():
            values[name] = int(value)
        elif name == "rounding":
            values[name] = value
        else:
            raise click.BadParameter(
                f"{word!r}; write k_step=N, splits=N and rounding=nearest or truncate"
            )
    if "k_step" not in values:
        raise click.BadParameter(f"{text!r} leaves out k_step, the K of one multiply-accumulate")
    try:
        return Arithmetic(**values)
    except ValueError as error:
        raise click.BadParameter(str(error)) from error


@click.command()
@click.option(
    "--candidate",
    default="kernel:fused_triton",
    show_default=True,
    help="The kernel, as module:function.",
)
@click.option(
    "--shape", callback=_shape, default="2,1024,4096", show_default=True, help="G,R,K it supports."
)
@click.option("--head-dim", default=512, show_default=True, help="Columns of one head.")
@click.option("--rope-dim", default=64, show_default=True, help="Rotated columns of each head.")
@click.option("--max-tokens", default=32, show_default=True, help="The largest T it supports.")
@click.option(
    "--claims",
    callback=_claims,
    default="",
    help="; ".join(f"{name}: {meaning}" for name, meaning in cases.CLAIMS.items()),
)
@click.option(
    "--contract",
    type=click.Choice(list(CONTRACTS)),
    default=DEFAULT,
    show_default=True,
    help="What its quantiser promises.",
)
@click.option(
    "--arithmetic",
    callback=_arithmetic,
    help="How it accumulates, such as k_step=16,splits=8,rounding=truncate; "
    "without it the bound is a calibrated one.",
)
@click.option(
    "--budget",
    type=click.Choice(get_args(Budget)),
    default="quick",
    show_default=True,
    help="6, 24 or 150 cases of each family of inputs, and some of each probe.",
)
@click.option("--seed", default=0, show_default=True, help="Of every draw.")
@click.option(
    "--json", "json_file", type=click.Path(path_type=Path, dir_okay=False), help="Write the result."
)
@click.option(
    "--out",
    type=click.Path(path_type=Path, file_okay=False),
    help="Write it to kernel.json in this folder.",
)
@click.option("--fail-fast", is_flag=True, help="Stop at the first case that finds something.")
@click.option("--case", "case_id", help="Run this case only, by its id.")
def command(  # noqa: PLR0917 - click hands over every option
    candidate: str,
    shape: tuple[int, int, int],
    head_dim: int,
    rope_dim: int,
    max_tokens: int,
    claims: frozenset[str],
    contract: str,
    arithmetic: Arithmetic | None,
    budget: Budget,
    seed: int,
    json_file: Path | None,
    out: Path | None,
    fail_fast: bool,  # noqa: FBT001 - click's way of a flag
    case_id: str | None,
) -> Verdict:
    """Layers 1 and 2 on one kernel: its BF16 output, its MXFP8 codes and scale bytes.

    Exit codes: 0 pass, 1 fail, 2 wrong use, 4 invalid (nothing executed), 130 interrupted.
    """
    began = time.monotonic()
    groups, rank, k = shape
    try:
        spec = KernelSpec(
            groups,
            rank,
            k,
            head_dim,
            rope_dim,
            max_tokens,
            arithmetic=arithmetic,
            claims=claims,
            contract=contract,
        )
        spec = session.spec_of(candidate, spec)
        only = Case.parse(case_id) if case_id is not None else None
    except ValueError as error:
        where = "--case" if str(error).startswith("a case id") else "shape or claims"
        raise UserError(f"{where}: {error}") from error
    session.load(candidate)  # a mistake in the name is told here, in one line
    files = list(filter(None, (json_file, out and out / "kernel.json")))
    for path in files:
        _reach(path)
    console = Console(highlight=False, soft_wrap=True)
    job = Job(_program(), candidate, spec, seed, budget, only, fail_fast=fail_fast)
    tally = Tally(planned=0)
    try:
        pace = job.run(tally, console)
        told(console, tally, heading(job, pace))
    finally:
        seconds = time.monotonic() - began
        for path in files:
            write_json(path, result(tally, job, seconds))
    console.print(
        f"{tally.verdict.upper()}  {candidate}  {tally.executed} of {tally.planned} cases, "
        f"{len(tally.findings)} findings, {seconds:.0f} s"
    )
    return tally.verdict


def _program() -> tuple[str, ...]:
    """The words it was called by; where a folder hides our packages only `kernelproof` works."""
    called = click.get_current_context().command_path
    if called.startswith("kernelproof"):
        return tuple(called.split())
    return ("python", "-m", "verify.kernel")


def _reach(path: Path) -> None:
    """Make the folder of a file to be; that it cannot be written is told before the run."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UserError(f"{path} cannot be written ({error.strerror}); name another") from error
    if not os.access(path.parent, os.W_OK):
        raise UserError(f"{path} cannot be written (no permission); name another")


if __name__ == "__main__":
    run(command, "verify.kernel")
