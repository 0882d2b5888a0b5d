"""What the answers of a run come to: the verdict of each suite."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from verify.logs.run import columns
from verify.pairs import Asking, of_run
from verify.stats.suite import SuiteResult, SuiteScores, judge

if TYPE_CHECKING:
    from collections.abc import Sequence

    from verify.arms import Arm
    from verify.store import Record, Store
    from verify.task import Rules, Task


def conclude(
    arms: tuple[Arm, Arm],
    tasks: Sequence[Task],
    rules: Rules,
    store: Store,
    problems: Sequence[str] = (),
) -> list[SuiteResult]:
    """The verdict of each suite, from what the store holds and what the arms know of themselves.

    `problems` are reasons that make the answers to every suite worthless.
    """
    names = arms[0].name, arms[1].name
    found = []
    for task in tasks:
        judged = suite_scores(list(store.records(task.name)), task, names, rules)
        of_arms = tuple(problem for arm in arms for problem in arm.problems(task.name))
        found.append(
            replace(
                judged,
                problems=(*problems, *of_arms, *judged.problems),
                starts=_starts(arms, judged),
                deterministic=all(arm.answered_by == "embedded" for arm in arms),
            )
        )
    return judge(found)


def _starts(
    arms: tuple[Arm, Arm], judged: SuiteScores
) -> tuple[Sequence[object] | None, Sequence[object] | None]:
    """Labels of the server starts that gave each repeat."""
    base, pr = (
        range(scores.shape[1]) if arm.fresh else labels
        for arm, scores, labels in zip(arms, (judged.base, judged.pr), judged.starts, strict=True)
    )
    return base, pr


def suite_scores(
    records: Sequence[Record], task: Task, names: tuple[str, str], rules: Rules
) -> SuiteScores:
    """The answers to one suite as they will be judged."""
    answers = {name: [r for r in records if r.arm == name] for name in names}
    margin, floor = task.margin_pt / 100, task.suite.spec.floor
    if not all(answers.values()):
        nothing = np.empty((0, len(task.orders)))
        problems = tuple(
            f"{name} answered none of {len(task.items):,} items"
            for name, of_arm in answers.items()
            if not of_arm
        )
        return SuiteScores(task.name, nothing, nothing, None, margin, floor, problems)
    base, pr = (columns(of_arm) for of_arm in answers.values())
    asking = Asking(
        items=[task.items[index].id for index in task.orders[0]],
        repeats=len(task.orders),
        margin=margin,
        early_stop=rules.early_stop,
        certify=rules.certify,
    )
    _, judged = of_run(task.name, (base, pr), asking, names, margin=margin, floor=floor)
    return judged
