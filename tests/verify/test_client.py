import asyncio
import email.utils
import json
import time

import pytest
from aiohttp import web

from evals.suite import Sampling
from verify.client import Client, Reply, RequestError

SAMPLING = Sampling(max_tokens=20, stop=("Question:",))


def ask(server, *, style="completion", attempts=3, timeout_s=5.0, times=1, client=None):
    """Reply or RequestError of each of `times` requests, one after the other."""

    async def go():
        one = client or Client(
            server.url, attempts=attempts, timeout_s=timeout_s, first_wait_s=0.001
        )
        found = []
        async with one:
            for _ in range(times):
                try:
                    found.append(await one.ask("2 + 2?", style, "tiny", SAMPLING))
                except RequestError as error:
                    found.append(error)
        return found

    found = asyncio.run(go())
    return found[0] if times == 1 else found


def failing(first, *, then, times=1):
    """`first` for that many requests, then `then`."""
    return lambda _, number: first() if number < times else then


def refusal(status, text="no", **headers):
    return lambda: web.Response(status=status, text=text, headers=headers)


def test_an_answer(fake_server):
    server = fake_server()
    assert ask(server) == Reply("#### 4", truncated=False, tokens=5)


def test_every_sampling_parameter_is_sent(fake_server):
    server = fake_server()
    ask(server)
    (sent,) = server.requests
    assert sent == {
        "path": "/v1/completions",
        "model": "tiny",
        "prompt": "2 + 2?",
        "temperature": 0.0,
        "top_p": 1.0,
        "max_tokens": 20,
        "stop": ["Question:"],
        "n": 1,
        "seed": 0,
        "presence_penalty": 0.0,
        "frequency_penalty": 0.0,
        "stream": False,
        "cache_prompt": False,
        "top_k": -1,
        "min_p": 0.0,
        "repetition_penalty": 1.0,
    }


def test_chat_wraps_the_same_prompt(fake_server):
    body = {"choices": [{"message": {"content": "#### 4"}, "finish_reason": "stop"}]}
    server = fake_server(lambda *_: body)
    assert ask(server, style="chat") == Reply("#### 4", truncated=False, tokens=None)
    (sent,) = server.requests
    assert sent["path"] == "/v1/chat/completions"
    assert sent["messages"] == [{"role": "user", "content": "2 + 2?"}]
    assert "prompt" not in sent


def test_length_is_truncation(fake_server):
    server = fake_server(lambda *_: fake_server.completion(finish_reason="length"))
    assert ask(server).truncated


@pytest.mark.parametrize("status", [429, 500, 502, 503])
def test_busy_and_broken_servers_are_asked_again(fake_server, status):
    server = fake_server(failing(refusal(status), then=fake_server.completion(), times=2))
    reply = ask(server)
    assert (reply.text, reply.attempts) == ("#### 4", 3)


def test_a_reset_connection_is_asked_again(fake_server):
    server = fake_server(failing(lambda: "reset", then=fake_server.completion()))
    assert ask(server).attempts == 2


def test_half_a_body_is_asked_again(fake_server):
    server = fake_server(failing(lambda: "half", then=fake_server.completion()))
    assert ask(server).attempts == 2


@pytest.mark.parametrize("status", [400, 401, 404, 413])
def test_a_refusal_is_final(fake_server, status):
    server = fake_server(failing(refusal(status, "prompt\nis  too long"), then=None))
    error = ask(server)
    assert (error.kind, str(error)) == (f"http_{status}", "prompt is too long")
    assert len(server.requests) == 1


@pytest.mark.parametrize(
    ("body", "kind"),
    [
        ({"choices": []}, "empty_choices"),
        ({"choices": [{"text": "a", "finish_reason": "stop"}] * 2}, "bad_body"),
        ({"choices": [{"text": None, "finish_reason": "stop"}]}, "null_content"),
        ({"choices": [{"finish_reason": "stop"}]}, "null_content"),
        ({"choices": [{"message": {"content": None}, "finish_reason": "stop"}]}, "null_content"),
        ({"choices": [{"text": "a", "finish_reason": "content_filter"}]}, "finish_reason"),
        ({"choices": [{"text": "a", "finish_reason": None}]}, "finish_reason"),
        ({"choices": [{"text": "a"}]}, "finish_reason"),
        ({"choices": [{"text": 4, "finish_reason": "stop"}]}, "bad_body"),
        ({"choices": {"text": "a"}}, "bad_body"),
        ({"error": "overloaded"}, "bad_body"),
        (["a"], "bad_body"),
    ],
)
def test_what_is_no_answer_is_an_error_of_its_kind(fake_server, body, kind):
    server = fake_server(lambda *_: body)
    error = ask(server)
    assert isinstance(error, RequestError)
    assert (error.kind, len(server.requests)) == (kind, 1)


@pytest.mark.parametrize("content", [b"", b'{"choices": [', b"\xff\xfe", b"[" * 100_000])
def test_what_is_no_json_is_an_error(fake_server, content):
    server = fake_server(lambda *_: web.Response(body=content, content_type="application/json"))
    assert ask(server).kind == "bad_json"


def test_an_empty_answer_of_a_model_is_an_answer(fake_server):
    server = fake_server(lambda *_: fake_server.completion(text=""))
    assert ask(server).text == ""


def test_lone_surrogates_become_storable(fake_server):
    body = json.dumps(fake_server.completion(text="a\ud800b \U0001f600"))
    server = fake_server(lambda *_: web.Response(text=body, content_type="application/json"))
    assert ask(server).text == "a\ufffdb \U0001f600"


def test_retry_after_is_heeded(fake_server, monkeypatch):
    waited = []
    asleep = asyncio.sleep

    async def note(seconds, *rest):
        waited.append(seconds)
        await asleep(0, *rest)

    monkeypatch.setattr(asyncio, "sleep", note)
    date = email.utils.formatdate(time.time() + 30, usegmt=True)
    for header, low, high in (("7", 7, 7), (date, 25, 31), ("9999", 60, 60), ("-3", 0, 0)):
        waited.clear()
        refused = refusal(429, **{"Retry-After": header})
        server = fake_server(failing(refused, then=fake_server.completion()))
        assert ask(server).attempts == 2
        assert low <= max(waited) <= high, header


def test_nonsense_in_retry_after_is_ignored(fake_server):
    refused = refusal(503, **{"Retry-After": "soon"})
    server = fake_server(failing(refused, then=fake_server.completion()))
    assert ask(server).attempts == 2


def test_a_request_never_answered_is_a_timeout(fake_server):
    async def never():
        await asyncio.Event().wait()

    server = fake_server(lambda *_: never())
    error = ask(server, attempts=2, timeout_s=0.2)
    assert (error.kind, error.attempts, len(server.requests)) == ("timeout", 2, 2)


def test_a_server_that_never_answers_is_not_waited_for_again(fake_server):
    async def never():
        await asyncio.Event().wait()

    first, second = ask(fake_server(lambda *_: never()), attempts=2, timeout_s=0.2, times=2)
    assert (first.attempts, second.attempts) == (2, 1)


def test_failures_that_stay_are_given_up(fake_server):
    server = fake_server(lambda *_: web.Response(status=500, text="out of memory"))
    error = ask(server, attempts=4)
    assert (error.kind, str(error), error.attempts) == ("http_500", "out of memory", 4)
    assert len(server.requests) == 4


def test_a_server_that_is_gone_is_not_waited_for_again(fake_server):
    server = fake_server(lambda *_: "reset")
    first, second = ask(server, times=2)
    assert (first.kind, first.attempts) == ("connection", 3)
    assert (second.kind, second.attempts) == ("connection", 1)


def test_a_server_that_comes_back_is_waited_for_again(fake_server):
    answers = iter(["reset"] * 3 + [fake_server.completion()] + ["reset"] * 3)
    server = fake_server(lambda *_: next(answers))
    gone, back, again = ask(server, times=3)
    assert (gone.attempts, back.text, again.attempts) == (3, "#### 4", 3)


def test_extras_that_a_server_refuses_are_left_out_from_then_on(fake_server):
    def strict(body, _):
        for name in ("cache_prompt", "min_p"):
            if name in body:
                return web.Response(status=400, text=f"Unrecognized request argument: {name}")
        return fake_server.completion()

    server = fake_server(strict)
    replies = ask(server, times=2)
    assert [reply.text for reply in replies] == ["#### 4", "#### 4"]
    assert len(server.requests) == 4  # two refusals, then none
    assert "cache_prompt" not in server.requests[-1]
    assert server.requests[-1]["top_k"] == -1


def test_extras_named_in_an_unrelated_refusal_are_kept(fake_server):
    def echoing(body, number):
        if number < 2:
            return web.Response(status=400, text=f"context overflow in {json.dumps(body)}")
        return fake_server.completion()

    server = fake_server(echoing)
    error, reply = ask(server, times=2)
    assert error.kind == "http_400"
    assert reply.text == "#### 4"
    assert server.requests[-1]["cache_prompt"] is False


def test_models(fake_server):
    async def models(url):
        async with Client(url, attempts=1) as client:
            return await client.models()

    assert asyncio.run(models(fake_server(models=("a", "b")).url)) == ["a", "b"]
    with pytest.raises(RequestError) as caught:
        asyncio.run(models(fake_server(models=None).url))
    assert caught.value.kind == "http_404"
    with pytest.raises(RequestError) as caught:
        asyncio.run(models("http://127.0.0.1:9/v1"))
    assert caught.value.kind == "connection"
