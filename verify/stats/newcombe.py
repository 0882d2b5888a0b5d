"""Newcombe's tenth interval for the difference of two paired proportions: a second opinion.

References:
----------
.. [1] R. G. Newcombe, "Improved confidence intervals for the difference between binomial
   proportions based on paired data", Statistics in Medicine 17 (1998) 2635-2650, method 10.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from verify.stats.binomial import wilson

if TYPE_CHECKING:
    from verify.stats.table import PairedTable


def newcombe_interval(table: PairedTable, confidence: float = 0.95) -> tuple[float, float]:
    """Interval for PR minus base: Wilson intervals of the two arms, joined by their correlation."""
    n = table.items
    base_right, pr_right = table.both + table.lost, table.both + table.gained
    base, pr = base_right / n, pr_right / n
    base_low, base_high = wilson(base_right, n, confidence)
    pr_low, pr_high = wilson(pr_right, n, confidence)
    phi = _correlation(table)
    return (
        (pr - base) - _joined(pr - pr_low, base_high - base, phi),
        (pr - base) + _joined(pr_high - pr, base - base_low, phi),
    )


def _joined(one: float, other: float, phi: float) -> float:
    # at phi = 1 and equal distances rounding may leave a tiny negative number
    return math.sqrt(max(one**2 - 2 * phi * one * other + other**2, 0.0))


def _correlation(table: PairedTable) -> float:
    """Phi, pulled towards zero by a continuity correction where it is positive."""
    n = table.items
    base_right, pr_right = table.both + table.lost, table.both + table.gained
    scale = math.sqrt(base_right) * math.sqrt(n - base_right)
    scale *= math.sqrt(pr_right) * math.sqrt(n - pr_right)
    if scale == 0:
        return 0.0
    product = table.both * table.neither - table.lost * table.gained
    return (max(product - n / 2, 0.0) if product > 0 else product) / scale
