"""What the judge says of a candidate: the first case that gives a fault away, or any alarm."""

from __future__ import annotations

import functools
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

from verify import cases, harness, inputs
from verify.compare import judge
from verify.faults.catalogue import CATALOGUE
from verify.faults.equivalent import EQUIVALENTS
from verify.faults.honest import VARIANTS
from verify.faults.source18 import detections

if TYPE_CHECKING:
    from collections.abc import Iterable

    from verify.cases import Budget, Case, KernelSpec
    from verify.harness import Candidate


@dataclass(frozen=True)
class Task:
    """One candidate for a worker to judge.

    Attributes:
        kind: `fault`, `equivalent` or `honest`: the list that `name` stands in.
        name: of the fault or variant.
        grid: `ours`, or `source18` for the cases and tolerances of the source pull request.
        spec: the kernel's sizes.
        budget: of the grid; unused for honest kernels, which get one case of every family a seed.
        seeds: of the inputs; faults use the first alone.
        exhaustive: go on after the first detection.
    """

    kind: str
    name: str
    grid: str
    spec: KernelSpec
    budget: Budget
    seeds: tuple[int, ...]
    exhaustive: bool = False


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
        answered: false where the judge died or never came back.
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


def score(task: Task) -> Score:
    """Judge one candidate."""
    began = time.perf_counter()
    checks: dict[str, None] = {}
    first: tuple[str, str] | None = None
    judged = 0
    candidate = build(task)
    for case, findings in noticed(task, candidate):
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
    for case, seed in asked(task):
        made = inputs_of(case, seed)
        judgement = judge(made, harness.run(candidate, made), task.spec)
        yield case.id, [(finding.check, finding.message) for finding in judgement.findings]


def asked(task: Task) -> Iterable[tuple[Case, int]]:
    """The cases of a task, those that cost least first."""
    if task.kind != "fault":
        small = task.spec if task.name in VARIANTS and not VARIANTS[task.name].slow else None
        for seed in task.seeds:
            # The first seed is at the kernel's own shape wherever that does not take minutes.
            spec = task.spec if seed == task.seeds[0] and small else cases.reduced(task.spec)
            yield from ((case, seed) for case in full_launches(spec))
        return
    grid = cases.grid(task.spec, task.budget, "reduced")
    for case in sorted(grid, key=lambda case: (case.rank * case.k, case.draw)):
        yield case, task.seeds[0]


def full_launches(spec: KernelSpec) -> list[Case]:
    """One case of every family, at the largest T."""
    return [
        cases.place(
            spec,
            layout=number % 5,
            family=name,
            tokens=spec.max_tokens,
            table=family.tables[-1],
            positions=family.positions[0],
            index="int64" if number % 2 else "int32",
        )
        for number, (name, family) in enumerate(cases.FAMILIES.items())
    ]


@functools.lru_cache(maxsize=80)
def inputs_of(case: Case, seed: int) -> inputs.Inputs:
    """Inputs are the same for every candidate, and a worker judges many."""
    return inputs.make(case, seed)
