"""Every failure alone and all together: answered or listed, none twice, none made up."""

import asyncio
import random

import pytest
from msgspec import structs

from evals.suite import Sampling
from tests.verify.fault_server import FaultServer
from tests.verify.server_faults import FAULTS
from verify.client import Client, RequestError
from verify.limits import Limits

SAMPLING = Sampling(max_tokens=20)
LIMITS = Limits(attempts=3, request_s=60, first_wait_s=0.001, patience_s=60, largest_body=1 << 20)
HURRIED = structs.replace(LIMITS, request_s=0.3, gap_s=0.15)
ALONE = [
    (name, style, stream)
    for name, fault in FAULTS.items()
    for style, stream in (("completion", fault.stream), ("chat", True))
]


def limits_for(fault):
    """Waits only where that is the matter, so that a busy machine changes nothing."""
    return HURRIED if fault.kind in {"timeout", "stall"} else LIMITS


def ask(server, prompts, limits, *, style="completion", stream=False):
    """Reply or RequestError of each prompt, some at a time."""

    async def go():
        places = asyncio.Semaphore(50)
        async with Client(server.url, limits=limits, stream=stream) as client:

            async def one(prompt):
                async with places:
                    return await client.ask(prompt, style, "adder", SAMPLING)

            return await asyncio.gather(*map(one, prompts), return_exceptions=True)

    return asyncio.run(go())


def sums(count):
    return [f"What is {i} + {2 * i}?" for i in range(count)]


def test_there_are_many_failures():
    assert sum(fault.kind is not None for fault in FAULTS.values()) >= 25


@pytest.mark.parametrize(("name", "style", "stream"), ALONE)
def test_a_failure_that_stays_is_an_error_of_its_kind(name, style, stream):
    fault = FAULTS[name]
    prompts = sums(5)
    with FaultServer(lambda *_: name).running() as server:
        found = ask(server, prompts, limits_for(fault), style=style, stream=stream)
    if fault.kind is None:
        assert [reply.text for reply in found] == [f"#### {3 * i}" for i in range(5)]
        assert not any(reply.truncated for reply in found)
    else:
        assert all(isinstance(error, RequestError) for error in found), found
        assert {error.kind for error in found} == {fault.kind}
        assert {len(error.tries) + 1 for error in found} == {fault.sends}
    assert server.asked == dict.fromkeys(prompts, fault.sends)


@pytest.mark.parametrize(("name", "style", "stream"), ALONE)
def test_a_failure_that_passes_costs_no_answer(name, style, stream):
    fault = FAULTS[name]
    with FaultServer(lambda _, number: name if not number else None).running() as server:
        (found,) = ask(server, sums(4)[3:], limits_for(fault), style=style, stream=stream)
    if fault.kind is not None and fault.sends == 1:
        assert found.kind == fault.kind
    else:
        assert (found.text, found.tokens) in {("#### 9", 5), ("#### 9", None)}
        assert [error.kind for error in found.tries] == [fault.kind] * (fault.kind is not None)


@pytest.mark.parametrize("stream", [False, True])
def test_all_failures_together(stream):
    names = [name for name, fault in FAULTS.items() if stream or not fault.stream]
    dice = random.Random(4)

    def choose(*_):
        return dice.choice(names) if dice.random() < 0.2 else None

    prompts = sums(400)
    with FaultServer(choose).running() as server:
        found = ask(server, prompts, structs.replace(LIMITS, request_s=2, gap_s=1), stream=stream)
    answered = [reply for reply in found if not isinstance(reply, Exception)]
    for i, reply in enumerate(found):
        if isinstance(reply, Exception):
            assert isinstance(reply, RequestError)
            assert reply.kind in {fault.kind for fault in FAULTS.values()}
        else:
            assert reply.text == f"#### {3 * i}"
            assert not reply.truncated
    assert len(answered) > 340
    # every request that the server saw is accounted for; one may have gone into a closing door
    assert sum(server.asked.values()) <= sum(len(each.tries) + 1 for each in found)
    assert all(count <= 3 for count in server.asked.values())
    assert len(set(server.played) - {None}) > 25
