"""Tests under pytest: hardware, the kernel grid's options, a share of the machine, a summary.

`pytest -n auto` spreads the grid of `verify.cases` over processes; `--candidate`, `--budget`,
`--plan` and `--seed` mean what they mean for `python -m verify.kernel`.
"""

from __future__ import annotations

import os
import shlex
import sys
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, get_args

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

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

import pytest  # noqa: E402 - the share comes first; hooks are typed by it

from tests import hardware  # noqa: E402
from verify import cases, session  # noqa: E402 - imports torch

REGISTRY = hardware.Registry.read()

_REPEATED = 20
"""Most failures that a printed line names one by one."""


def pytest_addoption(parser: pytest.Parser) -> None:
    """The grid's own options."""
    group = parser.getgroup("kernel grid")
    group.addoption(
        "--candidate",
        action="append",
        help="kernel to verify, module:function; repeatable "
        f"(default those that can run here of {', '.join(session.OWN_CLAIMS)})",
    )
    group.addoption(
        "--budget", choices=get_args(cases.Budget), default="quick", help="cases a family"
    )
    group.addoption(
        "--plan",
        choices=get_args(cases.Plan),
        help="shapes to use (default: reduced where Triton is interpreted, else whole)",
    )
    group.addoption(
        "--hardware", metavar="ARCH", help="only tests that must run on cpu, sm90, sm100 ..."
    )
    group.addoption("--seed", type=int, default=0, help="seed of every draw in the grid")


def pytest_configure(config: pytest.Config) -> None:
    """Refuse hardware that is unknown or absent, before anything is collected."""
    asked = config.option.hardware
    if asked is None:
        return
    if asked not in REGISTRY.known:
        known = ", ".join(sorted(REGISTRY.known))
        raise pytest.UsageError(
            f"--hardware {asked}: no test is declared for it; choose among {known}"
        )
    if asked not in hardware.here():
        raise pytest.UsageError(
            f"--hardware {asked}: this machine has {', '.join(sorted(hardware.here()))}"
        )


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Every test says where it must run; --hardware keeps those of one architecture."""
    undeclared = [item.nodeid for item in items if not REGISTRY.of(item.nodeid)]
    if undeclared:
        raise pytest.UsageError(
            f"{undeclared[0]} and {len(undeclared) - 1} more tests do not say where they must run; "
            "add their file to tests/hardware.toml"
        )
    asked = config.option.hardware
    if asked is not None:
        kept = [item for item in items if asked in REGISTRY.of(item.nodeid)]
        config.hook.pytest_deselected(items=[item for item in items if item not in kept])
        items[:] = kept


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Iterator[pytest.TestReport]:
    """A test that was skipped where it must run has failed."""
    report: pytest.TestReport = yield
    if report.skipped and isinstance(report.longrepr, tuple):
        reason = report.longrepr[2].removeprefix("Skipped: ")
        if REGISTRY.wrongly_skipped(item.nodeid, reason, hardware.here()):
            report.outcome = "failed"
            report.longrepr = f"{item.nodeid} must run on this machine and was skipped: {reason}"
    return report


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """One test for each candidate and case."""
    if {"candidate", "case"} <= set(metafunc.fixturenames):
        option = metafunc.config.option
        grid = [
            (candidate, case)
            for candidate in option.candidate or session.own(cuda=_cuda())
            for case in cases.grid(
                session.spec_of(candidate),
                option.budget,
                option.plan or _plan(candidate),
                cuda=_cuda(),
            )
        ]
        metafunc.parametrize(
            ("candidate", "case"), grid, ids=[f"{candidate}-{case.id}" for candidate, case in grid]
        )


def _plan(candidate: str) -> cases.Plan:
    """Fixed beforehand, not measured: all workers must collect the same tests."""
    return "reduced" if "triton" in candidate and not _cuda() else "whole"


def _cuda() -> bool:
    import torch  # noqa: PLC0415 - a run without the grid need not wait for it

    return torch.cuda.is_available()


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Each candidate: how many cases ran, which layers are right; and how to repeat failures."""
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
    failed = list(dict.fromkeys(r.nodeid for r in terminalreporter.getreports("failed")))
    if failed:
        options = terminalreporter.config.invocation_params.args
        kept = [word for word in options if not Path(word.partition("::")[0]).exists()]
        how = failed if len(failed) <= _REPEATED else ["--last-failed"]
        line = shlex.join(["python", "-m", "pytest", *kept, *how])
        terminalreporter.write_line(f"to repeat what failed: {line}")


def _grid_reports(terminalreporter: pytest.TerminalReporter) -> Iterable[pytest.TestReport]:
    for outcome in ("passed", "failed"):
        yield from terminalreporter.getreports(outcome)
