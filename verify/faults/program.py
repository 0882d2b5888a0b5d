"""The program: plants every catalogued fault, judges it, and shows what notices it."""

from __future__ import annotations

import os
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from rich.console import Console
from rich.markup import escape
from rich.progress import track
from rich.table import Table

from verify.cases import KernelSpec, reduced
from verify.command import Programs, UserError
from verify.faults.catalogue import CATALOGUE
from verify.faults.equivalent import EQUIVALENTS
from verify.faults.honest import VARIANTS
from verify.faults.matrix import matrix
from verify.faults.model import KEPT_CLAIMS
from verify.faults.record import Family, selected
from verify.faults.score import Score, Task, score_all
from verify.files import write_json
from verify.verdict import Verdict

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from verify.cases import Budget


@click.group(cls=Programs)
def command() -> None:
    """Plant every fault and show what notices it; by default run."""


@command.command()
@click.option("--grid", type=click.Choice(["ours", "source18"]), default="ours", show_default=True,
              help="Cases and checks: ours, or those of the source pull request.")  # fmt: skip
@click.option("--only", "words", multiple=True, metavar="TEXT",
              help="Names that contain TEXT, or a family; may be repeated.")  # fmt: skip
@click.option("--budget", type=click.Choice(["quick", "standard", "full"]), default="quick",
              show_default=True, help="Size of our grid.")  # fmt: skip
@click.option("--seed", default=0, show_default=True, help="First seed of the inputs.")
@click.option("--seeds", type=click.IntRange(1), default=2, show_default=True,
              help="Seeds per honest kernel: one case of every family each.")  # fmt: skip
@click.option(
    "--exhaustive",
    is_flag=True,
    help="Go on after the first finding, and show every check that notices each fault.",
)
@click.option("--workers", type=click.IntRange(1), default=os.cpu_count() or 1, show_default=True,
              help="Processes.")  # fmt: skip
@click.option("--json", "json_file", type=click.Path(dir_okay=False, path_type=Path),
              help="Write every score to this file.")  # fmt: skip
def run(  # noqa: PLR0917 - click hands over each option by name
    grid: str,
    words: tuple[str, ...],
    budget: Budget,
    seed: int,
    seeds: int,
    exhaustive: bool,  # noqa: FBT001 - likewise
    workers: int,
    json_file: Path | None,
) -> Verdict:
    """Plant every fault, judge it by layers 1 and 2, and judge the honest kernels beside.

    Each is judged to the first case that gives it away. Passes if every fault is noticed and no
    honest kernel is.
    """
    tasks = list(planned(words, grid, budget, range(seed, seed + seeds), exhaustive=exhaustive))
    if not tasks:
        raise UserError(f"--only {' '.join(words)} names no fault and no family; see --help")
    console, shown = Console(), Console(stderr=True)
    answers = score_all(tasks, workers)
    hidden = not shown.is_terminal
    scores = list(track(answers, "judging", len(tasks), console=shown, disable=hidden))
    place = {task: number for number, task in enumerate(tasks)}
    scores.sort(key=lambda score: place[score.task])
    faults = [score for score in scores if score.task.kind == "fault"]
    right = [score for score in scores if score.task.kind != "fault"]
    if exhaustive:
        console.print(by_fault(faults))
    report(console, faults, right)
    caught, silent = all(score.noticed for score in faults), all(score.quiet for score in right)
    verdict = Verdict.PASS if caught and silent else Verdict.FAIL
    if json_file is not None:
        write_json(json_file, document(scores, verdict))
    return verdict


command.add_command(matrix)


def planned(
    words: Sequence[str], grid: str, budget: Budget, seeds: Sequence[int], *, exhaustive: bool
) -> Iterator[Task]:
    """What to judge: kernels that are right with many inputs, faults with one seed."""
    whole = KernelSpec(claims=KEPT_CLAIMS)
    if grid == "source18":  # its cases have one shape, the full one, and one seed
        for kind in ("honest", "fault", "equivalent"):
            for name in chosen(kind, words):
                if not slow(kind, name):
                    yield Task(kind, name, grid, whole, budget, seeds[0], exhaustive)
        return
    honest = list(chosen("honest", words))

    def side_by_side(
        spec: KernelSpec, names: Iterable[str], seed: int, **rest: bool
    ) -> Iterator[Task]:
        for name in names:
            held_to = replace(spec, claims=VARIANTS[name].claims)
            yield Task("honest", name, grid, held_to, budget, seed, **rest)

    yield from side_by_side(whole, [n for n in honest if not slow("honest", n)], seeds[0])
    for seed in seeds:
        yield from side_by_side(reduced(whole), honest, seed, probes=seed == seeds[0])
    for kind in ("fault", "equivalent"):
        for name in chosen(kind, words):
            yield Task(kind, name, grid, whole, budget, seeds[0], exhaustive)


def slow(kind: str, name: str) -> bool:
    """Whether a launch at the full shape takes seconds."""
    if kind == "honest":
        return VARIANTS[name].slow
    return kind == "fault" and CATALOGUE[name].slow


def chosen(kind: str, words: Sequence[str]) -> Iterator[str]:
    """The names of one kind that the words select; all if there are none."""
    lists: dict[str, dict[str, str]] = {
        "fault": {name: fault.family.value for name, fault in CATALOGUE.items()},
        "equivalent": dict.fromkeys(EQUIVALENTS, "equivalent"),
        "honest": dict.fromkeys(VARIANTS, "honest"),
    }
    for name, family in lists[kind].items():
        if selected(words, family, name):
            yield name


def expected(score: Score) -> str:
    """The check that ought to notice the fault."""
    return CATALOGUE[score.task.name].sees


def report(console: Console, faults: Sequence[Score], right: Sequence[Score]) -> None:
    """Table by family, then each miss and each false alarm."""
    if faults:
        console.print(by_family(faults))
    for score in faults:
        if not score.noticed:
            why = score.message or f"{score.cases} cases show nothing"
            say(console, "missed", f"{described(score)} ({expected(score)}): {why}")
    alarms = [score for score in right if not score.quiet]
    for score in alarms:
        where = f"seed {score.task.seed}, {score.case}"
        say(console, "false alarm", f"{score.task.name}: {score.message} ({where})")
    caught, kernels = sum(score.noticed for score in faults), {score.task.name for score in right}
    cases = sum(score.cases for score in right)
    console.print(
        f"{caught} of {len(faults)} faults noticed; {len(alarms)} false alarms "
        f"over {len(kernels)} kernels that are right, {cases} cases"
    )


def say(console: Console, what: str, line: str) -> None:
    """One red word, then a line that may hold brackets of its own."""
    console.print(f"[red]{what}[/] {escape(line)}", soft_wrap=True, highlight=False)


def described(score: Score) -> str:
    """Name, number and description of a fault."""
    fault = CATALOGUE[score.task.name]
    number = f" (no. {fault.number})" if fault.number else ""
    return f"{fault.name}{number}: {fault.description.rstrip('.')}"


def by_family(faults: Sequence[Score]) -> Table:
    """Planted and noticed, and by which checks."""
    table = Table("family", "planted", "noticed", "as expected", "noticed by")
    for family in Family:
        mine = [score for score in faults if CATALOGUE[score.task.name].family == family]
        if not mine:
            continue
        caught = [score for score in mine if score.noticed]
        checks = Counter(score.checks[0] for score in caught)
        table.add_row(
            family,
            str(len(mine)),
            str(len(caught)),
            str(sum(expected(score) in score.checks for score in caught)),
            ", ".join(f"{check} {count}" for check, count in checks.most_common()),
        )
    return table


def by_fault(faults: Sequence[Score]) -> Table:
    """Every fault with every check that notices it."""
    table = Table("fault", "family", "expected", "noticed by")
    for score in faults:
        fault = CATALOGUE[score.task.name]
        table.add_row(fault.name, fault.family, fault.sees, ", ".join(score.checks) or "nothing")
    return table


def document(scores: Iterable[Score], verdict: Verdict) -> dict[str, Any]:
    """What --json holds."""
    return {
        "verdict": verdict,
        "scores": [
            {
                "kind": score.task.kind,
                "name": score.task.name,
                "grid": score.task.grid,
                "seed": score.task.seed,
                "shape": f"{score.task.spec.groups},{score.task.spec.rank},{score.task.spec.k}",
                "noticed": score.noticed,
                "answered": score.answered,
                "checks": list(score.checks),
                "case": score.case,
                "message": score.message,
                "cases": score.cases,
                "seconds": round(score.seconds, 3),
            }
            | details(score)
            for score in scores
        ],
    }


def details(score: Score) -> dict[str, Any]:
    """What the lists say of the candidate."""
    name = score.task.name
    if score.task.kind == "honest":
        return {"description": VARIANTS[name].description}
    if score.task.kind == "equivalent":
        entry = EQUIVALENTS[name]
        return {"description": entry.fault.description, "reason": entry.reason}
    fault = CATALOGUE[name]
    return {
        "description": fault.description,
        "family": fault.family,
        "number": fault.number,
        "expected": fault.sees,
    }
