from __future__ import annotations

import math

import pytest
import torch

from kernel import rope
from verify import cases, formats, inputs, oracle
from verify.cases import KernelSpec
from verify.inputs import tables

SMALL = cases.reduced(KernelSpec())
EXACT = [name for name, family in cases.FAMILIES.items() if family.exact]


def a_case(family, tokens=13, spec=SMALL, positions=None, table=None, **axes):
    kind = cases.FAMILIES[family]
    return cases.place(
        spec,
        layout=axes.pop("layout", 0),
        family=family,
        tokens=tokens,
        table=table or kind.tables[0],
        positions=positions or kind.positions[0],
        index=axes.pop("index", "int32"),
        **axes,
    )


def same(one, other):
    return (
        torch.equal(one.x.view(torch.int16), other.x.view(torch.int16))
        and torch.equal(one.weight.bf16, other.weight.bf16)
        and torch.equal(one.positions, other.positions)
    )


@pytest.mark.parametrize("family", cases.FAMILIES)
def test_case_and_seed_fix_every_byte_whatever_was_drawn_before(family):
    case = a_case(family)
    first = inputs.make(case, seed=3)
    torch.randn(17)
    inputs.make(a_case("normal", tokens=5), seed=1)
    assert same(first, inputs.make(case, seed=3))
    assert not torch.equal(first.x, inputs.make(case, seed=4).x)
    again = a_case(family, draw=1)
    assert not torch.equal(first.x, inputs.make(again, seed=3).x)
    assert first.x.shape == (13, 2, 1024)
    assert first.x.isfinite().all() or family == "specials"
    assert first.weight.bf16.isfinite().all()


@pytest.mark.parametrize("heads", [1, 2, 3, 8])
@pytest.mark.parametrize("family", EXACT)
def test_exact_families_have_one_sum_in_every_order(family, heads):
    """FP32 sums of shuffled terms, in one and in 7 parts, equal the FP64 sum bit by bit."""
    spec = KernelSpec(2, 32, heads * 64, head_dim=64, rope_dim=16)
    given = inputs.make(a_case(family, spec=spec, tokens=8))
    rotated = oracle.rotate(given.x, given.table.cos_sin, given.positions, 64)
    exact = oracle.reference(rotated, given.weight, 0.0, exact=True).value
    order = torch.randperm(heads * 64, generator=torch.Generator().manual_seed(0))
    x = rotated.value[..., order].float()
    weight = given.weight.bf16[..., order].float()
    for parts in (1, 7):
        total = torch.zeros(8, 2, 32)
        for chunk in order.argsort().chunk(parts):
            partial = torch.zeros(8, 2, 32)
            for k in chunk.tolist():
                partial = partial + x[:, :, k, None] * weight[:, :, k]
            total = total + partial
        assert torch.equal(total.flatten(1).double(), exact)


@pytest.mark.parametrize("k", [64, 4096, 8192, 65536])
def test_wide_integers_use_24_bits_and_no_more(k):
    most = inputs.weights.wide_weight(k) * inputs.weights.WIDE_ACTIVATION * k
    assert most < 2**24
    assert k < 4096 or most > 2**23 / 2 or inputs.weights.wide_weight(k) == 1


def test_wide_integers_do_not_fit_into_bf16_or_fp16_partial_sums():
    given = inputs.make(a_case("wide_integers"))
    rotated = oracle.rotate(given.x, given.table.cos_sin, given.positions, 512).value
    half = torch.einsum("tgk,grk->tgr", rotated[..., :512], given.weight.wide[..., :512])
    assert (formats.round_bf16(half) != half).double().mean() > 0.9
    assert (half.abs() > 2048).any()  # where FP16 stops holding every integer


def test_cancelling_families_cancel():
    for family in ("cancellation", "cancelling_integers"):
        given = inputs.make(a_case(family))
        rotated = oracle.rotate(given.x, given.table.cos_sin, given.positions, 512)
        total = oracle.reference(rotated, given.weight, 1.0).value.abs().mean()
        half = torch.einsum("tgk,grk->tgr", rotated.value[..., :512], given.weight.wide[..., :512])
        assert half.abs().mean() > 20 * total


@pytest.mark.parametrize(
    ("columns", "least", "most"), [(512, 2**19.5, 2**21), (2048, 2**21.5, 2**23), (4096, 0, 2**12)]
)
def test_partial_sums_of_integers_grow_before_they_cancel(columns, least, most):
    """No accumulator of one head does with 19 bits, none of all eight with 21."""
    given = inputs.make(a_case("cancelling_integers", spec=KernelSpec(2, 96, 4096)))
    rotated = oracle.rotate(given.x, given.table.cos_sin, given.positions, 512).value[..., :columns]
    sums = torch.einsum("tgk,grk->tgr", rotated, given.weight.wide[..., :columns])
    assert least < sums.abs().median() < most


@pytest.mark.parametrize("operand", ["x", "weight"])
def test_a_multiplier_that_loses_one_subnormal_operand_is_seen(operand):
    given = inputs.make(a_case("golden_subnormal"))
    rotated, plain = given._rotated, given.weight
    right = oracle.reference(rotated, plain, 0.0, exact=True).value
    if operand == "x":
        rotated = oracle.Rotated(formats.flush(rotated.value), rotated.slack)
    lossy = oracle.reference(rotated, plain.flushed if operand == "weight" else plain, 0.0)
    flushed = oracle.flushed_reference(given._rotated, given.weight, 0.0, exact=True).value
    assert not torch.equal(lossy.value, right)
    assert not torch.equal(formats.round_bf16(lossy.value), formats.round_bf16(flushed))


def test_rows_and_whole_launches_of_zeros_are_asked():
    empty = [
        (inputs.make(a_case("golden_zeros", tokens=9, draw=draw)).x == 0).flatten(1).all(1)
        for draw in range(6)
    ]
    assert all(rows.any() for rows in empty)
    assert [bool(rows.all()) for rows in empty] == [False] * 5 + [True]


def test_inf_meets_a_weight_of_zero():
    given = inputs.make(a_case("specials"))
    [row, group, column] = given.x.isinf().nonzero()[0].tolist()
    nan = oracle.reference(given._rotated, given.weight, 1.0).value[row].view(2, -1)[group].isnan()
    if column % 512 < 448:  # a rotation would spread it
        assert torch.equal(nan & (given.weight.bf16[group, :, column] == 0), nan)
    assert 0 < int(nan.sum()) < len(nan)


@pytest.mark.parametrize(
    ("kind", "theirs"), [("plain", rope.plain_table), ("yarn", rope.yarn_table)]
)
def test_tables_agree_with_the_kernels_own_where_fp32_angles_are_accurate(kind, theirs):
    """Made in FP64 here and in FP32 there: angles differ by position * 2^-24 or so."""
    ours = tables.table(kind, 4096, 64, 0, torch.device("cpu")).cos_sin
    assert ours.dtype == torch.float32
    gap = (ours - theirs(4096, 64)).abs().amax(dim=1)
    assert (gap <= 2.0**-22 * (torch.arange(4096) + 4)).all()
    assert (ours[:, 0::2] ** 2 + ours[:, 1::2] ** 2 - 1).abs().max() < 1e-6


def test_yarn_frequencies_against_published_figures():
    """Base 160000, length 65536: the ramp runs from pair 15 to pair 25 (DeepSeek-V4.1)."""
    yarn = inputs.tables.inverse_frequencies("yarn", 64)
    bare = [160000.0 ** (-2 * i / 64) for i in range(32)]
    assert yarn[:16] == pytest.approx(bare[:16], rel=1e-15)
    assert yarn[25:] == pytest.approx([f / 16 for f in bare[25:]], rel=1e-15)
    assert all(f / 16 < y < f for y, f in zip(yarn[16:25], bare[16:25], strict=True))
    assert inputs.tables.inverse_frequencies("plain", 64)[16] == pytest.approx(0.01)


@pytest.mark.parametrize("kind", ["plain", "yarn", "quarter"])
def test_row_zero_rotates_nothing(kind):
    row = tables.table(kind, 4096, 64, 0, torch.device("cpu")).cos_sin[0]
    assert torch.equal(row, torch.tensor([1.0, 0.0] * 32))


def test_quarter_turns_are_exact_and_differ_by_position_and_pair():
    table = tables.table("quarter", 4096, 64, 0, torch.device("cpu")).cos_sin
    assert set(table.unique().tolist()) == {-1.0, 0.0, 1.0}
    assert (table[:, 0::2].abs() + table[:, 1::2].abs() == 1).all()
    assert (table[1:] != table[:-1]).any(dim=1).all()


@pytest.mark.parametrize("index", ["int32", "int64"])
def test_positions_reach_the_end_and_past_every_short_integer(index):
    given = inputs.make(a_case("normal", tokens=32, positions="long", index=index))
    length = len(given.table.cos_sin)
    positions = given.positions.tolist()
    assert given.positions.dtype == getattr(torch, index)
    assert {0, 1, length - 1, 2**15, 2**16, 2**17} <= set(positions)
    assert min(positions) >= 0
    assert length > 2**17


def test_position_patterns():
    repeated = inputs.make(a_case("normal", tokens=32, positions="repeated")).positions
    assert len(repeated.unique()) <= 10
    assert not inputs.make(a_case("golden_codes", tokens=32)).positions.any()
    single = {
        int(inputs.make(a_case("normal", tokens=1, positions="long", draw=d)).positions)
        for d in range(40)
    }
    assert len(single) > 4, "one row alone must meet the marked positions, too"


def golden(family, tokens=32, draw=0):
    given = inputs.make(a_case(family, tokens=tokens, draw=draw))
    rotated = oracle.rotate(given.x, given.table.cos_sin, given.positions, 512)
    exact = oracle.reference(rotated, given.weight, 0.0, exact=True).value
    return formats.as_bf16(formats.round_bf16(exact))


def test_one_hot_weights_copy_chosen_columns():
    given = inputs.make(a_case("golden_spread"))
    columns = inputs.weights.chosen(inputs.activations.shape_of(given.case))
    assert len(columns.unique()) == 96
    assert torch.equal(golden("golden_spread", 13), given.x[:, :, columns].flatten(1))


def test_spread_gives_neighbours_different_scale_bytes():
    scales = oracle.quantise(golden("golden_spread")).scales.int()
    assert len(scales.unique()) > 100
    assert (scales[1:] != scales[:-1]).all()
    assert (scales[:, 1:] != scales[:, :-1]).all()


def test_codes_family_asks_every_code_and_ties():
    quantised = oracle.quantise(golden("golden_codes"))
    assert len(quantised.codes.unique()) == 254


def test_edges_meet_each_kind_of_block_maximum_in_every_lane():
    y = golden("golden_edges").double().view(-1, 32)
    amax, lanes = y.abs().max(dim=1)
    significand = amax / formats.power_of_two(formats.exponent_of(amax))
    assert {128, 223, 224, 225, 255} <= set((significand * 128).tolist())
    assert len(lanes.unique()) == 32
    signed = y[torch.arange(len(y)), lanes]
    assert (signed < 0).any()
    assert (signed > 0).any()


def test_zero_blocks_and_lone_elements_in_every_lane():
    blocks = golden("golden_zeros").view(-1, 32)
    count = (blocks != 0).sum(dim=1)
    assert {0, 1, 32} <= set(count.tolist())
    alone = blocks[count == 1]
    assert len((alone != 0).int().argmax(dim=1).unique()) > 24


def test_subnormal_family_reaches_scale_byte_zero_from_both_sides():
    y = golden("golden_subnormal")
    scales = oracle.quantise(y).scales
    assert (scales == 0).any()
    assert (scales > 0).any()
    assert y.abs().double().min() <= 2.0**-130


def test_tiny_sums_round_to_both_zeros_and_to_the_first_step():
    y = golden("golden_tiny")
    bits = formats.bf16_bits(y)
    assert {0x0000, 0x8000, 0x0001, 0x8001} <= set(bits.unique().tolist())


def test_sweep_of_a_full_launch_holds_every_finite_bf16_value():
    case = a_case("golden_sweep", tokens=32, spec=KernelSpec())
    given = inputs.make(case)
    columns = inputs.weights.chosen(inputs.activations.shape_of(case))
    bits = formats.bf16_bits(given.x[:, :, columns]).unique()
    assert len(bits) == 2 * 0x7F80


def test_residual_cancels_the_rotation():
    for table in ("plain", "yarn"):
        given = inputs.make(a_case("residual", table=table, positions="long"))
        rotated = oracle.rotate(given.x, given.table.cos_sin, given.positions, 512)
        reference = oracle.reference(rotated, given.weight, 1.0)
        assert not reference.value.any()
        unrounded = given.x.double().clone()
        assert not torch.equal(unrounded, rotated.value)


def test_rotated_asks_mostly_every_rotated_column():
    given = inputs.make(a_case("rotated", spec=KernelSpec()))
    used = given.weight.bf16.any(dim=1)
    tail = torch.arange(4096) % 512 >= 448
    assert torch.equal(used[0], tail)
    assert torch.equal(used[1], tail)
    assert math.isclose(given.weight.bf16.float().sum().item(), 2048)
