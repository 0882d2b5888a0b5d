"""The embedded model scores texts, each arm in a fresh process: a kernel may take its own down."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from scipy.special import log_softmax

from verify.command import UserError
from verify.likelihood.scores import Answer, Scores
from verify.pool import Lost, Pool

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from kernel.dispatch import Dispatcher

LIMIT_S, LIMIT_A_TEXT_S = 300.0, 10.0
"""Seconds without an answer after which a kernel has hung: at most, and for each text more."""


@dataclass(frozen=True)
class Job:
    """An arm and the (prompt, completion) pairs it scores; `kernel` None is the chain."""

    arm: str
    kernel: str | None
    texts: tuple[tuple[str, str], ...]


def answers(jobs: Sequence[Job]) -> list[Answer]:
    """The answer of each job, all at a time."""
    found: dict[int, Answer] = {}
    with Pool[tuple[int, Job], Answer](start, len(jobs), _limit_s) as pool:
        for (number, job), answer in pool.answers(enumerate(jobs)):
            found[number] = (
                Answer(reason=f"arm {job.arm}: {answer.reason}")
                if isinstance(answer, Lost)
                else answer
            )
    return [found[number] for number in range(len(jobs))]


def _limit_s(numbered: tuple[int, Job]) -> float:
    return LIMIT_S + LIMIT_A_TEXT_S * len(numbered[1].texts)


def start(_: int) -> Callable[[tuple[int, Job]], Answer]:
    """What a worker process does."""
    import torch  # noqa: PLC0415 - a second of import, which the parent need not wait for

    torch.set_num_threads(1)
    return lambda numbered: _answer(numbered[1])


def _answer(job: Job) -> Answer:
    from kernel.dispatch import Dispatcher  # noqa: PLC0415 - in the process that needs torch
    from verify.session import load  # noqa: PLC0415 - in the process that needs torch

    try:
        wo_a = Dispatcher(load(job.kernel), enabled=True) if job.kernel else Dispatcher()
        return score(wo_a, job.texts)
    except UserError as error:
        said = str(error).replace("--candidate ", f"--arm {job.arm}=", 1)
        return Answer(reason=said, misused=True)
    except Exception as error:  # noqa: BLE001 - a kernel under test may raise anything
        said = f"arm {job.arm}: {type(error).__name__}: {error}"
        return Answer(reason=" ".join(said.split())[:500])


def score(wo_a: Dispatcher, texts: Sequence[tuple[str, str]], device: str | None = None) -> Answer:
    """The scores of texts by the embedded model with `wo_a` behind its attention output.

    On a GPU if there is one, or else where `device` says.

    Every token that is scored comes of a decode step, so of the fused kernel if it is enabled.

    Raises:
        UserError: a text has a word that the model has no token for, or is too long.
    """
    import torch  # noqa: PLC0415 - in the process that needs torch

    from evals.mini import tokenizer  # noqa: PLC0415 - in the process that needs torch
    from evals.mini.engine import Engine  # noqa: PLC0415 - in the process that needs torch

    engine = Engine(wo_a, device=device or ("cuda" if torch.cuda.is_available() else "cpu"))
    names = [tokenizer.name(token) for token in range(tokenizer.size())]
    found: dict[int, Scores] = {}
    try:
        scored = engine.score(texts)
    except ValueError as error:
        raise UserError(str(error)) from None
    for index, tokens, logits in scored:
        spread = np.asarray(log_softmax(logits.double().cpu().numpy(), axis=1))
        found[index] = Scores(
            _pieces(tokens),
            spread[np.arange(len(tokens)), tokens],
            tuple(names[token] for token in spread.argmax(axis=1)),
            spread,
        )
    calls: Counter[str] = Counter()
    for (path, _), count in wo_a.counts.items():
        calls[path] += count
    return Answer(tuple(found[index] for index in range(len(texts))), dict(calls))


def _pieces(tokens: Sequence[int]) -> tuple[str, ...]:
    """The text of each token, so that together they are the text of all."""
    from evals.mini import tokenizer  # noqa: PLC0415 - in the process that needs torch

    texts = [tokenizer.decode(tokens[:end]) for end in range(len(tokens) + 1)]
    return tuple(
        after[len(before) :] or tokenizer.name(token)
        for before, after, token in zip(texts, texts[1:], tokens, strict=False)
    )
