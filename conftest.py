"""The kernel grid under pytest: its options, one GPU and a share of the cores a worker, a summary.

`pytest -n auto` spreads the grid of `verify.cases` over processes; `--candidate`, `--budget`,
`--plan` and `--seed` mean what they mean for `python -m verify.kernel`.
"""

from __future__ import annotations

import os
import sys
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, get_args

if TYPE_CHECKING:
    from collections.abc import Iterable

_WORKER = os.environ.get("PYTEST_XDIST_WORKER", "")


def _share_of_the_machine() -> None:
    """Give this worker its threads and its GPU, before anything imports torch or touches CUDA."""
    workers = int(os.environ.get("PYTEST_XDIST_WORKER_COUNT", "1"))
    share = str(max(1, (os.cpu_count() or 1) // workers))
    threads = os.environ.setdefault("OMP_NUM_THREADS", share)
    # MKL and OpenBLAS spin: with more threads than that they slow a busy machine tenfold.
    os.environ.setdefault("MKL_NUM_THREADS", threads)
    os.environ.setdefault("OPENBLAS_NUM_THREADS", threads)
    visible = os.environ.get("CUDA_VISIBLE_DEVICES", "")
    devices = (
        visible.split(",")
        if visible
        else [p.name for p in Path("/proc/driver/nvidia/gpus").glob("*")]
    )
    if _WORKER and devices:
        number = int(_WORKER.removeprefix("gw")) % len(devices)
        os.environ["CUDA_VISIBLE_DEVICES"] = devices[number] if visible else str(number)


_share_of_the_machine()
sys.path.insert(0, str(Path(__file__).resolve().parent))  # tests import tests.mutants

import pytest  # noqa: E402, TC002 - the share comes first; hooks are typed by it

from verify import cases  # noqa: E402 - imports torch

BUILT_IN = ("kernel:chain", "kernel:fused_triton")


def pytest_addoption(parser: pytest.Parser) -> None:
    """The grid's own options."""
    group = parser.getgroup("kernel grid")
    group.addoption(
        "--candidate",
        action="append",
        help=f"kernel to verify, module:function; repeatable (default {', '.join(BUILT_IN)})",
    )
    group.addoption(
        "--budget", choices=get_args(cases.Budget), default="quick", help="cases a family"
    )
    group.addoption(
        "--plan",
        choices=get_args(cases.Plan),
        help="shapes to use (default: reduced where Triton is interpreted, else whole)",
    )
    group.addoption("--seed", type=int, default=0, help="seed of every draw in the grid")


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """One test for each candidate and case."""
    if {"candidate", "case"} <= set(metafunc.fixturenames):
        option = metafunc.config.option
        grid = [
            (candidate, case)
            for candidate in option.candidate or BUILT_IN
            for case in cases.grid(
                cases.KernelSpec(), option.budget, option.plan or _plan(candidate)
            )
        ]
        metafunc.parametrize(
            ("candidate", "case"), grid, ids=[f"{candidate}-{case.id}" for candidate, case in grid]
        )


def _plan(candidate: str) -> cases.Plan:
    """Fixed beforehand, not measured: all workers must collect the same tests."""
    import torch  # noqa: PLC0415 - a run without the grid need not wait for it

    interpreted = "triton" in candidate and not torch.cuda.is_available()
    return "reduced" if interpreted else "whole"


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """A line for each candidate: how many cases ran, and which layers are right."""
    counts: dict[str, Counter[str]] = {}
    for report in _grid_reports(terminalreporter):
        properties = dict(report.user_properties)
        if "candidate" in properties:
            counts.setdefault(str(properties["candidate"]), Counter()).update(
                ["cases", *str(properties["layers"]).split()]
            )
    if counts:
        terminalreporter.section("kernel grid")
    for candidate, count in counts.items():
        words = [
            f"layer {layer} " + (f"fail ({count[layer]} cases)" if count[layer] else "pass")
            for layer in ("1", "2")
        ]
        terminalreporter.write_line(f"{candidate}: {count['cases']} cases, {', '.join(words)}")


def _grid_reports(terminalreporter: pytest.TerminalReporter) -> Iterable[pytest.TestReport]:
    for outcome in ("passed", "failed"):
        yield from terminalreporter.getreports(outcome)
