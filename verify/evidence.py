"""Evidence that an arm took a path: a counter that moved, trace files that name it, launches."""

from __future__ import annotations

import gzip
import json
import re
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import msgspec

from verify.command import UserError
from verify.verdict import Verdict

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping

FILE = "evidence.json"
_CHUNK = 1 << 20


class _Rank(msgspec.Struct):
    by_path: dict[str, int] = {}


class _Traced(msgspec.Struct):
    fused: int
    ranks: list[_Rank] = []


class _Arms(msgspec.Struct):
    pr: _Traced


class Launches(msgspec.Struct):
    """What is used of evidence.json, which `verify.bench trace` may have left in a folder."""

    kind: Literal["kernelproof-launches"]
    version: Literal[1]
    verdict: Verdict
    reason: str
    arms: _Arms

    def show(self, path: str) -> bool:
        """Whether PR took the path of that name; `fused` is any fused one."""
        named = any(rank.by_path.get(path) for rank in self.arms.pr.ranks)
        return self.verdict == Verdict.PASS and (named or path == "fused")


def launches(folder: Path) -> Launches | None:
    """What a folder's evidence.json says, or None where there is none.

    Raises:
        UserError: it is something else.
    """
    path = folder / FILE
    try:
        return msgspec.json.decode(path.read_bytes(), type=Launches)
    except (FileNotFoundError, NotADirectoryError):
        return None
    except (OSError, ValueError) as error:
        raise UserError(
            f"{path} is not evidence of verify.bench trace ({error}); remove it"
        ) from None


class Evidence:
    """Watches the places at which an arm shows that it took its paths.

    Args:
        places: by name of a path, the address of a page that counts it (Prometheus's text, or a
            JSON object), or a pattern of trace files (`traces/*.json.gz`) in which its name stands.
        read: gives a page, or None.
    """

    def __init__(
        self, places: Mapping[str, str], read: Callable[[str], Awaitable[str | None]]
    ) -> None:
        self._places = dict(places)
        self._read = read
        self._before: dict[str, float | None] = {}
        self._began = time.time()
        self.counts = dict.fromkeys(places, 0.0)
        """How often each path was seen taken, over all starts."""

    async def begin(self) -> None:
        """Note where counters stand."""
        self._began = time.time()
        self._before = {name: await self._counter(name) for name in self._places}

    async def end(self) -> None:
        """Add what was seen since `begin`."""
        for name, place in self._places.items():
            if "://" not in place:
                self.counts[name] += _mentions(place, name, self._began)
                continue
            after = await self._counter(name)
            if after is not None:
                before = self._before.get(name) or 0.0
                # a server that was restarted counts from zero
                self.counts[name] += after - before if after >= before else after

    def take_up(self, seen: Mapping[str, float]) -> None:
        """Count what earlier processes saw."""
        for name in self.counts:
            self.counts[name] += seen.get(name, 0.0)

    def settings(self) -> dict[str, Any]:
        """For the manifest."""
        return {
            name: {"place": place, "count": self.counts[name]}
            for name, place in self._places.items()
        }

    async def _counter(self, name: str) -> float | None:
        place = self._places[name]
        page = await self._read(place) if "://" in place else None
        return None if page is None else counted(page, name)


def counted(page: str, name: str) -> float | None:
    """The value of a counter on a page: of Prometheus the sum over its labels."""
    try:
        value = json.loads(page)
    except (ValueError, RecursionError):
        pattern = rf"^{re.escape(name)}(?:_total)?(?:\{{[^\n]*\}})?[ \t]+([-+.0-9eE]+)"
        found = re.findall(pattern, page, re.MULTILINE)
        return sum(map(_number, found)) if found else None
    value = value.get(name) if isinstance(value, dict) else None
    return float(value) if isinstance(value, int | float) else None


def _number(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        return 0.0


def _mentions(pattern: str, name: str, since: float) -> int:
    """How often a name stands in the files of a pattern that were written since then."""
    path = Path(pattern).absolute()
    files = path.parent.glob(path.name) if path.parent.is_dir() else ()
    # file systems keep time more coarsely than we ask for it
    return sum(_count(file, name.encode()) for file in files if file.stat().st_mtime >= since - 2)


def _count(file: Path, name: bytes) -> int:
    """Occurrences in one file, which may be larger than memory."""
    found, held = 0, b""
    opened = gzip.open if file.suffix == ".gz" else open
    try:
        with opened(file, "rb") as content:
            while chunk := content.read(_CHUNK):
                held += chunk
                found += held.count(name)
                held = held[max(0, len(held) - len(name) + 1) :]
    except (OSError, EOFError):
        return found  # a trace that was cut off still shows what it shows
    return found
