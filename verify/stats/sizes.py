"""How many questions and repeats a margin takes, and what a run of a given size could have seen.

Flips are the share of questions on which one answer of each arm disagrees. Some of it is noise,
which repeats average away; what a question shifts for good, from one arm to the other, they do
not. Planning assumes equal arms unless a difference is given.
"""

from __future__ import annotations

import math

from scipy.stats import exponnorm, norm

# Searches end here: no suite has more questions, no run more repeats.
_MOST_ITEMS = 10**9
_MOST_REPEATS = 4096


def answers_needed(
    flips: float,
    margin: float,
    *,
    difference: float = 0.0,
    alpha: float = 0.025,
    power: float = 0.8,
) -> int:
    """Questions x repeats an arm for non-inferiority, if noise is all there is between repeats.

    n = (z_alpha + z_beta)^2 (flips - difference^2) / (margin + difference)^2, the normal
    approximation: J.-p. Liu et al., Statistics in Medicine 21 (2002) 231-245.
    """
    if margin + difference <= 0:
        raise ValueError("no size shows non-inferiority of an arm that is inferior")
    z = float(norm.isf(alpha) + norm.ppf(power))
    return math.ceil(z**2 * (flips - difference**2) / (margin + difference) ** 2)


def least_margin(items: int, alpha: float = 0.025) -> float:
    """The margin that `items` questions without a single flip just pass, however often asked."""
    return float(1 - alpha ** (1 / items))


def least_items(margin: float, alpha: float = 0.025) -> int:
    """The questions below which no run without gains can pass `margin`, however often asked."""
    return math.ceil(math.log(alpha) / math.log1p(-margin) - 1e-9)


def item_variance(flips: float, repeats: tuple[int, int], shifts: float = 0.0) -> float:
    """Variance of an item's difference of means.

    `shifts` is the mean square of what questions shift for good, a part of `flips`;
    `verify.stats.noise.flip_rates` estimates it.
    """
    noise = max(0.0, flips - shifts) / 2
    return shifts + noise / repeats[0] + noise / repeats[1]


def detectable_margin(
    items: int,
    repeats: tuple[int, int],
    flips: float,
    *,
    shifts: float = 0.0,
    alpha: float = 0.025,
    power: float = 0.8,
) -> float:
    """The smallest margin that equal arms would pass with probability `power`.

    For the bounded mean of item differences, whose reach is that of a normal error plus the
    exponential one, of mean 1/items, of what so few questions cannot have shown.
    """
    error = math.sqrt(item_variance(flips, repeats, shifts) / items)
    if error * items < 1e-6:
        return least_margin(items, alpha)
    reach = exponnorm.isf(alpha, 1 / (items * error), scale=error)
    return min(1.0, float(reach + norm.ppf(power) * error))


def items_needed(
    margin: float,
    repeats: tuple[int, int],
    flips: float,
    *,
    shifts: float = 0.0,
    alpha: float = 0.025,
    power: float = 0.8,
) -> int:
    """The fewest questions with which equal arms pass `margin` with probability `power`."""
    low, high = 1, _MOST_ITEMS
    while low < high:
        middle = (low + high) // 2
        seen = detectable_margin(middle, repeats, flips, shifts=shifts, alpha=alpha, power=power)
        low, high = (low, middle) if seen <= margin else (middle + 1, high)
    return low


def repeats_needed(
    items: int,
    margin: float,
    flips: float,
    *,
    shifts: float = 0.0,
    alpha: float = 0.025,
    power: float = 0.8,
) -> int | None:
    """The fewest repeats in each arm that do; None if no number of them suffices."""
    repeats = 1
    while repeats <= _MOST_REPEATS:
        both = (repeats, repeats)
        seen = detectable_margin(items, both, flips, shifts=shifts, alpha=alpha, power=power)
        if seen <= margin:
            return repeats
        repeats = repeats + 1 if repeats < 32 else repeats * 2
    return None
