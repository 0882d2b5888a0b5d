"""Whole domains through a kernel: every block maximum, every code under every scale byte."""

from __future__ import annotations

import torch

from tests.mutants import honest
from verify import cases, formats, harness, inputs, oracle
from verify.spec import KernelSpec

# One launch of 32 rows holds 32 * 2048 / 32 = 2,048 blocks: 16 of them hold all 32,640 maxima.
SPEC = KernelSpec(2, 1024, 1024, head_dim=512)
LAUNCHES = range(16)


def golden_amax(draw):
    case = cases.place(
        SPEC,
        layout=0,
        family="golden_amax",
        tokens=32,
        table="plain",
        positions="zero",
        index="int32",
        draw=draw,
    )
    return inputs.make(case)


def test_16_launches_hold_every_block_maximum_and_every_code_under_every_byte_exact():
    """Through a right kernel, whose own bytes are compared with the contract's."""
    maxima, pairs = set(), torch.zeros(256, 256, dtype=torch.bool)
    for draw in LAUNCHES:
        given = golden_amax(draw)
        out = harness.Stage(given).launch(honest.plain, "bf16", 0xFF).outputs["out"]
        packed = harness.Stage(given).launch(honest.plain, "mxfp8", 0xFF).outputs
        right = oracle.quantise(out)
        codes = packed["q"].view(torch.uint8)
        assert torch.equal(codes, right.codes)
        assert torch.equal(packed["scales"], oracle.swizzle(right.scales))
        maxima |= set(formats.bf16_bits(out).view(-1, 32).bitwise_and(0x7FFF).amax(1).tolist())
        pairs[right.scales.long().repeat_interleave(32, 1), codes.long()] = True
    assert maxima == set(range(formats.BF16_INFINITY_BITS))
    numbers = [code for code in range(256) if code & 0x7F not in (0, formats.E4M3_NAN)]
    # Below byte 8 the steps of subnormal BF16 are wider than E4M3's; byte 247 ends at BF16's end.
    assert pairs[8:247][:, numbers].all()


def test_quick_grid_of_a_full_launch_asks_every_scale_byte_of_finite_values():
    seen = set()
    for draw in range(6):
        given = golden_amax(draw)
        columns = inputs.weights.chosen(inputs.activations.shape_of(given.case))
        seen |= set(oracle.quantise(given.x[:, :, columns].flatten(1)).scales.unique().tolist())
    assert seen == set(range(248))


def test_scale_layout_is_a_bijection_of_all_8192_offsets_exact():
    """The definition, byte by byte: 128 rows, 64 block columns."""
    matrix = torch.arange(8192, dtype=torch.int32).view(128, 64)
    flat = oracle.swizzle(matrix)
    assert torch.equal(flat.sort().values, torch.arange(8192, dtype=torch.int32))
    for row in range(128):
        for column in range(64):
            offset = column // 4 * 512 + row % 32 * 16 + row // 32 * 4 + column % 4
            assert flat[offset] == matrix[row, column]
    assert torch.equal(oracle.unswizzle(flat, 64), matrix)
