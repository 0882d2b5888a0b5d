"""From pairs of scores to a verdict: intervals by text, a margin fixed before, noise beside it."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from scipy.stats import t as student

from verify.likelihood.scores import Divergence  # noqa: TC001 - the page reads results by them
from verify.verdict import Verdict

if TYPE_CHECKING:
    from collections.abc import Sequence

    from verify.likelihood.scores import Pair
    from verify.likelihood.texts import Texts

CONFIDENCE = 0.95
METHOD = "t on item means"


@dataclass(frozen=True)
class Mean:
    """The mean over texts of something in nats a token, with its two-sided interval.

    Two equal texts never differ by chance, so `interval` is None with fewer than two.
    """

    mean: float
    interval: tuple[float, float] | None

    @classmethod
    def of(cls, values: Sequence[float]) -> Mean:
        """Student's t over values [items]; each item counts once, however long it is."""
        mean = float(np.mean(values))
        if len(values) < 2:
            return cls(mean, None)
        error = float(np.std(values, ddof=1)) / math.sqrt(len(values))
        reach = float(student.isf((1 - CONFIDENCE) / 2, len(values) - 1)) * error
        return cls(mean, (mean - reach, mean + reach))

    @property
    def reach(self) -> float:
        """How far from 0 it may lie, on either side."""
        return max(map(abs, self.interval)) if self.interval else math.inf


@dataclass(frozen=True)
class Noise:
    """The base arm against itself: two fresh starts.

    Attributes:
        difference: second less first.
        kl: between them.
        identical: whether every figure of every token is the same.
    """

    difference: Mean
    kl: float
    identical: bool


@dataclass(frozen=True)
class Nll:
    """Negative log-likelihood of each arm, nats a token, mean over texts."""

    base: float
    pr: float


@dataclass(frozen=True)
class Scored:
    """One text as it is kept."""

    item: str
    tokens: int
    nll: Nll
    difference: float
    kl: float
    agreement: float
    divergence: Divergence | None


@dataclass(frozen=True)
class Result:
    """What the texts of one kind came to: PR - base, in nats a token.

    `kl_is_bound` says that it was made of a server's likeliest tokens. What an invalid result
    could not compute is None.
    """

    name: str
    source: str
    items: int
    tokens: int
    verdict: Verdict
    reason: str
    margin_nats: float
    nll: Nll | None = None
    difference: Mean | None = None
    kl: Mean | None = None
    kl_is_bound: bool = False
    agreement: float | None = None
    noise: Noise | None = None
    confidence: float = CONFIDENCE
    interval_method: str = METHOD
    redact: bool = False
    scored: tuple[Scored, ...] = ()


def judge(
    texts: Texts,
    pairs: Sequence[Pair],
    again: Sequence[Pair],
    *,
    margin: float,
    kl_is_bound: bool = False,
) -> Result:
    """The result of texts that were all scored.

    Args:
        texts: what was scored.
        pairs: base and PR, by text.
        again: base and base once more, by text.
        margin: nats a token, fixed before the run.
        kl_is_bound: whether `kl` of the pairs is a lower bound only.
    """
    difference = Mean.of([each.difference for each in pairs])
    kl = Mean.of([each.kl for each in pairs])
    noise = Noise(
        Mean.of([each.difference for each in again]),
        float(np.mean([each.kl for each in again])),
        all(each.difference == each.kl == 0 and each.agreement == 1 for each in again),
    )
    verdict, reason = verdict_of(
        difference, kl, noise, items=len(pairs), margin=margin, kl_is_bound=kl_is_bound
    )
    return Result(
        texts.name,
        texts.source,
        len(pairs),
        sum(each.tokens for each in pairs),
        verdict,
        reason,
        margin,
        Nll(*(float(np.mean([each.nll[arm] for each in pairs])) for arm in (0, 1))),
        difference,
        kl,
        kl_is_bound,
        float(np.mean([each.agreement for each in pairs])),
        noise,
        redact=texts.redact,
        scored=tuple(_scored(each, redact=texts.redact) for each in _worst_first(pairs)),
    )


def invalid(texts: Texts, margin: float, reason: str) -> Result:
    """Texts without a usable score."""
    return Result(
        texts.name, texts.source, len(texts.texts), 0, Verdict.INVALID, reason, margin,
        redact=texts.redact,
    )  # fmt: skip


def broken(texts: Texts, margin: float, reason: str) -> Result:
    """PR's figures are no numbers, where base's are."""
    return Result(
        texts.name, texts.source, len(texts.texts), 0, Verdict.FAIL, reason, margin,
        redact=texts.redact,
    )  # fmt: skip


def verdict_of(
    difference: Mean, kl: Mean, noise: Noise, *, items: int, margin: float, kl_is_bound: bool
) -> tuple[Verdict, str]:
    """Fail beyond the margin and the noise, pass within the margin, and otherwise neither.

    `kl` is the same loss on texts that base itself would write, so the margin is for it, too.
    """
    if difference.interval is None or kl.interval is None:
        return Verdict.INCONCLUSIVE, "one text has no interval; score more"
    own = noise.difference.reach if not noise.identical else 0.0
    beside = noise.kl if not noise.identical else 0.0
    said = f"{figure(margin)} nats a token"
    for name, mean, floor in (
        ("PR finds the texts less likely", difference, own),
        ("PR's next-token distribution is off", kl, beside),
    ):
        assert mean.interval is not None
        low, high = mean.interval
        if low > margin + floor:
            return Verdict.FAIL, (
                f"{name}, by {figure(mean.mean)} nats a token "
                f"({figure(low)} to {figure(high)}), beyond the margin of {said}"
            )
    low, high = difference.interval
    if own > margin:
        return Verdict.INCONCLUSIVE, (
            f"base differs from itself by up to {figure(own)} nats a token, more than the margin "
            f"of {said}; quieten its server, or score more texts"
        )
    if high < -margin:
        return Verdict.INCONCLUSIVE, (
            f"PR finds the texts likelier, by {figure(-difference.mean)} nats a token, beyond the "
            f"margin of {said}: the arms are not the same model; see why"
        )
    means = (difference,) if kl_is_bound else (difference, kl)
    if all(mean.interval and mean.interval[1] < margin for mean in means):
        return Verdict.PASS, (
            f"a loss of {said} is ruled out on these texts"
            + (" (KL from the likeliest tokens is a lower bound)" if kl_is_bound else "")
        )
    return Verdict.INCONCLUSIVE, _more(means, items, margin)


def _more(means: Sequence[Mean], items: int, margin: float) -> str:
    """How many texts would settle it, if they are like these."""
    needed = 0.0
    for mean in means:
        assert mean.interval is not None
        half = (mean.interval[1] - mean.interval[0]) / 2
        room = abs(margin - mean.mean)
        needed = max(needed, items * (half / room) ** 2 if room else math.inf)
    size = f"about {math.ceil(needed):,} texts would" if needed < 1e6 else "no size in reach will"
    return (
        f"a loss of {figure(margin)} nats a token is neither shown nor ruled out; {size} settle it"
    )


def figure(nats: float) -> str:
    """A number of nats to two digits."""
    return f"{nats:.2g}"


def _worst_first(pairs: Sequence[Pair]) -> list[Pair]:
    return sorted(pairs, key=lambda each: (-max(each.difference, each.kl), each.item))


def _scored(each: Pair, *, redact: bool) -> Scored:
    return Scored(
        each.item,
        each.tokens,
        Nll(*each.nll),
        each.difference,
        each.kl,
        each.agreement,
        None if redact else each.divergence,
    )
