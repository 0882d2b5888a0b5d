"""McNemar's test of whether lost and gained items part evenly, exact and mid-p.

References:
----------
.. [1] Q. McNemar, "Note on the sampling error of the difference between correlated proportions
   or percentages", Psychometrika 12 (1947) 153-157.
.. [2] M. W. Fagerland, S. Lydersen and P. Laake, "The McNemar test for binary matched-pairs
   data: mid-p and asymptotic are better than exact conditional", BMC Medical Research
   Methodology 13 (2013) 91.
"""

from __future__ import annotations

from dataclasses import dataclass

from scipy.stats import binom


@dataclass(frozen=True)
class McNemar:
    """Two-sided p-values; they depend on the discordant items alone."""

    exact: float
    """By the binomial distribution [1]_; never anti-conservative."""
    midp: float
    """Counts the table that was seen by half [2]_: closer to its level, rarely above it."""


def mcnemar(lost: int, gained: int) -> McNemar:
    """Both p-values; 1 where nothing is discordant."""
    n, fewer = lost + gained, min(lost, gained)
    tail, seen = float(binom.cdf(fewer, n, 0.5)), float(binom.pmf(fewer, n, 0.5))
    exact = min(1.0, 2 * tail)
    # an even split is the middle of the distribution: half of all outcomes lie on either side
    return McNemar(exact, 1.0 if lost == gained else 2 * tail - seen)


def harm(lost: int, gained: int) -> float:
    """One-sided exact p-value of the hypothesis that PR is no worse than base."""
    return float(binom.sf(lost - 1, lost + gained, 0.5))
