"""What the judge says of a candidate: the first case that gives a fault away, or any alarm."""

from __future__ import annotations

import functools
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch

from verify import cases, harness, inputs
from verify.compare import judge
from verify.faults.catalogue import CATALOGUE
from verify.faults.equivalent import EQUIVALENTS
from verify.faults.honest import VARIANTS
from verify.faults.source18 import detections
from verify.pool import Lost, Pool

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from verify.cases import Budget, Case, KernelSpec
    from verify.harness import Candidate

KILLED_S = 30.0
"""Seconds after which a candidate that is known to hang is believed to."""

JUDGED_S = 1800.0
"""Seconds that judging any other may take."""


@dataclass(frozen=True)
class Task:
    """One candidate to judge.

    Attributes:
        kind: `fault`, `equivalent` or `honest`: the list that `name` stands in.
        name: of the fault or variant.
        grid: `ours`, or `source18` for the cases and tolerances of the source pull request.
        spec: the kernel's sizes; honest kernels get one case of every family at these.
        budget: of the grid that a fault gets, most of it at the reduced shape.
        seed: of the inputs.
        exhaustive: go on after the first detection.
    """

    kind: str
    name: str
    grid: str
    spec: KernelSpec
    budget: Budget
    seed: int
    exhaustive: bool = False

    @property
    def kills(self) -> bool:
        """Whether it is known to take its process down."""
        return self.kind == "fault" and CATALOGUE[self.name].kills


@dataclass(frozen=True)
class Score:
    """What was seen.

    Attributes:
        task: what was judged.
        checks: the checks that noticed something, in the order of the first case that did.
        case: that case's id; None if nothing was noticed.
        message: its first finding, or why there is no answer.
        cases: how many were judged.
        seconds: they took.
        answered: false where the judge did not come back.
    """

    task: Task
    checks: tuple[str, ...]
    case: str | None
    message: str
    cases: int
    seconds: float
    answered: bool = True

    @property
    def noticed(self) -> bool:
        """Whether a check said that something is wrong."""
        return self.answered and bool(self.checks)

    @property
    def quiet(self) -> bool:
        """Whether the judge came back and had nothing to say."""
        return self.answered and not self.checks


def score_all(tasks: Sequence[Task], workers: int) -> Iterator[Score]:
    """Scores as they come.

    A candidate that is known to take its process down is noticed by losing that process, as
    `verify.kernel` loses it; the process of any other one must not be lost.
    """
    for kills, limit_s in ((True, KILLED_S), (False, JUDGED_S)):
        mine = [task for task in tasks if task.kills == kills]
        if not mine:
            continue
        with Pool[Task, Score](start, min(workers, len(mine)), limit_s) as pool:
            for task, answer in pool.answers(mine):
                yield lost(task, answer) if isinstance(answer, Lost) else answer


def lost(task: Task, answer: Lost) -> Score:
    """The score of a task whose process was lost."""
    return Score(task, ("error",), None, answer.reason, 0, 0.0, answered=task.kills)


def start(_: int) -> Callable[[Task], Score]:
    """What a worker process does."""
    torch.set_num_threads(1)
    return score


def score(task: Task) -> Score:
    """Judge one candidate."""
    began = time.perf_counter()
    checks: dict[str, None] = {}
    first: tuple[str, str] | None = None
    judged = 0
    for case, findings in noticed(task, build(task)):
        judged += 1
        checks |= dict.fromkeys(check for check, _ in findings)
        first = first or ((case, findings[0][1]) if findings else None)
        if first and not task.exhaustive:
            break
    case_id, message = first or (None, "")
    return Score(task, tuple(checks), case_id, message, judged, time.perf_counter() - began)


def build(task: Task) -> Candidate:
    """A fresh candidate."""
    if task.kind == "fault":
        return CATALOGUE[task.name].plant()
    if task.kind == "equivalent":
        return EQUIVALENTS[task.name].fault.plant()
    return VARIANTS[task.name].build()


def noticed(task: Task, candidate: Candidate) -> Iterable[tuple[str, list[tuple[str, str]]]]:
    """Per case, its id and the findings: check and message."""
    if task.grid == "source18":
        yield from detections(candidate)
        return
    for case in asked(task):
        made = inputs_of(case, task.seed)
        judgement = judge(made, harness.run(candidate, made), task.spec)
        yield case.id, [(finding.check, finding.message) for finding in judgement.findings]


def asked(task: Task) -> list[Case]:
    """The cases of a task, those that cost least first."""
    if task.kind == "honest":
        return full_launches(task.spec)
    grid = cases.grid(task.spec, task.budget, "reduced")
    return sorted(grid, key=lambda case: (case.rank * case.k, case.draw))


def full_launches(spec: KernelSpec) -> list[Case]:
    """One case of every family, at the largest T, and one of every probe."""
    return [
        cases.place(
            spec,
            layout=number % cases.FAR,
            family=name,
            tokens=spec.max_tokens,
            table=family.tables[-1],
            positions=family.positions[0],
            index="int64" if number % 2 else "int32",
        )
        for number, (name, family) in enumerate(cases.FAMILIES.items())
    ] + cases.extras(spec)


@functools.lru_cache(maxsize=80)
def inputs_of(case: Case, seed: int) -> inputs.Inputs:
    """Inputs are the same for every candidate, and a worker judges many."""
    return inputs.make(case, seed)
