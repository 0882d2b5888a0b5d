"""What an arm makes of a text, and two arms' of the same text side by side."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from collections.abc import Mapping

FloatArray = NDArray[np.float64]


@dataclass(frozen=True)
class Scores:
    """One arm's scores of one text; L tokens of its completion.

    Attributes:
        tokens: as the arm cut the text [L].
        logprobs: of each token given all that stands before it, natural, [L].
        best: the arm's own greedy token at each place [L].
        spread: log-probabilities of the whole vocabulary [L, V]; or, of each place, those of the
            likeliest tokens that a server tells, by token.
    """

    tokens: tuple[str, ...]
    logprobs: FloatArray
    best: tuple[str, ...]
    spread: FloatArray | tuple[Mapping[str, float], ...]

    @property
    def finite(self) -> bool:
        """Whether every figure is a number."""
        whole = self.spread if isinstance(self.spread, np.ndarray) else self.logprobs
        return bool(np.isfinite(self.logprobs).all() and not np.isnan(whole).any())


@dataclass(frozen=True)
class Answer:
    """An arm's scores in the order of the texts; or none, and why in one line.

    `calls` counts calls of WO-A by path; `misused` says that the reason is a user's mistake;
    `method` is how a server told its log-probabilities.
    """

    scores: tuple[Scores, ...] = ()
    calls: Mapping[str, int] = field(default_factory=dict)
    reason: str | None = None
    misused: bool = False
    method: str = "full logits"


@dataclass(frozen=True)
class Divergence:
    """The first place at which the arms' greedy tokens differ.

    Attributes:
        place: tokens of the completion before it.
        before: the completion up to there.
        base, pr: the greedy tokens.
        gap: how much likelier the base arm finds its own token than PR's, a difference of
            probabilities; None where the server did not tell.
    """

    place: int
    before: str
    base: str
    pr: str
    gap: float | None


@dataclass(frozen=True)
class Pair:
    """One text under both arms; differences are PR - base, in nats a token.

    Attributes:
        item: the text's name.
        tokens: of its completion.
        nll: negative log-likelihood of base and of PR, mean over its tokens.
        kl: mean over tokens of KL(base || PR): what the difference would be on average over texts
            drawn from base itself. From a server's likeliest tokens only a lower bound.
        agreement: share of tokens at which both have the same greedy token.
        divergence: where greedy tokens first differ; None if nowhere.
    """

    item: str
    tokens: int
    nll: tuple[float, float]
    kl: float
    agreement: float
    divergence: Divergence | None

    @property
    def difference(self) -> float:
        """PR - base: above 0, PR finds the text less likely."""
        return self.nll[1] - self.nll[0]


class UnlikeTokensError(ValueError):
    """The arms cut a text into different tokens: there is nothing to pair."""


def pair(item: str, base: Scores, pr: Scores) -> Pair:
    """Both arms' scores of one text.

    Raises:
        UnlikeTokensError: they have different tokens.
    """
    if base.tokens != pr.tokens:
        place = next(
            (n for n, (a, b) in enumerate(zip(base.tokens, pr.tokens, strict=False)) if a != b),
            min(len(base.tokens), len(pr.tokens)),
        )
        raise UnlikeTokensError(f"{item}: the arms cut it into other tokens from token {place} on")
    same = [a == b for a, b in zip(base.best, pr.best, strict=True)]
    return Pair(
        item=item,
        tokens=len(base.tokens),
        nll=(-float(base.logprobs.mean()), -float(pr.logprobs.mean())),
        kl=float(divergences(base, pr).mean()),
        agreement=sum(same) / len(same),
        divergence=None if all(same) else _divergence(base, pr, same.index(False)),
    )


def divergences(base: Scores, pr: Scores) -> FloatArray:
    """KL(base || PR) at each place [L], in nats; of likeliest tokens a lower bound."""
    if isinstance(base.spread, np.ndarray) and isinstance(pr.spread, np.ndarray):
        # what base gives no chance adds nothing, whatever PR says of it
        terms = np.where(
            np.isneginf(base.spread), 0.0, np.exp(base.spread) * (base.spread - pr.spread)
        )
        return np.asarray(np.maximum(terms.sum(axis=1), 0.0))
    assert not isinstance(base.spread, np.ndarray)
    assert not isinstance(pr.spread, np.ndarray)
    return np.array([least_kl(p, q) for p, q in zip(base.spread, pr.spread, strict=True)])


def least_kl(base: Mapping[str, float], pr: Mapping[str, float]) -> float:
    """The least KL(base || PR) of two distributions with these log-probabilities of some tokens.

    Tokens that both lists hold count by themselves, all others as one: to merge outcomes never
    adds to a divergence (the log-sum inequality). How much larger it is the lists cannot say.
    """
    both = sorted(base.keys() & pr.keys())
    p, q = (np.exp([arm[token] for token in both]) for arm in (base, pr))
    others = (max(1 - float(p.sum()), 0.0), max(1 - float(q.sum()), 0.0))
    apart = float((p * np.array([base[t] - pr[t] for t in both])).sum())
    if others[0] > 0 and others[1] > 0:
        apart += others[0] * float(np.log(others[0] / others[1]))
    return max(apart, 0.0)


def _divergence(base: Scores, pr: Scores, place: int) -> Divergence:
    spread, gap = base.spread, None
    if isinstance(spread, np.ndarray):
        of_pr = pr.spread
        assert isinstance(of_pr, np.ndarray)
        row = np.exp(spread[place])
        gap = float(row.max() - row[int(of_pr[place].argmax())])
    elif {base.best[place], pr.best[place]} <= spread[place].keys():
        gap = float(np.exp(spread[place][base.best[place]]) - np.exp(spread[place][pr.best[place]]))
    before = "".join(base.tokens[:place])
    return Divergence(place, before, base.best[place], pr.best[place], gap)
