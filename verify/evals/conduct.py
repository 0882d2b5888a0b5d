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

    from verify.arms import Arm
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
    arms = plan.arms(folder)
    with only_here(folder), progress.Watch(console, plan.names, plan.tasks) as watch:
        run = _Run(plan, arms, folder, program, watch)
        try:
            return run.result()
        except KeyboardInterrupt:
            run.interrupted()
            raise
        finally:
            run.close()
            _leave_nothing_empty(folder)


class _Run:
    """Both arms, the store once it is open, and what is kept in it."""

    def __init__(
        self,
        plan: Plan,
        arms: tuple[Arm, Arm],
        folder: Path,
        program: str,
        watch: progress.Watch,
    ) -> None:
        self._began = time.monotonic()
        self._plan = plan
        self._folder = folder
        self._watch = watch
        self._arms = arms
        self._about = {
            "command": manifest.command_line(program),
            "go_on_with": manifest.go_on_with(program, folder) if plan.specs[0].urls else None,
            "started": manifest.now(),
            "rules": asdict(plan.rules),
            "declared_to_differ": list(plan.differ),
            "required_paths": list(plan.require_path),
            **manifest.environment(),
        }
        self._store: Store | None = None
        self._kept = 0

    def result(self) -> dict[str, Any]:
        """Ask, and judge what the store then holds."""
        plan, arms = self._plan, self._arms
        asked = runner.run(arms, plan.tasks, plan.rules, self._begin, self._heard)
        extended = asyncio.run(asked)
        assert self._store is not None
        settings = self._told(self._store)
        compared = {name: each.get("compared", {}) for name, each in settings.items()}
        unequal = list(differences(compared, plan.differ))
        unseen = plan.unseen(self._folder, settings[arms[1].name].get("path_evidence", {}))
        problems = [*unequal, *unseen]
        suites = conclusion.conclude(arms, plan.tasks, plan.rules, self._store, problems)
        records = list(self._store.records())
        extractors = dependent(records, plan.tasks, plan.names)
        described = self._describe(
            settings,
            finished=manifest.now(),
            seconds=round(time.monotonic() - self._began, 1),
            extended=extended,
            unanswered=sum(record.error is not None for record in records),
        )
        return _document(suites, extractors, described, self._folder)

    def interrupted(self) -> None:
        """Tell what is kept, and how to go on."""
        if self._store is not None:
            self._describe(self._told(self._store), interrupted=manifest.now())
            where = self._folder / store.FILE_NAME
            click.echo(f"{self._kept} answers are kept in {where}{rest(self._about)}", err=True)

    def close(self) -> None:
        """Let go of the store."""
        if self._store is not None:
            self._store.close()

    def _begin(self, fixed: Mapping[str, str]) -> Store:
        self._store = opened = _store(self._folder / store.FILE_NAME)
        resume.claim(opened, fixed)
        self._describe(self._told(opened))
        for record in opened.records():
            if record.error is None:  # the others are asked again
                self._kept += 1
                self._watch.held(record)
        return opened

    def _heard(self, record: Record) -> None:
        self._kept += 1
        self._watch.heard(record)

    def _told(self, opened: Store) -> dict[str, dict[str, Any]]:
        """Of each arm what it said when it was last started, by whatever process of this run."""
        return {arm.name: opened.told(arm.name) or arm.settings() for arm in self._arms}

    def _describe(self, of_arms: dict[str, dict[str, Any]], **more: Any) -> dict[str, Any]:
        described = {
            **self._about,
            **more,
            "arms": of_arms,
            "suites": {task.name: manifest.suite(task) for task in self._plan.tasks},
        }
        write_json(self._folder / "manifest.json", described)
        return described


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
