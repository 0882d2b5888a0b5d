"""From requests to what they say: medians by start, their ratio, and what makes it worthless."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from verify.bench.serve.starts import StartRatio, compare, starts_needed
from verify.verdict import Verdict

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from verify.bench.serve.conduct import Request
    from verify.bench.serve.method import Method

WANTED = 0.8
"""The chance to see what was observed, with as many starts as are advised."""


@dataclass(frozen=True)
class Medians:
    """Of the requests of one start, or of all of an arm; None where none has the figure.

    Attributes:
        requests: that were measured, answered or not.
        tokens_per_s: tokens a second after the first chunk of a request.
        ttft_ms: time to the first chunk.
        gap_ms: time between chunks, the median of the requests' medians.
        gap_p99_ms: likewise of their 99th percentiles.
        chunk_tokens: tokens of a chunk after the first.
        acceptance: tokens a step of speculative decoding.
    """

    requests: int
    tokens_per_s: float | None
    ttft_ms: float | None
    gap_ms: float | None
    gap_p99_ms: float | None
    chunk_tokens: float | None
    acceptance: float | None


@dataclass(frozen=True)
class Side:
    """One arm at one load: its starts in turn, and all of its requests together."""

    starts: tuple[Medians, ...]
    pooled: Medians


@dataclass(frozen=True)
class Load:
    """What one load came to.

    Attributes:
        concurrency: requests in flight.
        arms: by name, base first.
        ratio: PR over base, start by start; None without a rate in each arm.
        pooled_ratio: of the medians over all requests.
        verdict: pass if PR is shown faster, fail if slower, inconclusive if neither.
        reason: why, in a sentence.
        invalid: all that makes the comparison worthless.
        remarks: what else one should know.
    """

    concurrency: int
    arms: Mapping[str, Side]
    ratio: StartRatio | None
    pooled_ratio: float | None
    verdict: Verdict
    reason: str
    invalid: tuple[str, ...]
    remarks: tuple[str, ...]


def judge(
    requests: Sequence[Request],
    names: tuple[str, str],
    method: Method,
    unequal: Sequence[str] = (),
    told: Sequence[str] = (),
) -> tuple[Load, ...]:
    """Every load by itself.

    Args:
        requests: all of both arms, warm-ups among them.
        names: of base and PR.
        method: how they were asked.
        unequal: why the arms cannot be compared at all.
        told: what else is known of the servers.
    """
    return tuple(
        _load(
            [r for r in requests if r.load == load], names, method, load, unequal=unequal, told=told
        )
        for load in method.loads
    )


def _load(
    requests: Sequence[Request],
    names: tuple[str, str],
    method: Method,
    load: int,
    *,
    unequal: Sequence[str],
    told: Sequence[str],
) -> Load:
    counted = [request for request in requests if not request.warm_up]
    arms = {name: _side([r for r in counted if r.arm == name]) for name in names}
    base, pr = ([s.tokens_per_s for s in arms[name].starts if s.tokens_per_s] for name in names)
    ratio = compare(base, pr) if base and pr else None
    whole = [arms[name].pooled.tokens_per_s for name in names]
    pooled = whole[1] / whole[0] if whole[0] and whole[1] else None
    invalid = (*unequal, *_invalid(requests, method), *_acceptance(counted))
    verdict, reason = _verdict(ratio, names, invalid)
    remarks = (*_remarks(requests, names, ratio), *told)
    return Load(load, arms, ratio, pooled, verdict, reason, invalid, remarks)


def _side(requests: Sequence[Request]) -> Side:
    starts = sorted({request.start for request in requests})
    each = tuple(_medians([r for r in requests if r.start == start]) for start in starts)
    return Side(each, _medians(requests))


def _medians(requests: Sequence[Request]) -> Medians:
    figures = [request.figures for request in requests if request.figures]
    return Medians(
        len(requests),
        _median(f.tokens_per_s for f in figures),
        _median(f.ttft_ms for f in figures),
        _median(f.gap_ms for f in figures),
        _median(f.gap_p99_ms for f in figures),
        _median(f.chunk_tokens for f in figures),
        _median(request.acceptance for request in requests),
    )


def _median(values: Iterator[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return float(np.median(known)) if known else None


def problem(request: Request, method: Method) -> str | None:
    """What is wrong with a request by itself, without its own figures; None if nothing is."""
    heard, figures = request.heard, request.figures
    if heard is None:
        return f"failed ({(request.error or 'unknown').partition(':')[0]})"
    wrong = {
        "do not tell how many tokens they generated": heard.tokens is None,
        f"have another length than {method.output_len} tokens": heard.tokens != method.output_len,
        "do not tell how many tokens their first chunk brought": figures is None,
        "came at once, and have no rate": figures and figures.tokens_per_s is None,
        "took tokens of their prompt from a cache": heard.cached_tokens and not request.warm_up,
    }
    return next((said for said, holds in wrong.items() if holds), None)


def _invalid(requests: Sequence[Request], method: Method) -> Iterator[str]:
    """What is wrong with requests, each kind once for an arm."""
    for name in dict.fromkeys(request.arm for request in requests):
        mine = [request for request in requests if request.arm == name]
        found: dict[str, list[Request]] = {}
        for request in mine:
            if (said := problem(request, method)) is not None:
                found.setdefault(said, []).append(request)
        for said, those in found.items():
            yield f"{len(those)} of {len(mine)} requests of {name} {said}: {_instance(those[0])}"
    lengths = Counter(r.heard.prompt_tokens for r in requests if r.heard and r.heard.prompt_tokens)
    if len(lengths) > 1:
        yield f"prompts were not read alike: as {' and '.join(map(str, sorted(lengths)))} tokens"


def _instance(request: Request) -> str:
    """One of several, and what it says of itself."""
    kind = "warm-up" if request.warm_up else "request"
    where = f"{kind} {request.number + 1} of start {request.start}"
    if request.error:
        return f"{where} says {request.error}"
    heard = request.heard
    assert heard is not None, "a request without an error was heard"
    told = heard.tokens if heard.tokens is not None else "unknown"
    cached = f", {heard.cached_tokens} tokens cached" if heard.cached_tokens else ""
    return f"{where} has {told} tokens{cached}"


def _acceptance(requests: Sequence[Request]) -> Iterator[str]:
    """That the same prompt was not accepted alike everywhere."""
    lengths: dict[int, dict[str, float]] = {}
    for request in requests:
        if request.acceptance is not None:
            place = f"start {request.start} of {request.arm}"
            lengths.setdefault(request.number, {})[place] = request.acceptance
    unlike = {n: found for n, found in lengths.items() if len(set(found.values())) > 1}
    for number, found in list(unlike.items())[:1]:
        (one, this), *others = found.items()
        other, that = next((place, value) for place, value in others if value != this)
        yield (
            f"drafts were not accepted alike in {len(unlike)} of {len(lengths)} prompts: of prompt "
            f"{number + 1} {this:.3f} tokens a step in {one}, {that:.3f} in {other}"
        )


def _verdict(
    ratio: StartRatio | None, names: tuple[str, str], invalid: Sequence[str]
) -> tuple[Verdict, str]:
    base, pr = names
    if invalid:
        more = f", and {len(invalid) - 1} more" if len(invalid) > 1 else ""
        return Verdict.INVALID, invalid[0] + more
    assert ratio is not None, "requests without a rate are invalid"
    found = f"{pr} decodes at {ratio.value:.4f} of the rate of {base}"
    if ratio.interval is None:
        return Verdict.INCONCLUSIVE, (
            f"{found}, by one start of each, which cannot tell a difference of the arms from one "
            "of their starts; two of each at least are needed"
        )
    low, high = ratio.interval
    found = f"{found} (95 % interval {low:.4f} to {high:.4f})"
    if low > 1:
        return Verdict.PASS, f"{found}: faster"
    if high < 1:
        return Verdict.FAIL, f"{found}: slower"
    needed = starts_needed(ratio.value - 1, ratio.start_sd or 0.0, WANTED)
    advice = f"{needed} starts an arm" if needed else "more starts than are worth it"
    return Verdict.INCONCLUSIVE, (
        f"{found}: neither faster nor slower is shown; if starts vary as these did, seeing this in "
        f"{WANTED:.0%} of runs takes {advice}"
    )


def _remarks(
    requests: Sequence[Request], names: tuple[str, str], ratio: StartRatio | None
) -> Iterator[str]:
    if ratio is not None and ratio.interval is not None:
        yield (
            "every start of one arm lies above every start of the other"
            if ratio.stable
            else "the starts of the arms overlap: the sign is not stable"
        )
        if ratio.df <= 2:
            yield (
                f"{ratio.df + 2} starts in all tell little of how much starts vary, so that the "
                "interval is wide for its spread; it narrows with starts, not with requests"
            )
    for name in names:
        heard = [r.heard for r in requests if r.arm == name and r.heard]
        if heard and all(each.cached_tokens is None for each in heard):
            yield f"{name} does not tell whether tokens of prompts were cached"
        if heard and not any(r.flushed for r in requests if r.arm == name):
            yield f"{name} has no way to empty its prefix cache; its prompts differ from each other"
