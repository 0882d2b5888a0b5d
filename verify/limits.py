"""How long and how often a server is asked before a failure stands."""

from __future__ import annotations

from typing import Annotated

import msgspec
from msgspec import Meta

Seconds = Annotated[float, Meta(gt=0, le=10**6)]


class Limits(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How long and how often a server is asked before a failure stands.

    Attributes:
        attempts: how often a request is sent before a transient failure stands.
        request_s: seconds for the whole of a reply; None: 600, or 0.2 for every token that may be
            generated if that is more.
        gap_s: seconds between two tokens of a stream; the first may take as long as it likes.
        connect_s: seconds for a connection.
        patience_s: seconds without one usable reply after which a server that keeps failing is
            given up; so long one that restarts is waited for.
        first_wait_s: seconds before the second attempt; doubles from then on.
        largest_body: bytes of a reply.
    """

    attempts: Annotated[int, Meta(ge=1, le=1000)] = 5
    request_s: Seconds | None = None
    gap_s: Seconds = 120.0
    connect_s: Seconds = 30.0
    patience_s: Annotated[float, Meta(ge=0, le=10**6)] = 120.0
    first_wait_s: Seconds = 0.5
    largest_body: Annotated[int, Meta(ge=1)] = 1 << 26

    def seconds(self, max_tokens: int) -> float:
        """For a reply of so many tokens."""
        return self.request_s if self.request_s is not None else max(600.0, 0.2 * max_tokens)
