"""Every violation is refused with one line that names the argument, and nothing is written."""

from __future__ import annotations

import pytest
import torch

from kernel import chain, contract, fused_cuda, fused_triton, mxfp8


def _arguments(tokens=4, groups=2, rank=64, k=256, rope_dim=16):
    return {
        "x": torch.ones(tokens, groups, k).bfloat16(),
        "weight": torch.ones(groups, rank, k).bfloat16(),
        "cos_sin": torch.ones(100, rope_dim),
        "positions": torch.zeros(tokens, dtype=torch.int64),
        "head_dim": 64,
        "q": torch.zeros(tokens, groups * rank, dtype=torch.float8_e4m3fn),
        "scales": torch.full((mxfp8.scale_bytes(tokens, groups * rank),), 77, dtype=torch.uint8),
    }


def _bf16(*shape):
    return torch.ones(*shape).bfloat16()


def _misaligned(*shape):
    size = torch.Size(shape).numel()
    return _bf16(size + 1)[1:].view(shape)


def _wider(tokens, groups, k, row):
    return _bf16(tokens, row)[:, : groups * k].unflatten(1, (groups, k))


BAD = {
    "x no tensor": ({"x": [1.0]}, "x is list; it must be a torch.Tensor"),
    "x dtype": ({"x": torch.ones(4, 2, 256)}, "x has dtype torch.float32"),
    "x dimensions": ({"x": _bf16(4, 512)}, r"x has shape \[4, 512\]"),
    "T zero": ({"x": _bf16(0, 2, 256)}, "x has T = 0 rows"),
    "G zero": ({"x": _bf16(4, 0, 256)}, "x has G = 0 groups"),
    "K zero": ({"x": _bf16(4, 2, 0)}, "K = 0"),
    "x columns strided": ({"x": _bf16(4, 2, 512)[..., ::2]}, r"x has strides .*\(S0, 256, 1\)"),
    "x groups apart": ({"x": _bf16(4, 2, 512)[..., :256]}, r"x has strides \(1024, 512, 1\)"),
    "x rows overlap": ({"x": _bf16(4096).as_strided((4, 2, 256), (256, 256, 1))}, "at least 512"),
    "x address": ({"x": _misaligned(4, 2, 256)}, "x starts 2 bytes past a multiple of 16"),
    "x row alignment": ({"x": _wider(4, 2, 256, 516)}, r"x has strides \(516, 256, 1\) in BF16"),
    "head_dim": ({"head_dim": 96}, "head_dim is 96 and x has K = 256"),
    "head_dim zero": ({"head_dim": 0}, "head_dim is 0"),
    "head_dim a float": ({"head_dim": 64.0}, "head_dim is 64.0"),
    "head_dim odd": (
        {"head_dim": 3, "x": _bf16(4, 2, 24), "weight": _bf16(2, 64, 24)},
        "head_dim is 3",
    ),
    "K alignment": (
        {
            "head_dim": 12,
            "x": _bf16(4, 2, 12),
            "weight": _bf16(2, 64, 12),
            "cos_sin": torch.ones(9, 2),
        },
        "each row and group must be a multiple of 16 bytes",
    ),
    "weight dtype": ({"weight": torch.ones(2, 64, 256).half()}, "weight has dtype torch.float16"),
    "weight groups": ({"weight": _bf16(3, 64, 256)}, r"weight has shape \[3, 64, 256\].*G = 2"),
    "weight K": ({"weight": _bf16(2, 64, 128)}, r"weight has shape \[2, 64, 128\].*K = 256"),
    "weight flat": ({"weight": _bf16(128, 256)}, r"weight has shape \[128, 256\]"),
    "weight R": ({"weight": _bf16(2, 48, 256)}, "weight has R = 48"),
    "weight R zero": ({"weight": _bf16(2, 0, 256)}, "weight has R = 0"),
    "weight transposed": ({"weight": _bf16(2, 256, 64).transpose(1, 2)}, "weight .* contiguous"),
    "weight address": ({"weight": _misaligned(2, 64, 256)}, "weight starts 2 bytes past"),
    "cos_sin dtype": ({"cos_sin": torch.ones(100, 16).bfloat16()}, "cos_sin has dtype"),
    "cos_sin complex": ({"cos_sin": torch.ones(100, 8, 2)}, r"cos_sin has shape \[100, 8, 2\]"),
    "cos_sin empty": ({"cos_sin": torch.ones(0, 16)}, r"cos_sin has shape \[0, 16\]"),
    "cos_sin strided": ({"cos_sin": torch.ones(100, 32)[:, :16]}, "cos_sin .* contiguous"),
    "rope_dim odd": ({"cos_sin": torch.ones(100, 15)}, "rope_dim = 15"),
    "rope_dim zero": ({"cos_sin": torch.ones(100, 0)}, "rope_dim = 0"),
    "rope_dim wide": ({"cos_sin": torch.ones(100, 66)}, "rope_dim = 66.*head_dim = 64"),
    "positions dtype": ({"positions": torch.zeros(4)}, "positions has dtype torch.float32"),
    "positions count": ({"positions": torch.zeros(5).long()}, r"positions has shape \[5\].*T = 4"),
    "positions strided": ({"positions": torch.zeros(8).long()[::2]}, "positions .* contiguous"),
    "position at the end": ({"positions": torch.tensor([0, 1, 2, 100])}, "positions holds 100.*99"),
    "position negative": ({"positions": torch.tensor([0, -1, 2, 3])}, "positions holds -1"),
    "position past int32": ({"positions": torch.tensor([0, 1, 2, 1 << 32])}, "holds 4294967296"),
    "no output": ({"q": None, "scales": None}, "outputs given are none"),
    "both outputs": ({"out": _bf16(4, 128)}, "outputs given are out, q, scales"),
    "q alone": ({"scales": None}, "outputs given are q;"),
    "scales alone": ({"q": None}, "outputs given are scales;"),
    "q dtype": ({"q": torch.zeros(4, 128, dtype=torch.uint8)}, "q has dtype torch.uint8"),
    "q shape": ({"q": torch.zeros(4, 64).to(torch.float8_e4m3fn)}, r"q has shape \[4, 64\]"),
    "q strided": ({"q": torch.zeros(4, 256).to(torch.float8_e4m3fn)[:, :128]}, "q .* contiguous"),
    "scales dtype": ({"scales": torch.zeros(512, dtype=torch.int8)}, "scales has dtype torch.int8"),
    "scales unpadded": (
        {"scales": torch.zeros(16, dtype=torch.uint8)},
        r"scales has shape \[16\]; it must be \[512\]",
    ),
    "scales not flat": (
        {"scales": torch.zeros(128, 4, dtype=torch.uint8)},
        r"scales has shape \[128, 4\]; it must be \[512\]",
    ),
    "out dtype": ({"q": None, "scales": None, "out": torch.ones(4, 128)}, "out has dtype"),
    "out shape": (
        {"q": None, "scales": None, "out": _bf16(4, 2, 64)},
        r"out has shape \[4, 2, 64\]",
    ),
    "device": ({"weight": torch.empty(2, 64, 256, device="meta").bfloat16()}, "weight is on meta"),
}


@pytest.mark.parametrize("candidate", [chain, fused_triton, fused_cuda], ids=lambda f: f.__name__)
@pytest.mark.parametrize("name", BAD)
def test_each_violation_is_named_and_writes_nothing(candidate, name):
    changes, message = BAD[name]
    arguments = _arguments() | changes
    outputs = [a for k in ("out", "q", "scales") if (a := arguments.get(k)) is not None]
    before = [a.clone() for a in outputs]
    with pytest.raises(contract.ContractError, match=message) as error:
        candidate(**arguments)
    assert "\n" not in str(error.value)
    for old, new in zip(before, outputs, strict=True):
        assert torch.equal(old.view(torch.uint8), new.view(torch.uint8))


def test_an_output_that_overlaps_an_input_or_another_output_is_refused():
    arguments = _arguments(tokens=1)
    arguments |= {"q": None, "scales": None, "out": arguments["x"].view(-1)[128:256].view(1, 128)}
    with pytest.raises(contract.ContractError, match="out overlaps x"):
        chain(**arguments)
    arguments = _arguments(tokens=1)
    shared = torch.zeros(600, dtype=torch.uint8)
    arguments |= {"q": shared[:128].view(torch.float8_e4m3fn)[None], "scales": shared[88:]}
    with pytest.raises(contract.ContractError, match="q overlaps scales"):
        chain(**arguments)


def test_outputs_that_touch_are_taken():
    arguments = _arguments(tokens=1)
    shared = torch.zeros(128 + 512, dtype=torch.uint8)
    arguments |= {"q": shared[:128].view(torch.float8_e4m3fn)[None], "scales": shared[128:]}
    chain(**arguments)


def test_only_the_fused_kernel_bounds_the_tokens():
    arguments = _arguments(tokens=33)
    chain(**arguments)
    with pytest.raises(contract.ContractError, match=r"x has T = 33 rows.*at most 32"):
        fused_triton(**arguments)


@pytest.mark.parametrize(
    "x",
    [
        _bf16(4, 4, 256)[:, 2:],  # an offset into a wider buffer
        _bf16(4, 8, 256)[:, :2],
        _bf16(2, 256, 4).permute(2, 0, 1).contiguous(),
    ],
)
def test_slices_of_wider_buffers_are_taken(x):
    chain(**_arguments() | {"x": x})


def test_strides_of_dimensions_of_one_say_nothing():
    arguments = _arguments(tokens=1, groups=1)
    chain(**arguments | {"x": _bf16(256).as_strided((1, 1, 256), (3, 7, 1))})


def test_sizes_are_returned():
    arguments = _arguments()
    problem = contract.check(**arguments, out=None)
    assert problem == contract.Problem(tokens=4, groups=2, rank=64, k=256, head_dim=64, rope_dim=16)
