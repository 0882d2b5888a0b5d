from __future__ import annotations

import math
from fractions import Fraction

import pytest
import torch

from verify import formats, oracle

U = oracle.UNIT


def bf16(values):
    return torch.tensor(values, dtype=torch.float64).to(torch.bfloat16)


def exact_scale_byte(amax: Fraction) -> int:
    """ceil(log2(amax / 448)) + 127 in integers, clamped: the contract, word for word."""
    if amax == 0:
        return 0
    ratio = amax / 448
    exponent = ratio.numerator.bit_length() - ratio.denominator.bit_length() - 1
    while Fraction(2) ** exponent < ratio:
        exponent += 1
    return min(max(exponent + 127, 0), 254)


def test_scale_byte_of_every_block_maximum_exact():
    amax = formats.bf16_from_bits(torch.arange(0x7F80))
    y = torch.zeros(len(amax), oracle.BLOCK, dtype=torch.bfloat16)
    y[torch.arange(len(amax)), torch.arange(len(amax)) % 32] = amax
    scales = oracle.quantise(y).scales[:, 0].tolist()
    assert scales == [exact_scale_byte(Fraction(a)) for a in amax.double().tolist()]


@pytest.mark.parametrize(
    ("lanes", "byte", "codes"),
    [
        ([0.0], 0, [0x00]),
        ([448.0], 127, [0x7E]),
        ([450.0, 1.0], 128, [0x76, 0x30]),
        ([1.0, -0.0], 119, [0x78, 0x80]),
        ([2.0**-126], 0, [0x40]),
        ([2.0**-133], 0, [0x08]),
        ([255 * 2.0**120], 247, [0x78]),
        ([-448.0 * 2.0**100, 2.0**100], 227, [0xFE, 0x38]),
    ],
)
def test_named_blocks(lanes, byte, codes):
    block = torch.zeros(1, 32, dtype=torch.bfloat16)
    block[0, : len(lanes)] = bf16(lanes)
    quantised = oracle.quantise(block)
    assert quantised.scales.item() == byte
    assert quantised.codes[0, : len(lanes)].tolist() == codes
    assert (quantised.codes[0, len(lanes) :] == 0).all()


@pytest.mark.parametrize("special", [math.nan, math.inf, -math.inf])
def test_blocks_with_specials_are_not_judged(special):
    y = torch.ones(2, 64, dtype=torch.bfloat16)
    y[1, 40] = special
    assert oracle.quantise(y).judged.tolist() == [[True, True], [True, False]]


@pytest.mark.parametrize(("rows", "columns"), [(1, 1), (32, 64), (17, 6), (128, 4), (300, 9)])
def test_swizzle_puts_each_byte_where_the_formula_says_and_zero_elsewhere(rows, columns):
    scales = torch.arange(1, rows * columns + 1).view(rows, columns)
    flat = oracle.swizzle(scales)
    assert len(flat) == oracle.scale_bytes(rows, 32 * columns)
    column_tiles = -(-columns // 4)
    for r in range(rows):
        for b in range(columns):
            tile = (r // 128) * column_tiles + b // 4
            offset = tile * 512 + (r % 32) * 16 + (r % 128) // 32 * 4 + b % 4
            assert flat[offset] == scales[r, b]
    assert (flat != 0).sum() == rows * columns


def rotation_case(tokens=64, head_dim=16, rope_dim=8, seed=0):
    random = torch.Generator().manual_seed(seed)
    x = torch.randn(tokens, 2, 4 * head_dim, generator=random).to(torch.bfloat16)
    angles = 7 * torch.rand(100, rope_dim // 2, generator=random)
    table = torch.stack((angles.cos(), angles.sin()), dim=2).flatten(1)
    positions = torch.randint(0, 100, (tokens,), generator=random)
    return x, table, positions


def test_rotation_is_multiplication_by_the_conjugate():
    x, table, positions = rotation_case()
    rotated = oracle.rotate(x, table, positions, 16).value.view(64, 2, 4, 16)
    heads = x.double().view(64, 2, 4, 16)
    assert torch.equal(rotated[..., :8], heads[..., :8])
    pairs = torch.view_as_complex(heads[..., 8:].unflatten(-1, (4, 2)).contiguous())
    turn = torch.view_as_complex(table[positions].double().unflatten(-1, (4, 2)).contiguous())
    expected = torch.view_as_real(pairs * turn.conj()[:, None, None]).flatten(-2)
    error = (rotated[..., 8:] - expected).abs()
    assert (error <= 2.0**-8 * expected.abs() + 2.0**-40).all()  # one rounding to BF16


def test_both_fp32_roundings_of_the_rotation_lie_within_the_slack():
    """With and without FMA; where the two differ there must be slack, and mostly there is none."""
    x, table, positions = rotation_case(tokens=4096)
    rotated = oracle.rotate(x, table, positions, 16)
    value = rotated.value.view(4096, 2, 4, 16)[..., 8:]
    slack = rotated.slack.view(4096, 2, 4, 16)[..., 8:]
    tail = x.view(4096, 2, 4, 16)[..., 8:].double()
    row = table[positions].double()[:, None, None]
    re, im, cos, sin = tail[..., 0::2], tail[..., 1::2], row[..., 0::2], row[..., 1::2]
    f32 = torch.Tensor.float
    for kind, real, imaginary in (
        ("plain", f32(f32(re * cos) + f32(im * sin)), f32(f32(im * cos) - f32(re * sin))),
        ("first fused", f32(re * cos + f32(im * sin)), f32(im * cos - f32(re * sin))),
        ("second fused", f32(f32(re * cos) + im * sin), f32(f32(im * cos) - re * sin)),
    ):
        computed = torch.stack((real, imaginary), dim=-1).flatten(-2).bfloat16().double()
        off = (computed - value).abs()
        assert (off <= slack).all(), kind
        assert (off > 0).any(), f"{kind}: the case shows nothing"
    assert (slack > 0).double().mean() < 1e-3


def test_no_rotation_no_slack():
    x, table, positions = rotation_case()
    table[0, 0::2], table[0, 1::2] = 1.0, 0.0
    rotated = oracle.rotate(x, table, torch.zeros_like(positions), 16)
    assert torch.equal(rotated.value, x.double())
    assert not rotated.slack.any()


def product_case(seed=0, *, positive=False):
    random = torch.Generator().manual_seed(seed)
    draw = torch.rand if positive else torch.randn
    x = draw(8, 2, 512, generator=random).to(torch.bfloat16).double()
    weight = oracle.Weight(draw(2, 32, 512, generator=random).to(torch.bfloat16))
    return oracle.Rotated(x, torch.zeros_like(x)), weight


def test_value_is_the_exact_sum():
    rotated, weight = product_case()
    reference = oracle.reference(rotated, weight, 1.0)
    for t, n in ((0, 0), (3, 17), (7, 63)):
        group, row = divmod(n, 32)
        terms = zip(
            rotated.value[t, group].tolist(), weight.bf16[group, row].double().tolist(), strict=True
        )
        exact = sum(Fraction(a) * Fraction(b) for a, b in terms)
        assert abs(Fraction(reference.value[t, n].item()) - exact) <= Fraction(2) ** -45


@pytest.mark.parametrize("positive", [False, True])
def test_fp32_sums_in_any_order_keep_the_bound_of_their_roundings(positive):
    rotated, weight = product_case(positive=positive)
    reference = oracle.reference(rotated, weight, 511.0)
    random = torch.Generator().manual_seed(1)
    for _ in range(5):
        order = torch.randperm(512, generator=random)
        total = torch.zeros(8, 2, 32)
        for k in order.tolist():
            term = rotated.value[:, :, k].float()[:, :, None] * weight.bf16[:, :, k].float()
            total = total + term
        error = (total.flatten(1).double() - reference.value).abs()
        assert (error <= reference.bound).all()
        assert (error > 0).any()


def test_bound_grows_with_c_and_slack_and_never_falls_to_zero():
    rotated, weight = product_case()
    one, two = (oracle.reference(rotated, weight, c).bound for c in (100.0, 200.0))
    assert ((two / one - 2).abs() < 1e-6).all()
    slack = torch.zeros_like(rotated.value)
    slack[0, 0, 5] = 2.0**-8
    loose = oracle.reference(oracle.Rotated(rotated.value, slack), weight, 100.0)
    assert torch.equal(loose.bound[1:], one[1:])
    assert torch.equal(loose.bound[0, 32:], one[0, 32:])
    added = (loose.bound - one)[0, :32]
    assert ((added / (weight.magnitude[0, :, 5].double() * 2.0**-8) - 1).abs() < 0.01).all()
    zero = oracle.Rotated(torch.zeros_like(rotated.value), torch.zeros_like(rotated.value))
    assert (oracle.reference(zero, weight, 1.0).bound == 512 * 2.0**-149).all()


def test_exact_reference_refuses_a_rotation_that_may_round_two_ways():
    rotated, weight = product_case()
    assert not oracle.reference(rotated, weight, 0.0, exact=True).bound.any()
    loose = oracle.Rotated(rotated.value, torch.ones_like(rotated.value))
    with pytest.raises(ValueError, match="round two ways"):
        oracle.reference(loose, weight, 0.0, exact=True)


def test_sums_beyond_fp32_bound_nothing():
    value = torch.full((1, 1, 64), 2.0**120, dtype=torch.float64)
    weight = oracle.Weight(torch.full((1, 32, 64), 2.0**10, dtype=torch.bfloat16))
    rotated = oracle.Rotated(value, torch.zeros_like(value))
    assert oracle.reference(rotated, weight, 1.0).bound.isinf().all()
