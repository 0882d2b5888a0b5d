"""Asks both arms the same questions at the same time and keeps every answer as it comes."""

from __future__ import annotations

import asyncio
import hashlib
from contextlib import aclosing
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import msgspec
import numpy as np

from evals.grading import grade
from verify import resume
from verify.arms import Failure
from verify.logs.run import columns
from verify.looks import Look
from verify.pairs import Asking, of_run
from verify.stats.suite import SuiteResult, SuiteScores, judge
from verify.store import Record, StoredItem

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Callable, Coroutine, Iterator, Mapping, Sequence

    from evals.suite import Item, Questions, Spec, Suite
    from verify.arms import Arm, Completion
    from verify.store import Store

_WITHHELD = "the server's words are withheld, as the suite's are (--no-redact keeps them)"


@dataclass(frozen=True)
class Rules:
    """How a run is conducted, fixed before its first answer.

    Attributes:
        early_stop: whether a suite may end before all is asked, once its evidence suffices.
        certify: whether the e-process is the only route to a pass.
        seed: of the orders in which questions are asked.
        extend_capped: a larger token limit, with which both arms are asked again what either
            left unfinished; None: as it is.
    """

    early_stop: bool = True
    certify: bool = False
    seed: int = 0
    extend_capped: int | None = None


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
    orders: tuple[tuple[int, ...], ...]
    """For each repeat, the order in which `items` are asked."""
    load: int | None = None
    """Requests in flight, where the suite is asked at several loads; None: as the arms say."""
    sampling_seed: int = 0

    @property
    def name(self) -> str:
        """The suite's name; asked at several loads it is a suite at each of them: gsm8k@64."""
        name: str = self.suite.spec.name
        return name if self.load is None else f"{name}@{self.load}"

    def seed(self, index: int, repeat: int) -> int:
        """Of the sampling: the same in both arms, another for every item and repeat."""
        about = f"{self.sampling_seed}:{self.items[index].id}:{repeat}"
        return int.from_bytes(hashlib.sha256(about.encode()).digest()[:4]) >> 1

    @property
    def answers(self) -> int:
        """Answers that are asked of each arm."""
        return len(self.items) * len(self.orders)


async def run(
    arms: tuple[Arm, Arm],
    tasks: Sequence[Task],
    rules: Rules,
    begin: Callable[[Mapping[str, str]], Store],
    heard: Callable[[Record], None],
) -> dict[str, list[str]]:
    """Ask both arms everything that the store does not hold yet.

    `begin` opens the store once arms are ready, so that a mistake leaves nothing behind; it is
    given what must be as it was if the run was begun before. `heard` is told of each record after
    it is kept. Returns the items of each suite that were asked again with a larger limit.

    Raises:
        UserError: an arm could not be started, or is another than when the run began.
    """
    # The embedded model answers long questions first, so no prefix of a random order is complete
    # long before the end, and a minute is all that it takes.
    may_stop = rules.early_stop and all(arm.answered_by == "server" for arm in arms)
    looks = [
        Look(
            [task.items[index].id for index in task.orders[0]],
            (arms[0].name, arms[1].name),
            task.margin_pt / 100,
            certify=rules.certify,
        )
        for task in tasks
        if may_stop
    ]
    store: Store | None = None
    begun: list[Arm] = []
    try:
        for asking, repeats in _turns(arms, tasks):
            if store is not None and _nothing_left(asking, tasks, looks, store, repeats):
                continue
            await _together([arm.start() for arm in asking])
            begun += asking
            fixed = resume.of_arms(asking)
            if store is None:
                store = begin({**resume.of_run(tasks, rules), **fixed})
                _take_up(arms, tasks, looks, store)
            resume.claim(store, fixed)
            await _together(
                [_ask(arm, tasks, looks, store, heard, repeats=repeats) for arm in asking]
            )
            await _end_fresh(asking)
            _tell(asking, store)
        if rules.extend_capped is None or store is None:
            return {}
        enough = {task.name for task, look in zip(tasks, looks, strict=False) if look.suffices}
        capped = {task.name: _capped(task, store) for task in tasks if task.name not in enough}
        again = [(task, capped[task.name]) for task in tasks if capped.get(task.name)]
        for asking in [(arm,) for arm in arms] if arms[0].fresh else [arms]:
            if again and arms[0].fresh:
                await asking[0].start()
            await _together([_extend(arm, again, rules.extend_capped, store) for arm in asking])
            await _end_fresh(asking)
        return {
            task.name: list(dict.fromkeys(task.items[index].id for index, _ in places))
            for task, places in again
        }
    finally:
        for arm in arms:
            await arm.close()
        _tell(begun, store)


def _turns(arms: tuple[Arm, Arm], tasks: Sequence[Task]) -> Iterator[tuple[tuple[Arm, ...], range]]:
    """Which arms are up together, and the repeats that they are then asked.

    Arms that are started for every repeat take turns: base, PR, PR, base, and so on, so that what
    drifts on the machine drifts for both.
    """
    repeats = max(len(task.orders) for task in tasks)
    if not arms[0].fresh:
        yield arms, range(repeats)
        return
    for repeat in range(repeats):
        for arm in arms if repeat % 2 == 0 else arms[::-1]:
            yield (arm,), range(repeat, repeat + 1)


def _take_up(
    arms: Sequence[Arm], tasks: Sequence[Task], looks: Sequence[Look], store: Store
) -> None:
    """Keep the questions, and hear what earlier processes of this run were answered and saw."""
    for arm in arms:
        arm.take_up(store.told(arm.name))
    for task in tasks:
        if next(store.items(task.name), None) is None:
            store.add_items(
                StoredItem(task.name, item.id, item.prompt, item.target) for item in task.items
            )
    for task, look in zip(tasks, looks, strict=False):
        for record in store.records(task.name):
            look.heard(record)


def _tell(arms: Sequence[Arm], store: Store | None) -> None:
    """Keep what arms say that were started, for a process that need not start them again."""
    if store is not None:
        for arm in arms:
            store.tell(arm.name, arm.settings())


def _nothing_left(
    asking: Sequence[Arm],
    tasks: Sequence[Task],
    looks: Sequence[Look],
    store: Store,
    repeats: range,
) -> bool:
    """Whether this turn was taken already, or nothing more needs to be known."""
    if looks and all(look.suffices for look in looks):
        return True
    for arm in asking:
        for task in tasks:
            answered = store.answered(arm.name, task.name)
            wanted = {(item.id, repeat) for item in task.items for repeat in repeats}
            if repeats.start < len(task.orders) and not wanted <= answered:
                return False
    return True


async def _end_fresh(arms: Sequence[Arm]) -> None:
    for arm in arms:
        if arm.fresh:
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
    arm: Arm,
    tasks: Sequence[Task],
    looks: Sequence[Look],
    store: Store,
    heard: Callable[[Record], None],
    *,
    repeats: range,
) -> None:
    start = store.starts(arm.name) if arm.fresh else 0
    for number, task in enumerate(tasks):
        look = looks[number] if looks else None
        answered = store.answered(arm.name, task.name)
        for repeat in repeats[: max(0, len(task.orders) - repeats.start)]:
            if look is not None and look.suffices:
                break
            places = [
                (index, repeat)
                for index in task.orders[repeat]
                if (task.items[index].id, repeat) not in answered
            ]
            kept = _answers(arm, task, task.suite.spec, places, store, start=start)
            async with aclosing(kept) as records:
                async for record in records:
                    heard(record)
                    if look is not None:
                        look.heard(record)
                        if look.suffices:
                            break


async def _answers(
    arm: Arm,
    task: Task,
    spec: Spec,
    places: Sequence[tuple[int, int]],
    store: Store,
    *,
    start: int,
) -> AsyncGenerator[Record, None]:
    """Ask for items, each given with its repeat, and keep every attempt as it comes."""
    if not places:
        return
    prompts = [task.items[index].prompt for index, _ in places]
    seeds = [task.seed(*place) for place in places]
    async with aclosing(arm.answers(spec, prompts, seeds, task.load)) as answers:
        async for place, answer in answers:
            index, repeat = places[place]
            blank = Record(
                arm=arm.name,
                suite=task.name,
                item=task.items[index].id,
                repeat=repeat,
                start=start,
                correct=None,
                prompt_sha256=task.items[index].prompt_sha256,
                target_sha256=task.items[index].target_sha256,
                max_tokens=spec.sampling.max_tokens,
            )
            record = _graded(blank, task, task.items[index], answer)
            store.add(*(_failed(blank, task, each) for each in answer.tries), record)
            yield record


def _capped(task: Task, store: Store) -> list[tuple[int, int]]:
    """Index and repeat of every question that either arm left unfinished, in the order asked."""
    limit = task.suite.spec.sampling.max_tokens  # what was asked again already counts as it was
    cut = {
        (r.item, r.repeat)
        for r in store.attempts(task.name)
        if r.truncated and r.max_tokens == limit
    }
    return [
        (index, repeat)
        for repeat, order in enumerate(task.orders)
        for index in order
        if (task.items[index].id, repeat) in cut
    ]


async def _extend(
    arm: Arm, again: Sequence[tuple[Task, list[tuple[int, int]]]], limit: int, store: Store
) -> None:
    """Ask again with a larger limit; where that fails, the unfinished answer stays."""
    for task, places in again:
        spec = task.suite.spec
        longer = msgspec.structs.replace(
            spec, sampling=msgspec.structs.replace(spec.sampling, max_tokens=limit)
        )
        held = {(r.arm, r.item, r.repeat): r.max_tokens for r in store.records(task.name)}
        left = [
            (index, repeat)
            for index, repeat in places
            if held.get((arm.name, task.items[index].id, repeat)) != limit
        ]
        start = max(0, store.starts(arm.name) - 1)
        async for _ in _answers(arm, task, longer, left, store, start=start):
            pass


def _graded(blank: Record, task: Task, item: Item, answer: Completion | Failure) -> Record:
    if isinstance(answer, Failure):
        return _failed(blank, task, answer)
    spec = task.suite.spec
    found = grade(
        answer.text,
        item.target,
        spec.answer,
        truncated=answer.truncated,
        stop=spec.sampling.stop,
    )
    start, stop = found.span or (None, None)
    return msgspec.structs.replace(
        blank,
        correct=found.correct,
        truncated=answer.truncated,
        completion_tokens=answer.tokens,
        prompt_tokens=answer.prompt_tokens,
        seconds=answer.seconds,
        text=answer.text,
        answer=found.answer,
        rule=found.rule,
        span_start=start,
        span_stop=stop,
        reasoning=answer.reasoning,
    )


def _failed(blank: Record, task: Task, failure: Failure) -> Record:
    # servers like to repeat what they were asked
    message = _WITHHELD if task.suite.spec.redact else failure.message
    return msgspec.structs.replace(blank, error=f"{failure.kind}: {message}")


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
