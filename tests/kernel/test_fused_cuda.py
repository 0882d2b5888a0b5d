"""What the CUDA kernel refuses, and how it says so, with no GPU."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
import torch

from kernel import chain, fused_cuda
from kernel.build import ARCHITECTURES, Shape
from kernel.contract import ContractError
from kernel.dispatch import Decision, Dispatcher
from kernel.fused_cuda import PROVEN, require

SERVED = Shape(groups=2, rank=1024, k=4096, head_dim=512, rope_dim=64)
GPU = torch.device("cuda", 0)


@pytest.fixture
def capability(monkeypatch):
    def set_to(*number):
        monkeypatch.setattr(torch.cuda, "get_device_capability", lambda _device: number)

    return set_to


def test_a_tensor_on_the_cpu_is_refused_and_nothing_written(make_call):
    call = make_call()
    out = torch.full((5, call.columns), 7.0).bfloat16()
    with pytest.raises(ContractError, match=r"^x is on cpu; fused_cuda needs a CUDA GPU$"):
        fused_cuda(call.x, call.weight, call.cos_sin, call.positions, head_dim=64, out=out)
    assert (out == 7).all()


def test_the_contract_is_checked_first(make_call):
    call = make_call(tokens=33)
    with pytest.raises(ContractError, match="T = 33 rows; this kernel takes at most 32"):
        call.bf16(fused_cuda)


@pytest.mark.parametrize("architecture", ARCHITECTURES)
@pytest.mark.parametrize("groups", [2, 4])
def test_served_shapes_are_taken_on_every_architecture(capability, architecture, groups):
    capability(*architecture)
    require(GPU, Shape(groups, 1024, 4096, 512, 64))


@pytest.mark.parametrize("number", [(8, 9), (9, 1), (12, 0)])
def test_other_architectures_are_refused_by_name(capability, number):
    capability(*number)
    with pytest.raises(ContractError) as refusal:
        require(GPU, SERVED)
    assert str(refusal.value) == (
        f"x is on a GPU of compute capability {number[0]}.{number[1]}; "
        "fused_cuda is written for 9.0, 10.0, 10.3"
    )


@pytest.mark.parametrize(
    ("changed", "reason"),
    [
        ({"k": 4096 + 256}, "K = 4352; fused_cuda takes multiples of 512"),
        ({"k": 1 << 16}, "bytes of shared memory; there are 232448"),
        ({"rope_dim": 62}, "rope_dim = 62; fused_cuda takes multiples of 4"),
    ],
)
def test_shapes_that_do_not_fit_are_refused_with_the_rule(capability, changed, reason):
    capability(9, 0)
    with pytest.raises(ContractError, match=reason):
        require(GPU, Shape(**{**vars(SERVED), **changed}))


def test_the_dispatcher_takes_the_chain_where_the_kernel_refuses(make_call):
    call = make_call()
    dispatcher = Dispatcher(fused_cuda, enabled=True)
    out = torch.zeros(5, call.columns).bfloat16()
    decision = dispatcher(call.x, call.weight, call.cos_sin, call.positions, head_dim=64, out=out)
    reason = "fused kernel refused: x is on cpu; fused_cuda needs a CUDA GPU"
    assert decision == Decision("chain", reason)
    assert torch.equal(out, call.bf16(chain))


@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_where_the_kernel_has_not_run_it_is_opt_in(capability, architecture):
    capability(*architecture)
    x = SimpleNamespace(is_cuda=True, device=GPU, shape=(8, 2, 4096), dim=lambda: 3)
    fused = Decision("fused", "enabled and eligible")
    assert Dispatcher(fused_cuda, enabled=True, unproven=True)._decide(x) == fused
    by_default = Dispatcher(fused_cuda, enabled=True)._decide(x)
    if architecture in PROVEN:
        assert by_default == fused
    else:
        number = ".".join(map(str, architecture))
        assert by_default == Decision("chain", f"not run on compute capability {number} so far")
    assert Dispatcher(fused_cuda)._decide(x).path == "chain"
