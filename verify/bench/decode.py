"""Decode steps of the embedded model under torch's profiler, one arm at a time."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from torch.profiler import ProfilerActivity, profile

from evals import suite
from evals.mini.engine import Engine
from kernel.dispatch import Dispatcher
from verify.bench import census
from verify.bench.evidence import Arm

if TYPE_CHECKING:
    from collections.abc import Callable

    from verify.bench.census import Census
    from verify.bench.paths import Kernels

SUITE = "mini-gsm8k"


def run(call: Callable[..., Any] | None, steps: int, kernels: Kernels) -> Arm:
    """One arm: as many questions as it has rows, answered for at most `steps` decode steps.

    The dispatcher counts the calls by path and T; on a GPU torch's profiler counts the launches.

    Args:
        call: the kernel behind WO-A; None is the unfused chain.
        steps: decode steps, each one call a layer.
        kernels: what is recognised in the trace.
    """
    device = "cuda" if torch.cuda.is_available() else "cpu"
    dispatcher = Dispatcher() if call is None else Dispatcher(call, enabled=True)
    engine = Engine(dispatcher, device=device)
    prompts = _prompts(engine.max_rows)
    trace: Census | None = None
    if device == "cuda":
        _answer(engine, prompts, 2)  # what compiles or is set up once is no decode step's
        dispatcher.counts.clear()
        trace = _traced(lambda: _answer(engine, prompts, steps + 1), kernels)
    else:
        _answer(engine, prompts, steps + 1)
    counts = dispatcher.counts
    rows = {tokens: calls for (path, tokens), calls in sorted(counts.items()) if path == "fused"}
    return Arm(
        chains=sum(calls for (path, _), calls in counts.items() if path == "chain"),
        fused=sum(rows.values()),
        rows=rows,
        launches=None if trace is None else trace.launches,
        launches_of_calls=None if trace is None else trace.launches,
        ranks=() if trace is None else (trace,),
    )


def _answer(engine: Engine, prompts: list[str], tokens: int) -> None:
    for _ in engine.generate(prompts, max_tokens=tokens):
        pass


def _prompts(count: int) -> list[str]:
    return [item.prompt for item in suite.load(SUITE).questions().items[:count]]


def _traced(work: Callable[[], None], kernels: Kernels) -> Census:
    """The launches of `work`, by the trace that torch's profiler writes."""
    activities = [ProfilerActivity.CPU, ProfilerActivity.CUDA]
    with profile(activities=activities, acc_events=True) as profiler:
        work()
        torch.cuda.synchronize()
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "decode.json"
        profiler.export_chrome_trace(str(path))
        return census.read(path, kernels)
