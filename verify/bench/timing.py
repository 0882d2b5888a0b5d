"""How things are timed beside each other, whatever the clock: warm-up, sweeps, order, checks."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    import numpy as np
    from numpy.typing import NDArray

    Timer = Callable[[int], NDArray[np.float64]]
    """Replays a prepared piece of work so often: microseconds a launch, one number a replay."""


@dataclass(frozen=True)
class Method:
    """How a figure comes about.

    Attributes:
        warm_ups: replays before each sweep that are not timed.
        replays: timed replays in a sweep.
        sweeps: in each, everything is timed once; every second one goes backwards.
        rounds: times that a replay goes through all weight buffers.
    """

    warm_ups: int = 30
    replays: int = 2000
    sweeps: int = 3
    rounds: int = 2


class Work(Protocol):
    """What is timed: one launch for each weight buffer, each into outputs of its own."""

    @property
    def launches(self) -> Sequence[Callable[[], object]]:
        """The launches of one round."""

    def spoil(self) -> None:
        """Overwrite every output."""

    def wrong(self) -> str | None:
        """One line if an output is not what it should be now."""


class Clock(Protocol):
    """Makes timers."""

    def prepare(self, launches: Sequence[Callable[[], object]], rounds: int) -> Timer:
        """A timer for `rounds` times these launches, one after the other."""


@dataclass(frozen=True)
class Timed:
    """One work's times: microseconds a launch, [replays] for each sweep; what was wrong if any."""

    sweeps: tuple[NDArray[np.float64], ...]
    wrong: str | None


def timed(works: Mapping[str, Work], clock: Clock, method: Method) -> dict[str, Timed]:
    """Time all works beside each other, and check the outputs that each sweep left."""
    timers = {name: clock.prepare(work.launches, method.rounds) for name, work in works.items()}
    sweeps: dict[str, list[NDArray[np.float64]]] = {name: [] for name in works}
    wrong: dict[str, str] = {}
    for number in range(method.sweeps):
        names = list(works) if number % 2 == 0 else list(works)[::-1]
        for name in names:
            works[name].spoil()
            timers[name](method.warm_ups)
            sweeps[name].append(timers[name](method.replays))
            message = works[name].wrong()
            if message is not None:
                wrong.setdefault(name, f"sweep {number + 1}: {message}")
    return {name: Timed(tuple(sweeps[name]), wrong.get(name)) for name in works}
