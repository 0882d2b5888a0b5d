"""`sanitize`: what compute-sanitizer says of a candidate, and what it could not have seen."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

import click
import torch
from rich.console import Console
from rich.table import Table

from verify import session
from verify.bench import sanitize as tools
from verify.bench.latency_command import numbers, shape
from verify.bench.sanitized import Job
from verify.command import UserError
from verify.files import write_json

if TYPE_CHECKING:
    from verify.verdict import Verdict

FILE = "sanitizers.json"


@click.command()
@click.option("--candidate", default="kernel:fused_cuda", show_default=True,
              help="The kernel, as module:function.")  # fmt: skip
@click.option("--tool", "chosen", multiple=True, type=click.Choice(tools.TOOLS),
              help="This tool only; may be given several times.")  # fmt: skip
@click.option("--tokens", callback=numbers, default="1,9,32", show_default=True,
              help="The T to launch, each into both output forms.")  # fmt: skip
@click.option("--shape", callback=shape, default="2,1024,4096", show_default=True,
              help="G,R,K of the weights.")  # fmt: skip
@click.option("--head-dim", default=512, show_default=True, help="Columns of one head.")
@click.option("--rope-dim", default=64, show_default=True, help="Rotated columns of each head.")
@click.option("--plain", is_flag=True,
              help="It makes no bulk copies: silence is clean without a probe.")  # fmt: skip
@click.option("--limit", type=click.FloatRange(min=1), default=180, show_default=True,
              help="Seconds after which a process is stopped.")  # fmt: skip
@click.option("--json", "json_file", type=click.Path(path_type=Path, dir_okay=False),
              help="Write the result.")  # fmt: skip
@click.option("--out", type=click.Path(path_type=Path, file_okay=False),
              help=f"Write it to {FILE} in this folder.")  # fmt: skip
def sanitize(  # noqa: PLR0917 - click hands over every option
    candidate: str,
    chosen: tuple[tools.Tool, ...],
    tokens: tuple[int, ...],
    shape: tuple[int, int, int],
    head_dim: int,
    rope_dim: int,
    plain: bool,  # noqa: FBT001 - click's way of a flag
    limit: float,
    json_file: Path | None,
    out: Path | None,
) -> Verdict:
    """Run memcheck, racecheck, synccheck and initcheck, each in its own process.

    Exit codes: 0 clean, 1 errors, 2 wrong use, no GPU or no compute-sanitizer, 3 a tool cannot see
    bulk copies, 4 a tool did not run.
    """
    if not torch.cuda.is_available():
        raise UserError(
            "sanitize needs a CUDA GPU and this machine has none; run it where there is"
        )
    run = tools.runner(tools.program(), limit)
    session.load(candidate)  # a mistake in the name is told here, in one line
    job = Job(candidate, shape, head_dim, rope_dim, list(tokens))
    found = [tools.looked(tool, job, run, plain=plain) for tool in chosen or tools.TOOLS]
    verdict = tools.verdict(found)
    for path in filter(None, (json_file, out and out / FILE)):
        document = {
            "verdict": verdict,
            "candidate": candidate,
            "shape": list(shape),
            "tokens": list(tokens),
            "gpu": torch.cuda.get_device_name(0),
            "tools": [asdict(each) for each in found],
        }
        write_json(path, document)
    _show(found, verdict, candidate)
    return verdict


def _show(found: list[tools.Looked], verdict: Verdict, candidate: str) -> None:
    console = Console(highlight=False, soft_wrap=True)
    table = Table("tool", "answer")
    for each in found:
        table.add_row(each.tool, each.status + (f" ({each.errors})" if each.errors else ""))
    console.print(table)
    for each in found:
        if each.message:
            console.print(f"{each.tool}: {each.message}", markup=False)
    console.print(f"{verdict.upper()}  {candidate}", markup=False)
