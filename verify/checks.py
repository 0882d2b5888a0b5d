"""The checks of one step: every element by its interval, every byte by the contract, no norm."""

from __future__ import annotations

from dataclasses import replace
from math import isfinite
from typing import TYPE_CHECKING

import torch

from verify import formats, oracle
from verify.contracts import CONTRACTS
from verify.describe import Printer, picture
from verify.findings import CHECKS, LAYER_OF, Finding, FirstBad
from verify.formats import BLOCK

if TYPE_CHECKING:
    from collections.abc import Iterator

    from torch import Tensor

    from verify.findings import Ulps
    from verify.harness import Step
    from verify.launch import Given, Launch
    from verify.spec import Promises


class StepJudge:
    """The checks, with what they share: the inputs, the reference and how a finding is written."""

    def __init__(self, inputs: Given, spec: Promises, replay: str) -> None:
        self.inputs = inputs
        self.spec = spec
        self.replay = replay
        self.c = spec.roundings(inputs.terms)
        self.contract = CONTRACTS[spec.contract]
        self.reference = inputs.reference(self.c)

    def found(
        self,
        check: str,
        layer: int,
        message: str,
        first_bad: FirstBad | None = None,
        shown: str = "",
    ) -> Finding:
        """A finding of this case."""
        return Finding(self.inputs.case.id, check, layer, message, first_bad, self.replay, shown)

    def differing(  # noqa: PLR0917 - what, where and both sides of a comparison
        self, name: str, check: str, layer: int, bad: Tensor, actual: Tensor, expected: Tensor | str
    ) -> Iterator[Finding]:
        """The finding, if there is any, of elements that are not what they should be."""
        if not bool(bad.any()):
            return
        at, describe = _first(bad), Printer(name, self.inputs)
        right = expected if isinstance(expected, str) else describe.shown(expected[at])
        alike = describe.pattern(bad)
        yield self.found(
            check,
            layer,
            f"{name}: {_count(bad)} {CHECKS[check]}"
            + (f": {alike}" if alike else "")
            + f"; first {describe.place(at)}: {describe.shown(actual[at])} in place of {right}",
            describe.bad(at, actual, right),
            picture(describe.matrix(bad)),
        )

    # What a launch did to memory.

    def memory(self, step: Step) -> Iterator[Finding]:
        """Errors, overruns, altered inputs, then what two launches tell when compared."""
        for launch in step.launches:
            layer = LAYER_OF[launch.form]
            if launch.error is not None:
                yield self.found("error", layer, launch.error)
            for name, offset in launch.overruns.items():
                yield self.overrun(launch, name, offset)
            for name in launch.altered:
                yield self.found("inputs", layer, f"the call changed {name}")
        for form in LAYER_OF:
            launches = step.of(form)
            if len(launches) > 1:
                yield from self.repeats(launches[0], launches[1])

    def overrun(self, launch: Launch, name: str, offset: int) -> Finding:
        """A guard byte that changed."""
        size = launch.outputs[name].nbytes
        row = size // self.inputs.rows
        past_end = offset - size + 1
        where = f"{past_end} past its end" if offset > 0 else f"{-offset} before its start"
        past = f" (row {offset // row})" if name != "scales" and offset > 0 else ""
        return self.found(
            "guard",
            LAYER_OF[launch.form],
            f"{name} was overrun: byte {where}{past} changed",
            FirstBad((offset // launch.outputs[name].itemsize,), offset, "changed", "untouched"),
        )

    def repeats(self, first: Launch, second: Launch) -> Iterator[Finding]:
        """Two launches that differ only in what filled their outputs."""
        layer = LAYER_OF[first.form]
        for name, tensor in first.outputs.items():
            one, two = raw(tensor), raw(second.outputs[name])
            kept = (one == _filled(first.poison, one)) & (two == _filled(second.poison, two))
            if first.poison == second.poison:
                kept = torch.zeros_like(kept)
            yield from self.differing(name, "unwritten", layer, kept, one, "a written value")
            if "nondeterministic" not in self.spec.claims:
                yield from self.differing(name, "repeat", layer, (one != two) & ~kept, one, two)

    def batch(self, step: Step, whole: Step) -> Iterator[Finding]:
        """Rows of a step against the same rows of another one, bit by bit."""
        assert step.rows is not None
        for form, layer in LAYER_OF.items():
            for mine, other in zip(step.of(form)[:1], whole.of(form)[:1], strict=False):
                for name in ("out", "q"):
                    if name in mine.outputs:
                        one, two = raw(mine.outputs[name]), raw(other.outputs[name])[step.rows]
                        yield from self.differing(name, "batch", layer, one != two, one, two)

    # Layer 1.

    def flushes(self, out: Tensor) -> bool:
        """Whether `out` is only right if subnormals count as zero; then so does the reference.

        Kernels may keep subnormals or take them for zero, but all alike, operands and results: one
        that flushes what it writes and not what it reads is wrong, unless it claims ftz.
        """
        bad = self.wrong(out)
        if not bool(bad.any()):
            return False
        kept = self.reference
        self.reference = self.inputs.reference(self.c, flushed=True)
        helped = bad & ~self.wrong(out)
        if "ftz" in self.spec.claims:
            flushed = self.reference
            self.reference = oracle.Reference(
                torch.where(helped, flushed.value, kept.value),
                torch.where(helped, flushed.bound, kept.bound),
                kept.slack,
            )
            return bool(helped.any())
        if bool(self.wrong(out).any()):
            self.reference = kept
            return False
        return True

    def wrong(self, out: Tensor) -> Tensor:
        """Per element: outside its interval, or a number where the sum is NaN or Inf.

        NaN is right in place of Inf: a compensated sum subtracts Inf from Inf.
        """
        y, reference = out.to(torch.float64), self.reference
        lower, upper = reference.lower, reference.upper
        inside = (lower <= y) & (y <= upper)
        inside &= ~_wrong_zero(y, reference)
        right = inside | (y.isnan() & ~(lower.isfinite() & upper.isfinite()))
        # Where partial sums may overflow they may also cancel: a number, Inf and NaN are honest.
        return ~(right | reference.bound.isposinf())

    def values(self, launch: Launch) -> Iterator[Finding]:
        """Every element."""
        out, reference = launch.outputs["out"], self.reference
        bad = self.wrong(out)
        if not bool(bad.any()):
            return
        at, exact = _first(bad), self.inputs.case.exact
        value, bound = float(reference.value[at]), float(reference.bound[at])
        error = abs(float(out[at]) - value)
        right = formats.as_bf16(formats.round_bf16(reference.value[at]))
        distance = int((formats.bf16_ordinal(out[at]) - formats.bf16_ordinal(right)).abs())
        low, high = float(reference.lower[at]), float(reference.upper[at])
        [found] = self.differing(
            "out",
            "exact" if exact else "interval",
            1,
            bad,
            raw(out),
            Printer("out", self.inputs).shown(raw(right))
            if low == high
            else f"{low:.9g} to {high:.9g}",
        )
        used = "no error allowed" if exact else f"{error / bound:.3g} of the bound {bound:.3g}"
        size = f", error {error:.3g} ({distance} BF16 steps), {used}" if isfinite(error) else ""
        yield replace(found, message=f"{found.message}; exact {value:.9g}{size}")

    def use(self, out: Tensor) -> float:
        """The largest share of c u S that an element needs, rotations having taken their slack."""
        reference = self.reference
        low, high = formats.rounding_interval(out)
        needed = torch.maximum(low - reference.value, reference.value - high) - reference.slack
        share = torch.where(needed > 0, needed / (reference.bound - reference.slack), 0.0)
        return float(torch.where(share.isfinite(), share, 0.0).max())

    def ulps(self, out: Tensor) -> Ulps:
        """Elements by their distance from the correctly rounded y: 0, 1, 2 and more steps."""
        right = formats.as_bf16(formats.round_bf16(self.reference.value))
        finite = out.isfinite() & right.isfinite() & self.reference.bound.isfinite()
        distance = (formats.bf16_ordinal(out) - formats.bf16_ordinal(right)).abs()[finite]
        counts = torch.bincount(distance.clamp(max=3).long(), minlength=4).tolist()
        return counts[0], counts[1], counts[2], counts[3]

    # Layer 2.

    def quantised(self, out: Tensor) -> oracle.Quantised:
        """What the contract makes of a BF16 output."""
        return oracle.quantise(out, self.contract)

    def bytes(self, launch: Launch, quantised: oracle.Quantised) -> Iterator[Finding]:
        """Codes and scale bytes against the contract applied to the kernel's own BF16 output."""
        yield from self.codes(launch, quantised, "codes")
        yield from self.scales(launch, quantised, "scales")

    def golden(self, launch: Launch) -> Iterator[Finding]:
        """The same against the exact y; the sign of a zero sum is the accumulator's to choose."""
        quantised = self.quantised(formats.as_bf16(formats.round_bf16(self.reference.value)))
        zero = self.reference.value == 0
        yield from self.codes(launch, quantised, "golden-codes", zero)
        yield from self.scales(launch, quantised, "golden-scales")

    def codes(
        self, launch: Launch, quantised: oracle.Quantised, check: str, zero: Tensor | None = None
    ) -> Iterator[Finding]:
        """Every code of a judged block; where `zero` is set, either sign of zero will do."""
        actual = raw(launch.outputs["q"])
        differ = actual != quantised.codes
        if zero is not None:
            differ &= ~(zero & (actual & 0x7F == 0))
        differ &= quantised.judged.repeat_interleave(BLOCK, dim=1)
        yield from self.differing("q", check, 2, differ, actual, quantised.codes)

    def scales(self, launch: Launch, quantised: oracle.Quantised, check: str) -> Iterator[Finding]:
        """Every live byte of the scale buffer."""
        actual = raw(launch.outputs["scales"])
        expected = oracle.swizzle(quantised.scales)
        judged = oracle.swizzle(quantised.judged.to(torch.uint8)).bool()
        differ = (actual != expected) & judged
        yield from self.differing("scales", check, 2, differ, actual, expected)

    def padding(self, launch: Launch) -> Iterator[Finding]:
        """Every other byte of it: a check of its own, as it needs no BF16 output."""
        actual = raw(launch.outputs["scales"])
        rows, _ = Printer("scales", self.inputs).layout()
        zero = torch.zeros_like(actual)
        yield from self.differing("scales", "padding", 2, (rows < 0) & (actual != 0), actual, zero)


def raw(tensor: Tensor) -> Tensor:
    """Bit patterns: int32 of BF16, uint8 of the rest."""
    return formats.bf16_bits(tensor) if tensor.dtype == torch.bfloat16 else tensor.view(torch.uint8)


def _wrong_zero(y: Tensor, reference: oracle.Reference) -> Tensor:
    """Zeros of the wrong sign, where the sum is exact and not zero itself: it rounds to its own."""
    known = (reference.bound == 0) & (reference.value != 0)
    return known & (torch.signbit(y) != torch.signbit(reference.value))


def _filled(poison: int, like: Tensor) -> int:
    """The pattern an element of `like` holds where only the poison byte stands."""
    return poison if like.dtype == torch.uint8 else poison * 0x101


def _first(bad: Tensor) -> tuple[int, ...]:
    return tuple(bad.nonzero()[0].tolist())


def _count(bad: Tensor) -> str:
    return f"{int(bad.sum())} of {bad.numel()}"
