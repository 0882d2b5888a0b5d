"""The fused Triton kernel through the interpreter, against the chain and exact inputs."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
import torch
import triton
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource

from kernel import chain, fused_triton

ROOT = Path(__file__).resolve().parents[2]

POINTERS = {
    "x": "*bf16",
    "weight": "*bf16",
    "cos_sin": "*fp32",
    "positions": "*i64",
    "out": "*bf16",
    "q": "*u8",
    "scales": "*u8",
    "partials": "*fp32",
}

# Every way the tiling can be ragged: one and three groups, block columns not a multiple of 4,
# R and K off powers of two or past one tile, whole heads rotated and a single pair.
SHAPES = {
    "small": {},
    "one-block": {"groups": 1, "rank": 32, "heads": 1},
    "three-groups": {"groups": 3, "rank": 32},
    "ragged": {"groups": 1, "rank": 96, "heads": 3, "head_dim": 96, "rope_dim": 32},
    "five-heads-of-24": {"groups": 2, "rank": 160, "heads": 5, "head_dim": 24, "rope_dim": 4},
    "whole-head": {"rope_dim": 64},
    "one-pair": {"rope_dim": 2},
    "two-tiles-and-a-block": {"groups": 1, "rank": 2080, "heads": 1},
    "two-steps-and-a-head": {"groups": 1, "rank": 1024, "heads": 33, "head_dim": 32},
}


def _equal(found, expected):
    return all(torch.equal(a, b) for a, b in zip(found, expected, strict=True))


@pytest.mark.parametrize("tokens", [1, 7, 32])
@pytest.mark.parametrize("shape", SHAPES)
def test_exact_inputs_give_the_bytes_of_the_chain(make_call, shape, tokens):
    call = make_call(tokens=tokens, **SHAPES[shape]).with_integers()
    assert torch.equal(call.bf16(fused_triton), call.bf16(chain))
    assert _equal(call.mxfp8(fused_triton), call.mxfp8(chain))


@pytest.mark.parametrize("shape", ["small", "ragged", "five-heads-of-24", "whole-head", "one-pair"])
def test_rotation_is_the_chains_to_the_bit(make_call, shape):
    """One-hot weights show the rotated x itself, R of its columns at a time."""
    call = make_call(**SHAPES[shape])
    groups, rank, k = call.weight.shape
    for first in range(0, k, rank):
        call.weight = torch.eye(k)[first : first + rank].repeat(groups, 1, 1)
        call.weight = torch.nn.functional.pad(
            call.weight, (0, 0, 0, rank - call.weight.shape[1])
        ).bfloat16()
        assert torch.equal(call.bf16(fused_triton), call.bf16(chain))


def test_every_finite_bf16_value_is_quantised_as_defined_exact(make_call, quantised):
    """All values in one launch: identity weights, position 0, neighbours in order and shuffled."""
    bits = torch.arange(0x10000)
    bits[(bits & 0x7FFF) >= 0x7F80] = 0
    bits[0x8000] = 0  # a sum that starts at +0 never ends at -0
    call = make_call(tokens=32, rank=1024, heads=16)
    call.positions[:] = 0
    call.weight = torch.eye(1024).expand(2, -1, -1).bfloat16().contiguous()
    shuffled = bits[torch.randperm(0x10000, generator=torch.Generator().manual_seed(1))]
    for values in (bits, shuffled):
        call.x = values.to(torch.int16).view(torch.bfloat16).view(32, 2, 1024)
        assert _equal(call.mxfp8(fused_triton), quantised(call.x.flatten(1)))


@pytest.mark.parametrize("shape", SHAPES)
def test_random_inputs_stay_within_fp32_accumulation(make_call, quantised, shape):
    call = make_call(tokens=32, **SHAPES[shape])
    low, high = call.bounds(roundings=call.x.shape[2])  # any order of FP32 sums
    y = call.bf16(fused_triton)
    assert (low <= y).all()
    assert (y <= high).all()
    assert _equal(call.mxfp8(fused_triton), quantised(y))


def test_padded_and_offset_rows_and_unused_memory_do_not_matter(make_call):
    call = make_call()
    wide = torch.full((6, 4, 256), torch.nan, dtype=torch.bfloat16)
    wide[:5, 1:3] = call.x
    padded = replace(call, x=wide[:5, 1:3])
    assert torch.equal(call.bf16(fused_triton), padded.bf16(fused_triton))


def test_int32_and_int64_positions_agree(make_call):
    call = make_call()
    short = replace(call, positions=call.positions.int())
    assert torch.equal(call.bf16(fused_triton), short.bf16(fused_triton))


def test_positions_reach_both_ends_of_the_table(make_call):
    call = make_call(tokens=3).with_integers()
    call.positions = torch.tensor([0, 511, 511])
    assert torch.equal(call.bf16(fused_triton), call.bf16(chain))


def test_halfway_sums_round_to_even_exact(make_call):
    """Each value plus half its last place, by two identities side by side in K."""
    bits = torch.arange(0x10000)
    exponent = bits >> 7 & 0xFF
    usable = (exponent > 8) & (exponent < 255)
    half = torch.where(usable, (exponent - 8) << 7 | (bits & 0x8000), 0)
    bits = torch.where(usable, bits, 0)
    call = make_call(tokens=32, rank=1024, heads=32)
    call.positions[:] = 0
    call.weight = torch.eye(1024).repeat(2, 1, 2).bfloat16()
    pairs = torch.stack([bits, half]).to(torch.int16).view(torch.bfloat16)
    call.x = pairs.view(2, 32, 2, 1024).permute(1, 2, 0, 3).reshape(32, 2, 2048)
    found = call.bf16(fused_triton).view(torch.int16).flatten()
    assert torch.equal(found, (bits + (bits & 1)).to(torch.int16))


@pytest.mark.parametrize("tokens", [1, 2, 16, 17, 31])
def test_a_row_has_the_same_bits_in_any_batch(make_call, tokens):
    call = make_call(tokens=32, heads=16)
    call.x[..., 448:896] = call.x[..., :448]  # large partial sums that cancel: only rounding
    call.weight[..., 448:896] = -call.weight[..., :448]  # errors and a small rest remain, so
    call.x[..., 896:] /= 4096  # that another order shows
    full = call.bf16(fused_triton)
    part = replace(call, x=call.x[-tokens:], positions=call.positions[-tokens:])
    assert torch.equal(part.bf16(fused_triton), full[-tokens:])


def test_nan_of_any_payload_stays_nan(make_call):
    call = make_call(tokens=1)
    call.cos_sin.view(torch.int32).fill_(0x7FFFFFFF)  # what a tensor core makes of NaN
    assert call.bf16(fused_triton).isnan().all()


def test_nan_and_inf_stay_in_their_rows_and_blocks(make_call, quantised):
    call = make_call(tokens=4)
    call.x[1, 0, 3] = torch.nan
    call.x[2, 1, 0] = torch.inf
    call.weight[1, :40, 0] = 0  # 0 * Inf is NaN, 1 * Inf is Inf
    call.weight[1, 40:, 0] = 1
    y = call.bf16(fused_triton)
    assert torch.equal(y.isnan(), call.bf16(chain).isnan())
    assert torch.equal(y.isinf(), call.bf16(chain).isinf())
    assert y.isnan().sum() == 64 + 40
    assert y.isinf().sum() == 24
    assert _equal(call.mxfp8(fused_triton), quantised(y))


def test_repeats_are_bitwise_equal_and_inputs_stay(make_call):
    call = make_call()
    before = [t.clone() for t in (call.x, call.weight, call.cos_sin, call.positions)]
    assert _equal(call.mxfp8(fused_triton), call.mxfp8(fused_triton))
    after = call.x, call.weight, call.cos_sin, call.positions
    assert all(torch.equal(a, b) for a, b in zip(before, after, strict=True))


def test_the_shape_that_is_served(make_call, quantised):
    call = make_call(tokens=32, rank=1024, heads=8, head_dim=512, rope_dim=64)
    y = call.bf16(fused_triton)
    different = y != call.bf16(chain)
    assert different.float().mean() < 1e-3  # only sums that land beside a rounding boundary
    assert _equal(call.mxfp8(fused_triton), quantised(y))
    exact = call.with_integers()
    assert _equal(exact.mxfp8(fused_triton), exact.mxfp8(chain))


@pytest.mark.parametrize("capability", [90, 100])
@pytest.mark.parametrize("block_t", [16, 32])
def test_compiles_for_gpus_that_are_not_here(capability, block_t):
    """Both launches at the served shape; no FMA and no flushed subnormals in the code."""
    if os.environ.get("TRITON_INTERPRET") == "1":
        pytest.skip("TRITON_INTERPRET=1 replaces Triton's compiler in this process")
    module = sys.modules[fused_triton.__module__]
    tiling = {"GROUPS": 2, "RANK": 1024, "TILES": 16, "BLOCK_T": block_t, "BLOCK_N": 64}
    heads = {"K": 4096, "HEAD_DIM": 512, "ROPE_DIM": 64, "BLOCK_K": 128, "SPAN": 512}
    absent = {"out": None, "q": None, "scales": None}
    for kernel, constants in (
        (module._project, tiling | heads | absent | {"WIDEN": False}),
        (module._finish, tiling | {"SPLITS": 8, "out": None}),
        (module._finish, tiling | {"SPLITS": 8, "q": None, "scales": None}),
    ):
        names = kernel.arg_names
        signature = {n: "constexpr" if n in constants else POINTERS.get(n, "i32") for n in names}
        aligned = [i for i, n in enumerate(names) if n in POINTERS and n not in constants]
        source = ASTSource(
            kernel, signature, constants, {(i,): [["tt.divisibility", 16]] for i in aligned}
        )
        options = {"enable_fp_fusion": False, "num_warps": 4, "num_stages": 3}
        built = triton.compile(source, target=GPUTarget("cuda", capability, 32), options=options)
        assert ("mma" in built.asm["ptx"]) == (kernel is module._project)
        assert not re.search(r"\.ftz|fma\.rn", built.asm["ptx"])


@pytest.mark.parametrize(
    "device",
    [
        "cpu",
        pytest.param(
            "cuda",
            marks=pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA GPU"),
        ),
    ],
)
def test_works_where_triton_itself_was_told_to_interpret(device):
    code = f"""
import torch
from kernel import chain, fused_triton
torch.set_default_device("{device}")
x, w = torch.full((2, 1, 64), 1.5).bfloat16(), torch.ones(1, 32, 64).bfloat16()
ys = torch.zeros(2, 2, 32).bfloat16()
for y, candidate in zip(ys, (chain, fused_triton)):
    candidate(x, w, torch.ones(1, 2), torch.zeros(2).int(), head_dim=64, out=y)
assert torch.equal(ys[0], ys[1]) and ys[0, 0, 0] == 96, ys
"""
    environment = os.environ | {"TRITON_INTERPRET": "1", "PYTHONPATH": str(ROOT)}
    subprocess.run([sys.executable, "-c", code], env=environment, check=True)
