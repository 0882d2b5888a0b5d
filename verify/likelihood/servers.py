"""Servers score texts: three ways to ask for log-probabilities of a prompt, found out by asking.

None of them is trusted to have understood: a server that ignores the request, or answers it with
nulls, is named with what it did.
"""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any, TypeVar

import msgspec
import numpy as np

from verify.arms import one_line
from verify.client import RequestError
from verify.likelihood.scores import Answer, Scores

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from verify.client import Client
    from verify.servers import ServerArm

TOP = 5
"""Likeliest tokens that are asked for at each place; OpenAI's own limit."""
PROBE = ("The capital of France is", " Paris.")
NEAR = 0.1
"""Nats below the likeliest token at which another order of summation may choose one."""

T = TypeVar("T")


class UntoldError(Exception):
    """A server does not tell what a prompt's tokens are worth; why, in a few words."""


Told = list[tuple[str, float | None]]
"""Tokens at a place of a prompt, likeliest or not, each with its log-probability."""


class Prompt(msgspec.Struct):
    """A server's scores of a whole text, token by token; the first has none.

    `said` is the token that the server, asked for its likeliest, lets follow.
    """

    tokens: list[str]
    logprobs: list[float | None]
    tops: list[Told]
    said: str


async def answer(arm: ServerArm, texts: Sequence[tuple[str, str]]) -> Answer:
    """A server's scores of (prompt, completion) pairs, asked one at a time from a fresh start.

    Raises:
        UserError: the server does not answer at all, or offers no model.
    """
    try:
        await arm.start()
        assert arm.model is not None
        try:
            name, way = await _way(arm.client, arm.model)
        except UntoldError as error:
            return Answer(reason=f"arm {arm.name}: {error}", misused=True)
        scores = [await _scores(arm.client, arm.model, way, *text) for text in texts]
        return Answer(tuple(scores), method=name)
    except (UntoldError, RequestError) as error:
        return Answer(reason=f"arm {arm.name}: {_said(error)}")
    finally:
        await arm.close()


def _said(error: UntoldError | RequestError) -> str:
    kind = f"{error.kind}: " if isinstance(error, RequestError) else ""
    return f"{kind}{one_line(str(error))[:160]}"


async def _way(client: Client, model: str) -> tuple[str, Way]:
    """The first way in which a server tells what it should.

    Raises:
        UntoldError: in none; it says what came instead of each.
    """
    reasons = []
    for name, way in WAYS.items():
        try:
            await _tried(client, model, way)
        except (UntoldError, RequestError) as error:
            reasons.append(f"{name}: {_said(error)}")
        else:
            return name, way
    raise UntoldError(
        f"{client.base_url} tells no log-probabilities of prompts ({'; '.join(reasons)})"
    )


async def _tried(client: Client, model: str, way: Way) -> None:
    """See that figures stand in their places.

    What is told must be of the text after the prompt, and the likeliest token there the one that
    the server chooses.

    llama-cpp-python's server tells of each token how likely it were after itself, where a prompt
    begins with no BOS (its issue 1983): it looks like scores and says nothing.

    Raises:
        UntoldError: they do not, or nothing usable is told.
        RequestError: nothing usable came.
    """
    prompt, completion = PROBE
    before, whole = await way(client, model, prompt), await way(client, model, prompt + completion)
    found = "".join(_following(before, whole).tokens)
    if found.replace("\u2581", " ").strip() != completion.strip():
        raise UntoldError(f"figures of other places: of {found!r}, and {completion!r} was scored")
    told = _numbers(whole.tops[len(before.tokens)])
    likely = max(told.values(), default=0.0) - NEAR
    if before.said.strip() not in {name.strip() for name in told if told[name] >= likely}:
        raise UntoldError(
            f"figures of other places: after {prompt!r} it says {before.said!r}, which is not the "
            "likeliest that it lists there"
        )


async def _scores(client: Client, model: str, way: Way, prompt: str, completion: str) -> Scores:
    """One text: the tokens that follow as many as the prompt alone has.

    Raises:
        UntoldError: nulls, or something else than was asked for.
        RequestError: nothing usable came.
    """
    whole, before = await way(client, model, prompt + completion), await way(client, model, prompt)
    return _following(before, whole)


def _following(before: Prompt, whole: Prompt) -> Scores:
    """The scores of what a whole text has after its prompt.

    Raises:
        UntoldError: it has nothing there, or something else than scores.
    """
    count = len(whole.tokens)
    if not count == len(whole.logprobs) == len(whole.tops):
        raise UntoldError(f"tells of {len(whole.logprobs)} tokens where there are {count}")
    start = len(before.tokens)
    if not 0 < start < count:
        raise UntoldError(f"finds {start} tokens in a prompt and {count} in one that goes on")
    if None in whole.logprobs[start:]:
        raise UntoldError("null in the place of a log-probability")
    tokens = tuple(whole.tokens[start:])
    logprobs = np.array(whole.logprobs[start:], dtype=np.float64)
    if (logprobs > 1e-6).any() or not logprobs.any():
        raise UntoldError("figures that are no log-probabilities")
    own = [(token, float(logprob)) for token, logprob in zip(tokens, logprobs, strict=True)]
    tops = whole.tops[start:]
    return Scores(
        tokens,
        logprobs,
        tuple(_likeliest(_numbers([*top, mine])) for top, mine in zip(tops, own, strict=True)),
        tuple(_distinct(top) | dict([mine]) for top, mine in zip(tops, own, strict=True)),
    )


def _numbers(told: Told) -> dict[str, float]:
    """Tokens with a log-probability; of several of one name the likeliest."""
    known = [(token, logprob) for token, logprob in told if logprob is not None]
    return dict(sorted(known, key=lambda each: each[1]))


def _distinct(told: Told) -> dict[str, float]:
    """Those that can be told apart by their text, as parts of a character cannot."""
    names = [token for token, _ in told]
    return {
        token: logprob
        for token, logprob in _numbers(told).items()
        if token and "\ufffd" not in token and names.count(token) == 1
    }


def _likeliest(top: Mapping[str, float]) -> str:
    """The greedy token; of equals always the same."""
    return max(top, key=lambda token: (top[token], token))


# --- the three ways ------------------------------------------------------------------------------


class Usage(msgspec.Struct):
    """How many tokens were generated."""

    completion_tokens: int


class Ranked(msgspec.Struct):
    """A token at a place of a prompt, as vLLM tells of it."""

    logprob: float
    decoded_token: str | None = None


class VllmChoice(msgspec.Struct):
    """`prompt_logprobs`: for each token a map by token id, the prompt's own first."""

    text: str
    prompt_logprobs: list[dict[str, Ranked] | None] | None = None


class Vllm(msgspec.Struct):
    """An answer of vLLM."""

    choices: list[VllmChoice]


async def vllm(client: Client, model: str, text: str) -> Prompt:
    """Completions with vLLM's own parameter `prompt_logprobs`."""
    asked = _completion(model, text) | {"prompt_logprobs": TOP}
    found = await _post(client, "completions", asked, Vllm)
    told = found.choices[0].prompt_logprobs if found.choices else None
    if told is None:
        raise UntoldError("ignored")
    tops: list[Told] = [
        [(each.decoded_token or key, each.logprob) for key, each in (place or {}).items()]
        for place in told
    ]
    own = [place[0] if place else ("", None) for place in tops]
    tokens, logprobs = [token for token, _ in own], [logprob for _, logprob in own]
    return Prompt(tokens, logprobs, tops, found.choices[0].text)


Input = tuple[float | None, int, str | None]
"""A token as SGLang tells of it: log-probability, id, text."""


class Meta(msgspec.Struct):
    """What SGLang says beside its answer."""

    input_token_logprobs: list[Input] | None = None
    input_top_logprobs: list[list[Input] | None] | None = None


class Sglang(msgspec.Struct):
    """An answer of SGLang's own API."""

    text: str
    meta_info: Meta


async def sglang(client: Client, model: str, text: str) -> Prompt:  # noqa: ARG001 - one signature for three
    """SGLang's /generate with log-probabilities of the input."""
    asked = {
        "text": text,
        "sampling_params": {"max_new_tokens": 1, "temperature": 0.0},
        "return_logprob": True,
        "logprob_start_len": 0,
        "top_logprobs_num": TOP,
        "return_text_in_logprobs": True,
        "stream": False,
    }
    found = await _post(client, "../generate", asked, Sglang)
    told, tops = found.meta_info.input_token_logprobs, found.meta_info.input_top_logprobs
    if told is None or tops is None:
        raise UntoldError("ignored")
    return Prompt(
        [text or str(number) for _, number, text in told],
        [logprob for logprob, _, _ in told],
        [[(text or str(number), value) for value, number, text in top or ()] for top in tops],
        found.text,
    )


class EchoLogprobs(msgspec.Struct):
    """OpenAI's log-probabilities of completions."""

    tokens: list[str]
    token_logprobs: list[float | None]
    top_logprobs: list[dict[str, float] | None] | None = None


class EchoChoice(msgspec.Struct):
    """A completion that should begin with its prompt."""

    text: str
    logprobs: EchoLogprobs | None = None


class Echo(msgspec.Struct):
    """An answer to OpenAI's parameters `echo` and `logprobs`."""

    choices: list[EchoChoice]
    usage: Usage


async def echo(client: Client, model: str, text: str) -> Prompt:
    """Completions that repeat the prompt, with log-probabilities; one token is generated more."""
    asked = _completion(model, text) | {"echo": True, "logprobs": TOP}
    found = await _post(client, "completions", asked, Echo)
    if not found.choices or not found.choices[0].text.startswith(text):
        raise UntoldError("ignored: the prompt is not repeated")
    told = found.choices[0].logprobs
    if told is None:
        raise UntoldError("null")
    tops = told.top_logprobs or [None] * len(told.tokens)
    if not len(told.tokens) == len(told.token_logprobs) == len(tops):
        raise UntoldError(
            f"{len(told.token_logprobs)} log-probabilities of {len(told.tokens)} tokens"
        )
    count = len(told.tokens) - found.usage.completion_tokens
    listed: list[Told] = [list((top or {}).items()) for top in tops[:count]]
    said = found.choices[0].text[len(text) :]
    return Prompt(told.tokens[:count], told.token_logprobs[:count], listed, said)


Way = Callable[["Client", str, str], Awaitable[Prompt]]
"""Asks for the scores of a text."""

WAYS: Mapping[str, Way] = {
    "prompt_logprobs of completions": vllm,
    "/generate": sglang,
    "echo of completions": echo,
}


def _completion(model: str, text: str) -> dict[str, Any]:
    # one token, for some servers take 0 for as many as fit
    return {"model": model, "prompt": text, "max_tokens": 1, "temperature": 0.0, "stream": False}


async def _post(client: Client, path: str, body: Mapping[str, Any], form: type[T]) -> T:
    """An answer in the form that it should have.

    Raises:
        UntoldError: it has another.
    """
    content = await client.post(path, body)
    try:
        # not msgspec's decoder: servers write NaN and Infinity
        return msgspec.convert(json.loads(content), form)
    except (ValueError, RecursionError) as error:  # msgspec's own errors are ValueErrors
        raise UntoldError(f"answers in another form ({error})") from None
