"""Launches counted in a Chrome trace, as torch's profiler, SGLang and vLLM write one a rank.

Events are read one by one; of each launch three numbers are kept, so that a trace of hundreds of
megabytes costs tens.
"""

from __future__ import annotations

import hashlib
import math
from array import array
from bisect import bisect_right
from collections import Counter, defaultdict
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from verify.bench import chrome
from verify.command import UserError

if TYPE_CHECKING:
    from pathlib import Path

    from verify.bench.paths import Kernels

_LAUNCH, _NOTE = "kernel", "gpu_user_annotation"


@dataclass(frozen=True)
class Census:
    """What one trace shows.

    Attributes:
        file: its name.
        sha256: of the file as it is.
        launches: all kernel launches.
        fused: complete calls of fused paths; chains: of unfused ones.
        fused_launches: launches that these calls are made of; chain_launches likewise.
        rows: fused calls by T, where an annotation tells it.
        by_path: calls by `kind name`.
    """

    file: str
    sha256: str
    launches: int
    fused: int
    chains: int
    fused_launches: int
    chain_launches: int
    rows: dict[int, int]
    by_path: dict[str, int]

    @property
    def rows_unknown(self) -> int:
        """Fused calls of which no annotation tells T."""
        return self.fused - sum(self.rows.values())


class _Stream:
    """The launches of one stream: when, and which name by its number."""

    def __init__(self) -> None:
        self.starts, self.names = array("d"), array("L")

    def ordered(self) -> tuple[list[float], list[int]]:
        """Both in the order of time."""
        order = sorted(range(len(self.starts)), key=self.starts.__getitem__)
        return [self.starts[i] for i in order], [self.names[i] for i in order]


_DEPTH = 8
"""Annotations that tell T and lie inside each other; more are not looked through."""


class _Notes:
    """Annotations on one device that tell T: begin, end and T of each."""

    def __init__(self) -> None:
        self.spans: list[tuple[float, float, int]] = []

    def tokens(self, moment: float) -> int | None:
        """T of the annotation around this moment that began last."""
        place = bisect_right(self.spans, (moment, float("inf"), 0))
        for begin, end, tokens in reversed(self.spans[max(0, place - _DEPTH) : place]):
            if begin <= moment <= end:
                return tokens
        return None


def read(path: Path, kernels: Kernels) -> Census:
    """Count the launches of a trace, plain or gzip.

    Raises:
        UserError: the file is missing, broken off, no JSON, or no Chrome trace.
    """
    streams: dict[tuple[str, str], _Stream] = defaultdict(_Stream)
    notes: dict[str, _Notes] = defaultdict(_Notes)
    numbers: dict[str, int] = {}
    for event in chrome.events(path):
        kind = event.get("cat")
        if kind not in (_LAUNCH, _NOTE) or event.get("ph") != "X":
            continue
        name, start, device, stream = _placed(path, event)
        if kind == _LAUNCH:
            streams[device, stream].starts.append(start)
            streams[device, stream].names.append(numbers.setdefault(name, len(numbers)))
        elif (tokens := kernels.tokens(name)) is not None:
            length = event.get("dur", 0)
            end = start + (length if isinstance(length, int | float) else 0)
            notes[device].spans.append((start, end, tokens))
    for note in notes.values():
        note.spans.sort()
    return _counted(path, streams, notes, list(numbers), kernels)


def _counted(
    path: Path,
    streams: dict[tuple[str, str], _Stream],
    notes: dict[str, _Notes],
    names: list[str],
    kernels: Kernels,
) -> Census:
    by_path: Counter[str] = Counter()
    calls: Counter[str] = Counter()
    launches: Counter[str] = Counter()
    rows: Counter[int] = Counter()
    for (device, _), stream in streams.items():
        starts, order = stream.ordered()
        spelled = [names[number] for number in order]
        for each in kernels.paths:
            for first, last in each.calls(spelled):
                by_path[f"{each.kind} {each.name}"] += 1
                calls[each.kind] += 1
                launches[each.kind] += last - first + 1
                tokens = notes[device].tokens(starts[first]) if each.kind == "fused" else None
                if tokens is not None:
                    rows[tokens] += 1
    return Census(
        file=path.name,
        sha256=_digest(path),
        launches=sum(len(stream.starts) for stream in streams.values()),
        fused=calls["fused"],
        chains=calls["chain"],
        fused_launches=launches["fused"],
        chain_launches=launches["chain"],
        rows=dict(sorted(rows.items())),
        by_path=dict(by_path),
    )


def _placed(path: Path, event: dict[str, Any]) -> tuple[str, float, str, str]:
    """Name, start, device and stream of an event."""
    name, start, about = event.get("name"), event.get("ts"), event.get("args")
    if not isinstance(name, str) or not isinstance(start, int | float) or not math.isfinite(start):
        raise UserError(
            f"{path}: a {event['cat']} event has no name or no ts; it is no whole trace"
        )
    about = about if isinstance(about, dict) else {}
    device, stream = about.get("device", event.get("pid")), about.get("stream", event.get("tid"))
    return name, float(start), str(device), str(stream)


def _digest(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
