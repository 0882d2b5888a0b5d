"""The time of a byte is when it came, however it is cut and whatever else the client does."""

from __future__ import annotations

import asyncio
from itertools import pairwise
from unittest import mock

import pytest
from hypothesis import given
from hypothesis import strategies as st

from verify.bench.serve import client, delay
from verify.bench.serve.client import Drafts, TimedClient
from verify.client import RequestError
from verify.limits import Limits

HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"
SECOND = b"HTTP/1.1 200 OK\r\nContent-Length: 6\r\n\r\nsecond"


def framed(chunks):
    """A response of those chunks, and the place in it of each byte of its body."""
    raw, places = HEAD, []
    for chunk in chunks:
        raw += f"{len(chunk):x}\r\n".encode()
        places += range(len(raw), len(raw) + len(chunk))
        raw += chunk + b"\r\n"
    return raw + b"0\r\n\r\n", places


@given(st.data())
def test_each_byte_has_the_time_of_the_piece_that_brought_it(data):
    chunks = data.draw(st.lists(st.binary(min_size=1, max_size=9), min_size=1, max_size=5))
    raw, places = framed(chunks)
    cuts = sorted(data.draw(st.sets(st.integers(1, len(raw) - 1), max_size=9)))
    pieces = [raw[a:b] for a, b in pairwise([0, *cuts, len(raw)])]

    async def arrivals():
        marks = {}
        protocol = client._Timed(asyncio.get_running_loop(), marks)
        protocol.set_response_params()
        with mock.patch.object(client, "monotonic", side_effect=range(99)):
            for piece in [*pieces, SECOND]:  # the next one on the same connection counts anew
                protocol.data_received(piece)
        (_, body), (_, other) = await protocol.read(), await protocol.read()
        assert client._cut(await other.read(), marks[id(other)]) == ((len(pieces), b"second"),)
        return client._cut(await body.read(), marks[id(body)])

    found = asyncio.run(arrivals())
    assert b"".join(content for _, content in found) == b"".join(chunks)
    told = [at for at, content in found for _ in content]
    assert told == [sum(place >= cut for cut in cuts) for place in places]


def test_times_of_one_body_are_never_taken_for_those_of_another_at_its_place_in_memory():
    async def marks_of_each():
        marks = {}
        protocol = client._Timed(asyncio.get_running_loop(), marks)
        protocol.set_response_params()
        found = []
        for _ in range(50):  # nobody asks for the times of most bodies, as of pages
            protocol.data_received(SECOND)
            found.append(len(marks[id((await protocol.read())[1])]))
        return found

    assert asyncio.run(marks_of_each()) == [1] * 50


def test_delay_is_measured_on_every_event():
    found = asyncio.run(delay.measure(2))
    assert (found.streams, found.events) == (2, 500)
    assert 0 < found.median_ms <= found.p99_ms


@pytest.mark.parametrize(("median", "busy"), [(0.1, False), (0.3, True)])
def test_a_client_that_is_too_slow_says_so(median, busy):
    assert ("free this machine" in delay.words(delay.Delay(1, 9, median, 1.0))) is busy


def test_a_whole_answer_where_a_stream_was_asked_for_is_named(fake_server):
    server = fake_server()

    async def ask():
        async with TimedClient(server.url) as asking:
            await asking.timed({}, 60.0)

    with pytest.raises(RequestError, match="a stream was asked for") as error:
        asyncio.run(ask())
    assert error.value.kind == "bad_body"


def test_a_page_of_counters_is_read_only_as_far_as_any_body(fake_server):
    page = "vllm:spec_decode_num_drafts 1\nvllm:spec_decode_num_accepted_tokens 2\n"

    async def drafts(url, largest):
        async with TimedClient(url, limits=Limits(largest_body=largest)) as asking:
            return await asking.drafts()

    server = fake_server(pages={"/metrics": page})
    assert asyncio.run(drafts(server.url, len(page))) == Drafts(1, 2)
    assert asyncio.run(drafts(server.url, len(page) - 1)) is None
    assert asyncio.run(drafts(fake_server().url, len(page))) is None
