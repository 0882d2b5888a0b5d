"""Honest variants are right, really differ in their order of sums, and are let pass."""

from __future__ import annotations

import pytest
import torch

from verify import cases
from verify.cases import KernelSpec
from verify.faults.honest import VARIANTS, TensorCore
from verify.faults.model import Model
from verify.faults.score import Task, score

SMALL = cases.reduced(KernelSpec())


# The gate asks all of them, and at twenty seeds.
@pytest.mark.parametrize("name", ["a split a head", "kernel:chain"])
def test_no_alarm_at_one_seed(name):
    [result] = score((Task("honest", name, "ours", SMALL, "quick", seed=3, probes=True),))
    assert result.quiet, result.message
    assert result.cases > len(cases.FAMILIES)  # and the probes


def total(model, x, weight):
    model.call = type("Call", (), {"heads": 2})()
    return model.add(model.accumulate(model.multiply(x, weight)))


@pytest.mark.parametrize("name", [n for n in VARIANTS if isinstance(VARIANTS[n].build(), Model)])
def test_sums_are_within_the_first_order_bound(name):
    random = torch.Generator().manual_seed(0)
    x = torch.randn(4, 1, 1024, generator=random).bfloat16().float()
    weight = torch.randn(1, 64, 1024, generator=random).bfloat16()
    exact = torch.einsum("tgk,grk->tgr", x.double(), weight.double())
    size = torch.einsum("tgk,grk->tgr", x.double().abs(), weight.double().abs())
    unit = 2.0**-9 if name == "library BF16 product" else 1024 * 2.0**-24
    error = (total(VARIANTS[name].build(), x, weight).double() - exact).abs()
    assert (error <= unit * size).all()


def test_variants_do_not_all_sum_alike():
    random = torch.Generator().manual_seed(0)
    x = torch.randn(32, 1, 1024, generator=random).bfloat16().float()
    weight = torch.randn(1, 64, 1024, generator=random).bfloat16()
    sums = [
        total(VARIANTS[name].build(), x, weight)
        for name in ("1 split", "2 splits", "8 splits", "reversed order", "FP64 accumulation")
    ]
    assert all(not torch.equal(a, b) for i, a in enumerate(sums) for b in sums[:i])


def test_tensor_core_adds_integers_exactly_and_loses_what_lies_below():
    x = torch.tensor([[[2.0**24, *[1.0] * 15, *[3.0] * 16]]])
    weight = torch.ones(1, 1, 32, dtype=torch.bfloat16)
    # Aligned to 2^24 the ones are kept, 2^24 + 15; FP32 holds even numbers there: 2^24 + 14.
    assert total(TensorCore(), x, weight).item() == 2**24 + 14 + 48
    weight[0, 0, 0] = 4.0
    # Aligned to 2^26 the unit is 2: the ones are dropped, the threes become twos.
    assert total(TensorCore(), x, weight).item() == 2**26 + 32


def test_tensor_core_truncates_towards_zero():
    random = torch.Generator().manual_seed(0)
    x = torch.rand(2, 1, 4096, generator=random).bfloat16().float()
    weight = torch.rand(1, 32, 4096, generator=random).bfloat16()
    exact = torch.einsum("tgk,grk->tgr", x.double(), weight.double())
    error = total(TensorCore(), x, weight).double() - exact
    assert (error < 0).all()
    used = (error / exact).abs().max() * 2.0**24
    assert 100 < used < 2688  # published: 213 measured, 2688 counted
