"""The state of a source folder in one hash, to show that nobody changed it during a run."""

from __future__ import annotations

import hashlib
import subprocess
from typing import TYPE_CHECKING

from verify.command import UserError

if TYPE_CHECKING:
    from pathlib import Path


def commit_of(folder: Path) -> str | None:
    """The commit that a checkout stands at; None where it is none."""
    try:
        return _git(folder, "rev-parse", "HEAD").decode().strip()
    except (OSError, subprocess.SubprocessError):
        return None


def snapshot(folder: Path) -> str:
    """SHA-256 of a folder's files: of a checkout those that git does not ignore.

    Raises:
        UserError: it cannot be read.
    """
    found = hashlib.sha256()
    try:
        for name in _names(folder):
            path = folder / name
            content = path.read_bytes() if path.is_file() else b""
            found.update(f"{name}\0{hashlib.sha256(content).hexdigest()}\n".encode())
    except (OSError, subprocess.SubprocessError) as error:
        raise UserError(f"source {folder} cannot be read ({error}); correct verify.toml") from None
    return found.hexdigest()


def _names(folder: Path) -> list[str]:
    if not folder.is_dir():
        raise FileNotFoundError(f"no folder {folder}")
    if commit_of(folder) is None:
        return sorted(str(p.relative_to(folder)) for p in folder.rglob("*") if p.is_file())
    listed = _git(folder, "ls-files", "-z", "--cached", "--others", "--exclude-standard")
    return sorted(set(listed.decode("utf-8", "surrogateescape").split("\0")) - {""})


def _git(folder: Path, *words: str) -> bytes:
    return subprocess.run(  # noqa: S603 - git and our own words
        ["git", "-C", str(folder), *words],  # noqa: S607 - git as the user has it
        capture_output=True,
        check=True,
        timeout=60,
    ).stdout
