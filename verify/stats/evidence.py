"""What one suite's pairs say, before any verdict: the comparison, its worst case, its noise."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from verify.stats.bounded import BoundedMean, FloatArray
from verify.stats.design import compare
from verify.stats.mcnemar import McNemar, harm, mcnemar
from verify.stats.noise import flip_rates, flips_by_repeat, start_noise
from verify.stats.repeats import RepeatedDifference
from verify.stats.results import Noise, Sequential, StartShift
from verify.stats.sequential import EProcess, confidence_sequence
from verify.stats.table import PairedTable
from verify.stats.truncation import CensoredScores, best_case, worst_case

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from verify.stats.design import PairedDifference

ALPHA = 0.025
"""One-sided level of every fixed-size test behind a verdict, and of the certificate."""

HARM_ALPHA = 0.05
"""Level at which the e-process for harm stops a run."""

CONFIDENCE = 1 - 2 * ALPHA


@dataclass(frozen=True, eq=False)
class SuiteScores:
    """Both arms' answers to one suite: scores 0 to 1, [items, repeats], items in the same order.

    Attributes:
        suite: its name.
        base, pr: NaN where a repeat is missing; every item has an answer in each arm.
        truncated: flags of the same shapes; None where it is not known of every answer.
        margin, floor: shares, not points.
        problems: why the comparison is invalid; the arrays then hold what could still be paired,
            and may be empty.
        starts: labels of the repeats' server starts, by arm; None where they are not known.
        deterministic: no server start can shift these arms' answers, so nothing is said of it.
        tokens: completion tokens of the same shapes, NaN where not known; None: not of every item.
        asked: rows in the random order in which they were asked, as far as both arms answered
            without a gap; None where no such order is known.
        stopped: the run ended before everything was asked.
        certify: the e-process is the run's only route to a pass.
    """

    suite: str
    base: FloatArray
    pr: FloatArray
    truncated: tuple[NDArray[np.bool_], NDArray[np.bool_]] | None
    margin: float
    floor: float
    problems: tuple[str, ...] = ()
    starts: tuple[Sequence[object] | None, Sequence[object] | None] = (None, None)
    deterministic: bool = False
    tokens: tuple[FloatArray, FloatArray] | None = None
    asked: NDArray[np.intp] | None = None
    stopped: bool = False
    certify: bool = False


class Evidence:
    """Figures of one suite, each computed when it is first wanted."""

    def __init__(self, scores: SuiteScores) -> None:
        self.scores = scores

    @cached_property
    def means(self) -> tuple[FloatArray, FloatArray]:
        """Item means over repeats of base and of PR."""
        return _means(self.scores.base), _means(self.scores.pr)

    @cached_property
    def table(self) -> PairedTable:
        """Items lost, gained, both and neither, by their means over repeats."""
        base, pr = self.means
        change = np.round(pr - base, 12)
        lost, gained = int((change < 0).sum()), int((change > 0).sum())
        both = int(((change == 0) & (base > 0.5)).sum())
        return PairedTable(both, lost, gained, len(change) - both - lost - gained)

    @cached_property
    def repeats(self) -> tuple[int, int]:
        """The largest number of answers to an item, by arm."""
        return self.scores.base.shape[1], self.scores.pr.shape[1]

    @cached_property
    def graded(self) -> bool:
        """Whether some answer has partial credit."""
        arms = (self.scores.base, self.scores.pr)
        return any(bool(np.any((arm > 0) & (arm < 1))) for arm in arms)

    @property
    def single(self) -> bool:
        """Whether each item was answered once, rightly or wrongly."""
        return self.repeats == (1, 1) and not self.graded

    @cached_property
    def difference(self) -> PairedDifference:
        """The comparison, by the method that the design asks for."""
        return self._compare(self.scores.base, self.scores.pr)

    @property
    def controls_starts(self) -> bool:
        """Whether the interval allows for shifts of whole server starts."""
        found = self.difference
        return isinstance(found, RepeatedDifference) and found.controls_starts

    @cached_property
    def mcnemar(self) -> McNemar | None:
        """Of single answers only."""
        return mcnemar(self.table.lost, self.table.gained) if self.single else None

    @cached_property
    def harm_p(self) -> float:
        """One-sided p-value of "PR is no worse than base"."""
        found = self.difference
        if isinstance(found, RepeatedDifference):
            return found.inferiority()
        return harm(self.table.lost, self.table.gained)

    @cached_property
    def noninferiority(self) -> float:
        """One-sided p-value at the margin, as graded."""
        return self.difference.noninferiority(self.scores.margin)

    @cached_property
    def cut(self) -> tuple[int, int] | None:
        """Truncated answers by arm; None where it is not known."""
        known = self.scores.truncated
        return None if known is None else (int(known[0].sum()), int(known[1].sum()))

    @cached_property
    def worst_noninferiority(self) -> float:
        """The same with every truncated answer counted against PR."""
        if not self.cut or not sum(self.cut):
            return self.noninferiority
        worst = self.worst
        return self._compare(worst.base, worst.pr).noninferiority(self.scores.margin)

    @cached_property
    def worst(self) -> CensoredScores:
        """Every truncated answer counted against PR; as it is where truncation is not known."""
        s = self.scores
        if s.truncated is None:
            return CensoredScores(s.base, s.pr)
        return worst_case(s.base, s.pr, *s.truncated)

    @property
    def best(self) -> CensoredScores:
        """Every truncated answer counted for PR."""
        assert self.scores.truncated is not None
        return best_case(self.scores.base, self.scores.pr, *self.scores.truncated)

    @cached_property
    def above_floor(self) -> bool:
        """Whether base is clearly better than the floor: Clopper-Pearson where answers are 0, 1."""
        return BoundedMean.of(self.means[0], low=0.0, high=1.0).p_at_most(self.scores.floor) < ALPHA

    @cached_property
    def interval(self) -> tuple[float, float]:
        """Of the difference, for a size fixed beforehand."""
        return self.difference.interval(CONFIDENCE)

    @cached_property
    def sequential(self) -> Sequential | None:
        """Evidence valid at any look; None where no random order is known."""
        s = self.scores
        if s.asked is None or not s.asked.size:
            return None
        differences = (s.pr - s.base)[s.asked, 0]
        harmful = EProcess.harm(s.margin)
        harmful.update(differences)
        certificate = None
        if s.certify:
            certificate = EProcess.certificate(s.margin)
            certificate.update((self.worst.pr - self.worst.base)[s.asked, 0])
        low, high = confidence_sequence(differences, CONFIDENCE)
        return Sequential(
            questions=harmful.questions,
            harm=harmful.peak,
            certificate=None if certificate is None else certificate.peak,
            confidence_sequence_pt=(100 * low, 100 * high),
            stopped=s.stopped,
        )

    @property
    def fixed_size(self) -> bool:
        """Whether figures for a size fixed beforehand apply."""
        return not (self.scores.stopped or self.scores.certify)

    @cached_property
    def noise(self) -> Noise | None:
        """A/A flips beside A/B flips; None without repeats, or with partial credit."""
        s = self.scores
        if max(self.repeats) == 1 or self.graded:
            return None
        flips = flip_rates(s.base, s.pr)
        return Noise(
            flips_base=flips.base,
            flips_pr=flips.pr,
            flips_between=flips.between,
            repeats=tuple(flips_by_repeat(s.base, s.pr)),
            shift_base=start_shift(s.base, s.starts[0]),
            shift_pr=start_shift(s.pr, s.starts[1]),
        )

    def _compare(self, base: FloatArray, pr: FloatArray) -> PairedDifference:
        of_base, of_pr = self.scores.starts
        return compare(base, pr, base_starts=of_base, pr_starts=of_pr)


def start_shift(scores: FloatArray, starts: Sequence[object] | None) -> StartShift | None:
    """Whether starts shift whole runs of an arm; repeats where fewer than two starts are known."""
    labels = starts if starts is not None and len(set(starts)) > 1 else None
    found = start_noise(scores, labels)
    if found is None:
        return None
    low, high = found.shift_interval()
    return StartShift(
        starts=found.starts.count,
        ratio=found.ratio,
        p=found.p,
        shift_pt=100 * found.shift,
        shift_interval_pt=(100 * low, 100 * high),
    )


def _means(scores: FloatArray) -> FloatArray:
    return scores[:, 0] if scores.shape[1] == 1 else np.asarray(np.nanmean(scores, axis=1))
