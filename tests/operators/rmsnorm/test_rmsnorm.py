"""A second operator, judged by the machinery of the first: one spec, one oracle, this file."""

from __future__ import annotations

import pytest
import torch

from tests.mutants import honest
from tests.operators.rmsnorm import spec
from verify import compare, harness
from verify.spec import Promises

CLAIMS = Promises(claims=frozenset({"rejects", "batch-invariant"}))
CASES = [
    spec.Case(family, tokens, columns, probe)
    for family in spec.FAMILIES
    for probe in spec.PROBES
    for tokens, columns in ((17, 2048), (1, 96), (130, 160))
]


def build(*, inverse_root=torch.rsqrt, eps_inside=True, cast=torch.Tensor.bfloat16, gain=1.0):
    """A kernel out of its steps, right unless one is replaced."""

    def kernel(x, weight, *, eps, out=None, q=None, scales=None):
        if x.dtype != torch.bfloat16 or weight.shape != x.shape[1:]:
            raise ValueError("x or weight")
        if (out is None) == (q is None):
            raise ValueError("one form of output")
        wide = x.float()
        mean = torch.stack([(row * row).mean() for row in wide])[:, None]
        root = inverse_root(mean + eps) if eps_inside else inverse_root(mean) + eps
        y = cast(wide * root * weight.float() * gain)
        if out is not None:
            out.copy_(y)
        else:
            honest.quantise(y, q, scales)

    return kernel


def findings(kernel, cases=CASES):
    found = []
    for case in cases:
        inputs = spec.make(case)
        found += compare.judge(inputs, harness.run(kernel, inputs), CLAIMS).findings
    return found


@pytest.mark.parametrize(
    "kernel", [build(), build(inverse_root=lambda m: 1 / m.sqrt())], ids=["rsqrt", "divided"]
)
def test_right_kernel_passes(kernel):
    assert findings(kernel) == []


def one_step_off(y):
    return (y.bfloat16().view(torch.int16) + 1).view(torch.bfloat16)


def truncated(y):
    return (y.view(torch.int32) & -65536).view(torch.float32).bfloat16()


@pytest.mark.parametrize(
    ("kernel", "check"),
    [
        (build(eps_inside=False), "interval"),
        (build(cast=one_step_off), "interval"),
        (build(cast=truncated), "interval"),
        (build(gain=1.0005), "interval"),
        (build(inverse_root=lambda m: m.bfloat16().rsqrt().float()), "interval"),
        (build(inverse_root=lambda m: (m + len(m) * 1e-7 * m).rsqrt()), "batch"),
    ],
    ids=["eps outside", "one step off", "truncated", "gain", "root in BF16", "depends on T"],
)
def test_wrong_kernel_fails(kernel, check):
    assert check in {finding.check for finding in findings(kernel)}


def test_a_wrong_byte_and_a_call_not_refused_are_found():
    def kernel(x, weight, *, eps, out=None, q=None, scales=None):
        build()(x.bfloat16(), weight, eps=eps, out=out, q=q, scales=scales)
        if scales is not None:
            scales[0] += 1

    assert {finding.check for finding in findings(kernel)} == {"scales", "rejects"}


@pytest.mark.parametrize("family", ["normal", "positive", "spread"])
def test_junk_would_have_been_noticed(family):
    inputs = spec.make(spec.Case(family, 17, 2048))
    assert list(compare.vacuous(inputs, harness.run(build(), inputs), CLAIMS)) == []
