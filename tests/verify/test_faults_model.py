"""The model that faults are planted in is itself right: against plain loops and published bytes."""

from __future__ import annotations

from fractions import Fraction

import ml_dtypes
import numpy as np
import pytest
import torch

from verify.faults.model import BLOCK, Model

HEAD_DIM, ROPE_DIM = 8, 4


def given(tokens=3, *, groups=2, rank=32, heads=2, length=7):
    random = torch.Generator().manual_seed(0)
    x = torch.randn(tokens, groups, heads * HEAD_DIM, generator=random).bfloat16()
    weight = torch.randn(groups, rank, heads * HEAD_DIM, generator=random).bfloat16()
    table = torch.randn(length, ROPE_DIM, generator=random)
    positions = torch.randint(0, length, (tokens,), generator=random)
    return x, weight, table, positions


def empty(tokens, columns):
    q = torch.full((tokens, columns), 0xA5, dtype=torch.uint8).view(torch.float8_e4m3fn)
    return q, torch.full((128 * -(-columns // 128) * 4,), 0xA5, dtype=torch.uint8)


def by_hand(x, weight, table, positions):
    """Each output as an exact fraction, the rotation rounded as the contract says."""
    tokens, groups, width = x.shape
    rows = []
    for t in range(tokens):
        row = []
        for g in range(groups):
            values = x[t, g].float().numpy().copy()
            for start in range(HEAD_DIM - ROPE_DIM, width, HEAD_DIM):
                for pair in range(ROPE_DIM // 2):
                    cos, sin = table[positions[t], 2 * pair : 2 * pair + 2].numpy()
                    at = start + 2 * pair
                    re, im = values[at], values[at + 1]
                    values[at] = np.float32(re * cos) + np.float32(im * sin)
                    values[at + 1] = np.float32(im * cos) - np.float32(re * sin)
            rotated = values.astype(ml_dtypes.bfloat16).astype(np.float64)
            for r in range(weight.shape[1]):
                terms = zip(rotated, weight[g, r].tolist(), strict=True)
                row.append(float(sum(Fraction(a) * Fraction(b) for a, b in terms)))
        rows.append(row)
    return torch.tensor(rows, dtype=torch.float64)


@pytest.mark.parametrize("tokens", [1, 3, 17])
def test_bf16_form_is_the_rounded_sum(tokens):
    inputs = given(tokens)
    y = torch.empty(tokens, 64, dtype=torch.bfloat16)
    Model()(*inputs, head_dim=HEAD_DIM, out=y)
    exact = by_hand(*inputs)
    unit = torch.ldexp(torch.ones_like(exact), torch.frexp(exact).exponent - 8)
    assert ((y.double() - exact).abs() <= unit * 0.5000001 + 1e-5).all()


def through_identity(values):
    """Codes and the padded scale matrix of BF16 [T, 32], copied through one-hot weights."""
    q, scales = empty(*values.shape)
    Model()(
        values[:, None].contiguous(),
        torch.eye(BLOCK, dtype=torch.bfloat16)[None],
        torch.tensor([[1.0, 0.0]]),
        torch.zeros(len(values), dtype=torch.int32),
        head_dim=BLOCK,
        q=q,
        scales=scales,
    )
    return q.view(torch.uint8), scales.view(32, 4, 4).permute(1, 0, 2).reshape(128, 4)


def test_scale_bytes_are_the_smallest_that_hold_the_block_exact():
    patterns = torch.arange(0x7F80, dtype=torch.int16)
    amax = patterns.view(torch.bfloat16)
    model = Model()
    byte = model.scale(amax.double()).tolist()
    for value, s in zip(amax.double().tolist(), byte, strict=True):
        assert Fraction(value) <= 448 * Fraction(2) ** (s - 127), (value, s)
        assert s == 0 or Fraction(value) > 448 * Fraction(2) ** (s - 128), (value, s)


def test_codes_are_the_nearest_e4m3_of_every_bf16_up_to_448_exact():
    patterns = torch.arange(0x10000).to(torch.int16).view(torch.bfloat16).double()
    values = patterns[patterns.abs() <= 448]
    expected = values.numpy().astype(np.float32).astype(ml_dtypes.float8_e4m3fn).view(np.uint8)
    assert (Model().encode(values).numpy() == expected).all()


def test_bytes_of_named_blocks_exact():
    blocks = torch.zeros(4, 1, BLOCK)
    blocks[1, 0, :3] = torch.tensor([448.0, -1.0, 2.0**-12])
    blocks[2, 0, :2] = torch.tensor([450.0, 1.0])
    blocks[3, 0, :] = 2.0**-126
    q, scales = through_identity(blocks.flatten(1).bfloat16())
    assert scales[:4, 0].tolist() == [0, 127, 128, 0]
    assert q[1, :4].tolist() == [0x7E, 0xB8, 0x00, 0x00]
    assert q[2, :2].tolist() == [0x76, 0x30]
    assert q[3].unique().tolist() == [0x40]
    assert not scales[4:].any()
    assert not scales[:, 1:].any()


def test_swizzle_is_a_bijection_that_the_view_undoes():
    offsets = Model().offsets(256, 8)
    assert offsets.flatten().sort().values.tolist() == list(range(256 * 8))
    flat = torch.empty(256 * 8, dtype=torch.int64)
    flat[offsets] = torch.arange(256 * 8).view(256, 8)
    tiles = flat.view(2, 2, 32, 4, 4).permute(0, 3, 2, 1, 4).reshape(256, 8)
    assert torch.equal(tiles, torch.arange(256 * 8).view(256, 8))


def test_a_row_does_not_depend_on_the_rows_beside_it():
    x, weight, table, positions = given(32, rank=64)
    all_rows = torch.empty(32, 128, dtype=torch.bfloat16)
    Model()(x, weight, table, positions, head_dim=HEAD_DIM, out=all_rows)
    for row in (0, 13, 31):
        alone = torch.empty(1, 128, dtype=torch.bfloat16)
        one = slice(row, row + 1)
        Model()(x[one], weight, table, positions[one], head_dim=HEAD_DIM, out=alone)
        assert torch.equal(alone[0], all_rows[row])


@pytest.mark.parametrize(
    ("rule", "change"),
    [
        ("T", lambda a: a | {"x": a["x"][:0], "positions": a["positions"][:0]}),
        ("x is BF16", lambda a: a | {"x": a["x"].half()}),
        ("strides", lambda a: a | {"x": a["x"].transpose(1, 2).contiguous().transpose(1, 2)}),
        ("positions lie", lambda a: a | {"positions": a["positions"] + 100}),
        ("positions are", lambda a: a | {"positions": a["positions"].float()}),
        ("cos_sin", lambda a: a | {"cos_sin": a["cos_sin"].double()}),
        ("either out", lambda a: a | {"out": None}),
        ("either", lambda a: a | {"q": empty(3, 64)[0], "scales": empty(3, 64)[1]}),
        ("out is", lambda a: a | {"out": a["out"][:2]}),
    ],
)
def test_refuses_before_it_writes(rule, change):
    x, weight, table, positions = given()
    out = torch.full((3, 64), 7.0, dtype=torch.bfloat16)
    arguments = {"x": x, "weight": weight, "cos_sin": table, "positions": positions, "out": out}
    with pytest.raises(ValueError, match=rule):
        Model()(**change(arguments), head_dim=HEAD_DIM)
    assert (out == 7).all()
