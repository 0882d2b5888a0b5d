"""From the bytes of a stream and their times to its chunks of tokens, and to the figures of them.

A chunk is an event that brings tokens. How many it brings is told by a running count, of one of
the kinds in `_COUNTS`, that comes with every event; or it follows from as many chunks as tokens,
since each brings one at least. It is never assumed.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Annotated

import msgspec
import numpy as np

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

Arrivals = tuple[tuple[float, bytes], ...]
"""Bytes in the order and pieces in which they came: seconds of a monotonic clock, content."""


Count = Annotated[int, msgspec.Meta(ge=0, lt=1 << 32)]
"""What a server counts; figures of anything else would be none."""


class _Cached(msgspec.Struct, gc=False):
    cached_tokens: Count | None = None


class _Usage(msgspec.Struct, gc=False):
    prompt_tokens: Count | None = None
    completion_tokens: Count | None = None
    prompt_tokens_details: _Cached | None = None


class _Meta(msgspec.Struct, gc=False):
    """SGLang's own account of a request."""

    completion_tokens: Count | None = None
    cached_tokens: Count | None = None
    spec_verify_ct: Count | None = None
    """Steps of speculative decoding."""


class _Timings(msgspec.Struct, gc=False):
    """llama.cpp's."""

    predicted_n: Count | None = None


class _Delta(msgspec.Struct, gc=False):
    content: str | None = None
    reasoning_content: str | None = None
    reasoning: str | None = None


class _Choice(msgspec.Struct, gc=False):
    text: str | None = None
    delta: _Delta | None = None
    token_ids: list[int] | None = None
    meta_info: _Meta | None = None

    @property
    def brings(self) -> bool:
        """Whether there is text in it."""
        delta = self.delta or _Delta()
        return bool(self.text or delta.content or delta.reasoning_content or delta.reasoning)


class _Event(msgspec.Struct, gc=False):
    choices: list[_Choice] | None = None
    usage: _Usage | None = None
    timings: _Timings | None = None
    meta_info: _Meta | None = None

    @property
    def choice(self) -> _Choice:
        return self.choices[0] if self.choices else _Choice()

    @property
    def meta(self) -> _Meta:
        return self.choice.meta_info or self.meta_info or _Meta()


_DECODE = msgspec.json.Decoder(_Event)
_COUNTS: dict[str, Callable[[_Event], int | None]] = {
    "usage": lambda event: event.usage.completion_tokens if event.usage else None,
    "meta_info": lambda event: event.meta.completion_tokens,
    "timings": lambda event: event.timings.predicted_n if event.timings else None,
}


@dataclass(frozen=True)
class Chunk:
    """Tokens that came at once: when, in seconds of the monotonic clock, and how many."""

    at: float
    tokens: int


@dataclass(frozen=True)
class Heard:
    """What a stream told; what it did not is None.

    Attributes:
        chunks: in their order; empty where their tokens are not told.
        tokens: generated, in all.
        prompt_tokens: as the server counts them.
        cached_tokens: of the prompt, that it did not compute.
        steps: of speculative decoding.
        counted_by: how the tokens of chunks are known.
    """

    chunks: tuple[Chunk, ...]
    tokens: int | None
    prompt_tokens: int | None
    cached_tokens: int | None
    steps: int | None
    counted_by: str | None


@dataclass(frozen=True)
class Figures:
    """Of one request.

    Attributes:
        tokens_per_s: tokens after the first chunk, by the time from the first to the last; None
            where there is only one.
        ttft_ms: from sending the request to the first chunk.
        gap_ms: median time between chunks.
        gap_p99_ms: 99th percentile of it.
        chunks: their number.
        first_tokens: tokens of the first.
        chunk_tokens: mean tokens of the others.
    """

    tokens_per_s: float | None
    ttft_ms: float
    gap_ms: float | None
    gap_p99_ms: float | None
    chunks: int
    first_tokens: int
    chunk_tokens: float | None


def hear(arrivals: Arrivals) -> Heard:
    """Read a stream.

    Raises:
        msgspec.DecodeError: an event is none.
    """
    found = [(at, _DECODE.decode(data)) for at, data in events(arrivals)]
    tokens = _last(event.usage.completion_tokens if event.usage else None for _, event in found)
    tokens = tokens or _last(count(event) for count in _COUNTS.values() for _, event in found)
    chunks, counted_by = _chunks(found, tokens)
    details = [e.usage.prompt_tokens_details for _, e in found if e.usage]
    cached = _last(each.cached_tokens if each else None for each in details)
    return Heard(
        chunks,
        tokens,
        _last(event.usage.prompt_tokens if event.usage else None for _, event in found),
        _last(event.meta.cached_tokens for _, event in found) if cached is None else cached,
        _last(event.meta.spec_verify_ct for _, event in found),
        counted_by,
    )


def figures(sent: float, chunks: Sequence[Chunk]) -> Figures | None:
    """What the chunks of a request sent then come to; None without any."""
    if not chunks:
        return None
    first, last = chunks[0], chunks[-1]
    gaps = np.array([1000 * (after.at - before.at) for before, after in pairwise(chunks)])
    lasted = last.at - first.at
    rest = sum(chunk.tokens for chunk in chunks[1:])
    return Figures(
        tokens_per_s=rest / lasted if lasted > 0 else None,
        ttft_ms=1000 * (first.at - sent),
        gap_ms=float(np.median(gaps)) if len(gaps) else None,
        gap_p99_ms=float(np.percentile(gaps, 99)) if len(gaps) else None,
        chunks=len(chunks),
        first_tokens=first.tokens,
        chunk_tokens=rest / (len(chunks) - 1) if len(chunks) > 1 else None,
    )


def events(arrivals: Arrivals) -> Iterator[tuple[float, bytes]]:
    """The data of each event, and when the last of its bytes came."""
    rest, data = b"", list[bytes]()
    for at, received in arrivals:
        *lines, rest = (rest + received).split(b"\n")
        for line in lines:
            field, _, value = line.rstrip(b"\r").partition(b":")
            if field == b"data":
                data.append(value.removeprefix(b" "))
            elif not field and not value and data:
                content, data = b"\n".join(data), []
                if content.strip() != b"[DONE]":
                    yield at, content


def _chunks(
    events: Sequence[tuple[float, _Event]], tokens: int | None
) -> tuple[tuple[Chunk, ...], str | None]:
    """The chunks, and how their tokens are known."""
    bringing = [(at, event) for at, event in events if event.choice.brings]
    if tokens is None or not bringing:
        return (), None
    for name, count in _COUNTS.items():
        found = _growths([(at, count(event)) for at, event in events])
        told = all(count(event) is not None for _, event in bringing)
        if told and sum(chunk.tokens for chunk in found) == tokens:
            return found, name
    sizes = [(at, len(event.choice.token_ids or ())) for at, event in events]
    if sum(size for _, size in sizes) == tokens:
        return tuple(Chunk(at, size) for at, size in sizes if size), "token_ids"
    if len(bringing) == tokens:
        return tuple(Chunk(at, 1) for at, _ in bringing), "as many chunks as tokens"
    return (), None


def _growths(counts: Sequence[tuple[float, int | None]]) -> tuple[Chunk, ...]:
    """A chunk wherever a running count grew."""
    found, before = [], 0
    for at, count in counts:
        if count is not None and count > before:
            found.append(Chunk(at, count - before))
            before = count
    return tuple(found)


def _last(values: Iterator[int | None]) -> int | None:
    return next((value for value in reversed(list(values)) if value is not None), None)
