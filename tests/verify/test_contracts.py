"""Every contract against its golden table, and the default one over its whole domain."""

from __future__ import annotations

import tomllib
from fractions import Fraction
from pathlib import Path

import pytest
import torch

from verify import formats, oracle
from verify.contracts import CONTRACTS, DEFAULT

BLOCKS = tomllib.loads(Path(__file__).with_name("contract_blocks.toml").read_text())["block"]
EVERY_AMAX = formats.bf16_from_bits(torch.arange(formats.BF16_INFINITY_BITS))


@pytest.mark.parametrize("name", CONTRACTS)
@pytest.mark.parametrize("block", BLOCKS, ids=lambda block: block["name"])
def test_golden_blocks_exact(name, block):
    values = block["lanes"] + [block["rest"]] * (32 - len(block["lanes"]))
    got = oracle.quantise(torch.tensor(values).bfloat16()[None], CONTRACTS[name])
    assert bool(got.judged) == (name in block)
    if name in block:
        assert [int(got.scales), *got.codes[0, [0, 1, 31]].tolist()] == block[name]


def test_every_contract_has_a_golden_table_and_differs_from_the_default():
    named = set().union(*BLOCKS) - {"name", "lanes", "rest"}
    assert named == set(CONTRACTS)
    for name in CONTRACTS:
        theirs = [block.get(name) for block in BLOCKS]
        assert (theirs == [block.get(DEFAULT) for block in BLOCKS]) == (name == DEFAULT)


def test_ceil448_is_exact_for_all_32640_block_maxima():
    """Smallest s in 0..254 with amax <= 448 * 2^(s - 127), in rationals."""
    got = oracle.scale_byte(EVERY_AMAX.double())
    for value, byte in zip(EVERY_AMAX.double().tolist(), got.tolist(), strict=True):
        holds = Fraction(value) <= 448 * Fraction(2) ** (byte - 127)
        assert holds
        assert byte == 0 or Fraction(value) > 448 * Fraction(2) ** (byte - 128)


def test_floor_is_the_exponent_of_all_32640_block_maxima():
    got = oracle.scale_byte(EVERY_AMAX.double(), CONTRACTS["ocp-floor"])
    exponent = formats.exponent_of(EVERY_AMAX.double())
    assert torch.equal(got, (exponent - 8 + 127).clamp(0, 254))
    differs = (got != oracle.scale_byte(EVERY_AMAX.double())).double().mean()
    assert 0.23 < differs < 0.25  # published: the two rules agree on 75.8 % of block maxima


@pytest.mark.parametrize(("name", "bytes_"), [("deepgemm-1e-4", 28866), ("flashinfer", 0)])
def test_published_counts_of_differing_uniform_blocks(name, bytes_):
    """Both signs: 65,280 uniform blocks; FlashInfer differs in codes, DeepGEMM in scale bytes."""
    blocks = torch.cat([EVERY_AMAX, -EVERY_AMAX])[:, None].expand(-1, 32).contiguous()
    ours, theirs = oracle.quantise(blocks), oracle.quantise(blocks, CONTRACTS[name])
    assert int((ours.scales != theirs.scales).sum()) == bytes_
    if name == "flashinfer":
        assert int((ours.codes != theirs.codes).any(1).sum()) == 2240
