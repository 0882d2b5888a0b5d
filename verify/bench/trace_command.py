"""`trace`: did the fused path run? Launches over decode steps, of both arms."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from rich.console import Console
from rich.table import Table

from verify import manifest, session
from verify.bench import evidence, paths
from verify.command import UserError
from verify.files import write_json

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from verify.bench.evidence import Arm, Evidence
    from verify.verdict import Verdict

FILE = "evidence.json"
DEFAULT_PR = "kernel:fused_triton"
_SEVERAL = ("--base", "--pr")


class _SeveralFiles(click.Command):
    """A command whose --base and --pr take every word up to the next option."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Write the option again before each further word."""
        spelled: list[str] = []
        option: str | None = None
        for word in args:
            if word.startswith("-"):
                option = word if word in _SEVERAL else None
            elif option is not None and spelled[-1] != option:
                spelled.append(option)
            spelled.append(word)
        return super().parse_args(ctx, spelled)


_FILE = click.Path(path_type=Path, dir_okay=False)


@click.command(cls=_SeveralFiles)
@click.option(
    "--base",
    type=_FILE,
    multiple=True,
    metavar="FILE...",
    help="Chrome traces of the base server, one a rank, as SGLang and vLLM write them; gzip too.",
)
@click.option(
    "--pr", type=_FILE, multiple=True, metavar="FILE...", help="Those of the PR server, as many."
)
@click.option(
    "--kernels",
    type=click.Path(path_type=Path, dir_okay=False),
    default=paths.OURS,
    show_default="the built-in list",
    help="TOML that names the launches of a call and what tells T.",
)
@click.option(
    "--steps",
    type=click.IntRange(1),
    default=20,
    show_default=True,
    help="Decode steps of the embedded model, where no files are named.",
)
@click.option(
    "--arm",
    "arms",
    multiple=True,
    metavar="NAME=MODULE:FUNCTION",
    help="The kernel of an arm of the embedded model, base or pr. By default base is the unfused "
    f"chain and pr {DEFAULT_PR}.",
)
@click.option(
    "--json", "json_file", type=click.Path(path_type=Path, dir_okay=False), help="Write the result."
)
@click.option(
    "--out",
    type=click.Path(path_type=Path, file_okay=False),
    help=f"Write it to {FILE} in this folder, where a run's report shows it.",
)
def trace(  # noqa: PLR0917 - click hands over every option
    base: tuple[Path, ...],
    pr: tuple[Path, ...],
    kernels: Path,
    steps: int,
    arms: tuple[str, ...],
    json_file: Path | None,
    out: Path | None,
) -> Verdict:
    """Count launches of both arms and say how many chains the fused path replaced.

    Exit codes: 0 the fused path ran, 1 it did not, 2 wrong use, 3 the arms did different work, 4
    base shows no chain or a fused call.
    """
    known = paths.read(kernels)
    if bool(base) != bool(pr) or len(base) != len(pr):
        raise UserError(
            f"--base names {len(base)} files and --pr {len(pr)}; name one of each rank for both"
        )
    if base and arms:
        raise UserError("--arm is of the embedded model; leave it out beside --base and --pr")
    if base:
        made_with: dict[str, Any] = {"kernels": kernels.name}
        found = _of_traces(base, pr, known)
    else:
        called = _called(arms)
        made_with = {"arms": called, "steps": steps}
        found = _of_the_embedded_model(called, steps, known)
    versions = manifest.environment()["versions"]
    made_with |= {"measured": manifest.now(), "versions": versions}
    for path in filter(None, (json_file, out and out / FILE)):
        write_json(path, evidence.document(found, made_with))
    _show(found)
    return found.verdict


def _of_traces(base: Sequence[Path], pr: Sequence[Path], known: paths.Kernels) -> Evidence:
    from verify.bench import census  # noqa: PLC0415 - its parser is only needed here

    one, other = (evidence.arm(census.read(path, known) for path in files) for files in (base, pr))
    return evidence.compared("traces", one, other)


def _called(arms: Sequence[str]) -> dict[str, str | None]:
    """The kernel of each arm; None is the unfused chain."""
    called: dict[str, str | None] = {"base": None, "pr": DEFAULT_PR}
    for words in arms:
        name, _equals, kernel = words.partition("=")
        if name not in called or not kernel:
            raise UserError(f"--arm {words!r}; write base=MODULE:FUNCTION or pr=MODULE:FUNCTION")
        called[name] = kernel
    return called


def _of_the_embedded_model(
    called: dict[str, str | None], steps: int, known: paths.Kernels
) -> Evidence:
    calls = {name: None if path is None else session.load(path) for name, path in called.items()}
    from verify.bench import decode  # noqa: PLC0415 - loads the model

    def run(call: Callable[..., Any] | None) -> Arm:
        return decode.run(call, steps, known)

    base = run(calls["base"])
    if called["base"] is not None:  # a chain of the user's own, which the dispatcher calls fused
        base = evidence.as_chain(base)
    return evidence.compared("embedded", base, run(calls["pr"]))


def _show(found: Evidence) -> None:
    console = Console(highlight=False, soft_wrap=True)
    table = Table("", "base", "PR")
    rows = [
        ("unfused chains", found.base.chains, found.pr.chains),
        ("fused calls", found.base.fused, found.pr.fused),
        ("launches of these", found.base.launches_of_calls, found.pr.launches_of_calls),
        ("all launches", found.base.launches, found.pr.launches),
    ]
    for name, one, other in rows:
        table.add_row(name, *("not seen" if n is None else f"{n:,}" for n in (one, other)))
    console.print(table)
    histogram = evidence.histogram(found)
    if histogram:
        console.print("fused calls by T: " + ", ".join(f"{t}: {n:,}" for t, n in histogram))
    console.print(evidence.sentence(found))
    console.print(f"{found.verdict.upper()}  {found.reason}", markup=False)
