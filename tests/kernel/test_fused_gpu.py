"""The fused kernels on a GPU, at the shape that is served, beside chain and interpreter."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch

from kernel import chain, fused_cuda, fused_triton
from kernel.build import ARCHITECTURES

pytestmark = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA GPU")

TOKENS = (1, 2, 8, 16, 17, 32)


def _cuda(call):
    tensors = {n: getattr(call, n).cuda() for n in ("x", "weight", "cos_sin", "positions")}
    return replace(call, **tensors)


@pytest.fixture(params=[fused_triton, fused_cuda], ids=lambda f: f.__name__)
def fused(request):
    if request.param is fused_cuda and torch.cuda.get_device_capability() not in ARCHITECTURES:
        pytest.skip("needs a GPU of SM90, SM100 or SM103")
    return request.param


@pytest.fixture
def served(make_call):
    def make(tokens):
        return make_call(
            tokens=tokens, rank=1024, heads=8, head_dim=512, rope_dim=64, length=70_000
        )

    return make


def _equal(found, expected):
    return all(torch.equal(a, b) for a, b in zip(found, expected, strict=True))


@pytest.mark.parametrize("tokens", TOKENS)
def test_exact_inputs_give_the_bytes_of_the_chain(fused, served, tokens):
    call = _cuda(served(tokens).with_integers())
    assert torch.equal(call.bf16(fused), call.bf16(chain))
    assert _equal(call.mxfp8(fused), call.mxfp8(chain))


@pytest.mark.parametrize("tokens", TOKENS)
def test_random_inputs_stay_within_tensor_core_accumulation(fused, served, quantised, tokens):
    call = _cuda(served(tokens))
    y = call.bf16(fused)
    low, high = call.bounds(roundings=343)  # a tensor core, 32 steps of K=16, and 7 sums of splits
    assert (low <= y).all()
    assert (y <= high).all()
    assert (y != call.bf16(chain)).float().mean() < 0.01
    assert _equal(call.mxfp8(fused), quantised(y))


@pytest.mark.parametrize("tokens", TOKENS)
def test_rotation_is_the_chains_to_the_bit(fused, served, tokens):
    """One-hot weights show the rotated tails of all eight heads."""
    call = served(tokens)
    columns = (torch.arange(8)[:, None] * 512 + torch.arange(384, 512)).flatten()
    call.weight = torch.eye(4096)[columns].expand(2, -1, -1).bfloat16().contiguous()
    on_gpu = _cuda(call).bf16(fused)
    assert torch.equal(on_gpu.cpu(), call.bf16(chain))


@pytest.mark.parametrize(
    "shape", [{"groups": 3, "rank": 32}, {"rank": 96, "heads": 3, "head_dim": 96}]
)
def test_ragged_shapes_and_the_interpreter_agree_exact(make_call, shape):
    call = make_call(tokens=7, **shape).with_integers()
    interpreted = call.mxfp8(fused_triton)
    assert _equal([t.cpu() for t in _cuda(call).mxfp8(fused_triton)], interpreted)


@pytest.mark.parametrize("tokens", TOKENS)
def test_a_row_has_the_same_bits_in_any_batch_and_repeat(fused, served, tokens):
    call = _cuda(served(32))
    full = call.bf16(fused)
    assert torch.equal(full, call.bf16(fused))
    part = replace(call, x=call.x[:tokens], positions=call.positions[:tokens])
    assert torch.equal(part.bf16(fused), full[:tokens])
    last = replace(call, x=call.x[-tokens:], positions=call.positions[-tokens:])
    assert torch.equal(last.bf16(fused), full[-tokens:])


def test_padded_offset_and_unused_memory_and_int32_positions(fused, served):
    call = _cuda(served(17))
    wide = torch.full((18, 8, 4096), torch.nan, dtype=torch.bfloat16, device="cuda")
    wide[:17, 3:5] = call.x
    padded = replace(call, x=wide[:17, 3:5], positions=call.positions.int())
    assert torch.equal(padded.bf16(fused), call.bf16(fused))


def test_a_position_outside_the_table_gives_nan_and_reads_nothing(fused, served):
    call = _cuda(served(3))
    call.positions = torch.tensor([0, 70_000, -1], device="cuda")
    for candidate in (fused, chain):
        y = call.bf16(candidate)
        assert y.isnan().all(dim=1).tolist() == [False, True, True]
        q, scales = call.mxfp8(candidate)
        assert (q[1:] == 0x7F).all()
        assert (scales[:48].view(3, 4, 4)[1:, 0] == 255).all()


def test_capture_in_a_cuda_graph_reads_new_inputs(fused, served):
    call = _cuda(served(8).with_integers())
    out = torch.zeros(8, 2048, dtype=torch.bfloat16, device="cuda")

    def launch():
        fused(call.x, call.weight, call.cos_sin, call.positions, out=out)

    launch()
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        launch()
    call.x.neg_()
    call.positions.zero_()
    out.fill_(torch.nan)
    graph.replay()
    assert torch.equal(out, call.bf16(chain))
