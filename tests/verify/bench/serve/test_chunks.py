"""From recorded arrivals to figures, whatever the machine does meanwhile."""

from __future__ import annotations

import random

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.verify.bench.serve.streams import TELLS, event, steady, stream
from verify.bench.serve.chunks import Chunk, events, figures, hear

WAYS = [*TELLS, "token_ids"]


@pytest.mark.parametrize("tells", WAYS)
@pytest.mark.parametrize("size", [1, 3, 7])
def test_a_known_rate_comes_out_whoever_counts_and_however_many_come_at_once(tells, size):
    heard = hear(stream(steady(125.0, 64, size=size), tells=tells))
    found = figures(0.75, heard.chunks)
    assert heard.counted_by == tells
    assert (heard.tokens, heard.cached_tokens, heard.prompt_tokens) == (64, 0, 7)
    assert found.tokens_per_s == pytest.approx(125.0)
    assert found.ttft_ms == pytest.approx(250.0)
    assert found.first_tokens == 1
    if 63 % size == 0:
        assert found.gap_ms == found.gap_p99_ms == pytest.approx(1000 * size / 125)


def test_tokens_of_the_first_chunk_do_not_count_into_the_rate():
    found = figures(0.0, hear(stream([(1.0, 5), (1.5, 2), (2.0, 3)])).chunks)
    assert found.tokens_per_s == pytest.approx((10 - 5) / 1.0)
    assert (found.first_tokens, found.chunks, found.chunk_tokens) == (5, 3, 2.5)


def test_usage_at_the_end_alone_serves_where_there_are_as_many_chunks_as_tokens():
    heard = hear(stream(steady(50.0, 20), tells=None))
    assert heard.counted_by == "as many chunks as tokens"
    assert figures(0.0, heard.chunks).tokens_per_s == pytest.approx(50.0)


def test_chunks_whose_tokens_nobody_tells_are_not_guessed():
    heard = hear(stream(steady(50.0, 20, size=2), tells=None))
    assert (heard.tokens, heard.chunks, heard.counted_by) == (20, (), None)
    assert figures(0.0, heard.chunks) is None


def test_without_usage_nothing_is_known_and_nothing_made_up():
    heard = hear(stream(steady(50.0, 20), tells=None, usage=False))
    assert (heard.tokens, heard.cached_tokens, heard.chunks) == (None, None, ())


def test_a_stall_is_in_the_gaps_and_in_the_rate():
    chunks = [(at + (1.0 if number >= 50 else 0.0), 1)
              for number, (at, _) in enumerate(steady(100.0, 101))]  # fmt: skip
    found = figures(0.0, hear(stream(chunks)).chunks)
    assert found.gap_ms == pytest.approx(10.0)
    assert found.gap_p99_ms == pytest.approx(10.0 + 0.01 * 1000.0)  # between the last two of 100
    assert found.tokens_per_s == pytest.approx(100 / 2.0)


def test_jitter_moves_neither_the_rate_nor_the_middle_gap():
    draw = random.Random(1)
    chunks = [(at + draw.uniform(-0.002, 0.002), n) for at, n in steady(100.0, 201)]
    chunks[0], chunks[-1] = (1.0, 1), (3.0, 1)
    found = figures(0.0, hear(stream(chunks)).chunks)
    assert found.tokens_per_s == pytest.approx(100.0)
    assert found.gap_ms == pytest.approx(10.0, abs=0.3)
    assert 11.0 < found.gap_p99_ms < 14.1


def test_one_chunk_has_a_beginning_and_no_rate():
    found = figures(0.5, (Chunk(1.0, 64),))
    assert (found.tokens_per_s, found.gap_ms, found.gap_p99_ms) == (None, None, None)
    assert found.ttft_ms == pytest.approx(500.0)


def test_what_speculative_decoding_tells_is_read():
    heard = hear(stream(steady(50.0, 21, size=4), steps=6, cached=3))
    assert (heard.steps, heard.cached_tokens) == (6, 3)


def test_tokens_that_a_running_count_leaves_out_make_it_untold():
    arrivals = stream(steady(50.0, 20, size=2), tells="timings")
    heard = hear((*arrivals[:-4], *arrivals[-3:]))  # the count stays behind the usage of the end
    assert (heard.tokens, heard.chunks) == (20, ())


def test_a_role_or_an_empty_text_is_no_chunk():
    first = (0.5, event({"choices": [{"delta": {"role": "assistant", "content": ""}}]}))
    heard = hear((first, *stream(steady(50.0, 20), tells=None)))
    assert heard.chunks[0].at == 1.0


@pytest.mark.parametrize("count", [-1, 1 << 32, 1 << 80, 1.5])
@pytest.mark.parametrize(
    "place",
    [
        "usage.completion_tokens", "usage.prompt_tokens",
        "usage.prompt_tokens_details.cached_tokens", "meta_info.completion_tokens",
        "meta_info.cached_tokens", "meta_info.spec_verify_ct", "timings.predicted_n",
    ],
)  # fmt: skip
def test_what_cannot_be_a_count_is_refused_by_name(place, count):
    told = count
    for name in reversed(place.split(".")):
        told = {name: told}
    with pytest.raises(msgspec.DecodeError, match=place):
        hear(((1.0, event(told)),))


@given(st.data())
def test_an_event_arrives_with_its_last_byte_however_it_is_cut(data):
    whole = stream(steady(50.0, 6, size=2))
    content = b"".join(part for _, part in whole).replace(b"\n\n", data.draw(
        st.sampled_from([b"\n\n", b"\r\n\r\n", b"\n: ping\n\n"])))  # fmt: skip
    places = sorted(data.draw(st.sets(st.integers(1, len(content) - 1), max_size=12)))
    pieces = [content[a:b] for a, b in zip([0, *places], [*places, len(content)], strict=True)]
    found = list(events(tuple((float(n), piece) for n, piece in enumerate(pieces))))
    assert [said for _, said in found] == [said for _, said in events(whole)]
    ends, held = [], 0
    for piece in pieces:
        held += len(piece)
        ends.append(held)
    for at, said in found:
        begins = content.index(said)
        here = content.index(b"\n", begins + len(said)) + 1  # the empty line is still to come
        assert ends[int(at)] > here - 1
        assert int(at) == 0 or ends[int(at) - 1] < begins + len(said) + 4 + len(b": ping\n")
