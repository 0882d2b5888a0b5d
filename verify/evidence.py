"""Evidence that an arm took a path: a counter that moved, or trace files that name it."""

from __future__ import annotations

import gzip
import json
import re
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping

_CHUNK = 1 << 20


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
