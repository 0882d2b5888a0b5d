"""Both arms through all their starts: warm-ups, flushes, and waves of requests, one by one."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, cast

import msgspec

from verify.arms import one_line
from verify.bench.serve.chunks import Figures, Heard, figures, hear
from verify.client import RequestError

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Mapping, Sequence

    from verify.bench.serve.client import Drafts, TimedClient
    from verify.bench.serve.method import Method
    from verify.servers import ServerArm


@dataclass(frozen=True)
class Request:
    """One request, whatever became of it; what is not known is None.

    Attributes:
        arm: which it was asked of.
        start: of that arm, from 1.
        load: requests in flight.
        number: among those of its start and load, from 0.
        warm_up: whether it does not count.
        flushed: whether the server said that it emptied its prefix cache before.
        figures: times and rates.
        heard: what its stream told.
        acceptance: tokens a step of speculative decoding.
        error: why there is no answer, one line.
    """

    arm: str
    start: int
    load: int
    number: int
    warm_up: bool
    flushed: bool
    figures: Figures | None = None
    heard: Heard | None = None
    acceptance: float | None = None
    error: str | None = None


async def measured(
    arms: Mapping[str, ServerArm], order: Sequence[str], method: Method
) -> AsyncIterator[Request]:
    """Every request of every start, in the order asked.

    Raises:
        UserError: a server does not start, or does not answer at all.
    """
    for arm in arms.values():
        if not arm.fresh:  # one that is not there is told before the other is measured
            try:
                await arm.start()
            finally:
                await arm.close()
    for place, name in enumerate(order):
        arm, start = arms[name], order[: place + 1].count(name)
        try:
            await arm.start()
            async for request in _start(arm, start, method):
                yield request
        finally:
            await arm.close()


async def _start(arm: ServerArm, start: int, method: Method) -> AsyncIterator[Request]:
    client = cast("TimedClient", arm.client)
    client.extras |= method.extras
    model = arm.model
    assert model is not None, "a started arm knows its model"
    for load, warm_up, numbers in method.waves():
        flushed = await arm.flush()
        before = await client.drafts()
        about = [Request(arm.name, start, load, n, warm_up, flushed) for n in numbers]
        bodies = [method.body(model, load, n, warm_up=warm_up) for n in numbers]
        found = await asyncio.gather(
            *(_asked(client, *pair, method) for pair in zip(about, bodies, strict=True))
        )
        told = await client.drafts()
        for request in found:
            yield _accepted(request, before, told)


async def _asked(
    client: TimedClient, request: Request, body: Mapping[str, Any], method: Method
) -> Request:
    try:
        recording = await client.timed(body, client.limits.seconds(method.output_len))
        heard = hear(recording.arrivals)
    except RequestError as error:
        return replace(request, error=f"{error.kind}: {one_line(str(error))}")
    except msgspec.DecodeError as error:
        return replace(request, error=f"bad_body: {one_line(str(error))}")
    return replace(request, heard=heard, figures=figures(recording.sent, heard.chunks))


def _accepted(request: Request, before: Drafts | None, after: Drafts | None) -> Request:
    """With its acceptance length: of itself, or else that of all that were in flight with it."""
    heard = request.heard
    if heard is None:
        return request
    if heard.steps and heard.tokens:
        return replace(request, acceptance=heard.tokens / heard.steps)
    if before is None or after is None or after.drafts <= before.drafts:
        return request
    accepted = (after.accepted - before.accepted) / (after.drafts - before.drafts)
    return replace(request, acceptance=1 + accepted)
