"""Judges an outcome: layer 1, is the BF16 output right; layer 2, are codes and scale bytes.

Layer 2 asks for what the contract makes of the kernel's own BF16 output and, where the input fixes
y, of y itself.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import torch

from verify.checks import StepJudge
from verify.findings import CHECKS, LAYER_OF, Finding, FirstBad, Judgement, add_ulps
from verify.harness import Outcome
from verify.launch import FORMS

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from torch import Tensor

    from verify.harness import Refusal, Step
    from verify.launch import Given, Launch
    from verify.spec import Promises

__all__ = ["CHECKS", "Finding", "FirstBad", "Judgement", "judge", "vacuous"]


def judge(inputs: Given, outcome: Outcome, spec: Promises, replay: str = "") -> Judgement:
    """Apply every check to everything that was seen of one case."""
    case = inputs.case
    whole = Judgement(case, (), "exact" if case.exact else spec.tier, frozenset({1, 2}))
    for step in outcome.steps:
        whole = _join(whole, _judge_step(step, outcome.steps[0], spec, replay))
    findings = [*whole.findings, *_refusals(inputs, outcome.refusals, spec, replay)]
    return replace(whole, findings=tuple(_first_of_each(findings)))


def _judge_step(step: Step, first: Step, spec: Promises, replay: str) -> Judgement:
    """The checks of one step, alone and against the first one."""
    checks, case = StepJudge(step.inputs, spec, replay), step.inputs.case
    findings = [*checks.memory(step)]
    plain, packed = step.of("bf16"), step.of("mxfp8")
    flushed = bool(plain) and checks.flushes(plain[0].outputs["out"])
    wavers = "nondeterministic" in spec.claims  # then no launch speaks for another
    for launch in plain if wavers else plain[:1]:
        findings += checks.values(launch)
    quantised = checks.quantised(plain[0].outputs["out"]) if plain and packed else None
    for launch in packed if wavers else packed[:1]:
        if quantised is not None and (case.exact or not wavers):
            findings += checks.bytes(launch, quantised)
        findings += checks.padding(launch)
        if case.golden:
            findings += checks.golden(launch)
    if step is not first:
        if step.rows is not None and "batch-invariant" in spec.claims:
            findings += checks.batch(step, first)
        if step.inputs is first.inputs:
            for mine, theirs in ((first.of(form)[:1], step.of(form)[:1]) for form in FORMS):
                for one, two in zip(mine, theirs, strict=False):
                    findings += checks.repeats(one, two)
    return Judgement(
        case=case,
        findings=tuple(findings),
        tier="exact" if case.exact else spec.tier,
        judged=frozenset([1] * bool(plain) + [2] * bool(quantised)),
        use=max((checks.use(launch.outputs["out"]) for launch in plain), default=0.0),
        scale_bytes=_distinct(quantised.scales) if quantised else frozenset(),
        codes=_distinct(quantised.codes) if quantised else frozenset(),
        flushed=flushed,
        unjudged_blocks=int((~quantised.judged).sum()) if quantised else 0,
        ulps=checks.ulps(plain[0].outputs["out"]) if plain else (0, 0, 0, 0),
        seconds=sum(launch.seconds for launch in step.launches),
    )


def _join(one: Judgement, other: Judgement) -> Judgement:
    """Both together."""
    return replace(
        one,
        findings=one.findings + other.findings,
        judged=one.judged & other.judged,
        use=max(one.use, other.use),
        scale_bytes=one.scale_bytes | other.scale_bytes,
        codes=one.codes | other.codes,
        flushed=one.flushed or other.flushed,
        unjudged_blocks=one.unjudged_blocks + other.unjudged_blocks,
        ulps=add_ulps(one.ulps, other.ulps),
        seconds=one.seconds + other.seconds,
    )


def _first_of_each(findings: Iterable[Finding]) -> Iterator[Finding]:
    """One finding per check and layer: a later launch repeats what the first one showed."""
    seen = set()
    for finding in findings:
        if (finding.check, finding.layer) not in seen:
            seen.add((finding.check, finding.layer))
            yield finding


def _distinct(values: Tensor) -> frozenset[int]:
    return frozenset(torch.unique(values).tolist())


def _refusals(
    inputs: Given, refusals: Iterable[Refusal], spec: Promises, replay: str
) -> Iterator[Finding]:
    """Calls that did not raise, or wrote."""
    for refusal in refusals:
        if refusal.beyond and "unbounded" in spec.claims:
            continue
        done = "" if refusal.error else "did not raise"
        if refusal.written:
            done += " and" * bool(done) + f" wrote to {', '.join(refusal.written)}"
        if done:
            layer = LAYER_OF[refusal.form]
            message = f"{refusal.what}: the call {done.strip()}"
            yield Finding(inputs.case.id, "rejects", layer, message, None, replay)


# Junk that the very same checks must reject, lest a pass mean nothing.


def _zeros(_: str, bits: Tensor) -> Tensor:
    return torch.zeros_like(bits)


def _constant(name: str, bits: Tensor) -> Tensor:
    """1.0 as BF16 and E4M3; scales as they are."""
    ones = {"out": 0x3F80, "q": 0x38}
    return torch.full_like(bits, ones[name]) if name in ones else bits


def _shuffled(name: str, bits: Tensor) -> Tensor:
    return bits if name == "scales" else bits.roll(1, 0)


def _doubled(name: str, bits: Tensor) -> Tensor:
    """Scale bytes one larger, padding left alone."""
    return torch.where((bits > 0) & (bits < 254), bits + 1, bits) if name == "scales" else bits


JUNK: dict[str, Callable[[str, Tensor], Tensor]] = {
    "zeros": _zeros,
    "a constant": _constant,
    "shuffled rows": _shuffled,
    "doubled scales": _doubled,
}


def vacuous(inputs: Given, outcome: Outcome, spec: Promises) -> Iterator[str]:
    """The kinds of junk in place of the outputs that the checks would let pass.

    Junk that is much like the outputs themselves, as zeros are where y is zero, says nothing.
    """
    for name, spoil in JUNK.items():
        changed = [_spoilt(launch, spoil) for launch in outcome.launches]
        if not any(share > 0.5 for _, share in changed):
            continue
        if name == "doubled scales" and "nondeterministic" in spec.claims and not inputs.case.exact:
            continue
        step = replace(outcome.steps[0], launches=tuple(launch for launch, _ in changed))
        judgement = judge(inputs, Outcome((step,)), spec)
        if not judgement.findings and not judgement.flushed:  # zeros are what flushing leaves
            yield name


_NEXT_TO_NOTHING = 128


def _spoilt(launch: Launch, spoil: Callable[[str, Tensor], Tensor]) -> tuple[Launch, float]:
    """The launch with junk for outputs, and the largest share of an output that this changed."""
    outputs, share = {}, 0.0
    for name, tensor in launch.outputs.items():
        bits = tensor.view(torch.int16 if tensor.dtype == torch.bfloat16 else torch.uint8)
        junk = spoil(name, bits)
        # Of what is not zero; an output with next to nothing else is much like zeros.
        live = max(int(((bits != 0) | (junk != 0)).sum()), bits.numel() // _NEXT_TO_NOTHING)
        share = max(share, float((junk != bits).sum() / max(1, live)))
        outputs[name] = junk.view(tensor.dtype)
    return replace(launch, outputs=outputs), share
