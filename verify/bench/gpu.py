"""The clock of a GPU: CUDA graphs between events; and what the machine says of itself."""

from __future__ import annotations

import platform
import subprocess
from importlib import metadata
from typing import TYPE_CHECKING

import numpy as np
import torch

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from numpy.typing import NDArray

    from verify.bench.timing import Timer

_ASKED = "driver_version,clocks.sm,clocks.mem,temperature.gpu,power.draw"
PACKAGES = ("torch", "triton", "cuda-bindings")


class CudaClock:
    """Captures launches in a CUDA graph between two events, and replays it.

    The events are nodes of the graph, so that what passes between two replays is in no figure.
    """

    def prepare(self, launches: Sequence[Callable[[], object]], rounds: int) -> Timer:
        """A timer for `rounds` times these launches; all must have run once before."""
        graph, began, ended = torch.cuda.CUDAGraph(), _event(), _event()
        with torch.cuda.graph(graph):
            began.record()
            for _ in range(rounds):
                for launch in launches:
                    launch()
            ended.record()
        count = rounds * len(launches)

        def timer(replays: int) -> NDArray[np.float64]:
            passed = np.empty(replays)
            for number in range(replays):
                graph.replay()
                torch.cuda.synchronize()
                passed[number] = began.elapsed_time(ended)
            return passed * (1000 / count)

        return timer


def _event() -> torch.cuda.Event:
    """An event that a graph records each time it is replayed."""
    return torch.cuda.Event(enable_timing=True, external=True)  # type: ignore[no-untyped-call] # torch has no types here


def machine() -> dict[str, str]:
    """Card, driver and versions."""
    properties = torch.cuda.get_device_properties(0)
    versions = {name: version for name in PACKAGES if (version := _version(name))}
    return {
        "gpu": properties.name,
        "multiprocessors": str(properties.multi_processor_count),
        "L2": f"{properties.L2_cache_size / 2**20:g} MiB",
        "driver": clocks().get("driver_version", "unknown"),
        "cuda": str(torch.version.cuda),
        **versions,
        "python": platform.python_version(),
    }


def clocks() -> dict[str, str]:
    """Clocks, temperature and power of the first GPU as nvidia-smi tells them; empty without it."""
    command = ["nvidia-smi", f"--query-gpu={_ASKED}", "--format=csv,noheader", "--id=0"]
    try:
        done = subprocess.run(  # noqa: S603 - our own words
            command, capture_output=True, text=True, check=True, timeout=20
        )
    except (OSError, subprocess.SubprocessError):
        return {}
    answers = [answer.strip() for answer in done.stdout.strip().split(",")]
    return dict(zip(_ASKED.split(","), answers, strict=False))


def _version(package: str) -> str | None:
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return None
