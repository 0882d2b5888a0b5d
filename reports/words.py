"""Numbers in words: one way to write points, shares, p-values and counts on every page."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from verify.verdict import Verdict

MINUS = "\u2212"
NOT_KNOWN = "not known"


def change(points: float) -> str:
    """A signed difference in percentage points, without the unit: `+1.25`, `0.00`."""
    rounded = round(points, 2) + 0.0
    sign = "+" if rounded > 0 else MINUS if rounded < 0 else ""
    return f"{sign}{abs(rounded):.2f}"


def interval(bounds: tuple[float, float]) -> str:
    """Two bounds in percentage points, without the unit: `+0.20 to +1.31`."""
    return f"{change(bounds[0])} to {change(bounds[1])}"


def size(points: float) -> str:
    """An unsigned number of points, such as a margin, without idle zeros: `5`, `0.5`."""
    return f"{points:.2f}".rstrip("0").rstrip(".")


def at_most(points: float) -> str:
    """An upper limit in points, rounded up, so that what is written still holds."""
    return size(math.ceil(round(points * 100, 6)) / 100)


def share(fraction: float) -> str:
    """A share of one as a percentage: `94.3 %`; far beyond one its digits say nothing."""
    if fraction > 10:
        return "over 1,000\u00a0%"
    return f"{100 * fraction:.1f}\u00a0%"


def p_value(p: float) -> str:
    """A p-value to two digits: `p = 0.34`, `p = 0.0031`, `p < 0.0001`."""
    if p < 0.0001:
        return "p < 0.0001"
    return f"p = {p:.2g}" if p < 0.995 else "p = 1.00"


def count(number: float, noun: str, plural: str = "") -> str:
    """`1 question`, `1,314 questions`."""
    return f"{number:,} {noun if number == 1 else plural or noun + 's'}"


def listed(names: Sequence[str]) -> str:
    """`a`, `a and b`, `a, b and c`."""
    *most, last = names
    return f"{', '.join(most)} and {last}" if most else last


def time(stamp: str) -> str:
    """`2026-12-01T09:00:00Z` as `2026-12-01 09:00:00 UTC`."""
    return stamp.replace("T", " ").replace("Z", " UTC")


def sentence(reason: str) -> str:
    """A reason with a full stop at its end."""
    reason = reason.strip() or "no reason was recorded"
    return reason if reason.endswith((".", "!", "?")) else f"{reason}."


_WORDS = {
    "pass": "Passes",
    "fail": "Fails",
    "inconclusive": "Cannot tell",
    "invalid": "Invalid",
}


def verdict(value: Verdict | None) -> str:
    """A verdict as people say it; None is a layer that was not run."""
    return _WORDS[value] if value else "Not run"
