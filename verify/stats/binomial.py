"""Intervals for one proportion.

References:
----------
.. [1] C. J. Clopper and E. S. Pearson, "The use of confidence or fiducial limits illustrated in
   the case of the binomial", Biometrika 26 (1934) 404-413.
.. [2] E. B. Wilson, "Probable inference, the law of succession, and statistical inference",
   Journal of the American Statistical Association 22 (1927) 209-212.
"""

from __future__ import annotations

import math

from scipy.stats import beta, norm


def clopper_pearson(successes: int, trials: int, confidence: float = 0.95) -> tuple[float, float]:
    """Exact interval [1]_: each end is wrong with probability (1 - confidence) / 2 at most."""
    tail = (1 - confidence) / 2
    low = float(beta.ppf(tail, successes, trials - successes + 1)) if successes > 0 else 0.0
    high = float(beta.isf(tail, successes + 1, trials - successes)) if successes < trials else 1.0
    return low, high


def wilson(successes: int, trials: int, confidence: float = 0.95) -> tuple[float, float]:
    """Score interval [2]_."""
    z = float(norm.isf((1 - confidence) / 2))
    share, shrink = successes / trials, 1 + z * z / trials
    centre = (share + z * z / (2 * trials)) / shrink
    reach = z * math.sqrt(share * (1 - share) / trials + (z / (2 * trials)) ** 2) / shrink
    return max(0.0, centre - reach), min(1.0, centre + reach)
