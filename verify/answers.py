"""The answers of one arm: asked for, graded, and kept as they come, failed attempts too."""

from __future__ import annotations

from contextlib import aclosing
from typing import TYPE_CHECKING

import msgspec

from evals.grading import grade
from verify.arms import Failure
from verify.store import Record

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Sequence

    from evals.suite import Item, Spec
    from verify.arms import Arm, Completion
    from verify.store import Store
    from verify.task import Task

_WITHHELD = "the server's words are withheld, as the suite's are (--no-redact keeps them)"


async def kept_answers(
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
