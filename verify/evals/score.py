"""`score`: both arms score the same fixed texts, which sees more than right and wrong answers."""

from __future__ import annotations

import asyncio
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import click
import msgspec
from rich.table import Table

from verify import manifest
from verify.arms import EmbeddedArm
from verify.command import UserError
from verify.evals import plan as planning
from verify.evals.config import CONFIG, arm_specs, read, server_arm
from verify.evals.options import shared
from verify.evals.output import console_for_people
from verify.evals.reporting import render
from verify.evals.show import styled
from verify.files import write_json
from verify.likelihood import embedded, judging
from verify.likelihood.scores import UnlikeTokensError, pair
from verify.likelihood.texts import from_file, own_answers, solutions
from verify.verdict import Verdict, combine

if TYPE_CHECKING:
    from collections.abc import Sequence

    from verify.evals.config import ArmSpec
    from verify.likelihood.judging import Result
    from verify.likelihood.scores import Answer
    from verify.likelihood.texts import Texts
    from verify.servers import ServerArm
    from verify.task import Task

    Asked = tuple[tuple[str, str], ...]

FILE, PLANNED = "score.json", "score-manifest.json"

EMBEDDED_MARGIN = 1e-4
"""Nats a token: other orders of summation move the embedded model's KL by 2e-9, wrong roundings of
its codes by 2e-5 to 4e-4, scales rounded down by 2e-3 (docs/likelihood.md)."""


SERVER_MARGIN = 0.01
"""Nats a token: on a real model harmless changes of arithmetic moved the likelihood by up to
0.0046 +- 0.0014, a 4-bit cache by 0.066 +- 0.011 (docs/likelihood.md)."""


@dataclass(frozen=True)
class Scoring:
    """What will be scored, decided before anything runs."""

    names: tuple[str, str]
    specs: tuple[ArmSpec, ArmSpec]
    tasks: tuple[Task, ...]
    file: Texts | None
    margin: float
    margin_from: str
    model: str | None

    @property
    def served(self) -> bool:
        """Whether the arms are servers."""
        return bool(self.specs[0].urls)

    def arm(self, place: int, folder: Path) -> EmbeddedArm | ServerArm:
        """Base (0) or PR (1), not started; what their processes print goes into `folder`."""
        name, spec = self.names[place], self.specs[place]
        if not spec.urls:
            return EmbeddedArm(name, spec.kernel, folder / f"score-{name}.log")
        return server_arm(name, spec, folder, model=self.model, concurrency=1, longest={})


@click.command()
@shared
@click.option(
    "--texts",
    "file",
    type=click.Path(path_type=Path, dir_okay=False),
    help='Score these instead of a suite\'s: JSON lines {"prompt", "completion"}.',
)
@click.option(
    "--own-answers",
    is_flag=True,
    help="Score what the base arm answers, also where rows have worked solutions.",
)
@click.option("--limit", type=click.IntRange(min=2), help="The first N texts by content hash.")
@click.option(
    "--margin",
    type=click.FloatRange(min=0, min_open=True),
    metavar="NATS",
    help="The loss to rule out, in nats a token; by default above what harmless changes do.",
)
@click.option(
    "--out",
    type=click.Path(path_type=Path, file_okay=False),
    help="Folder to write score.json into, also one that holds a run; by default a new one.",
)
@click.pass_context
def score(
    context: click.Context, /, *, out: Path | None, json_file: Path | None, **words: Any
) -> Verdict:
    """Score the same texts under both arms, token by token, and compare.

    The texts are a suite's worked solutions; where it has none, what the base arm answers. A
    server must tell log-probabilities of prompts. A pass says nothing of accuracy, which a run of
    questions judges; a fail stands by itself.

    Exit codes: 0 pass, 1 fail, 2 wrong use, 3 inconclusive, 4 invalid, 130 interrupted.
    """
    began = time.monotonic()
    scoring = _plan(**words)
    folder = _folder(out, scoring.names)
    about = {
        "command": manifest.command_line(context.command_path),
        "started": manifest.now(),
        "margin_nats": scoring.margin,
        "margin_from": scoring.margin_from,
        "arms": {
            name: {"base_url": list(spec.urls)}
            if spec.urls
            else {"wo_a": spec.kernel or "kernel:chain"}
            for name, spec in zip(scoring.names, scoring.specs, strict=True)
        },
        **manifest.environment(),
    }
    write_json(folder / PLANNED, about)  # before anything is scored
    texts = _texts(scoring, folder, own=words["own_answers"])
    results, told = _compare(scoring, texts, folder)
    document = {
        "verdict": str(combine(each.verdict for each in results)),
        "margin_nats": scoring.margin,
        "texts": msgspec.to_builtins(results),
        "manifest": {**about, **told, "seconds": round(time.monotonic() - began, 1)},
    }
    for path in filter(None, (folder / FILE, json_file)):
        write_json(path, document)
    _show(document, folder)
    return Verdict(document["verdict"])


def _plan(
    *,
    arms: str,
    arm: tuple[str, ...],
    suite: tuple[str, ...],
    data: tuple[str, ...],
    unpinned: bool,
    file: Path | None,
    own_answers: bool,
    limit: int | None,
    margin: float | None,
    model: str | None,
) -> Scoring:
    names = planning.arm_names(arms)
    specs = arm_specs(names, arm, read(Path(CONFIG)))
    served = bool(specs[0].urls)
    if model is not None and not served:
        raise UserError("--model names the model of a server, and both arms are embedded")
    tasks: tuple[Task, ...] = ()
    texts = None
    if file is not None:
        for option, given in (("--suite", suite), ("--data", data), ("--own-answers", own_answers)):
            if given:
                raise UserError(f"{option} and --texts name texts each; give one of them")
        texts = from_file(file, limit)
    else:
        tasks = planning.make(
            planning.Options(
                arms=arms,
                arm=arm,
                suite=suite,
                data=data,
                limit=limit,
                unpinned=unpinned,
                model=model,
            )
        ).tasks
        for task in tasks:
            if task.suite.spec.prompt.style != "completion":
                raise UserError(
                    f"suite {task.name} is asked as a chat, and a server scores plain texts only; "
                    "name a suite of style completion, or --texts FILE"
                )
    return Scoring(
        names,
        specs,
        tasks,
        texts,
        margin or (SERVER_MARGIN if served else EMBEDDED_MARGIN),
        "--margin" if margin else "harmless changes measured",
        model,
    )


def _folder(out: Path | None, names: tuple[str, str]) -> Path:
    stamp = manifest.now().replace("-", "").replace(":", "")
    folder = out or Path("runs") / f"{stamp}-score-{'-'.join(names)}"
    if (folder / FILE).exists():
        raise UserError(f"{folder} holds a {FILE} already; name another folder with --out")
    return folder


def _texts(scoring: Scoring, folder: Path, *, own: bool) -> list[Texts]:
    """Every kind of text; what the base arm must answer first, it answers now."""
    if scoring.file is not None:
        return [scoring.file]
    found = []
    for task in scoring.tasks:
        worked = None if own else solutions(task.suite.spec, task.items)
        if worked is None:
            arm = scoring.arm(0, folder)
            worked = asyncio.run(own_answers(arm, task.suite.spec, task.items))
        found.append(worked)
    return found


def _compare(
    scoring: Scoring, texts: Sequence[Texts], folder: Path
) -> tuple[list[Result], dict[str, Any]]:
    """Both arms, and base once more; what the manifest says of it."""
    asked = tuple((each.prompt, each.completion) for kind in texts for each in kind.texts)
    answers = _served(scoring, folder, asked) if scoring.served else _embedded(scoring, asked)
    for answer in answers:
        if answer.misused:
            raise UserError(str(answer.reason))
    results, start = [], 0
    for kind in texts:
        mine = slice(start, start + len(kind.texts))
        results.append(_result(scoring, kind, answers, mine))
        start = mine.stop
    told = {
        name: {"calls": dict(answer.calls), "method": answer.method}
        for name, answer in zip(scoring.names, (answers[0], answers[2]), strict=True)
    }
    return results, {"told": told}


def _embedded(scoring: Scoring, asked: Asked) -> list[Answer]:
    """Base, base again and PR, in processes of their own."""
    jobs = [
        embedded.Job(name, spec.kernel, asked)
        for name, spec in zip(scoring.names, scoring.specs, strict=True)
    ]
    return embedded.answers([jobs[0], jobs[0], jobs[1]])


def _served(scoring: Scoring, folder: Path, asked: Asked) -> list[Answer]:
    """Base, base again and PR, one after the other; each anew where it is started by us."""
    from verify.likelihood import servers  # noqa: PLC0415 - needs an optional extra

    base, pr, again = (
        asyncio.run(servers.answer(cast("ServerArm", scoring.arm(place, folder)), asked))
        for place in (0, 1, 0)
    )
    return [base, again, pr]


def _result(scoring: Scoring, texts: Texts, answers: Sequence[Answer], mine: slice) -> Result:
    """What one kind of text came to."""
    margin = scoring.margin
    problem = _problem(scoring, texts, answers)
    if problem is not None:
        return judging.invalid(texts, margin, problem)
    base, again, new = (each.scores[mine] for each in answers)
    for name, scores, judge in (
        (scoring.names[0], base + again, judging.invalid),
        (scoring.names[1], new, judging.broken),
    ):
        wrong = sum(not each.finite for each in scores)
        if wrong:
            said = f"{name} gives figures that are no numbers, {wrong} times in {len(scores)}"
            return judge(texts, margin, said)
    try:
        pairs = [pair(t.item, b, p) for t, b, p in zip(texts.texts, base, new, strict=True)]
        noise = [pair(t.item, b, a) for t, b, a in zip(texts.texts, base, again, strict=True)]
    except UnlikeTokensError as error:
        return judging.invalid(texts, margin, str(error))
    return judging.judge(texts, pairs, noise, margin=margin, kl_is_bound=scoring.served)


def _problem(scoring: Scoring, texts: Texts, answers: Sequence[Answer]) -> str | None:
    """Why there is nothing to compare."""
    for answer in answers:
        if answer.reason is not None:
            return answer.reason
    if not texts.texts:
        return f"{scoring.names[0]} finished no answer to score"
    if scoring.specs[1].kernel and not answers[2].calls.get("fused"):
        return f"{scoring.names[1]} never took the fused path"
    methods = sorted({each.method for each in answers})
    return f"the arms tell by {' and by '.join(methods)}" if len(methods) > 1 else None


_COLUMNS = (
    "texts", "verdict", "items", "base\nnats", "diff\nnats", "95 %\ninterval", "KL\nnats",
    "same\ntop %", "base to\nitself",
)  # fmt: skip


def _show(document: dict[str, Any], folder: Path) -> None:
    console = console_for_people()
    table = Table(box=None, pad_edge=False, header_style="dim", padding=(0, 1, 0, 0))
    for name in _COLUMNS:
        table.add_column(name, no_wrap=True)
    for each in document["texts"]:
        table.add_row(each["name"], styled(each["verdict"]), str(each["items"]), *_figures(each))
    console.print(table)
    for each in document["texts"]:
        console.print(f"{each['name']} ({each['source']}): {each['reason']}", markup=False)
    if all(each["noise"] and each["noise"]["identical"] for each in document["texts"]):
        console.print("base scores itself bit for bit: it is deterministic, which proves nothing")
    margin = f"{document['margin_nats']:g} nats a token ({document['manifest']['margin_from']})"
    console.print(f"margin {margin}, fixed before the run", markup=False)
    where = folder / FILE
    if (folder / "result.json").exists():
        try:
            where = render(folder)
        except UserError as error:
            console.print(str(error), markup=False)
    verdict = document["verdict"]
    console.print(styled(verdict.upper(), verdict), f"  {where}", sep="", markup=False)


def _figures(each: dict[str, Any]) -> list[str]:
    if each["difference"] is None:
        return ["-"] * 6
    low, high = each["difference"]["interval"] or (float("-inf"), float("inf"))
    itself = each["noise"]
    bound = "> " if each["kl_is_bound"] else ""
    return [
        f"{each['nll']['base']:.4f}",
        f"{each['difference']['mean']:+.2g}",
        f"{low:+.2g} to {high:+.2g}",
        f"{bound}{each['kl']['mean']:.2g}",
        f"{100 * each['agreement']:.2f}",
        "identical" if itself["identical"] else f"{itself['difference']['mean']:+.2g}",
    ]
