"""The client's own delay: from when a byte is sent on this machine to when it is said to be here.

`python -m verify.bench.serve.delay` measures it by itself; every run does, and prints it.
"""

from __future__ import annotations

import asyncio
import sys
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import click
import msgspec
import numpy as np

from verify.bench.serve import scheduled
from verify.bench.serve.chunks import events
from verify.bench.serve.client import TimedClient
from verify.command import run

EVENTS = 1000
"""In all, of at most a quarter of them in one stream."""
RATE = 2000
"""Events a second in all, of at most a quarter of them in one stream."""
MOST_MS = 0.2
"""A client whose median delay is longer is too busy to measure with."""
_START_S = 60.0


class _Sent(msgspec.Struct):
    at: float


@dataclass(frozen=True)
class Delay:
    """Milliseconds between sending and arrival, on the clock that both share.

    Attributes:
        streams: that came at a time.
        events: of all of them.
        median_ms: of the events.
        p99_ms: their 99th percentile.
    """

    streams: int
    events: int
    median_ms: float
    p99_ms: float


async def measure(streams: int) -> Delay:
    """Take so many streams at a time from a server of a known schedule."""
    count, gap_s = max(8, EVENTS // max(4, streams)), max(4, streams) / RATE
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-S", str(Path(scheduled.__file__)), str(count), str(gap_s),
        stdout=asyncio.subprocess.PIPE, start_new_session=True,
    )  # fmt: skip
    try:
        assert process.stdout is not None
        port = int(await asyncio.wait_for(process.stdout.readline(), _START_S))
        async with TimedClient(f"http://127.0.0.1:{port}/v1") as client:
            found = await asyncio.gather(*(client.timed({}, _START_S) for _ in range(streams)))
    finally:
        with suppress(ProcessLookupError):
            process.kill()
        await process.wait()
    decoder = msgspec.json.Decoder(_Sent)
    delays = [
        1000 * (at - decoder.decode(data).at)
        for recording in found
        for at, data in events(recording.arrivals)
    ]
    return Delay(streams, len(delays), float(np.median(delays)), float(np.percentile(delays, 99)))


def words(delay: Delay) -> str:
    """One line for people."""
    said = (
        f"the client's own delay: median {delay.median_ms:.3f} ms, 99 % within "
        f"{delay.p99_ms:.3f} ms ({delay.events:,} events, {delay.streams} streams at a time)"
    )
    busy = delay.median_ms > MOST_MS
    return f"{said}; more than {MOST_MS} ms: free this machine of other work" if busy else said


@click.command()
@click.option(
    "--streams", type=click.IntRange(min=1, max=4096), default=1, show_default=True,
    help="Streams at a time.",
)  # fmt: skip
def command(streams: int) -> None:
    """Measure how late the client notices what arrives."""
    click.echo(words(asyncio.run(measure(streams))))


if __name__ == "__main__":
    run(command, "verify.bench.serve.delay")
