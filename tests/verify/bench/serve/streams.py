"""Streams with times, as a server of each kind would send them."""

from __future__ import annotations

import json


def event(content):
    return f"data: {content if isinstance(content, str) else json.dumps(content)}\n\n".encode()


def tell_usage(tokens):
    return {"usage": {"completion_tokens": tokens, "prompt_tokens": 7}}


TELLS = {
    "usage": tell_usage,
    "meta_info": lambda tokens: {"meta_info": {"completion_tokens": tokens}},
    "timings": lambda tokens: {"timings": {"predicted_n": tokens}},
}


def stream(chunks, *, tells="usage", usage=True, cached=0, steps=None, end=True):
    """Arrivals of chunks (time, tokens), and of the usage in the moment of the last of them.

    `tells` is how each event tells its tokens: a name of TELLS, `token_ids`, or None.
    """
    arrivals, total = [], 0
    for at, tokens in chunks:
        total += tokens
        choice = {"index": 0, "text": "x" * tokens, "finish_reason": None}
        if tells == "token_ids":
            choice["token_ids"] = list(range(tokens))
        more = TELLS[tells](total) if tells in TELLS else {}
        arrivals.append((at, event({"choices": [choice], **more})))
    last = arrivals[-1][0] if arrivals else 0.0
    if end:
        arrivals.append((last, event({"choices": [{"text": "", "finish_reason": "length"}]})))
    if usage:
        details = {"prompt_tokens": 7, "prompt_tokens_details": {"cached_tokens": cached}}
        said = {"choices": [], "usage": {"completion_tokens": total, **details}}
        arrivals.append(
            (last, event(said | ({"meta_info": {"spec_verify_ct": steps}} if steps else {})))
        )
    arrivals.append((last, event("[DONE]")))
    return tuple(arrivals)


def steady(rate, tokens, *, first=1.0, size=1):
    """Times and sizes of chunks at so many tokens a second, the first of one token."""
    found, held = [(first, 1)], 1
    while held < tokens:
        now = min(size, tokens - held)
        held += now
        found.append((first + (held - 1) / rate, now))
    return found
