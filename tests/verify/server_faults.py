"""Every way in which a server may fail, as bytes on a connection.

`FAULTS` says what each failure is, and what a client that meets nothing else has to call it; None
where the answer is usable all the same. A prompt that ends in "A + B?" is answered by "#### <A+B>",
so an answer made up by anything but the server is noticed.
"""

from __future__ import annotations

import asyncio
import json
import re
import socket
import struct
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable


@dataclass(frozen=True)
class Fault:
    """One way to fail.

    Attributes:
        kind: what it is called once given up; None: an answer.
        sends: how often such a request is sent if it always fails, of 3 allowed.
        play: writes it to the connection; whether the connection is then closed.
        stream: whether it is a failure of streams.
    """

    kind: str | None
    sends: int
    play: Callable[[Peer, dict], Awaitable[bool | None]]
    stream: bool = False


FAULTS: dict[str, Fault] = {}


def fault(kind, sends=1, *, stream=False):
    def register(play):
        FAULTS[play.__name__] = Fault(kind, sends, play, stream)
        return play

    return register


@dataclass
class Peer:
    """One connection, as a fault sees it."""

    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter

    def head(self, status="200 OK", *, kind="application/json", **headers):
        lines = [f"HTTP/1.1 {status}", f"Content-Type: {kind}"]
        lines += [f"{name.replace('_', '-')}: {value}" for name, value in headers.items()]
        self.writer.write(("\r\n".join(lines) + "\r\n\r\n").encode())

    def whole(self, content, status="200 OK", **headers):
        content = content if isinstance(content, bytes) else content.encode()
        self.head(status, **{"Content_Length": len(content), **headers})
        self.writer.write(content)

    def events(self, *events, done=True, end=True):
        self.head(kind="text/event-stream; charset=utf-8", Transfer_Encoding="chunked")
        for event in events:
            self.event(event)
        if done:
            self.event("[DONE]")
        if end:
            self.writer.write(b"0\r\n\r\n")

    def event(self, event):
        text = event if isinstance(event, str) else json.dumps(event)
        data = f"data: {text}\n\n".encode()
        for part in (data[:7], data[7:]):  # events do not come in chunks of their own
            self.writer.write(f"{len(part):x}\r\n".encode() + part + b"\r\n")

    async def hold(self):
        """Keep the connection open until the client leaves."""
        await self.reader.read()


def answer(body, **changes):
    """The right answer to a prompt, in the form that was asked for."""
    prompt = body["prompt"] if "prompt" in body else body["messages"][-1]["content"]
    first, second = re.findall(r"(\d+) \+ (\d+)\?", prompt)[-1]
    text = f"#### {int(first) + int(second)}"
    said = {"text": text} if "prompt" in body else {"message": {"content": text}}
    return {
        "model": "adder",
        "choices": [{"index": 0, "finish_reason": "stop", **said, **changes}],
        "usage": {"prompt_tokens": 3, "completion_tokens": 5},
    }


def pieces(body):
    """The same as events: text in three pieces, then the reason of the end, then the usage."""
    whole = answer(body)
    text = whole["choices"][0].get("text") or whole["choices"][0]["message"]["content"]
    shape = (lambda t: {"text": t}) if "prompt" in body else (lambda t: {"delta": {"content": t}})
    cut = [text[:2], text[2:6], text[6:]]
    events = [{"model": "adder", "choices": [{"index": 0, **shape(piece)}]} for piece in cut]
    events.append({"choices": [{"index": 0, **shape(""), "finish_reason": "stop"}]})
    return [*events, {"choices": [], "usage": whole["usage"]}]


def changed(body, **changes):
    return json.dumps(answer(body, **changes))


# The transport


@fault("connection", 3)
async def reset_before_the_first_byte(peer, _):
    linger = struct.pack("ii", 1, 0)
    peer.writer.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, linger)
    peer.writer.transport.abort()
    return True


@fault("connection", 3)
async def closed_before_the_first_byte(*_):
    return True


@fault("connection", 3)
async def closed_within_the_headers(peer, _):
    peer.writer.write(b"HTTP/1.1 200 OK\r\nContent-Le")
    return True


@fault("connection", 3)
async def closed_within_the_body(peer, body):
    peer.head(Content_Length=1000)
    peer.writer.write(changed(body)[:20].encode())
    return True


@fault("connection", 3)
async def chunks_that_end_early(peer, body):
    peer.head(Transfer_Encoding="chunked")
    text = changed(body).encode()
    peer.writer.write(f"{len(text):x}\r\n".encode() + text + b"\r\n")
    return True


@fault("connection", 3)
async def chunks_of_no_size(peer, body):
    peer.head(Transfer_Encoding="chunked")
    peer.writer.write(b"zz\r\n" + changed(body).encode() + b"\r\n0\r\n\r\n")
    return True


@fault("connection", 3)
async def chunks_of_no_size_after_a_while(peer, body):
    peer.head(Transfer_Encoding="chunked")
    await asyncio.sleep(0.01)  # what reads a body is told otherwise than what waits for a head
    peer.writer.write(b"zz\r\n" + changed(body).encode() + b"\r\n0\r\n\r\n")
    return True


@fault("connection", 3)
async def chunks_longer_than_they_say(peer, body):
    peer.head(Transfer_Encoding="chunked")
    peer.writer.write(b"5\r\n")
    await asyncio.sleep(0.01)
    peer.writer.write(changed(body).encode() + b"\r\n0\r\n\r\n")
    return True


@fault("connection", 3)
async def no_http_at_all(peer, _):
    peer.writer.write(b"\x16\x03\x01 what is this?\r\n\r\n")
    return True


@fault("connection", 3)
async def broken_compression(peer, body):
    peer.whole(changed(body), Content_Encoding="gzip")


@fault("timeout", 2)
async def never_answered(peer, _):
    await peer.hold()
    return True


@fault("timeout", 2)
async def headers_that_never_end(peer, _):
    peer.writer.write(b"HTTP/1.1 200 OK\r\nX-Slow: ")
    while not peer.reader.at_eof():
        peer.writer.write(b"z")
        await asyncio.wait([asyncio.ensure_future(peer.reader.read(1))], timeout=0.05)
    return True


@fault("timeout", 2)
async def a_body_that_stops_half_way(peer, body):
    peer.head(Content_Length=1000)
    peer.writer.write(changed(body)[:20].encode())
    await peer.hold()
    return True


@fault("bad_json", 2)
async def a_body_announced_too_short(peer, body):
    peer.whole(changed(body)[:20])


@fault("too_large", 2)
async def a_huge_body(peer, _):
    peer.head(Content_Length=1 << 22)
    peer.writer.write(b" " * (1 << 22))
    return True


@fault("too_large", 2)
async def a_body_without_end(peer, _):
    peer.head(Transfer_Encoding="chunked")
    try:
        while True:
            peer.writer.write(b"8000\r\n" + b" " * 0x8000 + b"\r\n")
            await peer.writer.drain()
    except ConnectionError:
        return True


@fault(None)
async def closed_after_each_answer(peer, body):
    peer.whole(changed(body), Connection="close")
    return True


@fault(None)
async def closed_after_each_answer_without_a_word(peer, body):
    peer.whole(changed(body))
    return True


# Statuses


def status(code, reason, called, sends=1, text="no", **headers):
    async def play(peer, _):
        peer.whole(text, f"{code} {reason}", **headers)

    play.__name__ = f"status_{code}_{reason.replace(' ', '_').lower()}"
    fault(called, sends)(play)


status(429, "Too Many Requests", "http_429", 3, Retry_After="0")
status(500, "Internal Server Error", "http_500", 3)
status(502, "Bad Gateway", "http_502", 3, "<html><h1>Bad gateway</h1>", kind="text/html")
status(503, "Service Unavailable", "http_503", 3, "", Retry_After="0")
status(408, "Request Timeout", "http_408", 3)
status(400, "Bad Request", "http_400")
status(422, "Unprocessable", "http_422")
status(401, "Unauthorized", "http_401")
status(403, "Forbidden", "http_403")
status(404, "Not Found", "http_404")
status(413, "Too Large", "context_overflow")
status(400, "Overflow", "context_overflow", 1, "This model's maximum context length is 9 tokens")
status(500, "Overflow", "context_overflow", 1, '{"error": {"code": "context_length_exceeded"}}')
status(307, "Elsewhere", "redirect", 1, "", Location="http://127.0.0.1:1/v1")
status(200, "Empty", "bad_json", 2, "")
status(200, "No JSON", "bad_json", 2, '{"choices": [')
status(
    200, "Not UTF-8", "bad_json", 2, b'{"choices": [{"text": "\xff\xfe", "finish_reason": "stop"}]}'
)
status(200, "Nested", "bad_json", 2, "[" * 100_000)
status(200, "A page", "bad_json", 2, "<!doctype html><title>Login</title>", kind="text/html")
status(200, "A list", "bad_body", 2, "[1]")
status(200, "No choices", "bad_body", 2, "{}")
status(200, "Empty choices", "empty_choices", 2, '{"choices": []}')
status(200, "An error", "server_error", 3, '{"error": {"message": "CUDA out of memory"}}')
status(200, "A word", "server_error", 3, '{"error": "overloaded"}')


@fault(None)
async def another_content_type(peer, body):
    peer.whole(changed(body), kind="text/plain")


# Bodies


def replaced(name, kind, sends, **changes):
    async def play(peer, body):
        peer.whole(changed(body, **changes))

    play.__name__ = name
    fault(kind, sends)(play)


replaced("no_content", "null_content", 2, text=None, message=None)
replaced("null_content", "null_content", 2, text=None, message={"content": None})
replaced("a_number_for_a_text", "bad_body", 2, text=4, message={"content": 4})
replaced("filtered", "finish_reason", 1, finish_reason="content_filter")
replaced("aborted", "finish_reason", 3, finish_reason="abort")
replaced("no_finish_reason", "finish_reason", 2, finish_reason=None)
replaced(
    "a_tool_called", "tool_calls", 1, finish_reason="tool_calls", text=None,
    message={"content": None, "tool_calls": [{"function": {"name": "add"}}]},
)  # fmt: skip


@fault("bad_body", 2)
async def a_count_that_nothing_can_hold(peer, body):
    peer.whole(json.dumps({**answer(body), "usage": {"completion_tokens": 1 << 63}}))


@fault("bad_body", 2)
async def two_answers(peer, body):
    whole = answer(body)
    peer.whole(json.dumps({**whole, "choices": whole["choices"] * 2}))


@fault(None)
async def no_usage(peer, body):
    whole = answer(body)
    del whole["usage"]
    peer.whole(json.dumps(whole))


# Streams


@fault("server_error", 3, stream=True)
async def an_error_event(peer, body):
    peer.events(pieces(body)[0], {"error": {"message": "engine died"}})


@fault("half_answer", 3, stream=True)
async def a_stream_that_ends_half_way(peer, body):
    peer.events(*pieces(body)[:2], done=False)


@fault("half_answer", 3, stream=True)
async def a_stream_done_half_way(peer, body):
    peer.events(*pieces(body)[:2])


@fault("connection", 3, stream=True)
async def a_stream_cut_half_way(peer, body):
    peer.events(*pieces(body)[:2], done=False, end=False)
    return True


@fault("stall", 2, stream=True)
async def a_stream_that_stops_half_way(peer, body):
    peer.events(*pieces(body)[:2], done=False, end=False)
    await peer.hold()
    return True


@fault("timeout", 2, stream=True)
async def a_stream_that_never_begins(peer, _):
    peer.events(done=False, end=False)
    await peer.hold()
    return True


@fault("timeout", 2, stream=True)
async def a_stream_of_nothing_but_signs_of_life(peer, _):
    peer.events(done=False, end=False)
    while not peer.reader.at_eof():
        peer.writer.write(b"4\r\n: x\n\r\n")
        await asyncio.wait([asyncio.ensure_future(peer.reader.read(1))], timeout=0.05)
    return True


@fault("too_large", 2, stream=True)
async def a_stream_without_end(peer, body):
    peer.events(done=False, end=False)
    many = f"data: {json.dumps(pieces(body)[0])}\n\n".encode() * 500
    try:
        while True:
            peer.writer.write(f"{len(many):x}\r\n".encode() + many + b"\r\n")
            await peer.writer.drain()
    except ConnectionError:
        return True


@fault("bad_json", 2, stream=True)
async def an_event_that_is_no_json(peer, body):
    peer.events(pieces(body)[0], '{"choices": [')


@fault(None, stream=True)
async def a_stream_without_a_last_word(peer, body):
    peer.events(*pieces(body), done=False)


@fault(None, stream=True)
async def a_stream_that_stays_open_when_done(peer, body):
    peer.events(*pieces(body), end=False)
    await peer.hold()
    return True


@fault(None, stream=True)
async def no_stream_but_a_whole_answer(peer, body):
    peer.whole(changed(body))
