"""The margin and floor of a suite whose answers exist already, and where they come from."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from evals.suite import load, names
from verify.command import UserError
from verify.logs.run import manifest_beside
from verify.logs.values import shown
from verify.store import FILE_NAME

if TYPE_CHECKING:
    from collections.abc import Sequence

    from verify.logs import Log
    from verify.logs.run import Manifest

# Percentage points, and the share of right answers that shows nothing, by a suite's first word.
_FAMILIES = {"gsm8k": (1.0, 0.05), "aime": (5.0, 0.05), "gpqa": (3.0, 0.25)}
_FLOOR = 0.05


@dataclass(frozen=True)
class Margin:
    """What a suite is judged at.

    Attributes:
        points: the margin in percentage points.
        source: where it comes from.
        floor: a share.
        before: the margin in points that was fixed before the run, if another.
    """

    points: float
    source: str
    floor: float
    before: float | None = None


def margin_of(suite: str, given: float | None, logs: Sequence[Log]) -> Margin:
    """The given margin, else the one in the run's own manifest, else the benchmark's default.

    Raises:
        UserError: none of them.
    """
    fixed = _in_manifest(suite, logs)
    known = fixed or _default(suite)
    floor = known.floor if known is not None else _FLOOR
    if given is None:
        if known is None:
            raise UserError(
                f"suite {shown(suite)} has no default margin; add --margin POINTS, "
                "the loss to rule out"
            )
        return known
    before = fixed.points if fixed is not None and fixed.points != given else None
    return Margin(given, "--margin, after the answers existed", floor, before)


def embedded(logs: Sequence[Log]) -> bool:
    """Whether every log is of the embedded model, whose answers no server start can shift."""
    kinds = {arm.kind for manifest in _manifests(logs) for arm in manifest.arms.values()}
    ours = all(path.name == FILE_NAME for log in logs for path in log.paths)
    return ours and kinds == {"embedded"}


def _default(suite: str) -> Margin | None:
    if suite in names():
        spec = load(suite).spec
        return Margin(spec.margin_pt, "the suite", spec.floor)
    found = next((f for name, f in _FAMILIES.items() if suite.lower().startswith(name)), None)
    return None if found is None else Margin(found[0], "the benchmark's default", found[1])


def _in_manifest(suite: str, logs: Sequence[Log]) -> Margin | None:
    for manifest in _manifests(logs):
        held = manifest.suites.get(suite)
        if held is not None and held.margin_pt is not None:
            floor = _FLOOR if held.floor is None else held.floor
            return Margin(held.margin_pt, "the run's manifest", floor)
    return None


def _manifests(logs: Sequence[Log]) -> list[Manifest]:
    """Of our own runs among the logs."""
    paths = {path for log in logs for path in log.paths if path.name == FILE_NAME}
    return [found for path in sorted(paths) if (found := manifest_beside(path)) is not None]
