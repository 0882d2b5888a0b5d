"""Asks both arms the same questions at the same time and keeps every answer as it comes."""

from __future__ import annotations

import asyncio
from contextlib import aclosing
from typing import TYPE_CHECKING, Any

import msgspec

from verify import resume
from verify.answers import kept_answers
from verify.looks import Look
from verify.store import StoredItem

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Iterator, Mapping, Sequence

    from verify.arms import Arm
    from verify.store import Record, Store
    from verify.task import Rules, Task


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
    looks = _looks(arms, tasks, rules)
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
        return await _extend_all(arms, tasks, looks, rules.extend_capped, store)
    finally:
        for arm in arms:
            await arm.close()
        _tell(begun, store)


def _looks(arms: tuple[Arm, Arm], tasks: Sequence[Task], rules: Rules) -> list[Look]:
    """What may end each task early; nothing where none may."""
    # The embedded model answers long questions first, so no prefix of a random order is complete
    # long before the end, and a minute is all that it takes.
    if not rules.early_stop or any(arm.answered_by != "server" for arm in arms):
        return []
    return [
        Look(
            [task.items[index].id for index in task.orders[0]],
            (arms[0].name, arms[1].name),
            task.margin_pt / 100,
            certify=rules.certify,
        )
        for task in tasks
    ]


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
            kept = kept_answers(arm, task, task.suite.spec, places, store, start=start)
            async with aclosing(kept) as records:
                async for record in records:
                    heard(record)
                    if look is not None:
                        look.heard(record)
                        if look.suffices:
                            break


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


async def _extend_all(
    arms: tuple[Arm, Arm], tasks: Sequence[Task], looks: Sequence[Look], limit: int, store: Store
) -> dict[str, list[str]]:
    """Ask again, in both arms, what either left unfinished; the items of each suite that were."""
    enough = {task.name for task, look in zip(tasks, looks, strict=False) if look.suffices}
    capped = {task.name: _capped(task, store) for task in tasks if task.name not in enough}
    again = [(task, capped[task.name]) for task in tasks if capped.get(task.name)]
    for asking in [(arm,) for arm in arms] if arms[0].fresh else [arms]:
        if again and arms[0].fresh:
            await asking[0].start()
        await _together([_extend(arm, again, limit, store) for arm in asking])
        await _end_fresh(asking)
    return {
        task.name: list(dict.fromkeys(task.items[index].id for index, _ in places))
        for task, places in again
    }


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
        async for _ in kept_answers(arm, task, longer, left, store, start=start):
            pass
