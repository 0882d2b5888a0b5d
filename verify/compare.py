"""Judges an outcome: every element by its interval, every byte by the contract, no norm anywhere.

Layer 1 asks whether the BF16 output is right, layer 2 whether codes and scale bytes are what the
contract makes of the kernel's own BF16 output; where the input fixes y, of y itself.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import torch

from verify import formats, oracle
from verify.formats import BLOCK

if TYPE_CHECKING:
    from collections.abc import Iterator

    from torch import Tensor

    from verify.cases import Case, KernelSpec
    from verify.harness import Form, Launch, Outcome
    from verify.inputs import Inputs

CHECKS = {
    "error": "the call raised",
    "guard": "bytes around an output changed",
    "inputs": "an input changed",
    "unwritten": "elements still hold what filled them beforehand",
    "repeat": "elements differ between two launches on one input",
    "exact": "elements differ where every order of the sums gives one value",
    "interval": "elements lie outside the bound of an honest accumulation",
    "codes": "codes differ from the contract's, given the kernel's own BF16 output",
    "scales": "scale bytes differ from the contract's, given the kernel's own BF16 output",
    "padding": "bytes of padding are not zero",
    "golden-codes": "codes differ where the input fixes them",
    "golden-scales": "scale bytes differ where the input fixes them",
}
"""What can be found, in the order in which it is looked for."""

LAYER_OF: dict[Form, int] = {"bf16": 1, "mxfp8": 2}


@dataclass(frozen=True)
class FirstBad:
    """Where a difference begins.

    Attributes:
        index: logical coordinate: row and column, row and block column, or one flat index.
        byte: offset in bytes from the start of the buffer.
        actual: what stands there, bits and value.
        expected: what should.
    """

    index: tuple[int, ...]
    byte: int
    actual: str
    expected: str


@dataclass(frozen=True)
class Finding:
    """One thing wrong in one case.

    Attributes:
        case: the case's id.
        check: name out of CHECKS.
        layer: 1 or 2.
        message: one line for people.
        first_bad: where it begins, if it has a place.
        replay: the command that shows it again.
    """

    case: str
    check: str
    layer: int
    message: str
    first_bad: FirstBad | None
    replay: str


@dataclass(frozen=True)
class Judgement:
    """What was found in a case, and how closely it was looked at.

    Attributes:
        case: what was judged.
        findings: empty if nothing is wrong.
        tier: what decided layer 1: `exact`, `declared` or `calibrated`.
        judged: the layers that had something to judge; a call that raised leaves nothing.
        use: the largest share of the accumulation bound that any element needs; 0 if exact.
        scale_bytes: distinct bytes that layer 2 expected.
        codes: distinct codes that layer 2 expected.
        flushed: whether subnormals were taken for zero, and y was judged accordingly.
        unjudged_blocks: blocks with NaN or Inf, of which the contract says nothing.
        seconds: of all launches together.
    """

    case: Case
    findings: tuple[Finding, ...]
    tier: str
    judged: frozenset[int] = frozenset()
    use: float = 0.0
    scale_bytes: frozenset[int] = field(default_factory=frozenset)
    codes: frozenset[int] = field(default_factory=frozenset)
    flushed: bool = False
    unjudged_blocks: int = 0
    seconds: float = 0.0


def judge(inputs: Inputs, outcome: Outcome, spec: KernelSpec, replay: str = "") -> Judgement:
    """Apply every check to the launches of one case."""
    case = inputs.case
    judge_of_case = _Judge(inputs, spec, replay)
    findings = [*judge_of_case.memory(outcome)]
    use, quantised = 0.0, None
    plain, packed = outcome.of("bf16"), outcome.of("mxfp8")
    flushed = bool(plain) and judge_of_case.flushes(plain[0].outputs["out"])
    for launch in plain if "nondeterministic" in spec.claims else plain[:1]:
        use = max(use, _use(launch.outputs["out"], judge_of_case.reference))
        findings += judge_of_case.values(launch)
    if plain and packed:
        quantised = oracle.quantise(plain[0].outputs["out"])
        if case.exact or "nondeterministic" not in spec.claims:
            findings += judge_of_case.bytes(packed[0], quantised)
        findings += judge_of_case.padding(packed[0])
    if packed and case.golden:
        findings += judge_of_case.golden(packed[0])
    return Judgement(
        case=case,
        findings=tuple(_first_of_each(findings)),
        tier="exact" if case.exact else spec.tier,
        judged=frozenset([1] * bool(plain) + [2] * bool(plain and packed)),
        use=use,
        scale_bytes=_distinct(quantised.scales) if quantised else frozenset(),
        codes=_distinct(quantised.codes) if quantised else frozenset(),
        flushed=flushed,
        unjudged_blocks=int((~quantised.judged).sum()) if quantised else 0,
        seconds=sum(launch.seconds for launch in outcome.launches),
    )


def _first_of_each(findings: list[Finding]) -> Iterator[Finding]:
    """One finding per check and layer: the second launch repeats what the first one showed."""
    seen = set()
    for finding in findings:
        if (finding.check, finding.layer) not in seen:
            seen.add((finding.check, finding.layer))
            yield finding


def _distinct(values: Tensor) -> frozenset[int]:
    return frozenset(torch.unique(values).tolist())


def _use(out: Tensor, reference: oracle.Reference) -> float:
    """The largest share of c u S that an element needs, rotations having taken their slack."""
    low, high = formats.rounding_interval(out)
    needed = torch.maximum(low - reference.value, reference.value - high) - reference.slack
    share = torch.where(needed > 0, needed / (reference.bound - reference.slack), 0.0)
    return float(torch.where(share.isfinite(), share, 0.0).max())


class _Judge:
    """The checks, with what they share: the case, its reference and how a finding is written."""

    def __init__(self, inputs: Inputs, spec: KernelSpec, replay: str) -> None:
        self.inputs = inputs
        self.spec = spec
        self.replay = replay
        case = inputs.case
        rotated = oracle.rotate(inputs.x, inputs.table.cos_sin, inputs.positions, case.head_dim)
        self.rotated = rotated
        self.c = spec.roundings(case.k)
        self.reference = oracle.reference(rotated, inputs.weight, self.c, exact=case.exact)

    def found(
        self, check: str, layer: int, message: str, first_bad: FirstBad | None = None
    ) -> Finding:
        return Finding(self.inputs.case.id, check, layer, message, first_bad, self.replay)

    # What a launch did to memory.

    def memory(self, outcome: Outcome) -> Iterator[Finding]:
        """Errors, overruns, altered inputs, then what two launches tell when compared."""
        for launch in outcome.launches:
            layer = LAYER_OF[launch.form]
            if launch.error is not None:
                yield self.found("error", layer, launch.error)
            for name, offset in launch.overruns.items():
                yield self.overrun(launch, name, offset)
            for name in launch.altered:
                yield self.found("inputs", layer, f"the call changed {name}")
        for form in LAYER_OF:
            launches = outcome.of(form)
            if len(launches) > 1:
                yield from self.repeats(launches[0], launches[1])

    def overrun(self, launch: Launch, name: str, offset: int) -> Finding:
        size = launch.outputs[name].nbytes
        row = size // self.inputs.case.tokens
        where = f"{offset - size} bytes past its end" if offset > 0 else f"{-offset} before it"
        past = f" (row {offset // row})" if name != "scales" and offset > 0 else ""
        return self.found(
            "guard",
            LAYER_OF[launch.form],
            f"{name} was overrun: the byte {where}{past} changed",
            FirstBad((offset // launch.outputs[name].itemsize,), offset, "changed", "untouched"),
        )

    def repeats(self, first: Launch, second: Launch) -> Iterator[Finding]:
        """Two launches that differ only in what filled their outputs."""
        layer = LAYER_OF[first.form]
        for name, tensor in first.outputs.items():
            one, two = _raw(tensor), _raw(second.outputs[name])
            kept = (one == _filled(first.poison, one)) & (two == _filled(second.poison, two))
            describe = self.printer(name)
            if bool(kept.any()):
                at = _first(kept)
                yield self.found(
                    "unwritten",
                    layer,
                    f"{name}: {_count(kept)} {CHECKS['unwritten']}; first {describe.place(at)}",
                    describe.bad(at, one, "a written value"),
                )
            differ = (one != two) & ~kept
            if bool(differ.any()) and "nondeterministic" not in self.spec.claims:
                at = _first(differ)
                yield self.found(
                    "repeat",
                    layer,
                    f"{name}: {_count(differ)} {CHECKS['repeat']}; first {describe.place(at)}",
                    describe.bad(at, one, describe.shown(two[at])),
                )

    # Layer 1.

    def flushes(self, out: Tensor) -> bool:
        """Whether `out` is only right if subnormals count as zero; then so does the reference.

        Kernels may keep subnormals or take them for zero, but all alike, operands and results: one
        that flushes what it writes and not what it reads is wrong, unless it claims ftz.
        """
        bad = self.wrong(out)
        if not bool(bad.any()):
            return False
        kept, case = self.reference, self.inputs.case
        self.reference = oracle.flushed_reference(
            self.rotated, self.inputs.weight, self.c, exact=case.exact
        )
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
        """Per element: outside its interval, or of another kind where the sum is NaN or Inf."""
        y, reference = out.to(torch.float64), self.reference
        inside = (reference.lower <= y) & (y <= reference.upper)
        same = (y == reference.value) | (y.isnan() & reference.value.isnan())
        return ~torch.where(reference.value.isfinite(), inside, same)

    def values(self, launch: Launch) -> Iterator[Finding]:
        """Every element."""
        out, reference = launch.outputs["out"], self.reference
        y, bad = out.to(torch.float64), self.wrong(out)
        if not bool(bad.any()):
            return
        at = _first(bad)
        value, bound = float(reference.value[at]), float(reference.bound[at])
        exact = self.inputs.case.exact
        check = "exact" if exact else "interval"
        error = abs(float(y[at]) - value)
        expected = f"{float(reference.lower[at]):.9g} to {float(reference.upper[at]):.9g}"
        steps = formats.bf16_ordinal(formats.as_bf16(formats.round_bf16(reference.value[at])))
        distance = int((formats.bf16_ordinal(out[at]) - steps).abs())
        describe = self.printer("out")
        yield self.found(
            check,
            1,
            f"out: {_count(bad)} {CHECKS[check]}; first {describe.place(at)}: {float(y[at]):.9g}, "
            f"exact {value:.9g}, error {error:.3g} ({distance} BF16 steps), "
            + ("no error allowed" if exact else f"{error / bound:.3g} of the bound {bound:.3g}"),
            describe.bad(at, _raw(out), expected),
        )

    # Layer 2.

    def bytes(self, launch: Launch, quantised: oracle.Quantised) -> Iterator[Finding]:
        """Codes and scale bytes against the contract applied to the kernel's own BF16 output."""
        yield from self.codes(launch, quantised, "codes")
        yield from self.scales(launch, quantised, "scales")

    def golden(self, launch: Launch) -> Iterator[Finding]:
        """The same against the exact y; the sign of a zero sum is the accumulator's to choose."""
        exact = formats.as_bf16(formats.round_bf16(self.reference.value))
        quantised = oracle.quantise(exact)
        zero = quantised.codes & 0x7F == 0
        yield from self.codes(launch, quantised, "golden-codes", zero)
        yield from self.scales(launch, quantised, "golden-scales")

    def codes(
        self, launch: Launch, quantised: oracle.Quantised, check: str, zero: Tensor | None = None
    ) -> Iterator[Finding]:
        """Every code of a judged block; where `zero` is set, either sign of zero will do."""
        actual = _raw(launch.outputs["q"])
        differ = actual != quantised.codes
        if zero is not None:
            differ &= ~(zero & (actual & 0x7F == 0))
        differ &= quantised.judged.repeat_interleave(BLOCK, dim=1)
        yield from self.differing("q", check, actual, quantised.codes, differ)

    def scales(self, launch: Launch, quantised: oracle.Quantised, check: str) -> Iterator[Finding]:
        """Every live byte of the scale buffer."""
        actual = _raw(launch.outputs["scales"])
        expected = oracle.swizzle(quantised.scales)
        judged = oracle.swizzle(quantised.judged.to(torch.uint8)).bool()
        yield from self.differing("scales", check, actual, expected, (actual != expected) & judged)

    def padding(self, launch: Launch) -> Iterator[Finding]:
        """Every other byte of it: a check of its own, as it needs no BF16 output."""
        actual = _raw(launch.outputs["scales"])
        rows, _ = self.printer("scales").layout()
        zero = torch.zeros_like(actual)
        yield from self.differing("scales", "padding", actual, zero, (rows < 0) & (actual != 0))

    def differing(
        self, name: str, check: str, actual: Tensor, expected: Tensor, differ: Tensor
    ) -> Iterator[Finding]:
        """The finding, if there is any, of bytes that are not what they should be."""
        if not bool(differ.any()):
            return
        at, describe = _first(differ), self.printer(name)
        yield self.found(
            check,
            2,
            f"{name}: {_count(differ)} {CHECKS[check]}; first {describe.place(at)}: "
            f"{describe.shown(actual[at])} in place of {describe.shown(expected[at])}",
            describe.bad(at, actual, describe.shown(expected[at])),
        )

    def printer(self, name: str) -> _Printer:
        return _Printer(name, self.inputs.case, self.inputs.x.device)


class _Printer:
    """How an element of one output is named and shown."""

    def __init__(self, name: str, case: Case, device: torch.device) -> None:
        self.name = name
        self.case = case
        self.device = device

    def layout(self) -> tuple[Tensor, Tensor]:
        """Row and block column of each byte of the scale buffer, -1 where it is padding."""
        rows, columns = self.case.tokens, self.case.groups * self.case.rank // BLOCK
        row = torch.arange(1, rows + 1, device=self.device)[:, None].expand(rows, columns)
        column = torch.arange(1, columns + 1, device=self.device).expand(rows, columns)
        return oracle.swizzle(row) - 1, oracle.swizzle(column) - 1

    def coordinate(self, at: tuple[int, ...]) -> tuple[int, ...]:
        """Row and column, row and block column, or the flat index of a padding byte."""
        if self.name != "scales":
            return at
        rows, columns = self.layout()
        row, column = int(rows[at]), int(columns[at])
        return at if row < 0 else (row, column)

    def place(self, at: tuple[int, ...]) -> str:
        where = self.coordinate(at)
        if self.name == "scales":
            if len(where) == 1:
                return f"padding byte {at[0]}"
            return f"byte {at[0]} (row {where[0]}, block column {where[1]})"
        group, column = divmod(where[1], self.case.rank)
        return f"[{where[0]}, {where[1]}] (group {group}, column {column})"

    def shown(self, bits: Tensor) -> str:
        """Bits and value."""
        pattern = int(bits)
        if self.name == "out":
            value = formats.bf16_from_bits(torch.tensor(pattern)).item()
            return f"0x{pattern:04x} ({value:.9g})"
        if self.name == "q":
            return f"0x{pattern:02x} ({formats.e4m3_value(pattern):.9g})"
        return f"0x{pattern:02x} (2^{pattern - formats.E8M0_BIAS})"

    def bad(self, at: tuple[int, ...], actual: Tensor, expected: str) -> FirstBad:
        size = 2 if self.name == "out" else 1
        flat = at[0] if len(at) == 1 else at[0] * actual.shape[1] + at[1]
        return FirstBad(self.coordinate(at), flat * size, self.shown(actual[at]), expected)


def _raw(tensor: Tensor) -> Tensor:
    """Bit patterns: int32 of BF16, uint8 of the rest."""
    return formats.bf16_bits(tensor) if tensor.dtype == torch.bfloat16 else tensor.view(torch.uint8)


def _filled(poison: int, like: Tensor) -> int:
    """The pattern an element of `like` holds where only the poison byte stands."""
    return poison if like.dtype == torch.uint8 else poison * 0x101


def _first(bad: Tensor) -> tuple[int, ...]:
    return tuple(bad.nonzero()[0].tolist())


def _count(bad: Tensor) -> str:
    return f"{int(bad.sum())} of {bad.numel()}"
