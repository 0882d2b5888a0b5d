"""What the judge says of candidates: the first case that gives a fault away, or any alarm."""

from __future__ import annotations

import functools
import itertools
import time
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

import torch

from verify import cases, harness, inputs
from verify.compare import judge
from verify.faults import source18
from verify.faults.catalogue import CATALOGUE
from verify.faults.equivalent import EQUIVALENTS
from verify.faults.honest import VARIANTS
from verify.pool import Lost, Pool

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from verify.cases import Budget, Case, KernelSpec
    from verify.harness import Candidate
    from verify.inputs import Inputs

    Questions = Iterator[tuple[str, Callable[[Candidate, KernelSpec], list[tuple[str, str]]]]]
    """Of each case its id, and what finds a candidate of this spec out: check and message."""

KILLED_S = 20.0
"""Seconds after which a candidate that is known to hang is believed to."""

JUDGED_S = 1800.0
"""Seconds that judging others, so many together, may take."""

TOGETHER = 16
"""Most candidates that are judged side by side."""


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
        probes: whether an honest kernel gets one case of every probe, too.
    """

    kind: str
    name: str
    grid: str
    spec: KernelSpec
    budget: Budget
    seed: int
    exhaustive: bool = False
    probes: bool = False

    @property
    def asked_alike(self) -> Task:
        """The same for all candidates that are asked the same cases."""
        return replace(self, name="", spec=replace(self.spec, claims=frozenset()))

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


Batch = tuple[Task, ...]
"""Candidates that are asked the same cases: each case is made once for all of them."""


def score_all(tasks: Sequence[Task], workers: int) -> Iterator[Score]:
    """Scores as they come.

    A candidate that is known to take its process down is noticed by losing that process, as
    `verify.kernel` loses it; the process of any other one must not be lost. If it is, those that
    were judged beside it are judged again, each by itself.
    """
    waiting = list(batches(tasks))
    while waiting:
        alone: list[Batch] = []
        with Pool[Batch, list[Score]](start, min(workers, len(waiting)), limit_s) as pool:
            for batch, answer in pool.answers(waiting):
                if not isinstance(answer, Lost):
                    yield from answer
                elif len(batch) == 1:
                    yield lost(batch[0], answer)
                else:
                    alone += [(task,) for task in batch]
        waiting = alone


def batches(tasks: Sequence[Task]) -> Iterator[Batch]:
    """Those that kill first, as they may take long to be believed, each by itself."""
    killing = [task for task in tasks if task.kills]
    yield from ((task,) for task in killing)
    others = (task for task in tasks if not task.kills)
    for _, alike in itertools.groupby(others, key=lambda task: task.asked_alike):
        mine = list(alike)
        for first in range(0, len(mine), TOGETHER):
            yield tuple(mine[first : first + TOGETHER])


def limit_s(batch: Batch) -> float:
    """Seconds that judging it may take."""
    return KILLED_S if batch[0].kills else JUDGED_S


def lost(task: Task, answer: Lost) -> Score:
    """The score of a task whose process was lost."""
    return Score(task, ("error",), None, answer.reason, 0, 0.0, answered=task.kills)


def start(_: int) -> Callable[[Batch], list[Score]]:
    """What a worker process does."""
    torch.set_num_threads(1)
    return score


@dataclass
class Trial:
    """One candidate and what has been seen of it."""

    task: Task
    candidate: Candidate
    checks: dict[str, None] = field(default_factory=dict)
    case: str | None = None
    message: str = ""
    cases: int = 0
    seconds: float = 0.0

    @property
    def over(self) -> bool:
        """Whether no more is to be asked."""
        return bool(self.checks) and not self.task.exhaustive

    def score(self) -> Score:
        """What it came to."""
        return Score(
            self.task, tuple(self.checks), self.case, self.message, self.cases, self.seconds
        )


def score(batch: Batch) -> list[Score]:
    """Judge candidates side by side, case by case; for each one it is as if it were alone."""
    trials = [Trial(task, build(task)) for task in batch]
    for case, findings_of in questions(batch[0]):
        going = [trial for trial in trials if not trial.over]
        if not going:
            break
        for trial in going:
            began = time.perf_counter()
            findings = findings_of(trial.candidate, trial.task.spec)
            trial.seconds += time.perf_counter() - began
            trial.cases += 1
            if findings and not trial.checks:
                trial.case, trial.message = case, findings[0][1]
            trial.checks |= dict.fromkeys(check for check, _ in findings)
    return [trial.score() for trial in trials]


def build(task: Task) -> Candidate:
    """A fresh candidate."""
    if task.kind == "fault":
        return CATALOGUE[task.name].plant()
    if task.kind == "equivalent":
        return EQUIVALENTS[task.name].fault.plant()
    return VARIANTS[task.name].build()


def questions(task: Task) -> Questions:
    """The cases of a task, each with what finds a candidate out."""
    if task.grid == "source18":
        for name, failures in source18.questions():
            yield name, functools.partial(failed, failures)
        return
    for case in asked(task):
        yield case.id, functools.partial(found, inputs.make(case, task.seed))


def failed(
    failures: Callable[[Candidate], list[source18.Failure]], candidate: Candidate, _: KernelSpec
) -> list[tuple[str, str]]:
    """What a case of the source pull request finds; it asks every kernel the same."""
    return failures(candidate)


def found(made: Inputs, candidate: Candidate, spec: KernelSpec) -> list[tuple[str, str]]:
    """Check and message of each finding of a case."""
    judgement = judge(made, harness.run(candidate, made), spec)
    return [(finding.check, finding.message) for finding in judgement.findings]


def asked(task: Task) -> list[Case]:
    """The cases of a task.

    A fault gets a grid, one case of each kind first and the kernel's own shape last; an equivalent
    the first case of each kind; an honest kernel one of every family at the largest T.
    """
    if task.kind == "honest":
        probes = cases.extras(task.spec) if task.probes else []
        return full_launches(task.spec, task.seed) + probes
    grid = cases.grid(task.spec, task.budget, "reduced")
    if task.kind == "equivalent":
        grid = [case for case in grid if case.draw == 0]
    return sorted(grid, key=lambda case: (case.rank == task.spec.rank, case.draw, case.k))


def full_launches(spec: KernelSpec, seed: int) -> list[Case]:
    """One case of every family, at the largest T; the other axes turn with the seed."""
    return [
        cases.place(
            spec,
            layout=turn % cases.FAR,
            family=name,
            tokens=spec.max_tokens,
            table=family.tables[turn % len(family.tables)],
            positions=family.positions[turn // len(family.tables) % len(family.positions)],
            index="int64" if turn % 2 else "int32",
        )
        for turn, (name, family) in enumerate(cases.FAMILIES.items(), start=seed)
    ]
