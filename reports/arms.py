"""The two arms as the manifest tells of them, side by side with their differences marked."""

from __future__ import annotations

import shlex
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from reports.read import Run


@dataclass(frozen=True)
class Names:
    """What the run calls its arms."""

    base: str
    pr: str


@dataclass(frozen=True)
class Row:
    """One entry of the manifest: under both arms, None where an arm has no such entry."""

    key: str
    base: str | None
    pr: str | None

    @property
    def differs(self) -> bool:
        """Whether the arms differ in this entry."""
        return self.base != self.pr


@dataclass(frozen=True)
class Manifest:
    """What was compared: entries of each arm, entries of the whole run, the command to repeat."""

    arms: tuple[Row, ...]
    run: tuple[tuple[str, str], ...]
    command: str | None


def names(run: Run) -> Names:
    """The arms' names: as the manifest lists them, base first; without it, base and pr."""
    listed = list(_arms(run.manifest))
    return Names(listed[0], listed[1]) if len(listed) == 2 else Names("base", "pr")


def manifest(run: Run) -> Manifest:
    """Both arms side by side, entries in the order written."""
    arms = _arms(run.manifest)
    called = names(run)
    base, pr = (dict(_flat(arms.get(name, {}))) for name in (called.base, called.pr))
    rows = tuple(Row(key, base.get(key), pr.get(key)) for key in dict.fromkeys([*base, *pr]))
    rest = {key: value for key, value in run.manifest.items() if key not in {"arms", "command"}}
    return Manifest(rows, tuple(_flat(rest)), _command(run.manifest))


def _arms(document: Mapping[str, Any]) -> dict[str, Any]:
    arms = document.get("arms")
    return arms if isinstance(arms, dict) else {}


def _command(document: Mapping[str, Any]) -> str | None:
    command = document.get("command")
    if isinstance(command, list):
        return shlex.join(map(str, command))
    return str(command) if command else None


def _flat(value: Any, key: str = "") -> Iterator[tuple[str, str]]:
    """Leaves of nested objects by their dotted keys; lists on one line."""
    if isinstance(value, dict):
        for name, inner in value.items():
            yield from _flat(inner, f"{key}.{name}" if key else str(name))
    elif isinstance(value, list):
        yield key, ", ".join(map(str, value))
    else:
        yield key, _plain(value)


def _plain(value: Any) -> str:
    if value is None:
        return "not recorded"
    if isinstance(value, bool):
        return "yes" if value else "no"
    return str(value)
