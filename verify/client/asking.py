"""Asks one server: sends, waits, asks again where that makes sense, and knows when to give up."""

from __future__ import annotations

import asyncio
import random
import resource
import time
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Literal, Self

import aiohttp
import msgspec

from verify.client.failures import LONGEST_WAIT_S, Again, RequestError, refused
from verify.client.replies import Stream, model_names, whole
from verify.keys import secrets
from verify.limits import Limits

if TYPE_CHECKING:
    from collections.abc import Mapping
    from types import TracebackType

    from evals.suite import Sampling
    from verify.client.replies import Reply

# Parameters beyond OpenAI's own, so that defaults of a server or of a model's files cannot
# change an answer. A server that refuses one by name is not sent it again.
EXTRAS: dict[str, Any] = {
    "cache_prompt": False,  # llama.cpp: reused prefixes change texts
    "top_k": -1,
    "min_p": 0.0,
    "repetition_penalty": 1.0,
}
HELPLESS = frozenset({"http_401", "http_403", "http_404", "http_405", "redirect"})
"""What no other question will mend, if it is the first thing that a server says."""
_LONGEST_REUNION_S = 5.0  # between attempts to reach a server that does not answer
_AFTER_DONE_S = 1.0  # for the end of a stream that said it was done


class Client:
    """Asks one server; an asynchronous context manager that holds its connections.

    `streams` and `_connector` are there for those who look at replies more closely.

    Args:
        base_url: the server's address, ending in /v1.
        headers: sent with every request; what they hold is kept out of every message and reply.
        body: parameters sent with every question, over all others.
        limits: how long and how often it is asked.
        stream: whether answers are asked for token by token; costs processor time, and notices a
            server that stops half way.
    """

    streams: type[Stream] = Stream
    """What puts a stream together."""

    def __init__(
        self,
        base_url: str,
        *,
        headers: Mapping[str, str] | None = None,
        body: Mapping[str, Any] | None = None,
        limits: Limits | None = None,
        stream: bool = False,
    ) -> None:
        self.base_url = base_url
        self.limits = limits or Limits()
        self.stream = stream
        self.body = dict(body or {})
        self.extras = {name: value for name, value in EXTRAS.items() if name not in self.body}
        self.flying = 0
        """Questions that are being asked."""
        self.gone: str | None = None
        """Why the server was given up."""
        self._headers = {**(headers or {}), "Content-Type": "application/json"}
        self._secrets = secrets(headers or {})
        self._session: aiohttp.ClientSession | None = None
        self._answered = False
        self._failing = 0  # attempts since the last usable reply
        self._well_at = time.monotonic()

    async def __aenter__(self) -> Self:
        _many_files()
        # the server may be another one than when it was last asked
        self.gone, self._answered, self._failing = None, False, 0
        self._session = aiohttp.ClientSession(
            # the deadlines are ours, for they move with every token
            timeout=aiohttp.ClientTimeout(total=None, sock_connect=self.limits.connect_s),
            connector=self._connector(),
            cookie_jar=aiohttp.DummyCookieJar(),
            headers=self._headers,
        )
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if self._session is not None:
            await self._session.close()

    def _connector(self) -> aiohttp.TCPConnector:
        return aiohttp.TCPConnector(limit=0)

    async def models(self) -> list[str]:
        """Names of the models that the server offers.

        Raises:
            RequestError: it does not answer, or not with a list.
        """
        seconds = min(self.limits.seconds(0), 60.0)
        found = await self._exchange("GET", "models", None, seconds)
        return model_names(b"" if isinstance(found, Stream) else found)

    async def post(self, path: str, body: Mapping[str, Any]) -> bytes:
        """What a request other than a question brings; `path` is seen from the base address.

        Raises:
            RequestError: no whole body came, after as many attempts as make sense.
        """
        content = msgspec.json.encode({**body, **self.body})
        tries = 0
        while True:
            try:
                found = await self._exchange("POST", path, content, self.limits.seconds(0))
            except RequestError as error:
                tries += 1
                if not self._worth_another(error, tries):
                    raise
                await asyncio.sleep(self._wait_s(error, tries))
            else:
                if isinstance(found, Stream):
                    raise RequestError("bad_body", "a stream, which was not asked for")
                return found

    async def ask(
        self,
        prompt: str,
        style: Literal["completion", "chat"],
        model: str,
        sampling: Sampling,
        seed: int = 0,
    ) -> Reply:
        """One answer to one prompt.

        Raises:
            RequestError: none came, after as many attempts as make sense.
        """
        path = "completions" if style == "completion" else "chat/completions"
        body = request_body(prompt, style, model, sampling, seed, stream=self.stream)
        seconds = self.limits.seconds(sampling.max_tokens)
        if not self.flying:
            self._well_at = time.monotonic()  # nobody asked, so its silence says nothing
        self.flying += 1
        tries: list[RequestError] = []
        try:
            while self.gone is None:
                try:
                    reply = await self._accepted(path, body, seconds)
                except RequestError as error:
                    self._note(error)
                    error.tries = tuple(tries)
                    if not self._worth_another(error, len(tries) + 1):
                        raise
                    tries.append(error)
                else:
                    self._answered, self._failing = True, 0
                    self._well_at = time.monotonic()
                    return replace(reply, tries=tuple(tries)) if tries else reply
                await asyncio.sleep(self._wait_s(tries[-1], len(tries)))
            given_up = RequestError("gone", self.gone)
            given_up.tries = tuple(tries)
            raise given_up
        finally:
            self.flying -= 1

    def _note(self, error: RequestError) -> None:
        """Count what speaks against the server, and give it up once nothing speaks for it."""
        if error.kind in HELPLESS and not self._answered:
            self.gone = self.gone or f"{self.base_url} answers {error.kind}: {error}"
        if not error.unwell:
            return
        self._failing += 1
        silent = time.monotonic() - self._well_at
        if self._failing >= max(3, self.flying) and silent >= self.limits.patience_s:
            self.gone = self.gone or (
                f"{self.base_url} has given no usable reply for {silent:.0f} s; "
                f"last {error.kind}: {error}"
            )

    def _worth_another(self, error: RequestError, attempts: int) -> bool:
        if self.gone is not None or error.again is Again.NEVER:
            return False
        if error.again is Again.ONCE:
            return attempts < min(2, self.limits.attempts)
        # one that is not there is waited for, as a question's own attempts would be over too soon
        absent = error.absent and self._failing >= self.limits.attempts
        return absent or attempts < self.limits.attempts

    def _wait_s(self, error: RequestError, attempts: int) -> float:
        if error.wait_s is not None:
            return error.wait_s
        longest = _LONGEST_REUNION_S if error.absent else LONGEST_WAIT_S
        wait = min(self.limits.first_wait_s * 2.0 ** min(attempts - 1, 20), longest)
        return wait * random.uniform(0.5, 1.5)  # noqa: S311 - so that not all come back at once

    async def _accepted(self, path: str, body: dict[str, Any], seconds: float) -> Reply:
        found, began = await self._taken(path, body, seconds)
        reply = found.reply() if isinstance(found, Stream) else whole(found)
        if self.body.get("logprobs") and reply.logprob is None:
            raise RequestError("no_logprobs", "they were asked for, and did not come")
        return replace(reply, text=self._scrubbed(reply.text), seconds=time.monotonic() - began)

    async def _taken(
        self, path: str, body: Mapping[str, Any], seconds: float
    ) -> tuple[bytes | Stream, float]:
        """Send with every extra parameter that the server has not refused by name.

        What came back, and when it was asked for.
        """
        extras = dict(self.extras)
        while True:
            content = msgspec.json.encode({**body, **extras, **self.body})
            began = time.monotonic()
            try:
                found = await self._exchange("POST", path, content, seconds)
            except RequestError as error:
                named = [name for name in extras if name in str(error)]
                if error.kind not in {"http_400", "http_422"} or not named:
                    raise
                for name in named:
                    del extras[name]
                continue
            self.extras = extras
            return found, began

    async def _exchange(
        self, method: str, path: str, content: bytes | None, seconds: float
    ) -> bytes | Stream:
        """One request, and all of what comes back: a body, or the events of a stream."""
        assert self._session is not None, "used outside its context"
        stream = self.streams(self._scrub)
        deadline = asyncio.timeout(seconds)
        try:
            async with (
                deadline,
                self._session.request(
                    method, f"{self.base_url}/{path}", data=content, allow_redirects=False
                ) as response,
            ):
                _end_what_cannot_be_read(response)
                if response.status != 200:
                    body = (await self._body(response)).decode("utf-8", "replace")
                    told = response.headers.get("Location"), response.headers.get("Retry-After")
                    raise refused(response.status, *told, body)
                if response.content_type != "text/event-stream":
                    return await self._body(response)
                await self._events(response, stream, deadline, seconds)
        except aiohttp.ServerTimeoutError:
            message = f"no connection within {self.limits.connect_s:g} s"
            raise _unwell("connection", message, Again.OFTEN) from None
        except TimeoutError:
            if stream.done:
                return stream
            if stream.begun:
                raise _unwell("stall", "the stream stopped half way", Again.ONCE) from None
            raise _unwell("timeout", f"no reply within {seconds:g} s", Again.ONCE) from None
        except (aiohttp.ClientError, OSError) as error:
            found = _unwell("connection", str(error) or type(error).__name__, Again.OFTEN)
            found.absent = isinstance(error, aiohttp.ClientConnectorError)
            raise found from None
        return stream

    async def _body(self, response: aiohttp.ClientResponse) -> bytes:
        parts, size = [], 0
        async for part in response.content.iter_any():
            size = self._sized(size + len(part))
            parts.append(part)
        return self._scrub(b"".join(parts))

    async def _events(
        self,
        response: aiohttp.ClientResponse,
        stream: Stream,
        deadline: asyncio.Timeout,
        seconds: float,
    ) -> None:
        now = asyncio.get_running_loop().time
        end, size = now() + seconds, 0
        async for part in response.content.iter_any():
            size = self._sized(size + len(part))
            stream.feed(part)
            if stream.begun:
                wait = _AFTER_DONE_S if stream.done else self.limits.gap_s
                deadline.reschedule(min(end, now() + wait))

    def _sized(self, size: int) -> int:
        if size > self.limits.largest_body:
            message = f"more than {self.limits.largest_body:,} bytes"
            raise RequestError("too_large", message, again=Again.ONCE)
        return size

    def _scrub(self, content: bytes) -> bytes:
        """Without what stands in our headers, if a server repeats it."""
        for secret in self._secrets:
            content = content.replace(secret, b"***")
        return content

    def _scrubbed(self, text: str) -> str:
        return self._scrub(text.encode()).decode() if self._secrets else text


def request_body(
    prompt: str,
    style: Literal["completion", "chat"],
    model: str,
    sampling: Sampling,
    seed: int = 0,
    *,
    stream: bool = False,
) -> dict[str, Any]:
    """The request in OpenAI's own parameters, all of them sent."""
    asked: dict[str, Any] = (
        {"prompt": prompt}
        if style == "completion"
        else {"messages": [{"role": "user", "content": prompt}]}
    )
    return {
        "model": model,
        **asked,
        "temperature": sampling.temperature,
        "top_p": 1.0,
        "max_tokens": sampling.max_tokens,
        **({"stop": list(sampling.stop)} if sampling.stop else {}),
        "n": 1,
        "seed": seed,
        "presence_penalty": 0.0,
        "frequency_penalty": 0.0,
        "stream": stream,
        **({"stream_options": {"include_usage": True}} if stream else {}),
    }


def _unwell(kind: str, message: str, again: Again) -> RequestError:
    return RequestError(kind, message, again=again, unwell=True)


def _end_what_cannot_be_read(response: aiohttp.ClientResponse) -> None:
    """Let a body whose chunks are no chunks end with its connection.

    aiohttp (3.14) tells only those who wait for a head of it, and who reads the body waits for
    more of it until the deadline.
    """
    connection = response.connection
    protocol = connection.protocol if connection is not None else None
    if protocol is None:
        return

    def end(closed: asyncio.Future[None] | None = None) -> None:
        if closed is not None and not closed.cancelled():
            closed.exception()  # asked for, or asyncio complains; who reads the body is told
        error = protocol.exception()
        if isinstance(error, aiohttp.http.HttpProcessingError) and not response.content.is_eof():
            response.content.set_exception(aiohttp.ClientPayloadError(error.message))

    if protocol.closed is None:
        end()
    else:
        protocol.closed.add_done_callback(end)


def _many_files() -> None:
    """Let this process hold a connection for every request in flight, as far as it may."""
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
