"""Command line of layer 3: run two arms on the same questions, or render a run again."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from click.core import ParameterSource

from verify import manifest, store
from verify.command import UserError
from verify.evals import plan as planning
from verify.evals import show
from verify.evals.comparing import compare
from verify.evals.conduct import conduct, kernel_result, rest
from verify.evals.export import export
from verify.evals.going_on import unfinished
from verify.evals.grade import grade
from verify.evals.noise import aa
from verify.evals.opinions import hanging
from verify.evals.options import shared
from verify.evals.output import console_for_people
from verify.evals.power import power
from verify.evals.reporting import render, report
from verify.evals.score import score
from verify.files import made, write_json
from verify.verdict import Verdict

if TYPE_CHECKING:
    from rich.console import Console

    from verify.evals.plan import Plan


RUN_FILES = (
    store.FILE_NAME,
    "manifest.json",
    "result.json",
    "report.html",
    "comment.md",
    "junit.xml",
)
"""What a run writes; where one of them stands already, none is written."""


def _loads(_context: click.Context, _parameter: click.Parameter, value: str) -> tuple[int, ...]:
    """Numbers of questions in flight."""
    try:
        loads = tuple(int(word) for word in value.split(","))
    except ValueError:
        loads = ()
    if not loads or len(set(loads)) < len(loads) or not all(0 < load <= 4096 for load in loads):
        raise click.BadParameter(f"{value!r} is not different numbers from 1 to 4096, like 4,64")
    return loads


@click.group(invoke_without_command=True)
@shared
@click.option(
    "--redact/--no-redact",
    default=None,
    help="Keep the texts of questions and answers out of the report; by default as each suite "
    "says (gpqa_diamond: redacted).",
)
@click.option(
    "--limit", type=click.IntRange(min=1), help="Ask the first N questions by content hash."
)
@click.option("--full", is_flag=True, help="Ask every question, not the suite's default number.")
@click.option(
    "--margin",
    multiple=True,
    metavar="PT|SUITE=PT",
    help="The loss to rule out, in percentage points; by default each suite's own.",
)
@click.option(
    "--repeats",
    type=click.IntRange(min=1, max=1000),
    help="Ask every question so often in each arm, in a new order each time; by default as each "
    "suite says.",
)
@click.option(
    "--no-early-stop",
    is_flag=True,
    help="Ask everything, even once PR is shown to be worse than the margin (servers only; the "
    "embedded model is always asked everything).",
)
@click.option(
    "--certificate",
    is_flag=True,
    help="Let a suite pass by evidence that is valid at any look, and by that alone; it may then "
    "end before everything is asked.",
)
@click.option(
    "--extend-capped",
    type=click.IntRange(min=1),
    metavar="TOKENS",
    help="Ask both arms again, with this token limit, whatever either of them left unfinished.",
)
@click.option("--seed", default=0, show_default=True, help="Of the orders of the questions.")
@click.option(
    "--concurrency",
    default="4",
    show_default=True,
    metavar="N[,N...]",
    callback=_loads,
    help="Questions in flight at each arm, to 4096; with several numbers every suite is asked at "
    "each of them.",
)
@click.option(
    "--executor",
    type=click.Choice(["local", "ray"]),
    default="local",
    show_default=True,
    help="Where embedded models run: on this machine, or on the Ray cluster at RAY_ADDRESS "
    "(where that is not set, one of its own).",
)
@click.option(
    "--differ",
    multiple=True,
    metavar="SETTING",
    help="A setting in which the arms are meant to differ, like launch or attention_backend; any "
    "other difference makes the run invalid.",
)
@click.option(
    "--require-path",
    multiple=True,
    metavar="NAME",
    help="A path that the PR arm must be seen to take, as [arms.pr.path] in verify.toml says.",
)
@click.option(
    "--out",
    type=click.Path(path_type=Path, file_okay=False),
    help="Folder of the run; by default runs/<UTC time>-<arms>.",
)
@click.pass_context
def command(
    context: click.Context, /, out: Path | None, json_file: Path | None, **words: Any
) -> Verdict | None:
    """Layer 3: does the model still answer as well? Two arms, the same questions, paired.

    Exit codes: 0 pass, 1 fail, 2 wrong use, 3 inconclusive, 4 invalid, 130 interrupted.
    """
    if context.invoked_subcommand is not None:
        _refuse_options_of_a_run(context)
        return None
    plan = planning.make(planning.Options(**words))
    folder = _folder(out, plan)
    console = console_for_people()
    document = conduct(plan, folder, context.command_path, console)
    for path in filter(None, (folder / "result.json", json_file)):
        write_json(path, document)
    _show(console, document, folder)
    described = document["manifest"]
    if described["unanswered"] and described["go_on_with"] and unfinished(folder):
        missing = f"{described['unanswered']} questions have no answer"
        click.echo(f"{missing}{rest(described)}", err=True)
    return Verdict(document["verdict"])


def _refuse_options_of_a_run(context: click.Context) -> None:
    """Options before a subcommand would be passed over in silence."""
    for parameter in context.command.params:
        assert parameter.name is not None
        if context.get_parameter_source(parameter.name) is ParameterSource.COMMANDLINE:
            raise UserError(
                f"{parameter.opts[0]} before {context.invoked_subcommand} is an option of a run; "
                f"write {context.invoked_subcommand} first, and its own options after it"
            )


for subcommand in (compare, aa, power, grade, score, export, report):
    command.add_command(subcommand)


def _folder(out: Path | None, plan: Plan) -> Path:
    """Where the run is kept: a new folder, or one whose run was interrupted."""
    folder = out
    if folder is None:
        stamp = manifest.now().replace("-", "").replace(":", "")
        folder = Path("runs") / f"{stamp}-{'-'.join(plan.names)}"
    held = [name for name in RUN_FILES if (folder / name).exists()]
    # the embedded model answers all at once, and starts again
    if held and not (plan.specs[0].urls and unfinished(folder)):
        raise UserError(f"{folder} holds a run already; name another folder with --out")
    plan.check_paths(folder)
    made(folder)
    kernel_result(folder / "kernel.json")  # one that cannot be read is told now, not after the run
    return folder


def _show(console: Console, document: dict[str, Any], folder: Path) -> None:
    try:
        where = str(render(folder))
    except UserError as error:
        where = str(error)
    for line in hanging(document["extractors"]):
        console.print(line, markup=False)
    show.verdicts(console, document, where)
