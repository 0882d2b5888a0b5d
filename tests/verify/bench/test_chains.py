from __future__ import annotations

import pytest
import triton
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource

from kernel.contract import ContractError
from verify.bench import chains

SIZES = {
    "_turn": {"COLUMNS": 8192, "HEAD_DIM": 512, "ROPE_DIM": 64, "WIDTH": 512},
    "_project": {
        "GROUPS": 2, "RANK": 1024, "K": 4096, "TILES": 16, "SPAN": 512, "BLOCK_T": 16,
        "BLOCK_N": 64, "BLOCK_K": 64,
    },
    "_reduce": {"SPLITS": 8, "COLUMNS": 2048, "WIDTH": 128},
}  # fmt: skip
TYPES = {
    "x": "*bf16", "weight": "*bf16", "rotated": "*bf16", "out": "*bf16", "cos_sin": "*fp32",
    "partials": "*fp32", "sums": "*fp32", "positions": "*i32", "q": "*u8", "scales": "*u8",
}  # fmt: skip


@pytest.mark.parametrize("name", SIZES)
def test_launches_compile_for_hopper_without_a_gpu(name):
    if not isinstance(chains._turn, triton.JITFunction):
        pytest.skip("TRITON_INTERPRET=1 leaves no compiler")
    kernel, constants = getattr(chains, name), dict(SIZES[name])
    if name == "_reduce":
        constants["out"] = None
    signature = {
        arg: "constexpr" if arg in constants else TYPES.get(arg, "i32") for arg in kernel.arg_names
    }
    places = {(kernel.arg_names.index(arg),): value for arg, value in constants.items()}
    source = ASTSource(fn=kernel, signature=signature, constexprs=places)
    made = triton.compile(source, target=GPUTarget("cuda", 90, 32), options={"num_warps": 1})
    assert made.asm["ptx"]


@pytest.mark.parametrize("chain", [chains.split_k, chains.bmm])
def test_chains_refuse_a_cpu(chain, inputs):
    with pytest.raises(ContractError, match="runs on a GPU only"):
        chain(
            inputs.x,
            inputs.weights[0],
            inputs.cos_sin,
            inputs.positions,
            head_dim=inputs.spec.head_dim,
            **inputs.outputs("bf16"),
        )
