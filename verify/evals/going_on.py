"""A run that was interrupted: how it is recognised, and what goes on with it."""

from __future__ import annotations

import fcntl
import json
import os
import sqlite3
from contextlib import contextmanager
from typing import TYPE_CHECKING

from verify.command import UserError
from verify.store import FILE_NAME, Store
from verify.verdict import Verdict

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


def unfinished(folder: Path) -> bool:
    """Whether the folder holds a run that did not come to its end, or to no valid one."""
    if not (folder / FILE_NAME).exists():
        return False
    try:
        result = json.loads((folder / "result.json").read_text(encoding="utf-8"))
        return bool(result["verdict"] == Verdict.INVALID)
    except FileNotFoundError:
        return True
    except (OSError, ValueError, TypeError, KeyError):
        return False


def advice(folder: Path) -> str:
    """What is kept of an interrupted run, and the command that goes on with it."""
    try:
        manifest = json.loads((folder / "manifest.json").read_text(encoding="utf-8"))
        command = manifest["go_on_with"] or "its command in another folder: it has to start again"
    except (OSError, ValueError, TypeError, KeyError):
        command = f"the command that began it, with --out {folder}"
    try:
        with Store(_read_only(folder / FILE_NAME)) as store:
            kept = f"{sum(record.error is None for record in store.records()):,}"
    except sqlite3.Error:
        kept = "no readable"
    return f"{folder} holds an interrupted run with {kept} answers; go on with: {command}"


def _read_only(path: Path) -> sqlite3.Connection:
    return sqlite3.connect(f"{path.resolve().as_uri()}?mode=ro", uri=True)


@contextmanager
def only_here(folder: Path) -> Iterator[None]:
    """Hold the folder for this process; a killed one lets go of it.

    Raises:
        UserError: another process is at this run.
    """
    held = os.open(folder, os.O_RDONLY)
    try:
        _hold(held, folder)
        yield
    finally:
        os.close(held)


def _hold(descriptor: int, folder: Path) -> None:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        raise UserError(
            f"another process is at the run in {folder}; wait for it, or name another folder "
            "with --out"
        ) from None
