"""The paths that a call may take, as sequences of kernel names; `kernels.toml` holds ours."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import msgspec

from verify.command import UserError

if TYPE_CHECKING:
    from collections.abc import Iterable

OURS = Path(__file__).with_name("kernels.toml")
Kind = Literal["fused", "chain"]


class PathSpec(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """`[[path]]`: the launches of one call in their order, as regular expressions."""

    kind: Kind
    name: str
    launches: list[str]
    between: list[str] = []


class KernelsFile(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """kernels.toml; `rows` find T in the name of an annotation."""

    path: list[PathSpec]
    rows: list[str] = []


@dataclass(frozen=True)
class KernelPath:
    """One way that a call may take."""

    kind: Kind
    name: str
    launches: tuple[re.Pattern[str], ...]
    between: tuple[re.Pattern[str], ...]

    def calls(self, names: Iterable[str]) -> list[tuple[int, int]]:
        """First and last place of each complete call in the launches of one stream."""
        found: list[tuple[int, int]] = []
        start, state = 0, 0
        for place, name in enumerate(names):
            if state and self.launches[state].search(name):
                state += 1
            elif self.launches[0].search(name):
                start, state = place, 1
            elif not (state and any(pattern.search(name) for pattern in self.between)):
                state = 0
            if state == len(self.launches):
                found.append((start, place))
                state = 0
        return found


@dataclass(frozen=True)
class Kernels:
    """All paths, and what finds T in an annotation."""

    paths: tuple[KernelPath, ...]
    rows: tuple[re.Pattern[str], ...]

    def tokens(self, annotation: str) -> int | None:
        """T as the annotation tells it; None if it tells nothing."""
        for pattern in self.rows:
            if match := pattern.search(annotation):
                return sum(int(group) for group in match.groups() if group)
        return None


def read(path: Path = OURS) -> Kernels:
    """The file of paths.

    Raises:
        UserError: it cannot be read, or does not hold what it should.
    """
    try:
        spec = msgspec.toml.decode(path.read_bytes(), type=KernelsFile)
        paths = tuple(_path(each) for each in spec.path)
        rows = tuple(re.compile(pattern) for pattern in spec.rows)
    except OSError as error:
        raise UserError(f"--kernels {path} cannot be read ({error.strerror})") from None
    except (msgspec.DecodeError, UnicodeDecodeError, ValueError, re.error) as error:
        raise UserError(f"--kernels {path}: {error}; see {OURS.name} for the format") from None
    return Kernels(paths, rows)


def _path(spec: PathSpec) -> KernelPath:
    if not spec.launches:
        raise ValueError(f"path {spec.name!r} has no launches")
    return KernelPath(
        spec.kind,
        spec.name,
        tuple(re.compile(pattern) for pattern in spec.launches),
        tuple(re.compile(pattern) for pattern in spec.between),
    )
