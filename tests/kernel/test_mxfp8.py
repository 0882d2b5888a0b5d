"""MXFP8 against its definition in exact arithmetic, over whole domains."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
import torch

from kernel import mxfp8


def _e4m3_magnitudes() -> list[Fraction]:
    """Values of codes 0x00 to 0x7E by the format's definition: 4 bits of exponent, bias 7."""
    return [
        Fraction(code & 7, 8) * Fraction(2) ** -6
        if code < 8
        else (1 + Fraction(code & 7, 8)) * Fraction(2) ** ((code >> 3) - 7)
        for code in range(0x7F)
    ]


MAGNITUDES = _e4m3_magnitudes()


def _nearest_codes(values: np.ndarray) -> np.ndarray:
    """Codes of exact FP64 magnitudes at most 448: nearest, ties to the even code."""
    table = np.array([float(v) for v in MAGNITUDES])
    midpoints = (table[1:] + table[:-1]) / 2
    below = np.searchsorted(midpoints, values, side="left")  # a tie stays on the lower code
    above = np.searchsorted(midpoints, values, side="right")
    return np.where(below % 2 == 0, below, above)


def _bf16(bits: torch.Tensor) -> torch.Tensor:
    return bits.to(torch.int16).view(torch.bfloat16)


def test_largest_code_is_448():
    assert MAGNITUDES[-1] == 448


def test_scale_of_every_amax_exact(quantised):
    bits = torch.arange(0x7F80)
    blocks = torch.zeros(len(bits), 32, dtype=torch.bfloat16)
    blocks[:, 17] = -_bf16(bits)  # one negative lane decides, wherever it stands
    _, scales = quantised(blocks)
    found = scales[mxfp8.swizzle_offsets(len(bits), 1).flatten()]
    # amax runs upwards, so its exact scale does too: search from the last one
    expected, s = [], 0
    for value in _bf16(bits).double().tolist():
        while Fraction(value) > 448 * Fraction(2) ** (s - 127):
            s += 1
        expected.append(s)
    assert found.tolist() == expected


def test_code_of_every_value_in_a_uniform_block_exact(quantised):
    bits = torch.arange(0x10000)
    bits = bits[(bits & 0x7FFF) < 0x7F80]
    values = _bf16(bits)
    q, scales = quantised(values[:, None].expand(-1, 32).contiguous())
    assert (q == q[:, :1]).all()
    s = scales[mxfp8.swizzle_offsets(len(bits), 1).flatten()].double()
    codes = _nearest_codes((values.double().abs() * torch.exp2(127 - s)).numpy())
    assert q[:, 0].tolist() == (codes | (bits.numpy() >> 8 & 0x80)).tolist()


@pytest.mark.parametrize("first_scale", range(0, 248, 31))
def test_code_of_every_value_under_every_scale_exact(quantised, first_scale):
    """Values from 20 binades below the block's amax, so that every code is met."""
    for s in range(first_scale, first_scale + 31):
        largest = min(448 * 2.0 ** (s - 127), torch.finfo(torch.bfloat16).max)
        top = int(torch.tensor(largest).bfloat16().view(torch.int16))
        bits = torch.arange(max(top - 20 * 128, 0), top + 1)
        values = _bf16(bits)
        rows = -(-len(values) // 31)
        blocks = torch.zeros(rows * 31, dtype=torch.bfloat16)
        blocks[: len(values)] = values
        blocks = torch.cat([values[-1:].expand(rows)[:, None], blocks.view(rows, 31)], dim=1)
        q, scales = quantised(blocks)
        assert (scales[mxfp8.swizzle_offsets(rows, 1).flatten()] == s).all()
        exact = blocks.double() * 2.0 ** (127 - s)
        assert (q.numpy() == _nearest_codes(exact.numpy())).all()


@pytest.mark.parametrize(
    ("first", "rest", "expected"),
    [
        (0.0, 0.0, (0, 0x00, 0x00)),
        (-0.0, 0.0, (0, 0x80, 0x00)),
        (2.0**-126, 2.0**-126, (0, 0x40, 0x40)),
        (2.0**-133, 0.0, (0, 0x08, 0x00)),  # the smallest subnormal of BF16 is kept
        (5e-5, 5e-5, (104, 0x7D, 0x7D)),
        (448.0, 1.0, (127, 0x7E, 0x38)),
        (450.0, 1.0, (128, 0x76, 0x30)),
        (-450.0, 1.0, (128, 0xF6, 0x30)),
        (3.3895313892515355e38, 3.3895313892515355e38, (247, 0x78, 0x78)),
    ],
)
def test_named_blocks(quantised, first, rest, expected):
    block = torch.full((1, 32), rest).bfloat16()
    block[0, 0] = first
    q, scales = quantised(block)
    assert (scales[0], q[0, 0], q[0, 1]) == expected


@pytest.mark.parametrize("value", [torch.nan, torch.inf, -torch.inf])
def test_a_block_with_nan_or_inf_is_nan_and_its_neighbours_are_not(quantised, value):
    y = torch.ones(2, 96).bfloat16()
    y[1, 40] = value
    q, scales = quantised(y)
    offsets = mxfp8.swizzle_offsets(2, 3)
    assert scales[offsets].tolist() == [[119, 119, 119], [119, 255, 119]]
    assert (q[1, 32:64] == 0x7F).all()
    values = mxfp8.dequantise(q.view(torch.float8_e4m3fn), scales)
    assert values[1, 32:64].isnan().all()
    assert values[~values.isnan()].tolist() == [1.0] * (6 - 1) * 32


@pytest.mark.parametrize(
    ("rows", "columns", "size"),
    [(1, 2048, 8192), (32, 2048, 8192), (32, 4096, 16384), (128, 32, 512), (129, 160, 2048)],
)
def test_scale_bytes_are_padded_to_whole_tiles(rows, columns, size):
    assert mxfp8.scale_bytes(rows, columns) == size


@pytest.mark.parametrize(("rows", "block_columns"), [(1, 1), (32, 64), (128, 4), (300, 7)])
def test_swizzle_is_the_permuted_view_of_whole_tiles_exact(rows, block_columns):
    tiles = -(-rows // 128), -(-block_columns // 4)
    flat = torch.arange(tiles[0] * tiles[1] * 512)
    # [row tile, column tile, row % 32, row / 32, column], as the layout is published
    grid = flat.view(*tiles, 32, 4, 4).permute(0, 3, 2, 1, 4).reshape(tiles[0] * 128, tiles[1] * 4)
    assert torch.equal(mxfp8.swizzle_offsets(rows, block_columns), grid[:rows, :block_columns])
    assert sorted(grid.flatten().tolist()) == flat.tolist()


@pytest.mark.parametrize(("rows", "columns"), [(1, 32), (5, 96), (130, 160)])
def test_every_padding_byte_is_written_as_zero(quantised, rows, columns):
    _, scales = quantised(torch.ones(rows, columns).bfloat16())
    live = torch.zeros(len(scales), dtype=torch.bool)
    live[mxfp8.swizzle_offsets(rows, columns // 32).flatten()] = True
    assert (scales[live] == 119).all()
    assert (scales[~live] == 0).all()


def test_dequantise_every_code_and_scale_exact():
    codes = torch.arange(256, dtype=torch.uint8).view(8, 32)
    magnitudes = [float(v) for v in MAGNITUDES] + [float("nan")]
    values = torch.tensor(magnitudes + [-v for v in magnitudes], dtype=torch.float64)
    for s in range(255):
        scales = torch.zeros(mxfp8.scale_bytes(8, 32), dtype=torch.uint8)
        scales[mxfp8.swizzle_offsets(8, 1)] = s
        found = mxfp8.dequantise(codes.view(torch.float8_e4m3fn), scales).flatten()
        expected = (values * 2.0 ** (s - 127)).float()
        assert torch.equal(found.nan_to_num(7), expected.nan_to_num(7))
