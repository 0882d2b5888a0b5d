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

T = TypeVar("T")


class UntoldError(Exception):
    """A server does not tell what a prompt's tokens are worth; why, in a few words."""


class Prompt(msgspec.Struct):
    """A server's scores of a whole text, token by token; the first has none."""

    tokens: list[str]
    logprobs: list[float | None]
    tops: list[dict[str, float]]


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
            await _scores(client, model, way, *PROBE)
        except (UntoldError, RequestError) as error:
            reasons.append(f"{name}: {_said(error)}")
        else:
            return name, way
    raise UntoldError(
        f"{client.base_url} tells no log-probabilities of prompts ({'; '.join(reasons)})"
    )


async def _scores(client: Client, model: str, way: Way, prompt: str, completion: str) -> Scores:
    """One text: the tokens that follow as many as the prompt alone has.

    Raises:
        UntoldError: nulls, or something else than was asked for.
        RequestError: nothing usable came.
    """
    whole, before = await way(client, model, prompt + completion), await way(client, model, prompt)
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
    tops = tuple(
        {**top, token: float(logprob)}
        for top, token, logprob in zip(whole.tops[start:], tokens, logprobs, strict=True)
    )
    best = tuple(_likeliest(top) for top in tops)
    return Scores(tokens, logprobs, best, tops)


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
    places = [
        [(each.decoded_token or key, each.logprob) for key, each in (place or {}).items()]
        for place in told
    ]
    own = [place[0] if place else ("", None) for place in places]
    return Prompt([name for name, _ in own], [value for _, value in own], list(map(dict, places)))


Told = tuple[float | None, int, str | None]
"""A token as SGLang tells of it: log-probability, id, text."""


class Meta(msgspec.Struct):
    """What SGLang says beside its answer."""

    input_token_logprobs: list[Told] | None = None
    input_top_logprobs: list[list[Told] | None] | None = None


class Sglang(msgspec.Struct):
    """An answer of SGLang's own API."""

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
    meta = (await _post(client, "../generate", asked, Sglang)).meta_info
    told, tops = meta.input_token_logprobs, meta.input_top_logprobs
    if told is None or tops is None:
        raise UntoldError("ignored")
    return Prompt(
        [text or str(number) for _, number, text in told],
        [logprob for logprob, _, _ in told],
        [
            {text or str(number): value for value, number, text in top or () if value is not None}
            for top in tops
        ],
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
    return Prompt(
        told.tokens[:count], told.token_logprobs[:count], [top or {} for top in tops[:count]]
    )


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
