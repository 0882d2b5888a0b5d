"""The dispatcher takes the fused path only where it may, says why, and counts."""

from __future__ import annotations

import pytest
import torch

from kernel import chain, fused_triton
from kernel.contract import ContractError
from kernel.dispatch import Decision, Dispatcher


class _Recorder:
    """A fused kernel that marks its output, or refuses."""

    def __init__(self, error: Exception | None = None) -> None:
        self.calls = 0
        self.error = error

    def __call__(self, *_inputs, out=None, **_others):
        self.calls += 1
        if self.error is not None:
            raise self.error
        out.fill_(7)


def _out(call, dispatcher):
    out = torch.zeros(call.x.shape[0], call.columns).bfloat16()
    decision = dispatcher(
        call.x, call.weight, call.cos_sin, call.positions, head_dim=call.head_dim, out=out
    )
    return decision, out


def test_enabled_and_eligible_takes_the_fused_kernel(make_call):
    call, fused = make_call(tokens=32), _Recorder()
    dispatcher = Dispatcher(fused, enabled=True)
    decision, out = _out(call, dispatcher)
    assert decision == Decision("fused", "enabled and eligible")
    assert (out == 7).all()


@pytest.mark.parametrize("off", ["default", "false", "init never ran"])
def test_not_enabled_takes_the_chain(make_call, off):
    call, fused = make_call(), _Recorder()
    if off == "init never ran":
        dispatcher = Dispatcher.__new__(Dispatcher)
    else:
        dispatcher = Dispatcher(fused, **({"enabled": False} if off == "false" else {}))
    decision, out = _out(call, dispatcher)
    assert decision == Decision("chain", "fused kernel not enabled")
    assert torch.equal(out, call.bf16(chain))
    assert fused.calls == 0
    assert dispatcher.counts == {("chain", 5): 1}


def test_objects_without_init_share_no_counts(make_call):
    first, second = (Dispatcher.__new__(Dispatcher) for _ in range(2))
    _out(make_call(), first)
    assert not second.counts
    assert not second.reasons


def test_an_object_without_init_can_be_enabled_later(make_call):
    call = make_call()
    dispatcher = Dispatcher.__new__(Dispatcher)
    dispatcher.enabled = True
    decision, out = _out(call, dispatcher)
    assert decision.path == "fused"
    assert torch.equal(out, call.bf16(fused_triton))


def test_more_tokens_than_the_kernel_takes_go_to_the_chain(make_call):
    fused = _Recorder()
    dispatcher = Dispatcher(fused, enabled=True)
    call = make_call(tokens=33)
    decision, out = _out(call, dispatcher)
    assert decision == Decision("chain", "more than 32 tokens")
    assert torch.equal(out, call.bf16(chain))
    assert fused.calls == 0
    assert _out(make_call(tokens=9), Dispatcher(fused, enabled=True, max_tokens=8))[0] == Decision(
        "chain", "more than 8 tokens"
    )


def test_a_refusal_falls_back_and_says_the_rule(make_call):
    call = make_call()
    dispatcher = Dispatcher(_Recorder(ContractError("x is green")), enabled=True)
    decision, out = _out(call, dispatcher)
    assert decision == Decision("chain", "fused kernel refused: x is green")
    assert torch.equal(out, call.bf16(chain))


def test_a_crash_of_the_kernel_is_not_hidden(make_call):
    dispatcher = Dispatcher(_Recorder(RuntimeError("launch failed")), enabled=True)
    with pytest.raises(RuntimeError, match="launch failed"):
        _out(make_call(), dispatcher)
    assert not dispatcher.counts


@pytest.mark.parametrize("x", [torch.zeros(0, 2, 256), torch.zeros(()), torch.zeros(40, 2, 256)])
def test_a_call_that_neither_path_takes_raises_and_is_not_counted(make_call, x):
    call = make_call()
    call.x = x  # FP32, and too few or too many rows
    dispatcher = Dispatcher(fused_triton, enabled=True)
    with pytest.raises(ContractError):
        dispatcher(call.x, call.weight, call.cos_sin, call.positions, head_dim=64)
    assert not dispatcher.counts
    assert not dispatcher.reasons


def test_counts_by_path_and_tokens_and_by_reason(make_call):
    dispatcher = Dispatcher(_Recorder(), enabled=True)
    for tokens in (1, 32, 32, 33):
        _out(make_call(tokens=tokens), dispatcher)
    assert dispatcher.counts == {("fused", 1): 1, ("fused", 32): 2, ("chain", 33): 1}
    assert dispatcher.reasons == {"enabled and eligible": 3, "more than 32 tokens": 1}


def test_both_output_forms_pass_through(make_call):
    call = make_call()
    enabled = Dispatcher(fused_triton, enabled=True)
    for found, expected in zip(call.mxfp8(enabled), call.mxfp8(fused_triton), strict=True):
        assert torch.equal(found, expected)
    assert enabled.counts == {("fused", 5): 1}
