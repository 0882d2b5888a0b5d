"""A run of layer 3 from its plan to the content of result.json."""

from __future__ import annotations

import asyncio
import json
import sqlite3
import time
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

import click
import msgspec

from verify import conclusion, manifest, resume, runner, store
from verify.command import UserError
from verify.differences import differences
from verify.evals import progress
from verify.evals.going_on import only_here
from verify.evals.opinions import dependent
from verify.files import write_json
from verify.verdict import Verdict, combine

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from rich.console import Console

    from verify.evals.plan import Plan
    from verify.stats.suite import SuiteResult
    from verify.store import Record, Store


class KernelFinding(msgspec.Struct):
    """What is used of a finding of layers 1 and 2."""

    case: str
    check: str
    layer: int
    message: str
    replay: str


class KernelResult(msgspec.Struct):
    """What is used of kernel.json, which verify.kernel may have left in the folder."""

    verdict: Verdict
    layers: dict[str, Verdict]
    cases: int
    executed: int
    findings: list[KernelFinding]
    tiers: dict[str, int]
    adequacy: dict[str, int]
    environment: dict[str, str]
    seconds: float


def conduct(plan: Plan, folder: Path, program: str, console: Console) -> dict[str, Any]:
    """Ask everything, judge it, and return the content of result.json.

    Raises:
        UserError: an arm or the folder cannot be used.
        KeyboardInterrupt: interrupted; how many answers are kept has been told.
    """
    began = time.monotonic()
    arms = plan.arms(folder)
    about = {
        "command": manifest.command_line(program),
        "go_on_with": manifest.go_on_with(program, folder) if plan.specs[0].urls else None,
        "started": manifest.now(),
        "rules": asdict(plan.rules),
        "declared_to_differ": list(plan.differ),
        "required_paths": list(plan.require_path),
        **manifest.environment(),
    }
    opened: list[Store] = []
    kept: list[str] = []

    def told() -> dict[str, dict[str, Any]]:
        """Of each arm what it said when it was last started, by whatever process of this run."""
        return {arm.name: opened[0].told(arm.name) or arm.settings() for arm in arms}

    def describe(of_arms: dict[str, dict[str, Any]], **more: Any) -> dict[str, Any]:
        described = {
            **about,
            **more,
            "arms": of_arms,
            "suites": {task.name: manifest.suite(task) for task in plan.tasks},
        }
        write_json(folder / "manifest.json", described)
        return described

    def begin(fixed: Mapping[str, str]) -> Store:
        opened.append(_store(folder / store.FILE_NAME))
        resume.claim(opened[0], fixed)
        describe(told())
        for record in opened[0].records():
            if record.error is None:  # the others are asked again
                kept.append(record.item)
                watch.held(record)
        return opened[0]

    with only_here(folder), progress.Watch(console, plan.names, plan.tasks) as watch:

        def heard(record: Record) -> None:
            kept.append(record.item)
            watch.heard(record)

        try:
            extended = asyncio.run(runner.run(arms, plan.tasks, plan.rules, begin, heard))
            settings = told()
            compared = {name: each.get("compared", {}) for name, each in settings.items()}
            unequal = list(differences(compared, plan.differ))
            unseen = plan.unseen(folder, settings[arms[1].name].get("path_evidence", {}))
            problems = [*unequal, *unseen]
            suites = conclusion.conclude(arms, plan.tasks, plan.rules, opened[0], problems)
            records = list(opened[0].records())
            extractors = dependent(records, plan.tasks, plan.names)
        except KeyboardInterrupt:
            if opened:
                describe(told(), interrupted=manifest.now())
                click.echo(
                    f"{len(kept)} answers are kept in {folder / store.FILE_NAME}{rest(about)}",
                    err=True,
                )
            raise
        finally:
            for each in opened:
                each.close()
            _leave_nothing_empty(folder)
    described = describe(
        settings,
        finished=manifest.now(),
        seconds=round(time.monotonic() - began, 1),
        extended=extended,
        unanswered=sum(record.error is not None for record in records),
    )
    return _document(suites, extractors, described, folder)


def rest(described: Mapping[str, Any]) -> str:
    """How to ask what was not answered, if that can be."""
    command = described["go_on_with"]
    return f"; go on with: {command}" if command else ""


def _document(
    suites: list[SuiteResult],
    extractors: dict[str, dict[str, Any]] | None,
    described: dict[str, Any],
    folder: Path,
) -> dict[str, Any]:
    """All layers together: what verify.kernel left in the folder counts too."""
    kernel = kernel_result(folder / "kernel.json")
    verdicts = [suite.verdict for suite in suites]
    if kernel is not None:
        verdicts.append(Verdict(kernel["verdict"]))
    return {
        "verdict": str(combine(verdicts)),
        "suites": msgspec.to_builtins(suites),
        "extractors": extractors,
        **({"kernel": kernel} if kernel is not None else {}),
        "manifest": described,
    }


def kernel_result(path: Path) -> dict[str, Any] | None:
    """What verify.kernel left there, or None.

    Raises:
        UserError: it is something else.
    """
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
        msgspec.convert(found, KernelResult)
    except FileNotFoundError:
        return None
    except (OSError, ValueError) as error:
        raise UserError(f"{path} is not a result of verify.kernel ({error}); remove it") from None
    assert isinstance(found, dict)
    return found


def _store(path: Path) -> Store:
    try:
        return store.Store.open(path)
    except sqlite3.Error as error:
        raise UserError(f"{path} cannot be written ({error}); name another folder") from None


def _leave_nothing_empty(folder: Path) -> None:
    """Remove the folder if nothing came of the run."""
    if not any(folder.iterdir()):
        folder.rmdir()
