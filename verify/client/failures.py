"""Every way in which a request ends without a usable reply, by kind."""

from __future__ import annotations

import email.utils
import re
import time
from enum import Enum

import msgspec

LONGEST_WAIT_S = 60.0
_QUOTED = 500  # characters of a server's own words that are kept

# How servers say that prompt and answer together do not fit: OpenAI's code, then the words of
# vLLM, SGLang, llama.cpp, TGI and TensorRT-LLM.
_OVERFLOW = re.compile(
    r"context_length_exceeded|exceed_context_size|maximum context length|context (?:size|window)"
    r"|longer than the model'?s context|max_model_len|must be <= \d+\. Given: \d+ `inputs`"
    r"|exceeds? (?:the )?(?:maximum|max)[ _](?:input|sequence|seq|num)",
    re.IGNORECASE,
)


class Again(Enum):
    """Whether the same request may succeed later."""

    OFTEN = "often"
    """The transport or a busy server: as often as the limits say."""
    ONCE = "once"
    """Possibly an accident, more likely to stay."""
    NEVER = "never"
    """It was understood, and refused or answered in this way."""


class RequestError(Exception):
    """A request without a usable reply.

    Kinds: connection (refused, reset, cut within headers or body), timeout (not whole in time),
    stall (no further token in time), http_<status>, redirect, context_overflow, bad_json, bad_body
    (JSON, but no reply), server_error (an error in the place of a reply), empty_choices,
    null_content, tool_calls, finish_reason (an end that is none of the model's), half_answer (a
    stream that ended before the answer did), no_logprobs (asked for, not given), too_large, gone
    (not sent: the server was given up).
    """

    def __init__(
        self,
        kind: str,
        message: str,
        *,
        again: Again = Again.NEVER,
        unwell: bool = False,
        wait_s: float | None = None,
    ) -> None:
        super().__init__(message)
        self.kind = kind
        self.again = again
        self.unwell = unwell
        """Whether it speaks against the server rather than against the request."""
        self.absent = False
        """Whether there was no server to connect to."""
        self.wait_s = wait_s
        """Seconds that the server asked to wait."""
        self.tries: tuple[RequestError, ...] = ()
        """What the attempts before this one ended in."""


def refused(status: int, location: str | None, retry_after: str | None, body: str) -> RequestError:
    """What a status other than 200 means."""
    words = " ".join(body.split())[:_QUOTED]
    if 300 <= status < 400:
        return RequestError(
            "redirect", f"{status} to {location or 'nowhere'}; give that address itself"
        )
    if status == 413 or (status in {400, 422, 500} and _OVERFLOW.search(body)):
        return RequestError("context_overflow", words or f"status {status}")
    busy = status in {408, 425, 429} or status >= 500
    return RequestError(
        f"http_{status}",
        words or "no further words",
        again=Again.OFTEN if busy else Again.NEVER,
        unwell=status >= 500 or status in {401, 403, 404, 405},
        wait_s=_retry_after(retry_after),
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
        except (ValueError, OverflowError):
            return None
    return min(max(seconds, 0.0), LONGEST_WAIT_S) if seconds == seconds else None  # noqa: PLR0124 - NaN


def told(error: object) -> RequestError:
    """An error object where a reply should stand, with status 200 or as an event of a stream."""
    said = error if isinstance(error, str) else msgspec.json.encode(error, enc_hook=repr).decode()
    words = " ".join(said.split())[:_QUOTED]
    if _OVERFLOW.search(said):
        return RequestError("context_overflow", words)
    return RequestError("server_error", words, again=Again.OFTEN, unwell=True)
