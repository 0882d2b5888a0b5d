"""A clock that says what it is told to, and a problem small enough for a CPU."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from verify.bench.latency import Setup
from verify.bench.timing import Method
from verify.bench.work import given, weights
from verify.spec import KernelSpec

SMALL = KernelSpec(groups=2, rank=32, k=64, head_dim=32, rope_dim=16)


class ScriptedClock:
    """Runs the launches once a call and answers `us`, by the order in which works were prepared.

    Sweep by sweep a work's times grow by a tenth.
    """

    def __init__(self, us):
        self.us = list(us)
        self.prepared = 0
        self.calls = []

    def prepare(self, launches, rounds):  # noqa: ARG002 - a clock's
        mine, self.prepared = self.prepared % len(self.us), self.prepared + 1
        calls = 0

        def timer(replays):
            nonlocal calls
            for launch in launches:
                launch()
            self.calls.append((mine, replays))
            sweep, calls = calls // 2, calls + 1  # a warm-up and a sweep in turn
            return np.full(replays, self.us[mine] * (1 + sweep / 10))

        return timer


@pytest.fixture(scope="session")
def clock():
    return ScriptedClock


@pytest.fixture(scope="session")
def setup():
    buffers = weights(SMALL, 4096, 0, torch.device("cpu"))
    return Setup(SMALL, buffers, Method(warm_ups=1, replays=4), seed=0)


@pytest.fixture
def inputs(setup):
    return given(setup.spec, setup.buffers, 3, 0)
