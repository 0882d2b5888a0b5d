"""Asks both arms the same questions at the same time and keeps every answer as it comes."""

from __future__ import annotations

import asyncio
from contextlib import aclosing
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from msgspec.structs import replace

from evals.grading import grade
from verify.arms import Failure
from verify.pairs import pair
from verify.stats.suite import SuiteResult, judge
from verify.store import Record, Store, StoredItem

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Sequence

    from evals.suite import Item, Questions, Suite
    from verify.arms import Arm, Completion


@dataclass(frozen=True)
class Task:
    """One suite as it is to be asked."""

    suite: Suite
    questions: Questions
    items: tuple[Item, ...]
    """Those asked: the first of `questions` by content hash."""
    margin_pt: float
    margin_from: str
    """Where the margin was set: the suite, verify.toml or the command line."""

    @property
    def name(self) -> str:
        """The suite's name."""
        return self.suite.spec.name


async def run(
    arms: tuple[Arm, Arm],
    tasks: Sequence[Task],
    begin: Callable[[], Store],
    heard: Callable[[Record], None],
) -> None:
    """Ask both arms everything; `heard` is told of each record after it is kept.

    `begin` opens the store once both arms are ready, so that a mistake leaves nothing behind.

    Raises:
        UserError: an arm could not be started; nothing has been asked.
    """
    try:
        await _together([arm.start() for arm in arms])
        store = begin()
        for task in tasks:
            store.add_items(
                StoredItem(task.name, item.id, item.prompt, item.target) for item in task.items
            )
        await _together([_ask(arm, tasks, store, heard) for arm in arms])
    finally:
        for arm in arms:
            await arm.close()


async def _together(work: Sequence[Coroutine[Any, Any, None]]) -> None:
    """Everything at once; the first error ends the rest before it goes on."""
    running = [asyncio.ensure_future(each) for each in work]
    try:
        await asyncio.gather(*running)
    finally:
        for each in running:
            each.cancel()
        await asyncio.gather(*running, return_exceptions=True)


async def _ask(
    arm: Arm, tasks: Sequence[Task], store: Store, heard: Callable[[Record], None]
) -> None:
    for task in tasks:
        prompts = [item.prompt for item in task.items]
        async with aclosing(arm.answers(task.suite.spec, prompts)) as answers:
            async for index, answer in answers:
                record = _record(arm.name, task, task.items[index], answer)
                store.add(record)
                heard(record)


def _record(arm: str, task: Task, item: Item, answer: Completion | Failure) -> Record:
    record = Record(
        arm=arm,
        suite=task.name,
        item=item.id,
        correct=None,
        prompt_sha256=item.prompt_sha256,
        target_sha256=item.target_sha256,
    )
    if isinstance(answer, Failure):
        return replace(record, error=f"{answer.kind}: {answer.message}")
    found = grade(answer.text, item.target, task.suite.spec.answer, truncated=answer.truncated)
    return replace(
        record,
        correct=found.correct,
        truncated=answer.truncated,
        completion_tokens=answer.tokens,
        text=answer.text,
        answer=found.answer,
        rule=found.rule,
    )


def conclude(arms: tuple[Arm, Arm], tasks: Sequence[Task], store: Store) -> list[SuiteResult]:
    """The verdict of each suite, from what the store holds and what the arms know of themselves."""
    scores = []
    for task in tasks:
        paired = pair(
            store.records(task.name),
            suite=task.name,
            items=[item.id for item in task.items],
            arms=(arms[0].name, arms[1].name),
            margin=task.margin_pt / 100,
            floor=task.suite.spec.floor,
            problems=[problem for arm in arms for problem in arm.problems(task.name)],
        )
        scores.append(paired)
    return judge(scores)
