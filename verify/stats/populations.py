"""Simulated suites whose true difference is known: where `verify.stats.calibration` tries methods.

A question is one of four kinds: right in every answer of both arms; *tossed*, right in half of
base's answers, so that base flips against itself; *broken*, right in base and wrong in PR for
good; *mended*, the other way round. PR's loss is either spread over the tossed questions or sits
in broken ones, where no number of repeats makes it easier to see.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np
from scipy.stats import binom, norm
from scipy.stats import t as student

if TYPE_CHECKING:
    from verify.stats.bounded import FloatArray


@dataclass(frozen=True)
class Runs:
    """Many simulated comparisons of two arms, as their items' differences of means."""

    values: FloatArray
    """[2 repeats + 1], from -1 to 1."""

    counts: FloatArray
    """How many items of each run show each value, [runs, 2 repeats + 1]."""

    shifts: FloatArray
    """The square of what shifts of server starts add to the half-width, [runs]."""

    @property
    def estimates(self) -> FloatArray:
        """Each run's mean difference, [runs]."""
        return np.asarray(self.counts @ self.values / self.counts.sum(axis=1))

    @property
    def mirrored(self) -> Runs:
        """The same with the arms swapped."""
        return Runs(self.values, self.counts[:, ::-1], self.shifts)


@dataclass(frozen=True)
class Population:
    """Shares of the kinds of questions."""

    tossed: float
    broken: float = 0.0
    mended: float = 0.0
    pr_right: float = 0.5
    """Chance that PR answers a tossed question rightly."""

    def spread(self, loss: float) -> Population:
        """The same with a loss spread over the tossed questions; what they cannot hold breaks."""
        held = min(loss, self.tossed / 2)
        broken = self.broken + loss - held
        return replace(self, pr_right=0.5 - held / self.tossed, broken=broken)

    def breaking(self, loss: float) -> Population:
        """The same with so many more questions broken."""
        return replace(self, broken=self.broken + loss)

    def law(self, repeats: int) -> tuple[FloatArray, FloatArray]:
        """The values of an item's difference of means, and their probabilities."""
        answers = np.arange(repeats + 1)
        pr = binom.pmf(answers, repeats, self.pr_right)
        base = binom.pmf(answers, repeats, 0.5)
        chances = self.tossed * np.convolve(pr, base[::-1])
        chances[0] += self.broken
        chances[-1] += self.mended
        chances[repeats] += 1 - chances.sum()
        return np.arange(-repeats, repeats + 1) / repeats, chances

    def runs(self, items: int, repeats: int, runs: int, rng: np.random.Generator) -> Runs:
        """Comparisons without shifts of server starts."""
        values, chances = self.law(repeats)
        counts = rng.multinomial(items, chances, size=runs).astype(np.float64)
        return Runs(values, counts, np.zeros(runs))

    def answers(
        self,
        items: int,
        runs: int,
        moves: tuple[FloatArray, FloatArray],
        rng: np.random.Generator,
    ) -> tuple[FloatArray, FloatArray, FloatArray]:
        """The tossed items' answers when each repeat of each run is shifted.

        `moves` holds what is added to the accuracy of base's and PR's repeats, [runs, repeats].
        Returns base's and PR's answers, [runs, most tossed items, repeats], both right where a
        run has fewer items, and the counts of broken and mended items, [runs, 2].
        """
        kinds = [self.tossed, self.broken, self.mended]
        counts = rng.multinomial(items, [*kinds, 1 - sum(kinds)], size=runs)
        most = max(1, int(counts[:, 0].max()))
        there = np.arange(most)[None, :, None] < counts[:, :1, None]
        arms = []
        for right, shift in zip((0.5, self.pr_right), moves, strict=True):
            chance = np.clip(right + shift / self.tossed, 0, 1)[:, None, :]
            drawn = rng.random((runs, most, shift.shape[1])) < chance
            arms.append(np.where(there, drawn, True).astype(np.float64))
        return arms[0], arms[1], counts[:, 1:3].astype(np.float64)

    def shaken_runs(
        self,
        items: int,
        repeats: int,
        runs: int,
        rng: np.random.Generator,
        *,
        start_sd: float,
        alpha: float,
        one_start: bool,
    ) -> Runs:
        """Comparisons in which server starts shift whole runs.

        Each repeat has its own start, and `shifts` allows for them as `compare_repeats` does at
        level `alpha`; or all repeats of an arm share one start, and nothing allows for it.
        """
        size = (runs, 1 if one_start else repeats)
        moves = [np.broadcast_to(rng.normal(0, start_sd, size), (runs, repeats)) for _ in "bp"]
        base, pr, others = self.answers(items, runs, (moves[0], moves[1]), rng)
        places = np.rint(pr.sum(axis=2) - base.sum(axis=2)).astype(int) + repeats
        width = 2 * repeats + 1
        flat = (places + width * np.arange(runs)[:, None]).ravel()
        counts = np.bincount(flat, minlength=width * runs).reshape(runs, width).astype(np.float64)
        counts[:, 0] += others[:, 0]
        counts[:, -1] += others[:, 1]
        counts[:, repeats] += items - counts.sum(axis=1)
        shifts = np.zeros(runs) if one_start else _start_shifts(base, pr, items, alpha)
        return Runs(np.arange(-repeats, repeats + 1) / repeats, counts, shifts)


def _start_shifts(base: FloatArray, pr: FloatArray, items: int, alpha: float) -> FloatArray:
    """What `RepeatedDifference` adds for starts, one repeat a start, for many runs at once."""
    repeats = base.shape[2]
    variances = [arm.sum(axis=1).var(axis=1, ddof=1) / items**2 / repeats for arm in (base, pr)]
    noise = sum(arm.var(axis=2, ddof=1).sum(axis=1) / items**2 / repeats for arm in (base, pr))
    total = variances[0] + variances[1]
    spread = (variances[0] ** 2 + variances[1] ** 2) / (repeats - 1)
    df = np.divide(total**2, spread, out=np.full_like(total, 2.0 * repeats - 2), where=spread > 0)
    reach = student.isf(alpha, df) ** 2 * total
    return np.asarray(np.maximum(0.0, reach - norm.isf(alpha) ** 2 * noise))
