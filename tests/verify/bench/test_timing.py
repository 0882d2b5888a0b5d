from __future__ import annotations

import numpy as np

from verify.bench.timing import Method, timed


class Told:
    """Work that writes down what is done to it; wrong in the sweeps it is told."""

    def __init__(self, name, log, wrong_in=()):
        self.name, self.log, self.wrong_in, self.checked = name, log, wrong_in, 0
        self.launches = [lambda: None] * 3

    def spoil(self):
        self.log.append(f"spoil {self.name}")

    def wrong(self):
        self.checked += 1
        return f"bad {self.checked}" if self.checked in self.wrong_in else None


class Clock:
    def __init__(self, log):
        self.log, self.rounds, self.names = log, [], iter("abc")

    def prepare(self, launches, rounds):
        self.rounds.append((len(launches), rounds))
        name = next(self.names)

        def timer(replays):
            self.log.append(f"{replays} {name}")
            return np.full(replays, 1.0)

        return timer


def test_every_second_sweep_goes_backwards_and_each_is_warmed_spoilt_and_timed():
    log = []
    clock = Clock(log)
    works = {name: Told(name, log) for name in "abc"}
    found = timed(works, clock, Method(warm_ups=30, replays=2000, sweeps=3, rounds=2))
    once = {n: [f"spoil {n}", f"30 {n}", f"2000 {n}"] for n in "abc"}
    assert log == [line for n in "abc" + "cba" + "abc" for line in once[n]]
    assert clock.rounds == [(3, 2)] * 3
    assert all([len(sweep) for sweep in found[n].sweeps] == [2000] * 3 for n in "abc")
    assert all(work.checked == 3 for work in works.values())


def test_first_wrong_sweep_is_told_and_of_that_work_only():
    log = []
    works = {"a": Told("a", log), "b": Told("b", log, wrong_in=(2, 3))}
    found = timed(works, Clock(log), Method(sweeps=3))
    assert found["a"].wrong is None
    assert found["b"].wrong == "sweep 2: bad 2"
