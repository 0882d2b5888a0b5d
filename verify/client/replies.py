"""What a server sends back, whole or as a stream of events, to one reply."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any, Final, TypeVar

import msgspec

from verify.client.failures import Again, RequestError, told

if TYPE_CHECKING:
    from collections.abc import Callable

T = TypeVar("T")

ENDED: Final = frozenset({"stop", "eos", "eos_token", "stop_sequence"})
"""Finish reasons of a model that came to its own end."""
CUT: Final = "length"
ABORTED: Final = frozenset({"abort", "aborted", "error", "cancelled"})
"""Finish reasons of a server that gave up on its own."""

LONGEST_LINE: Final = 1 << 22
"""Bytes of one line of a stream; events are some hundred."""


@dataclass(frozen=True)
class Reply:
    """One answer; what the server does not tell is None.

    Attributes:
        text: what the model answered.
        truncated: whether the token limit cut it.
        tokens: generated, those of the reasoning included.
        reasoning: what the server keeps apart from the answer.
        prompt_tokens: of the prompt, as the server counts them.
        logprob: the sum over the answer's tokens, where logprobs were asked for.
        model: the name under which it answered.
        seconds: from the request, or the last attempt at it, to the whole reply.
        tries: what the attempts before ended in.
    """

    text: str
    truncated: bool
    tokens: int | None
    reasoning: str | None = None
    prompt_tokens: int | None = None
    logprob: float | None = None
    model: str | None = None
    seconds: float | None = None
    tries: tuple[RequestError, ...] = ()


class _Message(msgspec.Struct, gc=False):
    content: str | None = None
    reasoning_content: str | None = None
    reasoning: str | None = None
    """vLLM's later name of it."""
    tool_calls: Any = None


class _Logprobs(msgspec.Struct, gc=False):
    content: list[dict[str, Any]] | None = None
    """Of a chat: one object a token."""
    token_logprobs: list[float | None] | None = None
    """Of a completion."""

    @property
    def total(self) -> float | None:
        if self.token_logprobs is not None:
            return sum(value for value in self.token_logprobs if value is not None)
        if self.content is not None:
            return sum(float(token.get("logprob", 0.0)) for token in self.content)
        return None


class _Choice(msgspec.Struct, gc=False):
    finish_reason: str | None = None
    text: str | None = None
    message: _Message | None = None
    delta: _Message | None = None
    logprobs: _Logprobs | None = None


_Storable = Annotated[int, msgspec.Meta(ge=-(1 << 53), le=1 << 53)]
"""A count that a store can hold, and every reader of its exports."""


class _Usage(msgspec.Struct, gc=False):
    prompt_tokens: _Storable | None = None
    completion_tokens: _Storable | None = None


class _Body(msgspec.Struct, gc=False):
    choices: list[_Choice] | None = None
    model: str | None = None
    usage: _Usage | None = None
    error: Any = None


class _Model(msgspec.Struct):
    id: str


class _Models(msgspec.Struct):
    data: list[_Model]


def model_names(content: bytes) -> list[str]:
    """Out of a list of models.

    Raises:
        RequestError: it is none.
    """
    return [model.id for model in _decoded(content, _DECODE_MODELS).data]


def whole(content: bytes) -> Reply:
    """A reply in one piece.

    Raises:
        RequestError: it is none, or not one answer that the model ended or the limit cut.
    """
    body = _decoded(content, _DECODE_BODY)
    choice = _only(body, content)
    message = choice.message or _Message(content=choice.text)
    return _reply(
        _Parts(
            texts=None if message.content is None else [message.content],
            reasoning=[message.reasoning_content or message.reasoning or ""],
            called=bool(message.tool_calls),
            finish=choice.finish_reason,
            logprob=choice.logprobs.total if choice.logprobs else None,
            usage=body.usage,
            model=body.model,
        )
    )


@dataclass
class _Parts:
    """What is known of a reply, of which a stream brings a little at a time."""

    texts: list[str] | None
    reasoning: list[str]
    called: bool = False
    finish: str | None = None
    logprob: float | None = None
    usage: _Usage | None = None
    model: str | None = None


class Stream:
    """Puts a reply together from server-sent events, fed as bytes however they are cut.

    `scrub` is applied to the content of every event before anything is read from it.
    """

    def __init__(self, scrub: Callable[[bytes], bytes] = bytes) -> None:
        self.begun = False
        """Whether a token has come."""
        self.done = False
        """Whether the server said that nothing more will come."""
        self._scrub = scrub
        self._rest = b""
        self._data: list[bytes] = []
        self._parts = _Parts(texts=None, reasoning=[])

    def feed(self, received: bytes) -> None:
        """Take the next bytes.

        Raises:
            RequestError: an event is an error, or nothing that belongs into a reply.
        """
        *lines, self._rest = (self._rest + received).split(b"\n")
        if len(self._rest) > LONGEST_LINE:
            raise RequestError("too_large", f"a line of more than {LONGEST_LINE:,} bytes")
        for line in lines:
            field, _, value = line.rstrip(b"\r").partition(b":")
            if field == b"data":
                self._data.append(value.removeprefix(b" "))
            elif not field and not value and self._data:  # an empty line ends an event
                event, self._data = b"\n".join(self._data), []
                self._event(self._scrub(event))

    def _event(self, content: bytes) -> None:
        if content.strip() == b"[DONE]":
            self.done = True
            return
        body = _decoded(content, _DECODE_BODY)
        parts = self._parts
        parts.usage, parts.model = body.usage or parts.usage, body.model or parts.model
        if body.error is None and (body.choices == [] or (body.usage and not body.choices)):
            return  # about the prompt, or at the end the usage
        choice = _only(body, content)
        self.begun = True
        delta = choice.delta or _Message(content=choice.text)
        if delta.content is not None:
            parts.texts = parts.texts or []
            parts.texts.append(delta.content)
        parts.reasoning.append(delta.reasoning_content or delta.reasoning or "")
        parts.called |= bool(delta.tool_calls)
        parts.finish = choice.finish_reason or parts.finish
        if choice.logprobs is not None and (total := choice.logprobs.total) is not None:
            parts.logprob = (parts.logprob or 0.0) + total

    def reply(self) -> Reply:
        """The whole, once nothing more comes.

        Raises:
            RequestError: the stream ended before the answer did, or the answer is none.
        """
        if self._parts.finish is None:
            raise RequestError(
                "half_answer",
                "the stream ended before the answer did",
                again=Again.OFTEN,
                unwell=True,
            )
        return _reply(self._parts)


def _only(body: _Body, content: bytes) -> _Choice:
    """The one choice that was asked for."""
    if body.error is not None:
        raise told(body.error)
    if body.choices is None:
        raise RequestError("bad_body", f"no choices: {content[:80]!r}", again=Again.ONCE)
    if len(body.choices) != 1:
        kind = "bad_body" if body.choices else "empty_choices"
        message = f"{len(body.choices)} choices where 1 was asked for"
        raise RequestError(kind, message, again=Again.ONCE)
    return body.choices[0]


def _reply(parts: _Parts) -> Reply:
    if parts.called and not any(parts.texts or ()):
        raise RequestError("tool_calls", "a call of a tool where a text was asked for")
    if parts.finish in ABORTED:
        raise RequestError(
            "finish_reason", f"the answer ended by {parts.finish!r}", again=Again.OFTEN, unwell=True
        )
    if parts.finish != CUT and parts.finish not in ENDED:
        again = Again.ONCE if parts.finish is None else Again.NEVER
        raise RequestError("finish_reason", f"the answer ended by {parts.finish!r}", again=again)
    reasoning = "".join(parts.reasoning)
    if parts.texts is None and not reasoning:
        raise RequestError("null_content", "a choice without text", again=Again.ONCE)
    usage = parts.usage or _Usage()
    return Reply(
        text=_storable("".join(parts.texts or ())),
        truncated=parts.finish == CUT,
        tokens=usage.completion_tokens,
        reasoning=_storable(reasoning) or None,
        prompt_tokens=usage.prompt_tokens,
        logprob=parts.logprob,
        model=parts.model,
    )


def _decoded(content: bytes, decoder: msgspec.json.Decoder[T]) -> T:
    try:
        try:
            return decoder.decode(content)
        except msgspec.DecodeError:
            # what it refuses, lone surrogates, models do produce
            found: T = msgspec.convert(json.loads(content), decoder.type)
            return found
    except msgspec.ValidationError as error:
        raise RequestError("bad_body", f"{error}: {content[:80]!r}", again=Again.ONCE) from None
    except (ValueError, RecursionError) as error:
        raise RequestError("bad_json", f"{error}: {content[:80]!r}", again=Again.ONCE) from None


def _storable(text: str) -> str:
    """Lone surrogates, which no encoding holds, become U+FFFD."""
    if text.isascii():
        return text
    return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")


_DECODE_BODY = msgspec.json.Decoder(_Body)
_DECODE_MODELS = msgspec.json.Decoder(_Models)
