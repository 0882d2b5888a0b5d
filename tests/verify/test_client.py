import asyncio
import email.utils
import json
import resource
import time

import pytest
from aiohttp import web

from evals.suite import Sampling
from tests.verify.fault_server import FaultServer
from verify.client import Client, RequestError
from verify.client.replies import Stream
from verify.limits import Limits

SAMPLING = Sampling(max_tokens=20, stop=("Question:",))


def ask(
    server,
    *,
    style="completion",
    attempts=3,
    timeout_s=30.0,
    patience_s=60.0,
    times=1,
    client=None,
    **options,
):
    """Reply or RequestError of each of `times` requests, one after the other."""

    async def go():
        limits = Limits(
            attempts=attempts, request_s=timeout_s, patience_s=patience_s, first_wait_s=0.001
        )
        one = client or Client(server.url, limits=limits, **options)
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
    reply = ask(server)
    assert (reply.text, reply.truncated, reply.tokens, reply.prompt_tokens) == (
        "#### 4",
        False,
        5,
        3,
    )
    assert reply.tries == ()
    assert reply.seconds > 0


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
    reply = ask(server, style="chat")
    assert (reply.text, reply.truncated, reply.tokens) == ("#### 4", False, None)
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
    assert reply.text == "#### 4"
    assert [error.kind for error in reply.tries] == [f"http_{status}"] * 2


@pytest.mark.parametrize("status", [400, 401, 404, 422])
def test_a_refusal_is_final(fake_server, status):
    server = fake_server(failing(refusal(status, "prompt\nis  too long"), then=None))
    error = ask(server)
    assert (error.kind, str(error)) == (f"http_{status}", "prompt is too long")
    assert len(server.requests) == 1


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
        assert len(ask(server).tries) == 1
        assert low <= max(waited) <= high, header


def test_nonsense_in_retry_after_is_ignored(fake_server):
    refused = refusal(503, **{"Retry-After": "soon"})
    server = fake_server(failing(refused, then=fake_server.completion()))
    assert len(ask(server).tries) == 1


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
        async with Client(url) as client:
            return await client.models()

    assert asyncio.run(models(fake_server(models=("a", "b")).url)) == ["a", "b"]
    with pytest.raises(RequestError) as caught:
        asyncio.run(models(fake_server(models=None).url))
    assert caught.value.kind == "http_404"
    with pytest.raises(RequestError) as caught:
        asyncio.run(models("http://127.0.0.1:9/v1"))
    assert caught.value.kind == "connection"


def test_a_server_that_never_answers_is_given_up(fake_server):
    async def never():
        await asyncio.Event().wait()

    server = fake_server(lambda *_: never())
    found = ask(server, timeout_s=0.2, patience_s=0.0, times=4)
    assert [error.kind for error in found] == ["timeout", "timeout", "gone", "gone"]
    assert [len(error.tries) + 1 for error in found] == [2, 1, 1, 1]
    assert len(server.requests) == 3, "what will not be answered is not asked"
    assert f"{server.url} has given no usable reply for" in str(found[-1])
    assert "last timeout: no reply within 0.2 s" in str(found[-1])


def test_a_broken_server_is_given_up(fake_server):
    server = fake_server(lambda *_: web.Response(status=500, text="out of memory"))
    found = ask(server, patience_s=0.0, times=3)
    assert [error.kind for error in found] == ["http_500", "gone", "gone"]
    assert "last http_500: out of memory" in str(found[-1])


def test_a_patient_client_gives_no_server_up(fake_server):
    server = fake_server(lambda *_: web.Response(status=500, text="out of memory"))
    found = ask(server, times=5)
    assert [(error.kind, len(error.tries)) for error in found] == [("http_500", 2)] * 5


def test_questions_of_their_own_failure_give_no_server_up(fake_server):
    server = fake_server(lambda *_: web.Response(status=400, text="no"))
    assert {error.kind for error in ask(server, patience_s=0.0, times=9)} == {"http_400"}


@pytest.mark.parametrize("status", [401, 403, 404])
def test_a_server_that_lets_nobody_in_is_asked_once(fake_server, status):
    server = fake_server(lambda *_: web.Response(status=status, text="no such key"))
    found = ask(server, times=3)
    assert [error.kind for error in found] == [f"http_{status}", "gone", "gone"]
    assert str(found[-1]) == f"{server.url} answers http_{status}: no such key"
    assert len(server.requests) == 1


def test_an_answer_makes_up_for_what_went_before(fake_server):
    broken = web.Response
    answers = iter([1, 1, 0, 1, 1, 0, 1, 1, 0])

    def behave(*_):
        return broken(status=500, text="no") if next(answers) else fake_server.completion()

    assert [reply.text for reply in ask(fake_server(behave), patience_s=0.0, times=3)] == [
        "#### 4"
    ] * 3


def test_a_server_that_restarts_is_waited_for():
    server = FaultServer()
    limits = Limits(attempts=2, first_wait_s=0.001, patience_s=60)

    async def go():
        async with Client(server.url, limits=limits) as client:
            asked = [
                asyncio.create_task(client.ask(f"{i} + 1?", "completion", "adder", SAMPLING))
                for i in range(3)
            ]
            while client._failing < 20:  # noqa: ASYNC110 - only looked at
                await asyncio.sleep(0.001)
            with server.running():
                return await asyncio.gather(*asked)

    with server.running():
        pass  # so that it has a port
    found = asyncio.run(go())
    assert [reply.text for reply in found] == ["#### 1", "#### 2", "#### 3"]
    assert all({error.kind for error in reply.tries} == {"connection"} for reply in found)


def test_more_in_flight_than_files_are_usually_open():
    server = FaultServer()
    prompts = [f"{i} + 1?" for i in range(1100)]

    async def go():
        async with Client(server.url) as client:
            asked = [client.ask(prompt, "completion", "adder", SAMPLING) for prompt in prompts]
            return await asyncio.gather(*asked)

    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(soft, 1024), hard))
    try:
        with server.running():
            found = asyncio.run(go())
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    assert [reply.text for reply in found] == [f"#### {i + 1}" for i in range(1100)]
    assert not any(reply.tries for reply in found)


@pytest.mark.parametrize("key", ["sk-0123456789", "s3cret"])
def test_what_stands_in_headers_comes_back_in_nothing(fake_server, key):
    said = {
        "echo": lambda: fake_server.completion(text=f"Bearer {key}"),
        "refuse": lambda: web.Response(status=400, text="x" * 495 + key),
        "garble": lambda: web.Response(text="<" * 75 + key),
    }
    for behave in said.values():
        server = fake_server(lambda *_, behave=behave: behave())
        found = ask(server, headers={"Authorization": f"Bearer {key}"})
        assert key[:6] not in repr(found)
        assert key[:6] not in f"{found} {getattr(found, 'text', '')} {getattr(found, 'tries', '')}"


def test_headers_are_sent_and_parameters_of_the_arm_go_over_all_others(fake_server):
    server = fake_server()
    ask(server, body={"top_k": 5, "chat_template_kwargs": {"thinking": False}})
    (sent,) = server.requests
    assert sent["top_k"] == 5
    assert sent["chat_template_kwargs"] == {"thinking": False}
    assert sent["min_p"] == 0.0


def test_reasoning_is_kept_apart(fake_server):
    for name in ("reasoning_content", "reasoning"):
        message = {"content": "#### 4", name: "2 and 2 is 4"}
        body = {"choices": [{"message": message, "finish_reason": "stop"}]}
        reply = ask(fake_server(lambda *_, body=body: body), style="chat")
        assert (reply.text, reply.reasoning) == ("#### 4", "2 and 2 is 4")


def test_a_limit_reached_while_reasoning_is_a_truncated_answer(fake_server):
    message = {"content": None, "reasoning_content": "2 and"}
    body = {"choices": [{"message": message, "finish_reason": "length"}]}
    reply = ask(fake_server(lambda *_: body), style="chat")
    assert (reply.text, reply.truncated, reply.reasoning) == ("", True, "2 and")


def test_logprobs_are_summed_and_missed(fake_server):
    of_chat = {"content": [{"token": "a", "logprob": -0.5}, {"token": "b", "logprob": -0.25}]}
    of_completion = {"token_logprobs": [None, -0.5, -0.25]}
    for logprobs in (of_chat, of_completion):
        body = {"choices": [{"text": "a", "finish_reason": "stop", "logprobs": logprobs}]}
        assert ask(fake_server(lambda *_, body=body: body)).logprob == -0.75
    assert ask(fake_server(), body={"logprobs": 1}).kind == "no_logprobs"
    assert ask(fake_server()).logprob is None


def test_a_stream_is_put_together():
    def event(**choice):
        return f"data: {json.dumps({'choices': [choice], 'model': 'm'})}\r\n\r\n"

    text = (
        ": a comment\n\nevent: message\n"
        + event(delta={"role": "assistant", "reasoning_content": "2 and "})
        + event(delta={"reasoning_content": "2"})
        + event(delta={"content": "#### \u00e9"}, logprobs={"content": [{"logprob": -0.5}]})
        + event(delta={"content": "4"}, logprobs={"content": [{"logprob": -0.25}]})
        + event(delta={}, finish_reason="length")
        + 'data: {"choices": [],\ndata: "usage": {"completion_tokens": 9}}\n\n'
        + "data: [DONE]\n\n"
    )
    for pieces in (1, 2, 3, len(text.encode())):
        stream = Stream()
        content = text.encode()
        for start in range(0, len(content), -(-len(content) // pieces)):
            stream.feed(content[start : start + -(-len(content) // pieces)])
        reply = stream.reply()
        assert stream.done
        assert (reply.text, reply.reasoning, reply.truncated) == ("#### \u00e94", "2 and 2", True)
        assert (reply.tokens, reply.logprob, reply.model) == (9, -0.75, "m")


def test_a_stream_is_asked_for_with_its_usage(fake_server):
    server = fake_server()
    assert ask(server, stream=True).text == "#### 4"
    (sent,) = server.requests
    assert sent["stream"] is True
    assert sent["stream_options"] == {"include_usage": True}
