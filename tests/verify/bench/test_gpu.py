"""The yardsticks on a GPU: chains that are right, a floor that reads, a clock that tells time."""

from __future__ import annotations

import pytest
import torch

from verify.bench import chains, floor, gpu, work
from verify.launch import FORMS
from verify.spec import KernelSpec

if not torch.cuda.is_available():
    pytest.skip("needs a CUDA GPU", allow_module_level=True)

CUDA = torch.device("cuda")


def inputs(tokens, spec=None):
    spec = spec or KernelSpec()
    return work.given(spec, work.weights(spec, 1, 0, CUDA), tokens, 0)


@pytest.mark.parametrize("chain", [chains.split_k, chains.bmm])
@pytest.mark.parametrize("tokens", range(1, 33))
def test_chains_are_right_at_every_t(chain, tokens):
    for form in FORMS:
        made = work.CandidateWork(chain, inputs(tokens), form)
        for launch in made.launches:
            launch()
        torch.cuda.synchronize()
        assert made.wrong() is None


def test_chains_are_right_where_blocks_fill_no_tile():
    spec = KernelSpec(groups=3, rank=96, k=1024, head_dim=512, rope_dim=64)
    for chain in (chains.split_k, chains.bmm):
        work.CandidateWork(chain, inputs(5, spec), "mxfp8")


@pytest.mark.parametrize("pdl", [False, True])
def test_the_floor_reads_everything_in_a_time_that_is_possible(pdl):
    given = inputs(1)
    made = work.FloorWork(floor.reader(pdl=pdl), floor.expected, given)
    timer = gpu.CudaClock().prepare(made.launches, rounds=4)
    made.spoil()
    times = timer(20)
    assert made.wrong() is None
    assert times.min() > 0.5  # microseconds: 16.8 MB come from no cache in less


def test_the_machine_is_described():
    assert {"gpu", "L2", "driver", "cuda", "torch", "python"} <= gpu.machine().keys()
