"""`latency`: candidates beside the unfused chains and the read floor, from names to a table."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click
import torch
from rich.console import Console

from verify import session
from verify.bench import latency as measuring
from verify.bench import table
from verify.bench.timing import Method
from verify.bench.work import RefusedError, weights
from verify.command import UserError
from verify.files import write_json
from verify.spec import KernelSpec

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from verify.bench.latency import Cell, Contender
    from verify.bench.timing import Work
    from verify.bench.work import Given
    from verify.launch import Form
    from verify.verdict import Verdict

OURS = ("kernel:fused_cuda", "kernel:fused_triton")
CHAINS = {
    "rope + split-K8 + reduce": "verify.bench.chains:split_k",
    "rope + bmm + quantise": "verify.bench.chains:bmm",
}
FILE = "latency.json"


def numbers(_: click.Context, __: click.Parameter, text: str) -> tuple[int, ...]:
    """Comma-separated numbers, at least 1."""
    words = [word.strip() for word in text.split(",")]
    if not all(word.isdecimal() and int(word) >= 1 for word in words):
        raise click.BadParameter(f"{text!r}; write numbers from 1, such as 1,8,32")
    return tuple(dict.fromkeys(int(word) for word in words))


def shape(_: click.Context, __: click.Parameter, text: str) -> tuple[int, int, int]:
    """G,R,K."""
    words = [word.strip() for word in text.split(",")]
    if len(words) != 3 or not all(word.isdecimal() and int(word) >= 1 for word in words):
        raise click.BadParameter(f"{text!r} is not three numbers; write G,R,K such as 2,1024,4096")
    groups, rank, k = map(int, words)
    return groups, rank, k


@click.command()
@click.option(
    "--candidate",
    "candidates",
    multiple=True,
    metavar="MODULE:FUNCTION",
    help=f"A kernel to time; may be given several times. By default {' and '.join(OURS)}.",
)
@click.option(
    "--shape",
    callback=shape,
    default="2,1024,4096",
    show_default=True,
    help="G,R,K of the weights.",
)
@click.option("--head-dim", default=512, show_default=True, help="Columns of one head.")
@click.option("--rope-dim", default=64, show_default=True, help="Rotated columns of each head.")
@click.option(
    "--tokens",
    callback=numbers,
    default=",".join(map(str, measuring.TOKENS)),
    show_default=True,
    help="The T to time.",
)
@click.option(
    "--replays",
    type=click.IntRange(min=1),
    default=Method.replays,
    show_default=True,
    help="Timed replays in each of the three sweeps.",
)
@click.option("--seed", default=0, show_default=True, help="Of every draw.")
@click.option(
    "--json", "json_file", type=click.Path(path_type=Path, dir_okay=False), help="Write the result."
)
@click.option(
    "--out",
    type=click.Path(path_type=Path, file_okay=False),
    help=f"Write it to {FILE} in this folder, where a run's report shows it.",
)
def latency(  # noqa: PLR0917 - click hands over every option
    candidates: tuple[str, ...],
    shape: tuple[int, int, int],
    head_dim: int,
    rope_dim: int,
    tokens: tuple[int, ...],
    replays: int,
    seed: int,
    json_file: Path | None,
    out: Path | None,
) -> Verdict:
    """Time kernels beside the unfused chains and the read floor, and check what they wrote.

    A candidate that takes a keyword `pdl` is timed with it too.

    Exit codes: 0 measured and right, 1 an output was wrong, 2 wrong use or no GPU, 4 no candidate
    could be timed. Speed is shown, not judged.
    """
    if not torch.cuda.is_available():
        raise UserError("latency needs a CUDA GPU and this machine has none; run it where there is")
    groups, rank, k = shape
    try:
        spec = KernelSpec(groups, rank, k, head_dim, rope_dim)
    except ValueError as error:
        raise UserError(f"shape: {error}") from error
    entrants = list(_entrants(candidates))
    from verify.bench import gpu  # noqa: PLC0415 - nothing of it is needed before

    console = Console(highlight=False, soft_wrap=True)
    if not console.is_terminal:
        console.width = 400  # a file or pipe has no width that a table must fit
    cache = torch.cuda.get_device_properties(0).L2_cache_size
    buffers = weights(spec, cache, seed, torch.device("cuda"))
    setup = measuring.Setup(spec, buffers, Method(replays=replays), seed)
    cells, readings = [], [gpu.clocks()]
    for found in measuring.measured(entrants, setup, tokens, gpu.CudaClock()):
        cells += found
        readings.append(gpu.clocks())
    result = measuring.document(cells, setup, gpu.machine(), readings)
    for path in filter(None, (json_file, out and out / FILE)):
        write_json(path, result)
    _show(console, cells, result)
    return measuring.verdict(cells)


def _entrants(candidates: Sequence[str]) -> Iterator[Contender]:
    """Candidates as asked, or ours as far as they are here; then chains and floors."""
    for name in candidates:
        yield from measuring.contenders(name, session.load(name), "fused")
    if not candidates:
        for name in OURS:
            try:
                yield from measuring.contenders(name, session.load(name), "fused")
            except UserError as error:
                yield _absent(name, "fused", str(error))
    for name, path in CHAINS.items():
        yield from measuring.contenders(name, session.load(path), "chain")
    yield from _floors()


def _floors() -> Iterator[Contender]:
    from verify.bench import floor  # noqa: PLC0415 - compiles on first use

    for pdl in (False, True):
        try:
            yield measuring.floor(floor.reader(pdl=pdl), floor.expected, pdl=pdl)
        except UserError as error:
            yield _absent("read floor PDL" if pdl else "read floor", "floor", str(error))


def _absent(name: str, role: measuring.Role, why: str) -> Contender:
    def work(_: Given, __: Form) -> Work:
        raise RefusedError(why)

    return measuring.Contender(name, role, work)


def _show(console: Console, cells: Sequence[Cell], result: dict[str, object]) -> None:
    for shown in table.tables(cells):
        console.print(shown)
    for line in table.remarks(cells):
        console.print(line, markup=False)
    machine = result["machine"]
    assert isinstance(machine, dict)
    console.print(", ".join(f"{name} {value}" for name, value in machine.items()), markup=False)
    console.print(f"{measuring.verdict(cells).upper()}  {len(cells)} cells")
