"""Which method compares two arms: settled by the design of the run, never by its outcome.

One answer to each question: Tango's score; with few questions, where that score may pass 3 % and
more of inferior arms instead of 2.5 %, the exact unconditional test. Repeats, missing answers or
partial credit: the clustered bound on item means.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

import numpy as np

from verify.stats.exact import ExactDifference
from verify.stats.repeats import compare_repeats
from verify.stats.table import PairedTable
from verify.stats.tango import TangoDifference

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import ArrayLike

EXACT_BELOW = 500
"""Questions from which Tango's score, each asked once, keeps its 2.5 % to within 0.2 points."""


class PairedDifference(Protocol):
    """PR minus base, by whichever method."""

    @property
    def method(self) -> str:
        """The method's name, as results carry it."""

    @property
    def estimate(self) -> float:
        """The difference, a share."""

    def interval(self, confidence: float = 0.95) -> tuple[float, float]:
        """Two-sided interval."""

    def noninferiority(self, margin: float) -> float:
        """One-sided p-value of the hypothesis that PR is worse by `margin` or more."""

    def equivalence(self, margin: float) -> float:
        """p-value of the hypothesis that the arms differ by `margin` or more."""

    def smallest_margin(self, alpha: float = 0.025) -> float:
        """The smallest margin at which non-inferiority holds at level `alpha`."""


def compare(
    base: ArrayLike,
    pr: ArrayLike,
    *,
    base_starts: Sequence[object] | None = None,
    pr_starts: Sequence[object] | None = None,
) -> PairedDifference:
    """Compare two arms by the method that their design asks for.

    Scores between 0 and 1, [items, repeats], and labels of server starts: see `compare_repeats`.
    """
    arms = np.asarray(base, dtype=np.float64), np.asarray(pr, dtype=np.float64)
    single = all(arm.ndim == 2 and arm.shape[1] == 1 for arm in arms)
    if not (single and all(np.isin(arm, (0.0, 1.0)).all() for arm in arms)):
        return compare_repeats(*arms, base_starts=base_starts, pr_starts=pr_starts)
    table = PairedTable.of(arms[0][:, 0], arms[1][:, 0])
    if table.items < EXACT_BELOW:
        return ExactDifference(table.lost, table.gained, table.items)
    return TangoDifference(table)
