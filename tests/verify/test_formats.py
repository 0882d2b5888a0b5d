from __future__ import annotations

from fractions import Fraction

import ml_dtypes
import numpy as np
import pytest
import torch

from verify import formats

CPU = torch.device("cpu")
ALL_BITS = torch.arange(0x10000)
ALL_BF16 = formats.bf16_from_bits(ALL_BITS)
FINITE = ALL_BF16[ALL_BF16.isfinite()]


def test_every_e4m3_code_exact():
    theirs = np.arange(256, dtype=np.uint8).view(ml_dtypes.float8_e4m3fn).astype(np.float64)
    ours = formats.e4m3_values(CPU).numpy()
    assert np.array_equal(
        ours.view(np.int64)[~np.isnan(ours)], theirs.view(np.int64)[~np.isnan(theirs)]
    )
    assert np.flatnonzero(np.isnan(ours)).tolist() == [0x7F, 0xFF]


def test_every_e8m0_byte_exact():
    values = formats.e8m0_values(CPU).tolist()
    assert [Fraction(v) for v in values[:255]] == [Fraction(2) ** (b - 127) for b in range(255)]
    assert values[255] != values[255]


def test_bf16_values_round_to_themselves_and_keep_their_bits():
    wide = ALL_BF16.to(torch.float64)
    again = formats.as_bf16(formats.round_bf16(wide))
    numbers = ~ALL_BF16.isnan()
    assert torch.equal(formats.bf16_bits(again)[numbers], ALL_BITS[numbers].int())
    assert again[~numbers].isnan().all()


def test_every_tie_rounds_to_even_and_no_rounding_happens_twice():
    """A midpoint and the FP64 numbers beside it: FP32 in between would make ties of all three."""
    positive = torch.arange(0x7F80)
    low = formats.bf16_from_bits(positive).to(torch.float64)
    high = formats.ordinal_value(positive + 1)
    middle = (low + high) / 2
    even = torch.where(positive % 2 == 0, low, high)
    even[-1] = torch.inf  # the last tie is the overflow threshold
    above = high.clone()
    above[-1] = torch.inf
    for sign in (1.0, -1.0):
        assert torch.equal(formats.round_bf16(sign * middle), sign * even)
        up = torch.nextafter(middle, torch.full_like(middle, torch.inf))
        down = torch.nextafter(middle, torch.zeros_like(middle))
        assert torch.equal(formats.round_bf16(sign * up), sign * above)
        assert torch.equal(formats.round_bf16(sign * down), sign * low)


def test_rounding_agrees_with_ml_dtypes_on_random_fp32_bits():
    bits = np.random.default_rng(0).integers(0, 2**32, 200_000, dtype=np.uint32)
    values = bits.view(np.float32)
    values = values[~np.isnan(values)]
    theirs = values.astype(ml_dtypes.bfloat16).view(np.uint16).astype(np.int32)
    ours = formats.as_bf16(formats.round_bf16(torch.from_numpy(values).double()))
    assert np.array_equal(formats.bf16_bits(ours).numpy(), theirs)


def test_ordinals_follow_the_order_of_values():
    ordinal = formats.bf16_ordinal(FINITE).long()
    order = ordinal.argsort(stable=True)
    assert (FINITE[order].double().diff() >= 0).all()
    steps = ordinal[order].diff()
    assert steps.max() == 1
    assert (steps == 0).sum() == 1  # the two zeros
    assert torch.equal(formats.ordinal_value(ordinal), FINITE.double())


def test_rounding_interval_holds_what_rounds_to_the_value_and_no_more():
    low, high = formats.rounding_interval(FINITE)
    wide = FINITE.double()
    inside_low = torch.nextafter(low, high)
    inside_high = torch.nextafter(high, low)
    assert torch.equal(formats.round_bf16(inside_low), wide)
    assert torch.equal(formats.round_bf16(inside_high), wide)
    assert (formats.round_bf16(torch.nextafter(low, torch.full_like(low, -torch.inf))) < wide).all()
    assert (
        formats.round_bf16(torch.nextafter(high, torch.full_like(high, torch.inf))) > wide
    ).all()


@pytest.mark.parametrize("exponent", [-9, -3, 0, 4])
def test_every_bf16_value_gets_the_code_of_ml_dtypes_where_that_is_finite(exponent):
    """ml_dtypes overflows to NaN where the contract saturates, hence the limit at 464."""
    values = FINITE.double() * 2.0**exponent
    values = values[values.abs() < 464]
    theirs = values.numpy().astype(ml_dtypes.float8_e4m3fn).view(np.uint8)
    assert np.array_equal(formats.e4m3_codes(values).numpy(), theirs)


@pytest.mark.parametrize(
    ("value", "code"),
    [
        (0.0, 0x00),
        (-0.0, 0x80),
        (448.0, 0x7E),
        (464.0, 0x7E),
        (1e30, 0x7E),
        (-1e30, 0xFE),
        (float("inf"), 0x7E),
        (float("-inf"), 0xFE),
        (float("nan"), 0x7F),
        (2.0**-10, 0x00),  # a tie between 0 and the smallest code: to the even one
        (2.0**-10 * (1 + 2.0**-50), 0x01),
        (1.5 * 2.0**-9, 0x02),  # a tie between codes 1 and 2
        (1.0625, 0x38),  # a tie between 1 and 1.125
        (1.1875, 0x3A),  # a tie between 1.125 and 1.25
    ],
)
def test_codes_of_special_values(value, code):
    assert formats.e4m3_codes(torch.tensor([value], dtype=torch.float64)).item() == code


def test_powers_of_two_over_the_whole_range():
    exponents = torch.arange(-1022, 1024)
    powers = formats.power_of_two(exponents)
    assert [Fraction(p) for p in powers.tolist()] == [Fraction(2) ** e for e in exponents.tolist()]
    assert torch.equal(formats.exponent_of(powers), exponents)
