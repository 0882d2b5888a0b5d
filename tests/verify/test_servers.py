import asyncio

import pytest

from evals.suite import load
from verify.arms import Completion, Failure
from verify.client import Client
from verify.command import UserError
from verify.limits import Limits
from verify.servers import ServerArm


async def collect(arm, spec, prompts):
    try:
        await arm.start()
        return [found async for found in arm.answers(spec, prompts, range(len(prompts)))]
    finally:
        await arm.close()


def server_arm(server, **options):
    limits = Limits(attempts=2, request_s=5, first_wait_s=0.001)
    client = Client(server.url, limits=limits)
    return ServerArm("base", server.url, client=client, **options)


def test_a_server_answers_every_prompt_once(fake_server):
    def behave(body, _):
        return fake_server.completion(text=body["prompt"].upper())

    prompts = [f"p{i}" for i in range(40)]
    for concurrency in (1, 7, 64):
        arm = server_arm(fake_server(behave), concurrency=concurrency)
        answers = asyncio.run(collect(arm, load("gsm8k").spec, prompts))
        assert sorted(answers) == [
            (i, Completion(f"P{i}", False, 5, prompt_tokens=3)) for i in range(40)
        ]


def test_no_more_than_the_concurrency_is_in_flight(fake_server):
    flying, most = 0, 0

    async def slow():
        nonlocal flying, most
        flying += 1
        most = max(most, flying)
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        flying -= 1
        return fake_server.completion()

    arm = server_arm(fake_server(lambda *_: slow()), concurrency=3)
    asyncio.run(collect(arm, load("gsm8k").spec, ["p"] * 30))
    assert 1 <= most <= 3


def test_failures_are_kept_by_kind_and_retries_counted(fake_server):
    from aiohttp import web

    def behave(body, _):
        if body["prompt"] == "bad":
            return web.Response(status=500, text="\x1b[2Jgone\nwrong")
        return fake_server.completion()

    arm = server_arm(fake_server(behave))
    answers = dict(asyncio.run(collect(arm, load("gsm8k").spec, ["good", "bad"])))
    assert isinstance(answers[0], Completion)
    assert answers[1] == Failure(
        "http_500",
        "\ufffd[2Jgone wrong (after 2 attempts)",
        tries=(Failure("http_500", "\ufffd[2Jgone wrong"),),
    )
    assert arm.settings()["failures"] == {"http_500": 1}
    assert arm.settings()["retries"] == 1


def start(arm):
    async def go():
        try:
            await arm.start()
        finally:
            await arm.close()

    asyncio.run(go())


def test_which_model_is_asked(fake_server):
    arm = server_arm(fake_server())
    start(arm)
    assert arm.model == "tiny"
    with pytest.raises(UserError, match=r"offers a, b; choose one with --model"):
        start(server_arm(fake_server(models=("a", "b"))))
    start(server_arm(fake_server(models=("a", "b")), model="b"))
    with pytest.raises(UserError, match=r"does not offer model 'c', but a, b"):
        start(server_arm(fake_server(models=("a", "b")), model="c"))
    with pytest.raises(
        UserError, match=r"no list of models \(http_404: .*\); choose one with --model"
    ):
        start(server_arm(fake_server(models=None)))
    start(server_arm(fake_server(models=None), model="c"))


@pytest.mark.parametrize("models", [("a\ud800",), ("a\ud800", "b")])
def test_a_model_whose_name_cannot_be_sent_is_one_line(fake_server, models):
    with pytest.raises(UserError, match=r"called 'a\\ud800', which no request can say"):
        start(server_arm(fake_server(models=models), model="a\ud800"))


def test_the_names_of_many_models_are_cut(fake_server):
    with pytest.raises(UserError) as error:
        start(server_arm(fake_server(models=("a" * 9000, "b"))))
    assert len(str(error.value)) < 1000


def test_a_model_that_changes_on_the_way_is_a_problem(fake_server):
    names = iter(["m", "m", "other"])
    arm = server_arm(fake_server(lambda *_: fake_server.completion(model=next(names))))
    spec = load("gsm8k").spec
    asyncio.run(collect(arm, spec, ["a", "b"]))
    assert arm.problems("gsm8k") == []
    arm = server_arm(fake_server(lambda *_: fake_server.completion(model=next(names, "m"))))
    asyncio.run(collect(arm, spec, ["a", "b"]))
    (problem,) = arm.problems("gsm8k")
    assert "answered as more than one model" in problem
    assert arm.settings()["answered_as"] == {"other": 1, "m": 1}


def test_a_server_that_is_not_there_is_one_line():
    arm = ServerArm("pr", "http://127.0.0.1:9/v1", client=Client("http://127.0.0.1:9/v1"))
    with pytest.raises(UserError, match=r"arm pr: no server answers at http://127.0.0.1:9/v1"):
        start(arm)


def test_of_several_servers_those_that_are_up_answer_everything(fake_server):
    from aiohttp import web

    broken = fake_server(lambda *_: web.Response(status=500, text="no"))
    well = fake_server(lambda body, _: fake_server.completion(text=body["prompt"]))
    # so many that the server is given up before a question is
    limits = Limits(attempts=50, patience_s=0, first_wait_s=0.001)
    arm = ServerArm("pr", [broken.url, well.url], concurrency=8, limits=limits)
    prompts = [f"p{i}" for i in range(30)]
    answers = asyncio.run(collect(arm, load("gsm8k").spec, prompts))
    assert {i: found.text for i, found in answers} == dict(enumerate(prompts))
    assert len(answers) == 30
    assert any("was given up" in problem for problem in arm.problems("gsm8k"))


def test_a_server_that_was_given_up_may_be_started_anew(fake_server):
    from aiohttp import web

    well = []
    server = fake_server(
        lambda *_: fake_server.completion() if well else web.Response(status=401, text="no")
    )
    arm = server_arm(server)
    spec = load("gsm8k").spec
    assert isinstance(asyncio.run(collect(arm, spec, ["p"]))[0][1], Failure)
    well.append(True)
    assert isinstance(asyncio.run(collect(arm, spec, ["p"]))[0][1], Completion)
