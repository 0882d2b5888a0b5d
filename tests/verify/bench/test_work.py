from __future__ import annotations

import pytest
import torch

from kernel import chain
from verify.bench import floor
from verify.bench.work import CandidateWork, FloorWork, RefusedError, weights
from verify.launch import FORMS
from verify.spec import KernelSpec


def run(work):
    for launch in work.launches:
        launch()


@pytest.mark.parametrize("form", FORMS)
def test_a_right_kernel_is_right_after_each_round_and_poison_is_seen(form, inputs):
    work = CandidateWork(chain, inputs, form)
    assert len(work.launches) == len(inputs.weights)
    assert "weight buffer 0" in work.wrong()  # nothing has been launched for timing
    run(work)
    assert work.wrong() is None
    work.spoil()
    assert work.wrong() is not None
    run(work)
    assert work.wrong() is None


@pytest.mark.parametrize("form", FORMS)
def test_one_wrong_byte_in_the_last_buffer_is_seen(form, inputs):
    work = CandidateWork(chain, inputs, form)
    run(work)
    last = list(work.outputs[-1].values())[-1]
    last.view(torch.uint8).flatten()[-1] ^= 1
    assert work.wrong().endswith(f"weight buffer {len(inputs.weights) - 1}: 1 bytes differ")


def scaled(*tensors, out=None, q=None, scales=None, **options):
    chain(*tensors, out=out, q=q, scales=scales, **options)
    if out is not None:
        out.mul_(1.02)


def misplaced(*tensors, out=None, q=None, scales=None, **options):
    chain(*tensors, out=out, q=q, scales=scales, **options)
    if scales is not None:
        scales[-1] = 1  # padding


def nudged(by):
    """A kernel with one element wrong, in one direction."""

    def call(*tensors, out=None, q=None, scales=None, **options):
        chain(*tensors, out=out, q=q, scales=scales, **options)
        if out is not None:
            out[-1, -1] += by

    return call


def raising(*_, **__):
    raise RuntimeError("no such\narchitecture")


@pytest.mark.parametrize(
    ("call", "says"),
    [
        (scaled, "wrong: out has"),
        (nudged(0.5), "wrong: out has 1 elements"),
        (nudged(-0.5), "wrong: out has 1 elements"),
        (nudged(float("nan")), "wrong: out has 1 elements"),
        (misplaced, "wrong: scales has 1 bytes"),
        (raising, "RuntimeError: no such architecture"),
    ],
    ids=["scaled", "above", "below", "NaN", "misplaced", "raising"],
)
def test_what_is_wrong_or_raises_is_not_timed(call, says, inputs):
    with pytest.raises(RefusedError, match=says):
        CandidateWork(call, inputs, "mxfp8")


def read(weight, kept):
    kept.copy_(floor.expected(weight))


def test_the_floor_is_checked_to_have_read_every_buffer(inputs):
    work = FloorWork(read, floor.expected, inputs)
    run(work)
    assert work.wrong() is None
    work.spoil()
    for launch in work.launches[:-1]:
        launch()
    assert work.wrong() == f"weight buffer {len(inputs.weights) - 1} was not read whole"


def test_weights_pass_the_cache_five_times_and_differ():
    spec = KernelSpec(groups=1, rank=32, k=64, head_dim=32, rope_dim=16)
    made = weights(spec, 3000, 0, torch.device("cpu"))
    assert sum(w.numel() * 2 for w in made) >= 5 * 3000
    assert not torch.equal(made[0], made[1])
    again = weights(spec, 3000, 0, torch.device("cpu"))
    assert all(torch.equal(one, two) for one, two in zip(made, again, strict=True))


def test_what_the_floor_keeps_is_the_first_word_of_each_kilobyte():
    weight = torch.arange(4096, dtype=torch.int32).view(torch.bfloat16)
    assert floor.expected(weight).tolist() == list(range(0, 4096, 256))
    source = floor.SOURCE.read_text()
    assert f"SLICE = {floor.SLICE // 1024} * 1024" in source
    assert f"KEPT = {floor.KEPT};" in source
