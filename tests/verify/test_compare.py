"""The checks must reject what is wrong by one element, and what is wrong altogether."""

from __future__ import annotations

import functools
from dataclasses import replace

import pytest
import torch

from tests.mutants import honest
from verify import cases, compare, formats, harness, inputs
from verify import checks as checks_of
from verify.cases import KernelSpec
from verify.launch import Launch

SPEC = KernelSpec(2, 96, 128, head_dim=64, rope_dim=16)
FAMILIES = ("normal", "positive", "integers", "golden_spread", "residual")


@functools.cache
def given(family="normal", tokens=13):
    kind = cases.FAMILIES[family]
    case = cases.place(
        SPEC,
        layout=1,
        family=family,
        tokens=tokens,
        table=kind.tables[0],
        positions=kind.positions[0],
        index="int32",
    )
    return inputs.make(case)


def tampered(change, family="normal", spec=SPEC):
    """The judgement of a right kernel whose outputs `change` has got hold of."""

    def kernel(*arguments, **rest):
        honest.plain(*arguments, **rest)
        outputs = {name: rest[name] for name in ("out", "q", "scales") if name in rest}
        change(**outputs)

    inputs_of = given(family)
    return compare.judge(inputs_of, harness.run(kernel, inputs_of), spec, "replay me")


def checks(judgement):
    return {(finding.layer, finding.check) for finding in judgement.findings}


@pytest.mark.parametrize("family", cases.FAMILIES)
def test_nothing_is_found_in_a_right_kernel(family):
    judgement = tampered(lambda **_: None, family)
    assert judgement.findings == ()
    assert judgement.tier == ("exact" if cases.FAMILIES[family].exact else "calibrated")
    assert 0 <= judgement.use < 0.1


def _zeros(out=None, q=None, scales=None):
    for output in filter(lambda o: o is not None, (out, q, scales)):
        output.zero_()


def _shuffled_rows(out=None, q=None, **_):
    for output in (out, q):
        if output is not None:
            bits = output.view(torch.uint8)
            bits.copy_(bits.roll(1, 0))


def _doubled_scales(scales=None, **_):
    if scales is not None:
        scales[scales > 0] += 1


def _constant(out=None, q=None, **_):
    for output in (out, q):
        if output is not None:
            output.fill_(1.0)


@pytest.mark.parametrize("junk", [_zeros, _shuffled_rows, _doubled_scales, _constant])
@pytest.mark.parametrize("family", FAMILIES[:4])
def test_junk_is_rejected(junk, family):
    layers = {layer for layer, _ in checks(tampered(junk, family))}
    assert (1 in layers) == (junk is not _doubled_scales)
    # Codes and scales of all zeros are those of an output that is all zeros.
    assert (2 in layers) == (junk is not _zeros or family == "golden_spread")


@pytest.mark.parametrize("place", [(0, 0), (12, 191), (7, 100)])
def test_one_element_one_step_off_is_found_where_the_sum_is_exact(place):
    def change(out=None, **_):
        if out is not None:
            out.view(torch.int16)[place] += 1

    [layer_1, *_] = [f for f in tampered(change, "integers").findings if f.layer == 1]
    assert layer_1.check == "exact"
    assert layer_1.first_bad.index == place
    assert layer_1.first_bad.byte == 2 * (place[0] * 192 + place[1])
    assert "1 of 2496 elements" in layer_1.message
    assert "(1 BF16 steps)" in layer_1.message
    assert layer_1.replay == "replay me"


def reference(family):
    inputs_of = given(family)
    return checks_of.StepJudge(inputs_of, SPEC, "").reference


@pytest.mark.parametrize("family", ["normal", "positive", "residual"])
@pytest.mark.parametrize("side", ["lower", "upper"])
def test_interval_accepts_its_ends_and_nothing_beyond(family, side):
    ends = formats.as_bf16(getattr(reference(family), side))
    beyond = formats.bf16_ordinal(ends) + (1 if side == "upper" else -1)
    outside = formats.as_bf16(formats.ordinal_value(beyond))

    def put(values):
        def change(out=None, **_):
            if out is not None:
                out.copy_(values)

        return {f.check for f in tampered(change, family).findings if f.layer == 1}

    assert put(ends) == set()
    assert put(outside) == {"interval"}


@pytest.mark.parametrize("special", [float("nan"), float("inf"), float("-inf")])
@pytest.mark.parametrize("family", FAMILIES)
def test_specials_are_no_numbers(special, family):
    def change(out=None, **_):
        if out is not None:
            out[3, 5] = special

    found = tampered(change, family)
    assert {check for layer, check in checks(found) if layer == 1} <= {"exact", "interval"}
    assert any(layer == 1 for layer, _ in checks(found))


@pytest.mark.parametrize("bit", range(8))
@pytest.mark.parametrize("name", ["q", "scales"])
def test_every_bit_of_every_byte_counts(name, bit):
    def change(**outputs):
        if name in outputs:
            view = outputs[name].view(torch.uint8)
            view.view(-1)[16 * 5 + 1] ^= 1 << bit  # row 5, block column 1 of the scales

    [finding] = tampered(change, "normal").findings
    assert finding.check == {"q": "codes", "scales": "scales"}[name]
    assert finding.first_bad.index == {"q": (0, 81), "scales": (5, 1)}[name]
    assert finding.first_bad.byte == 81
    assert finding.first_bad.actual != finding.first_bad.expected


def test_padding_rows_and_columns_must_be_zero():
    """13 rows of 128, 6 block columns of 8."""
    for offset in (13 * 16, 512 + 2, 1023):

        def change(scales=None, offset=offset, **_):
            if scales is not None:
                scales[offset] = 1

        [finding] = tampered(change).findings
        assert (finding.check, finding.first_bad.byte) == ("padding", offset)
        assert finding.first_bad.index == (offset,)


def test_unwritten_is_told_apart_from_unrepeatable():
    def leave(q=None, **_):
        if q is not None:
            poison = 0xFF if next(count) % 2 == 0 else 0xA5
            q.view(torch.uint8)[4, 7] = poison

    count = iter(range(100))
    assert (2, "unwritten") in checks(tampered(leave))

    def waver(out=None, **_):
        if out is not None:
            out[2, 2] = next(count) / 8

    count = iter(range(100))
    assert {check for _, check in checks(tampered(waver))} == {"repeat", "interval", "codes"}


def test_nondeterministic_kernels_are_judged_in_bytes_on_exact_inputs_only():
    claims = replace(SPEC, claims=frozenset({"nondeterministic"}))

    def another_order(out=None, **_):
        """One step off within the bound, in one form only: another order of the same sums."""
        if out is not None:
            out.view(torch.int16).view(-1)[widest] += next(count) % 2

    bounds = reference("cancellation")
    widest = int((bounds.bound / bounds.value.abs()).argmax())

    count = iter(range(1, 100))
    assert (1, "repeat") in checks(tampered(another_order, "cancellation"))
    count = iter(range(1, 100))
    assert checks(tampered(another_order, "cancellation", claims)) == set()
    count = iter(range(1, 100))
    assert (1, "exact") in checks(tampered(another_order, "integers", claims))


def with_operand(special, family="normal"):
    """Inputs with one NaN or Inf in row 3, group 0, and what the other rows hold beside."""
    inputs_of = given(family)
    x = inputs_of.x.clone()
    x[3, 0, 5] = special
    return replace(inputs_of, x=x)


@pytest.mark.parametrize("operand", [float("inf"), float("-inf"), float("nan")])
@pytest.mark.parametrize(
    ("value", "kinds"),
    [
        (0.0, set()),
        (1.0, set()),
        (3.3895313892515355e38, set()),  # the largest BF16 number
        (float("nan"), {"nan", "inf", "-inf"}),  # a compensated sum subtracts Inf from Inf
        (float("inf"), {"inf"}),
        (float("-inf"), {"-inf"}),
    ],
)
def test_sum_with_nan_or_inf_among_its_terms_is_no_number(operand, value, kinds):
    inputs_of = with_operand(operand)
    right = inputs_of.reference(SPEC.roundings(inputs_of.terms)).value
    out = formats.as_bf16(formats.round_bf16(right))
    out[3, 7] = value
    bad = checks_of.StepJudge(inputs_of, SPEC, "").wrong(out)
    assert bool(bad[3, 7]) == (str(float(right[3, 7])) not in kinds)
    assert int(bad.sum()) == int(bad[3, 7])


def test_zero_has_the_sign_of_the_sum_that_rounds_to_it():
    def change(out=None, q=None, **_):
        if out is not None:
            out.add_(0.0)  # -0 + 0 is 0
        else:
            codes = q.view(torch.uint8)
            codes[codes == 0x80] = 0

    assert checks(tampered(change, "golden_tiny")) == {(1, "exact"), (2, "golden-codes")}


def test_blocks_with_nan_are_reported_not_judged():
    def change(out=None, q=None, **_):
        if out is not None:
            out[0, 0] = torch.nan
        if q is not None:
            q.view(torch.uint8)[0, :32] = 0x55

    judgement = tampered(change)
    assert judgement.unjudged_blocks == 1
    assert checks(judgement) == {(1, "interval")}


def test_golden_bytes_do_not_depend_on_the_kernels_own_output():
    """Both forms wrong alike: only what the input fixes can tell in layer 2."""
    wrong = honest.build(project=lambda x, w: honest.project(x, w) * 2)
    for family, expected in (("normal", set()), ("golden_spread", {"golden-scales"})):
        inputs_of = given(family)
        judgement = compare.judge(inputs_of, harness.run(wrong, inputs_of), SPEC)
        assert {f.check for f in judgement.findings if f.layer == 2} == expected


@pytest.mark.parametrize("launch", [0, 1])
@pytest.mark.parametrize("name", ["out", "q", "scales"])
def test_each_launch_of_a_nondeterministic_kernel_is_judged(name, launch):
    claims = replace(SPEC, claims=frozenset({"nondeterministic"}))
    calls = iter(range(100))

    def change(**outputs):
        if name in outputs and next(calls) == launch:
            outputs[name].view(torch.uint8).view(-1)[0] ^= 2

    assert checks(tampered(change, "integers", claims))


def test_sign_of_a_zero_sum_is_left_to_the_accumulator():
    def change(q=None, **_):
        if q is not None:
            codes = q.view(torch.uint8)
            codes[codes == 0] = 0x80

    found = {check for _, check in checks(tampered(change, "golden_zeros"))}
    assert found == {"codes"}, "its own BF16 output has +0, but no golden byte says which"


def test_use_is_the_share_of_the_accumulation_bound():
    bound = reference("cancellation")
    for share in (0.25, 0.75):
        shifted = formats.as_bf16(formats.round_bf16(bound.value + share * bound.bound))

        def change(out=None, shifted=shifted, **_):
            if out is not None:
                out.copy_(shifted)

        judgement = tampered(change, "cancellation")
        assert {f.check for f in judgement.findings} <= {"codes", "scales"}
        assert judgement.use == pytest.approx(share, abs=0.1)


def test_declared_arithmetic_names_its_tier_and_narrows_the_bound():
    declared = replace(SPEC, arithmetic=cases.Arithmetic(k_step=16, splits=8, rounding="truncate"))
    assert tampered(lambda **_: None, "positive", declared).tier == "declared"
    narrow = checks_of.StepJudge(given("positive"), declared, "").reference
    assert (narrow.bound < reference("positive").bound).all()


@pytest.mark.parametrize(("live", "says"), [(1, False), (64, True)])
def test_zeros_say_nothing_of_an_output_that_is_next_to_nothing_else(live, says):
    out = torch.zeros(8, 256, dtype=torch.bfloat16)
    out.view(-1)[:live] = 1
    launch = Launch("bf16", 0, {"out": out}, {}, (), None, 0.0)
    _, share = compare._spoilt(launch, compare.JUNK["zeros"])
    assert (share > 0.5) == says
