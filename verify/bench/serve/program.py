"""`serve`: two servers, started anew in turn, and how fast each decodes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from verify import manifest
from verify.bench.latency_command import numbers
from verify.bench.serve import plan as planning
from verify.bench.serve import table
from verify.bench.serve.document import FILE
from verify.command import UserError
from verify.evals.output import console_for_people
from verify.evals.reporting import render
from verify.evals.show import styled
from verify.files import made, write_json
from verify.verdict import Verdict


@click.command()
@click.option(
    "--arms", default="base,pr", show_default=True, help="Names of the two arms, base first."
)
@click.option(
    "--arm",
    multiple=True,
    metavar="NAME=URL",
    help="The server of an arm that is up already; or [arms.NAME] in verify.toml says what it is.",
)
@click.option(
    "--order",
    metavar="NAME,NAME,...",
    help="The arms in the order in which their servers are started; by default base, PR, PR, base.",
)
@click.option("--model", help="The model to ask for; not needed where servers offer one.")
@click.option(
    "--input-len",
    type=click.IntRange(min=1),
    default=1024,
    show_default=True,
    help="Tokens of each prompt, drawn at random.",
)
@click.option(
    "--output-len",
    type=click.IntRange(min=2),
    default=512,
    show_default=True,
    help="Tokens of each answer.",
)
@click.option(
    "--prompt",
    type=click.Path(path_type=Path, dir_okay=False, exists=True),
    help="Ask the text in this file every time, and nothing random.",
)
@click.option(
    "--concurrency",
    callback=numbers,
    default="1",
    show_default=True,
    metavar="N[,N...]",
    help="Requests in flight, sent together; with several numbers every start is measured at each.",
)
@click.option(
    "--warm-ups",
    type=click.IntRange(min=0),
    default=1,
    show_default=True,
    help="Times that as many as are in flight are asked first in each start, and do not count.",
)
@click.option(
    "--requests",
    type=click.IntRange(min=1),
    default=20,
    show_default=True,
    help="Requests of each start that count.",
)
@click.option(
    "--differ",
    multiple=True,
    metavar="SETTING",
    help="A setting in which the arms are meant to differ; any other difference is invalid.",
)
@click.option(
    "--seed", type=click.IntRange(min=0), default=0, show_default=True, help="Of the prompts."
)
@click.option(
    "--out",
    type=click.Path(path_type=Path, file_okay=False),
    help=f"Folder for {FILE}, the page and the servers' logs, a run's own or a new one; by default "
    "runs/<UTC time>-serve-<arms>.",
)
@click.option(
    "--json", "json_file", type=click.Path(path_type=Path, dir_okay=False),
    help="Write the result here too.",
)  # fmt: skip
@click.pass_context
def serve(
    context: click.Context, /, out: Path | None, json_file: Path | None, **words: Any
) -> Verdict:
    """How fast two servers decode, by fresh starts in turn and streams timed as they arrive.

    Exit codes: 0 PR is shown faster, 1 shown slower, 2 wrong use, 3 neither is shown, 4 invalid
    (a request failed, was short or cached, or the arms are not alike), 130 interrupted.
    """
    plan = planning.make(planning.Options(**words))
    folder = _folder(out, plan)
    console = console_for_people()
    try:
        from verify.bench.serve.run import measured  # noqa: PLC0415 - needs an optional extra
    except ModuleNotFoundError as error:
        raise UserError(
            f"servers need {error.name}; install kernelproof with its extra: evals"
        ) from None
    loads, found = measured(plan, folder, context.command_path, console)
    for path in filter(None, (folder / FILE, json_file)):
        write_json(path, found)
    for load in loads:
        console.print(table.table(load))
        for line in table.lines(load):
            console.print(line, markup=False)
    verdict = found["verdict"]
    console.print(styled(verdict.upper(), verdict), f"  {_page(folder)}", sep="", markup=False)
    return Verdict(verdict)


def _page(folder: Path) -> str:
    """Where the page is: the run's own if the folder holds one; or why there is none."""
    try:
        if (folder / "result.json").exists():
            return str(render(folder))
        from reports import serving  # noqa: PLC0415 - charts come with an extra
    except (UserError, ModuleNotFoundError) as error:
        return f"{folder / FILE} (no page: {error})"
    return str(serving.render(folder))


def _folder(out: Path | None, plan: planning.Plan) -> Path:
    stamp = manifest.now().replace("-", "").replace(":", "")
    folder = out or Path("runs") / f"{stamp}-serve-{'-'.join(plan.names)}"
    if (folder / FILE).exists():
        raise UserError(f"{folder} holds a {FILE} already; name another folder with --out")
    return made(folder)
