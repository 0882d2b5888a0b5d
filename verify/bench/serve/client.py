"""A client that knows when each byte of a stream arrived."""

from __future__ import annotations

import functools
from dataclasses import dataclass
from time import monotonic
from typing import TYPE_CHECKING, Any

import aiohttp
from aiohttp.client_proto import ResponseHandler

from verify.client import Client, RequestError
from verify.client.replies import Stream
from verify.evidence import counted

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Callable, Mapping

    from aiohttp.streams import StreamReader

    from verify.bench.serve.chunks import Arrivals

_COUNTERS = ("drafts", "accepted_tokens")
_ASIDE = aiohttp.ClientTimeout(total=10)
Marks = dict[int, list[tuple[float, int]]]
"""By a body's id, when how many of its bytes were there, in seconds of the monotonic clock."""


@dataclass(frozen=True)
class Recording:
    """What came of one request: when it was sent, and the bytes as they came.

    Nothing was scrubbed from them, so that no words of them may be kept.
    """

    sent: float
    arrivals: Arrivals


@dataclass(frozen=True)
class Drafts:
    """Counters of speculative decoding: drafts made, and tokens of them that were accepted."""

    drafts: float
    accepted: float


class _Timed(ResponseHandler):
    """Notes the time before anything is made of bytes, and whatever else waits for the loop."""

    def __init__(self, loop: asyncio.AbstractEventLoop, marks: Marks) -> None:
        super().__init__(loop)
        self._marks = marks
        self._marked: StreamReader | None = None  # held, so that its id stays its own

    def data_received(self, data: bytes) -> None:
        at = monotonic()
        super().data_received(data)
        body = self._payload
        if body is None:
            return
        if body is not self._marked:
            self._marked, self._marks[id(body)] = body, []
        self._marks[id(body)].append((at, body.total_bytes))


class _Connector(aiohttp.TCPConnector):
    def __init__(self, marks: Marks) -> None:
        super().__init__(limit=0)
        self._factory = functools.partial(_handler, loop=self._loop, marks=marks)


def _handler(*, loop: asyncio.AbstractEventLoop, marks: Marks) -> ResponseHandler:
    return _Timed(loop, marks)


class _Kept(Stream):
    """A stream whose bytes are kept, with their times."""

    def __init__(self, scrub: Callable[[bytes], bytes] = bytes) -> None:
        super().__init__(scrub)
        self.received: list[bytes] = []
        self.arrivals: Arrivals = ()

    def feed(self, received: bytes) -> None:
        self.received.append(received)
        super().feed(received)


class TimedClient(Client):
    """Asks for streams, and tells when they arrived."""

    streams = _Kept

    def __init__(self, base_url: str, **settings: Any) -> None:
        super().__init__(base_url, **settings)
        self._marks: Marks = {}

    def _connector(self) -> aiohttp.TCPConnector:
        return _Connector(self._marks)

    async def timed(self, body: Mapping[str, Any], seconds: float) -> Recording:
        """One completion as a stream; it is asked for once, and a failure stands.

        Raises:
            RequestError: no whole answer came.
        """
        stream, sent = await self._taken("completions", body, seconds)
        if not isinstance(stream, _Kept):
            raise RequestError("bad_body", "a whole answer, where a stream was asked for")
        stream.reply()  # a whole one, or it says what is missing
        return Recording(sent, stream.arrivals)

    async def drafts(self) -> Drafts | None:
        """Counters of speculative decoding where there are any, as in vLLM."""
        assert self._session is not None, "used outside its context"
        url = f"{self.base_url.removesuffix('/v1')}/metrics"
        try:
            async with self._session.get(url, timeout=_ASIDE) as response:
                body = await self._body(response) if response.status == 200 else b""
        except (aiohttp.ClientError, OSError, TimeoutError, RequestError):
            return None
        page = body.decode("utf-8", "replace")
        found = [counted(page, f"vllm:spec_decode_num_{name}") for name in _COUNTERS]
        return None if None in found else Drafts(*(value or 0.0 for value in found))

    async def _events(
        self,
        response: aiohttp.ClientResponse,
        stream: Stream,
        deadline: asyncio.Timeout,
        seconds: float,
    ) -> None:
        await super()._events(response, stream, deadline, seconds)
        assert isinstance(stream, _Kept)
        stream.arrivals = _cut(b"".join(stream.received), self._marks.pop(id(response.content)))


def _cut(body: bytes, marks: list[tuple[float, int]]) -> Arrivals:
    """A body in the pieces in which it came."""
    begins = [0, *(end for _, end in marks)]
    return tuple(
        (at, body[begin:end])
        for begin, (at, end) in zip(begins, marks, strict=False)
        if end > begin
    )
