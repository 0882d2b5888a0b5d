"""One measurement from its plan to the content of serving.json."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import click

from verify import manifest
from verify.bench.serve import conduct, delay
from verify.bench.serve.client import TimedClient
from verify.bench.serve.document import FILE, document
from verify.bench.serve.judging import judge
from verify.command import UserError
from verify.differences import differences
from verify.files import write_json

if TYPE_CHECKING:
    from pathlib import Path

    from rich.console import Console

    from verify.bench.serve.conduct import Request
    from verify.bench.serve.judging import Load
    from verify.bench.serve.plan import Plan

    Result = tuple[tuple[Load, ...], dict[str, Any]]


def measured(plan: Plan, folder: Path, program: str, console: Console) -> Result:
    """What every load came to, and the content of FILE.

    Raises:
        UserError: a server does not start; what came before stands in FILE, as invalid.
        KeyboardInterrupt: likewise.
    """
    run = _Run(plan, folder, program)
    console.print(delay.words(run.delay), markup=False)
    try:
        asyncio.run(run.measure(console))
    except (KeyboardInterrupt, UserError) as error:
        if run.requests:
            _, found = run.result(
                f"it ended early: {error}" if str(error) else "it was interrupted"
            )
            write_json(folder / FILE, found)
            click.echo(f"{len(run.requests)} requests are kept in {folder / FILE}", err=True)
        raise
    return run.result()


class _Run:
    """Both arms, and what they were asked so far."""

    def __init__(self, plan: Plan, folder: Path, program: str) -> None:
        self._plan = plan
        self._arms = plan.arms(folder, TimedClient)
        self._about = {
            "command": manifest.command_line(program),
            "started": manifest.now(),
            "order": list(plan.order),
            "fresh": plan.fresh,
            "declared_to_differ": list(plan.differ),
            **manifest.environment(),
        }
        self.delay = asyncio.run(delay.measure(max(plan.method.loads)))
        self.requests: list[Request] = []

    async def measure(self, console: Console) -> None:
        """Ask everything, and say which start it is."""
        start = None
        async for request in conduct.measured(self._arms, self._plan.order, self._plan.method):
            self.requests.append(request)
            if start != (request.arm, request.start):
                start = request.arm, request.start
                console.print(f"{request.arm}, start {request.start}", markup=False)

    def result(self, broken: str | None = None) -> Result:
        """Judge it; `broken` says why it is not whole."""
        plan = self._plan
        settings = {name: arm.settings() for name, arm in self._arms.items()}
        wrong = [said for arm in self._arms.values() for said in arm.problems("")]
        if broken is not None:
            wrong.insert(0, broken)
        else:
            compared = {name: each["compared"] for name, each in settings.items()}
            wrong += differences(compared, plan.differ)
        told = [
            f"the server of {name} counts {each['acceptance_length']:.4f} tokens accepted a step"
            for name, each in settings.items()
            if each["acceptance_length"] is not None
        ]
        loads = judge(self.requests, plan.names, plan.method, wrong, told)
        about = {**self._about, "finished": manifest.now(), "arms": settings}
        return loads, document(loads, self.requests, plan.method, self.delay, about)
