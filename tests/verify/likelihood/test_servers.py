"""Scripted servers tell log-probabilities in three ways, or fail to: each is named."""

import json
import math
import re

import pytest
from aiohttp import web

from tests.verify.evals.sums import write_suite
from verify.likelihood.servers import PROBE, Prompt, _following

WORD = re.compile(r"\s*\S+")
SPREAD = (0.5, 0.2, 0.1, 0.08, 0.07)
"""Probabilities of the likeliest tokens at each place, of which the text's own is the first."""


def tokens(text):
    return WORD.findall(text)


def tops(text, shift):
    """Of each token but the first: the likeliest tokens, its own in front, `shift` nats off."""
    lists = []
    for token in tokens(text)[1:]:
        names = (token, *(f" w{n}" for n in range(4)))
        values = [math.log(p) for p in SPREAD]
        lists.append(list(zip(names, [values[0] - shift, *values[1:]], strict=True)))
    return lists


def follows(text):
    """What a server lets follow: the probe's answer, as it scores that the likeliest."""
    return " Paris." if text == PROBE[0] else " x"


def generated(text):
    return {"text": text, "index": 0, "finish_reason": "length"}


def vllm(body, shift=0.0):
    lists = tops(body["prompt"], shift)
    said = [
        {str(id_): {"logprob": v, "rank": 1, "decoded_token": t} for id_, (t, v) in enumerate(top)}
        for top in lists
    ]
    choice = generated(follows(body["prompt"])) | (
        {"prompt_logprobs": [None, *said]} if body.get("prompt_logprobs") else {}
    )
    return {"model": "tiny", "choices": [choice], "usage": usage(body["prompt"])}


def echo(body, shift=0.0):
    text, lists = body["prompt"], tops(body["prompt"], shift)
    if not body.get("echo"):
        return {"model": "tiny", "choices": [generated(" x")], "usage": usage(text)}
    told = {
        "tokens": [*tokens(text), " x"],
        "token_logprobs": [None, *(top[0][1] for top in lists), -0.5],
        "top_logprobs": [None, *map(dict, lists), {" x": -0.5}],
        "text_offset": [],
    }
    return {
        "model": "tiny",
        "choices": [generated(text + follows(text)) | {"logprobs": told}],
        "usage": usage(text),
    }


def misplaced(body):
    """As llama-cpp-python's server where prompts begin with no BOS: of each token how likely it
    were after itself, and nothing of what is generated."""
    answer = echo(body)
    told = answer["choices"][0]["logprobs"]
    later = [*told["top_logprobs"][1:-1], {follows(body["prompt"]): -0.5}]
    told["top_logprobs"] = [None, *({**top, own: -9.0} for top, own in
                                    zip(later[1:], told["tokens"][1:-1], strict=True))]  # fmt: skip
    told["token_logprobs"] = [None, *[-9.0] * (len(later) - 1)]
    told["tokens"] = told["tokens"][:-1]
    return answer


def ignores(body, **_):
    choice = generated(" x") | {"logprobs": None}
    return {"model": "tiny", "choices": [choice], "usage": usage(body["prompt"])}


def usage(text):
    return {"prompt_tokens": len(tokens(text)), "completion_tokens": 1}


def sglang(shift=0.0):
    def page(body):
        lists = tops(body["text"], shift)
        own = [[None, 0, tokens(body["text"])[0]], *([top[0][1], 7, top[0][0]] for top in lists)]
        listed = [[[value, 7, token] for token, value in top] for top in lists]
        meta = {"input_token_logprobs": own, "input_top_logprobs": [None, *listed]}
        return {"text": follows(body["text"]), "meta_info": {**meta, "prompt_tokens": len(own)}}

    return page


def changed(behave, edit):
    """A server whose answers are edited as text."""
    return lambda body, _number: json.loads(edit(json.dumps(behave(body))))


@pytest.fixture
def scored(evals, here, fake_server):
    """Run `score` on two servers; what each does to a body, or what its pages hold."""
    lines = [{"prompt": f"Add {n} and {n}", "completion": f" to get {2 * n} ."} for n in range(8)]
    (here / "texts.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))

    def run(base, pr, *words, pages=(None, None)):
        urls = [
            fake_server(behave, pages=page).url
            for behave, page in zip((base, pr), pages, strict=True)
        ]
        arms = ["--arm", f"base={urls[0]}", "--arm", f"pr={urls[1]}"]
        texts = words or ["--texts", "texts.jsonl"]
        code, out, err = evals("score", *arms, *texts, "--out", "run")
        path = here / "run" / "score.json"
        return code, out + err, json.loads(path.read_text()) if path.exists() else None

    return run


def behaving(behave, shift=0.0):
    return lambda body, _number: behave(body, shift=shift)


@pytest.mark.parametrize(
    ("behave", "method"),
    [(vllm, "prompt_logprobs of completions"), (echo, "echo of completions")],
    ids=["vllm", "echo"],
)
@pytest.mark.parametrize(("shift", "code"), [(0.0, 0), (0.005, 0), (0.02, 1)])
def test_a_shift_of_every_token_is_what_is_found(scored, behave, method, shift, code):
    found, said, document = scored(behaving(behave), behaving(behave, shift))
    assert found == code, said
    (kind,) = document["texts"]
    assert kind["difference"]["mean"] == pytest.approx(shift, abs=1e-9)
    assert kind["nll"]["base"] == pytest.approx(-math.log(SPREAD[0]))
    assert (kind["tokens"], kind["items"], kind["kl_is_bound"]) == (8 * 4, 8, True)
    assert document["manifest"]["told"]["pr"]["method"] == method
    assert document["margin_nats"] == 0.01


def test_sglang_is_asked_at_its_root(scored):
    pages = [{"/generate": sglang()}, {"/generate": sglang(0.02)}]
    found, said, document = scored(ignores_all, ignores_all, pages=pages)
    assert found == 1, said
    assert document["texts"][0]["difference"]["mean"] == pytest.approx(0.02)
    assert document["manifest"]["told"]["base"]["method"] == "/generate"


def ignores_all(body, _number):
    return ignores(body)


@pytest.mark.parametrize(
    ("pr", "words"),
    [
        (ignores_all, "prompt_logprobs of completions: ignored; /generate: http_404: "),
        (ignores_all, "echo of completions: ignored: the prompt is not repeated"),
        (changed(echo, lambda t: re.sub(r'"logprobs": \{.*?\}\]?, "text_offset": \[\]\}',
                                        '"logprobs": null', t)), "echo of completions: null"),
        (changed(vllm, lambda t: re.sub(r'"logprob": [-\d.e]+', '"logprob": 0.0', t)),
         "figures that are no log-probabilities"),
        (changed(vllm, lambda t: re.sub(r'"logprob": [-\d.e]+', '"logprob": "x"', t)),
         "answers in another form"),
        (changed(echo, lambda t: re.sub(r'"token_logprobs": \[.*?\]', lambda m: re.sub(
            r"-[\d.e-]+", "null", m[0]), t)), "null in the place of a log-probability"),
        (changed(echo, lambda t: re.sub(r'"token_logprobs": \[null, ', '"token_logprobs": [', t)),
         "5 log-probabilities of 6 tokens"),
        (lambda body, _number: misplaced(body),
         "figures of other places: of ' is', and ' Paris.' was scored"),
        (lambda body, _number: vllm(body) | {"choices": [
            vllm(body)["choices"][0] | {"text": " Rome"}]},
         "after 'The capital of France is' it says ' Rome', which is not the likeliest"),
    ],
)  # fmt: skip
def test_a_server_that_does_not_tell_is_named(scored, pr, words):
    found, said, document = scored(behaving(echo), pr)
    assert found == 2
    assert document is None
    assert "arm pr: http://127.0.0.1:" in said
    assert words in said


def test_arms_that_tell_in_different_ways_are_not_compared(scored):
    found, _, document = scored(behaving(vllm), behaving(echo))
    assert found == 4
    assert "the arms tell by echo of completions and by" in document["texts"][0]["reason"]


@pytest.mark.parametrize(
    ("later", "reason"),
    [
        (lambda _: web.Response(status=400, text="no more"), "arm pr: http_400: no more"),
        (ignores, "arm pr: ignored"),
    ],
    ids=["refused", "ignored"],
)
def test_a_text_that_is_not_told_leaves_the_run_invalid(scored, later, reason):
    def fails(body, _number):
        return later(body) if "Add 5" in body["prompt"] else vllm(body)

    found, _, document = scored(behaving(vllm), fails)
    assert found == 4
    assert document["texts"][0]["reason"] == reason


def test_worked_solutions_follow_their_prompts_as_in_the_examples(scored, here):
    rows = [
        {"question": f"What is {i} + {i}?", "answer": f"{i}+{i}={2 * i}\n#### {2 * i}"}
        for i in range(12)
    ]
    write_suite(here / "sums", rows)
    seen = []

    def listens(body, _number):
        seen.append(body["prompt"])
        return vllm(body)

    found, said, document = scored(listens, behaving(vllm), "--suite", "./sums", "--limit", "3")
    assert found == 0, said
    assert document["texts"][0]["source"] == "worked solutions"
    whole = [text for text in seen if text.count("####") == 3]  # two of the examples'
    assert len(whole) == 6  # base scores each twice
    for text in whole:
        assert re.search(r"Question: What is (\d+) \+ \1\?\nAnswer: \1\+\1=\d+\n#### \d+$", text)


def test_tokens_that_cannot_be_told_apart_by_their_text_are_no_outcomes_of_their_own():
    named = [("a", -1.0), (" b", -2.0)]
    nameless = [("\ufffd", -0.5), ("\ufffd", -3.0), ("", -2.5), ("c", -4.0), ("c", -5.0)]
    before = Prompt(["x"], [None], [[]], "a")
    whole = Prompt(["x", " b", "\ufffd"], [None, -2.0, -3.0], [[], named + nameless, nameless], "y")
    found = _following(before, whole)
    assert found.spread == ({"a": -1.0, " b": -2.0}, {"\ufffd": -3.0})
    assert found.best == ("\ufffd", "\ufffd")  # by which agreement is judged: as it was told
