"""The two arms as the manifest tells of them, side by side with their differences marked."""

from __future__ import annotations

import shlex
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from reports import words

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
    listed = list(run.about.arms)
    return Names(listed[0], listed[1]) if len(listed) == 2 else Names("base", "pr")


def manifest(run: Run) -> Manifest:
    """Both arms side by side, entries in the order written."""
    arms = run.manifest.get("arms", {})
    called = names(run)
    base, pr = (dict(_flat(arms.get(name, {}))) for name in (called.base, called.pr))
    rows = tuple(Row(key, base.get(key), pr.get(key)) for key in dict.fromkeys([*base, *pr]))
    rest = {key: value for key, value in run.manifest.items() if key not in {"arms", "command"}}
    return Manifest(rows, tuple(_flat(rest)), _command(run.manifest))


def paths(run: Run) -> tuple[str, ...]:
    """For each arm that counted them, which path its attention outputs took."""
    return tuple(
        f"In {name}, the attention output took "
        + words.listed([f"the {path} path {words.count(n, 'time')}" for path, n in calls.items()])
        for name, arm in run.about.arms.items()
        if (calls := arm.calls)
    )


def _command(document: Mapping[str, Any]) -> str | None:
    command = document.get("command")
    if isinstance(command, list):
        return shlex.join(map(str, command))
    return str(command) if command else None


# Entries of one object that are written out; longer ones are lists of items and their hashes.
_MOST = 40


def _flat(value: Any, key: str = "") -> Iterator[tuple[str, str]]:
    """Leaves of nested objects by their dotted keys; lists and counts on one line."""
    if not isinstance(value, dict):
        yield key, _plain(value)
    elif len(value) > _MOST:
        yield key, f"{len(value):,} entries, in the data below"
    elif value and all(type(inner) is int for inner in value.values()):
        yield key, ", ".join(f"{name}: {inner:,}" for name, inner in value.items())
    else:
        for name, inner in value.items():
            yield from _flat(inner, f"{key}.{name}" if key else str(name))


def _plain(value: Any) -> str:
    if value is None:
        return "not recorded"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, list):
        return ", ".join(map(_plain, value)) or "none"
    return str(value)
