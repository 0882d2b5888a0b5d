"""A client of one OpenAI-compatible server: every request ends in a reply or a named failure."""

from __future__ import annotations

import email.utils
import json
import logging
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, Self, TypeVar

import aiohttp
import msgspec
import stamina

if TYPE_CHECKING:
    from types import TracebackType

    from evals.suite import Sampling

T = TypeVar("T")

# stamina logs each retry as a warning, into the middle of a progress display; they are counted.
logging.getLogger("stamina").setLevel(logging.ERROR)

ENDED = frozenset({"stop", "eos", "eos_token", "stop_sequence"})
"""Finish reasons of a model that came to its own end."""

CUT = "length"

# Parameters beyond OpenAI's own, so that defaults of a server or of a model's files cannot
# change an answer. A server that refuses one by name is not sent it again.
EXTRAS: dict[str, Any] = {
    "cache_prompt": False,  # llama.cpp: reused prefixes change texts
    "top_k": -1,
    "min_p": 0.0,
    "repetition_penalty": 1.0,
}
LONGEST_WAIT_S = 60.0


class RequestError(Exception):
    """A request without a usable reply.

    `kind` is one of connection, timeout, http_<status>, bad_json, bad_body, empty_choices,
    null_content, finish_reason.
    """

    def __init__(
        self, kind: str, message: str, *, transient: bool = False, wait_s: float | None = None
    ) -> None:
        super().__init__(message)
        self.kind = kind
        self.transient = transient
        """Whether the same request may succeed later: transport errors, 429 and 5xx."""
        self.wait_s = wait_s
        """Seconds that the server asked to wait."""
        self.attempts = 1


@dataclass(frozen=True)
class Reply:
    """One answer; `tokens` and `model` are None where the server does not tell them."""

    text: str
    truncated: bool
    tokens: int | None
    attempts: int = 1
    model: str | None = None


class _Message(msgspec.Struct):
    content: str | None = None


class _Choice(msgspec.Struct):
    finish_reason: str | None = None
    text: str | None = None
    message: _Message | None = None


class _Usage(msgspec.Struct):
    completion_tokens: int | None = None


class _Body(msgspec.Struct):
    choices: list[_Choice]
    model: str | None = None
    usage: _Usage | None = None


class _Model(msgspec.Struct):
    id: str


class _Models(msgspec.Struct):
    data: list[_Model]


class Client:
    """Asks one server; an asynchronous context manager that holds its connections.

    Args:
        base_url: the server's address, ending in /v1.
        attempts: how often a request is sent before a transient failure stands.
        timeout_s: seconds until a request without a whole reply has failed.
        first_wait_s: seconds before the second attempt; doubles from then on.
    """

    def __init__(
        self,
        base_url: str,
        *,
        attempts: int = 5,
        timeout_s: float = 600.0,
        first_wait_s: float = 0.5,
    ) -> None:
        self.base_url = base_url
        self.extras = dict(EXTRAS)
        self._attempts = attempts
        self._first_wait_s = first_wait_s
        self._timeout = aiohttp.ClientTimeout(total=timeout_s, sock_connect=10)
        self._session: aiohttp.ClientSession | None = None
        # a server that is gone is not waited for again at every question
        self._gone = False

    async def __aenter__(self) -> Self:
        self._session = aiohttp.ClientSession(
            timeout=self._timeout,
            connector=aiohttp.TCPConnector(limit=0),
            cookie_jar=aiohttp.DummyCookieJar(),
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

    async def models(self) -> list[str]:
        """Names of the models that the server offers.

        Raises:
            RequestError: it does not answer, or not with a list.
        """
        return [
            model.id for model in _decoded(await self._send("GET", "models", None), _Models).data
        ]

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
        body = request_body(prompt, style, model, sampling, seed)
        attempts = 1 if self._gone else self._attempts
        number = 0
        try:
            async for attempt in stamina.retry_context(
                on=_patience,
                attempts=attempts,
                timeout=None,
                wait_initial=self._first_wait_s,
                wait_max=LONGEST_WAIT_S,
                wait_jitter=self._first_wait_s,
            ):
                with attempt:
                    number = attempt.num
                    content = await self._accepted(path, body)
        except RequestError as error:
            error.attempts = number
            self._gone = error.kind in {"connection", "timeout"}
            raise
        self._gone = False
        return _reply(content, number)

    async def _accepted(self, path: str, body: dict[str, Any]) -> bytes:
        """Send with every extra parameter that the server has not refused by name."""
        extras = dict(self.extras)
        while True:
            try:
                content = await self._send("POST", path, {**body, **extras})
            except RequestError as error:
                refused = [name for name in extras if name in str(error)]
                if error.kind not in {"http_400", "http_422"} or not refused:
                    raise
                for name in refused:
                    del extras[name]
            else:
                self.extras = extras
                return content

    async def _send(self, method: str, path: str, body: dict[str, Any] | None) -> bytes:
        assert self._session is not None, "used outside its context"
        url = f"{self.base_url}/{path}"
        try:
            async with self._session.request(method, url, json=body) as response:
                content = await response.read()
                if response.status != 200:
                    raise _refusal(response, content)
                return content
        except TimeoutError:
            seconds = self._timeout.total
            raise RequestError(
                "timeout", f"no reply within {seconds:g} s", transient=True
            ) from None
        except (aiohttp.ClientError, OSError) as error:
            message = str(error) or type(error).__name__
            raise RequestError("connection", message, transient=True) from None


def request_body(
    prompt: str,
    style: Literal["completion", "chat"],
    model: str,
    sampling: Sampling,
    seed: int = 0,
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
        "stream": False,
    }


def _patience(error: Exception) -> bool | float:
    """Whether to try again, or the seconds to wait first."""
    if not isinstance(error, RequestError) or not error.transient:
        return False
    return True if error.wait_s is None else error.wait_s


def _refusal(response: aiohttp.ClientResponse, content: bytes) -> RequestError:
    status = response.status
    return RequestError(
        f"http_{status}",
        " ".join(content[:2000].decode("utf-8", "replace").split())[:500] or str(response.reason),
        transient=status == 429 or status >= 500,
        wait_s=_retry_after(response.headers.get("Retry-After")),
    )


def _retry_after(value: str | None) -> float | None:
    """Seconds, from a number of them or a date, within reason."""
    if value is None:
        return None
    try:
        seconds = float(value)
    except ValueError:
        try:
            seconds = email.utils.parsedate_to_datetime(value).timestamp() - time.time()
        except ValueError:
            return None
    return min(max(seconds, 0.0), LONGEST_WAIT_S) if seconds == seconds else None  # noqa: PLR0124 - NaN


def _decoded(content: bytes, kind: type[T]) -> T:
    try:
        # not msgspec's own decoder: it refuses lone surrogates, which models do produce
        return msgspec.convert(json.loads(content), kind)
    except (json.JSONDecodeError, UnicodeDecodeError, RecursionError) as error:
        raise RequestError("bad_json", f"{error}: {content[:80]!r}") from None
    except msgspec.ValidationError as error:
        raise RequestError("bad_body", f"{error}: {content[:80]!r}") from None


def _reply(content: bytes, attempts: int) -> Reply:
    body = _decoded(content, _Body)
    if len(body.choices) != 1:
        kind = "bad_body" if body.choices else "empty_choices"
        raise RequestError(kind, f"{len(body.choices)} choices where 1 was asked for")
    choice = body.choices[0]
    text = choice.message.content if choice.message else choice.text
    if text is None:
        raise RequestError("null_content", "a choice without text")
    if choice.finish_reason != CUT and choice.finish_reason not in ENDED:
        raise RequestError("finish_reason", f"the answer ended by {choice.finish_reason!r}")
    tokens = body.usage.completion_tokens if body.usage else None
    return Reply(_storable(text), choice.finish_reason == CUT, tokens, attempts, body.model)


def _storable(text: str) -> str:
    """Lone surrogates, which no encoding holds, become U+FFFD."""
    return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
