"""Published quantisers against the contracts that bear their names, bit by bit.

torchao runs here on a CPU, whole. ml_dtypes has the two number formats and no quantiser: it decodes
the scale bytes and encodes the codes. FlashInfer's and DeepGEMM's are CUDA, compiled when called;
their contracts stand on their sources, and FlashInfer's finite bytes are those of torchao's RCEIL.
"""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest
import torch

from verify import formats, oracle
from verify.contracts import CONTRACTS, DEFAULT
from verify.inputs import activations

WALKING = formats.as_bf16(activations.amax_blocks(torch.arange(formats.BF16_INFINITY_BITS)))
"""A block for each finite maximum, all 32,640, whose other lanes walk through codes and ties."""

_WORDS = torch.tensor([torch.nan, torch.inf, -torch.inf, 0.0, -0.0, 1.0, -3e38, 2.0**-133])
SPECIAL = torch.cat(
    [torch.cartesian_prod(_WORDS, _WORDS, _WORDS), torch.ones(512, 29)], dim=1
).bfloat16()
"""NaN, Inf and others in every combination of three lanes."""

BLOCKS = {"walking": WALKING, "special": SPECIAL}


@pytest.fixture(scope="module")
def torchao():
    """torchao's quantiser: BF16 blocks and the name of a mode to scale bytes and codes."""
    config = pytest.importorskip("torchao.prototype.mx_formats.config")
    from torchao.prototype.mx_formats.mx_tensor import to_mx

    def quantise(blocks, mode):
        scales, codes = to_mx(
            blocks, torch.float8_e4m3fn, 32, config.ScaleCalculationMode[mode.upper()]
        )
        return scales.view(torch.uint8), codes.view(torch.uint8)

    return quantise


@pytest.mark.parametrize("blocks", BLOCKS.values(), ids=BLOCKS)
@pytest.mark.parametrize("mode", ["rceil", "floor", "ceil", "even"])
def test_torchao_writes_what_its_contract_says_exact(mode, blocks, torchao):
    right = oracle.quantise(blocks, CONTRACTS[f"torchao-{mode}"])
    scales, codes = torchao(blocks, mode)
    assert torch.equal(scales[right.judged], right.scales[right.judged])
    judged = right.judged.expand_as(codes)
    # NaN is NaN: its sign bit is the multiplier's.
    nan = right.codes & 0x7F == formats.E4M3_NAN
    assert torch.equal(nan & judged, (codes & 0x7F == formats.E4M3_NAN) & judged)
    assert torch.equal(codes[judged & ~nan], right.codes[judged & ~nan])


@pytest.mark.parametrize("mode", ["rceil", "floor", "ceil", "even"])
def test_what_torchao_says_of_nan_and_inf_is_judged_in_rceil_only(mode):
    judged = oracle.quantise(SPECIAL, CONTRACTS[f"torchao-{mode}"]).judged[:, 0]
    assert torch.equal(judged, SPECIAL.isfinite().all(1) | (mode == "rceil"))


@pytest.mark.parametrize(
    ("ours", "mode", "only"),
    [
        (DEFAULT, "rceil", "under byte 0"),
        ("flashinfer", "rceil", None),
        ("ocp-floor", "floor", "under byte 0"),
    ],
)
def test_contracts_of_one_scale_rule_differ_under_byte_0_only(ours, mode, only, torchao):
    right, (scales, codes) = oracle.quantise(WALKING, CONTRACTS[ours]), torchao(WALKING, mode)
    assert torch.equal(scales, right.scales)
    differ = (codes != right.codes).any(1)
    assert bool(differ.any()) == bool(only)
    assert not (differ & (scales[:, 0] > 0)).any()


@pytest.mark.parametrize("name", CONTRACTS)
def test_ml_dtypes_encodes_what_the_contract_scales_exact(name):
    """ml_dtypes overflows to NaN where contracts saturate, hence the clamp."""
    right = oracle.quantise(WALKING, CONTRACTS[name])
    powers = right.scales.numpy().view(ml_dtypes.float8_e8m0fnu).astype(np.float64)
    if CONTRACTS[name].byte_zero == "halved":
        powers[right.scales.numpy() == 0] *= 2
    scaled = np.clip(WALKING.double().numpy() / powers, -448, 448).astype(np.float32)
    codes = scaled.astype(ml_dtypes.float8_e4m3fn).view(np.uint8)
    if CONTRACTS[name].byte_zero == "zeros":
        codes[right.scales.numpy()[:, 0] == 0] &= 0x80
    assert np.array_equal(codes, right.codes.numpy())
