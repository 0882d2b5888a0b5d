"""How fast arms held in arrays are compared: 10^6 questions, four repeats in each arm.

    python benchmarks/compare_arrays.py [QUESTIONS] [REPEATS]

Also the exact unconditional test at the size of GSM8K, and the verdicts of three suites with all
their figures, once and with repeats. The targets are 1 s each.
"""

from __future__ import annotations

import sys
import time
from typing import TYPE_CHECKING

import numpy as np

from verify.stats.exact import ExactDifference
from verify.stats.noise import flip_rates, start_noise
from verify.stats.repeats import compare_repeats
from verify.stats.suite import SuiteScores, judge

if TYPE_CHECKING:
    from collections.abc import Callable


def timed(what: str, work: Callable[[], object]) -> None:
    """Run `work` once and print its time on the clock and on the processor."""
    clock, processor = time.perf_counter(), time.process_time()
    found = work()
    clock, processor = time.perf_counter() - clock, time.process_time() - processor
    print(f"{clock:7.3f} s ({processor:.3f} s of processor)  {what}: {found}")


def suite(items: int, repeats: int) -> SuiteScores:
    """Two arms of a suite, with some answers cut, and their lengths."""
    rng = np.random.default_rng(items)
    right = rng.random((items, 1)) < 0.9
    base, pr = (right ^ (rng.random((items, repeats)) < 0.02) for _ in "bp")
    cut = rng.random((2, items, repeats)) < 0.01
    return SuiteScores(
        suite=f"of {items}",
        base=base.astype(np.float64),
        pr=pr.astype(np.float64),
        truncated=(cut[0], cut[1]),
        margin=0.03,
        floor=0.05,
        starts=(range(repeats), range(repeats)),
        tokens=(rng.integers(9, 999, base.shape) * 1.0, rng.integers(9, 999, base.shape) * 1.0),
        asked=rng.permutation(items),
    )


def verdicts(suites: list[SuiteScores]) -> Callable[[], str]:
    """What judges them, and says how."""
    return lambda: ", ".join(str(found.verdict) for found in judge(suites))


def main(questions: int, repeats: int) -> None:
    """Make two arms that flip on one answer in a hundred, and compare them."""
    rng = np.random.default_rng(1)
    right = rng.random((questions, 1)) < 0.95
    base, pr = (right ^ (rng.random((questions, repeats)) < 0.005) for _ in "bp")
    starts = range(repeats)

    def clustered(labels: range | None) -> str:
        found = compare_repeats(base, pr, base_starts=labels, pr_starts=labels)
        low, high = found.interval()
        p = found.noninferiority(0.01)
        return f"[{100 * low:+.4f}, {100 * high:+.4f}] points, non-inferior at 1: p = {p:.2g}"

    timed("interval and non-inferiority", lambda: clustered(None))
    timed("the same, clustered by start", lambda: clustered(starts))
    timed("flips within and between the arms", lambda: f"{flip_rates(base, pr).between:.4f}")
    timed("shifts of starts", lambda: f"p = {start_noise(base).p:.2f}")
    gsm8k = ExactDifference(lost=7, gained=3, items=1319)
    timed("exact test, 1,319 questions", lambda: f"p = {gsm8k.noninferiority(0.01):.4f}")
    hard = ExactDifference(lost=660, gained=650, items=1319)
    timed("exact test, nearly all discordant", lambda: f"p = {hard.noninferiority(0.05):.4f}")
    for several in (1, 4):
        suites = [suite(items, several) for items in (1319, 198, 30)]
        timed(f"GSM8K, GPQA and AIME, {several} x", verdicts(suites))


if __name__ == "__main__":
    given = [int(argument) for argument in sys.argv[1:]]
    main(*given, *(1_000_000, 4)[len(given) :])
