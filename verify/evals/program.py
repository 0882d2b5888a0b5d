"""Command line of layer 3: run two arms on the same questions, or render a run again."""

from __future__ import annotations

import asyncio
import json
import sqlite3
import time
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
import msgspec
from click.core import ParameterSource

from verify import manifest, resume, runner, store
from verify.command import UserError
from verify.differences import differences
from verify.evals import plan as planning
from verify.evals import progress, show
from verify.evals.comparing import compare
from verify.evals.export import export
from verify.evals.going_on import only_here, unfinished
from verify.evals.grade import grade
from verify.evals.noise import aa
from verify.evals.opinions import dependent, hanging
from verify.evals.output import console_for_people
from verify.evals.power import power
from verify.evals.reporting import render, report
from verify.evals.score import score
from verify.files import write_json
from verify.verdict import Verdict, combine

if TYPE_CHECKING:
    from collections.abc import Mapping

    from rich.console import Console

    from verify.evals.plan import Plan
    from verify.stats.suite import SuiteResult
    from verify.store import Record, Store


RUN_FILES = (
    store.FILE_NAME,
    "manifest.json",
    "result.json",
    "report.html",
    "comment.md",
    "junit.xml",
)
"""What a run writes; where one of them stands already, none is written."""


class KernelFinding(msgspec.Struct):
    """What is used of a finding of layers 1 and 2."""

    case: str
    check: str
    layer: int
    message: str
    replay: str


class KernelResult(msgspec.Struct):
    """What is used of kernel.json, which verify.kernel may have left in the folder."""

    verdict: Verdict
    layers: dict[str, Verdict]
    cases: int
    executed: int
    findings: list[KernelFinding]
    tiers: dict[str, int]
    adequacy: dict[str, int]
    environment: dict[str, str]
    seconds: float


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
@click.option(
    "--arms", default="base,pr", show_default=True, help="Names of the two arms, base first."
)
@click.option(
    "--arm",
    multiple=True,
    metavar="NAME=URL|MODULE:FUNCTION",
    help="What an arm is: an OpenAI-compatible server, or the embedded model with that kernel "
    "behind WO-A. By default base uses the unfused chain and pr kernel:fused_triton.",
)
@click.option(
    "--suite",
    multiple=True,
    help="A built-in suite, or a folder with a suite.toml; may be given several times. "
    "Embedded arms answer mini-gsm8k, mini-aime and mini-gpqa by default.",
)
@click.option(
    "--data",
    multiple=True,
    metavar="SUITE=PATH",
    help="A local file of a suite's rows: JSON lines, .csv or .parquet.",
)
@click.option("--unpinned", is_flag=True, help="Accept files of other hashes than suites pin.")
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
@click.option("--model", help="The model to ask servers for; not needed where they offer one.")
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
@click.option(
    "--json",
    "json_file",
    type=click.Path(path_type=Path, dir_okay=False),
    help="Write the result here too.",
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
    began = time.monotonic()
    plan = planning.make(planning.Options(**words))
    folder = _folder(out, plan)
    console = console_for_people()
    document = _run(plan, folder, context.command_path, console, began)
    for path in filter(None, (folder / "result.json", json_file)):
        write_json(path, document)
    _show(console, document, folder)
    described = document["manifest"]
    if described["unanswered"] and described["go_on_with"] and unfinished(folder):
        missing = f"{described['unanswered']} questions have no answer"
        click.echo(f"{missing}{_rest(described)}", err=True)
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
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UserError(f"{folder} cannot be made ({error.strerror}); name another") from None
    _kernel(folder / "kernel.json")  # one that cannot be read is told now, not after the run
    return folder


def _run(plan: Plan, folder: Path, program: str, console: Console, began: float) -> dict[str, Any]:
    """Ask everything, judge it, and return the content of result.json."""
    arms = plan.arms(folder)
    about = {
        "command": manifest.command_line(program),
        "go_on_with": manifest.go_on_with(program, folder) if plan.specs[0].urls else None,
        "started": manifest.now(),
        "rules": asdict(plan.rules),
        "declared_to_differ": list(plan.differ),
        "required_paths": list(plan.require_path),
        **manifest.environment(),
    }
    opened: list[Store] = []
    kept: list[str] = []

    def describe(**more: Any) -> dict[str, Any]:
        described = {
            **about,
            **more,
            "arms": {arm.name: arm.settings() for arm in arms},
            "suites": {task.name: manifest.suite(task) for task in plan.tasks},
        }
        write_json(folder / "manifest.json", described)
        return described

    def begin(fixed: Mapping[str, str]) -> Store:
        opened.append(_store(folder / store.FILE_NAME))
        resume.claim(opened[0], fixed)
        describe()
        for record in opened[0].records():
            if record.error is None:  # the others are asked again
                kept.append(record.item)
                watch.held(record)
        return opened[0]

    with only_here(folder), progress.Watch(console, plan.names, plan.tasks) as watch:

        def heard(record: Record) -> None:
            kept.append(record.item)
            watch.heard(record)

        try:
            extended = asyncio.run(runner.run(arms, plan.tasks, plan.rules, begin, heard))
            settings = {arm.name: arm.settings().get("compared", {}) for arm in arms}
            unequal = list(differences(settings, plan.differ))
            suites = runner.conclude(arms, plan.tasks, plan.rules, opened[0], unequal)
            records = list(opened[0].records())
            extractors = dependent(records, plan.tasks, plan.names)
        except KeyboardInterrupt:
            if opened:
                describe(interrupted=manifest.now())
                click.echo(
                    f"{len(kept)} answers are kept in {folder / store.FILE_NAME}{_rest(about)}",
                    err=True,
                )
            raise
        finally:
            for each in opened:
                each.close()
            _leave_nothing_empty(folder)
    described = describe(
        finished=manifest.now(),
        seconds=round(time.monotonic() - began, 1),
        extended=extended,
        unanswered=sum(record.error is not None for record in records),
    )
    return _document(suites, extractors, described, folder)


def _rest(described: Mapping[str, Any]) -> str:
    """How to ask what was not answered, if that can be."""
    command = described["go_on_with"]
    return f"; go on with: {command}" if command else ""


def _document(
    suites: list[SuiteResult],
    extractors: dict[str, dict[str, Any]] | None,
    described: dict[str, Any],
    folder: Path,
) -> dict[str, Any]:
    """All layers together: what verify.kernel left in the folder counts too."""
    kernel = _kernel(folder / "kernel.json")
    verdicts = [suite.verdict for suite in suites]
    if kernel is not None:
        verdicts.append(Verdict(kernel["verdict"]))
    return {
        "verdict": str(combine(verdicts)),
        "suites": msgspec.to_builtins(suites),
        "extractors": extractors,
        **({"kernel": kernel} if kernel is not None else {}),
        "manifest": described,
    }


def _kernel(path: Path) -> dict[str, Any] | None:
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
        msgspec.convert(found, KernelResult)
    except FileNotFoundError:
        return None
    except (OSError, ValueError) as error:
        raise UserError(f"{path} is not a result of verify.kernel ({error}); remove it") from None
    assert isinstance(found, dict)
    return found


def _show(console: Console, document: dict[str, Any], folder: Path) -> None:
    try:
        where = str(render(folder))
    except UserError as error:
        where = str(error)
    for line in hanging(document["extractors"]):
        console.print(line, markup=False)
    show.verdicts(console, document, where)


def _store(path: Path) -> Store:
    try:
        return store.Store.open(path)
    except sqlite3.Error as error:
        raise UserError(f"{path} cannot be written ({error}); name another folder") from None


def _leave_nothing_empty(folder: Path) -> None:
    """Remove the folder if nothing came of the run."""
    if not any(folder.iterdir()):
        folder.rmdir()
