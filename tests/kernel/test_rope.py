"""RoPE tables against published numbers and exact relations."""

from __future__ import annotations

import math

import pytest
import torch

from kernel import rope


@pytest.mark.parametrize(
    ("theta", "original_length", "bounds"),
    [
        (160000.0, 65536, (15, 25)),  # DeepSeek-V4.1, layers with compressed attention
        (10000.0, 4096, (10, 23)),  # DeepSeek-V2 and V3
    ],
)
def test_yarn_bounds_are_the_published_ones(theta, original_length, bounds):
    assert rope.yarn_bounds(64, theta, 32, 1, original_length) == bounds


def test_yarn_bounds_stay_inside_the_head():
    assert rope.yarn_bounds(8, 10000.0, 32, 1, 16) == (0, 1)
    assert rope.yarn_bounds(8, 2.0, 32, 1, 1 << 20)[1] == 7


def test_rows_interleave_cosine_and_sine_by_absolute_position():
    table = rope.plain_table(50, 64)
    assert table.dtype == torch.float32
    assert table.shape == (50, 64)
    for position in (0, 1, 7, 49):
        for pair in (0, 1, 13, 31):
            angle = position * 10000.0 ** (-2 * pair / 64)
            found = table[position, 2 * pair : 2 * pair + 2].tolist()
            assert found == pytest.approx([math.cos(angle), math.sin(angle)], abs=1e-5)


def test_pair_zero_turns_one_radian_a_position_up_to_a_million():
    last = rope.plain_table(1_000_001, 2)[-1].tolist()
    # cos and sin of 1,000,000 radians, from any table of functions
    assert last == pytest.approx([0.936752127533144, -0.349993502171292], abs=1e-7)


def test_pairs_yarn_keeps_are_the_plain_ones_exact():
    plain = rope.plain_table(4096, 64, theta=160000.0)
    yarn = rope.yarn_table(4096, 64)
    assert torch.equal(yarn[:, : 2 * 16], plain[:, : 2 * 16])
    assert not torch.equal(yarn[:, 2 * 16 : 2 * 17], plain[:, 2 * 16 : 2 * 17])


def test_pairs_yarn_slows_in_full_turn_sixteen_times_slower_exact():
    plain = rope.plain_table(256, 64, theta=160000.0)
    yarn = rope.yarn_table(4096, 64)
    assert torch.equal(yarn[::16, 2 * 25 :], plain[:, 2 * 25 :])
    assert not torch.equal(yarn[::16, 2 * 24 : 2 * 25], plain[:, 2 * 24 : 2 * 25])


def test_pairs_between_lie_between():
    plain = rope.plain_table(2, 64, theta=160000.0)
    yarn = rope.yarn_table(2, 64)
    for pair in range(16, 25):
        slowed = yarn[1, 2 * pair + 1] / plain[1, 2 * pair + 1]  # sines of small angles
        assert 1 / 16 < slowed < 1


def test_no_attention_factor_scales_the_table():
    table = rope.yarn_table(3000, 64).double()
    radius = table[:, 0::2] ** 2 + table[:, 1::2] ** 2
    assert (radius - 1).abs().max() < 1e-6
