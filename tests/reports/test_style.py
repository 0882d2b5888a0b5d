from __future__ import annotations

import re

import pytest

from reports.page import TEMPLATES

STYLE = (TEMPLATES / "style.css").read_text(encoding="utf-8")
LIGHT, DARK = (
    dict(re.findall(r"--([a-z-]+): (#[0-9a-f]{3,6});", block))
    for block in re.findall(r":root \{([^}]*)\}", STYLE)[:2]
)
PAIRS = [
    *(
        (ink, paper)
        for ink in ("ink", "muted", "link", "fail", "pass")
        for paper in ("paper", "raised")
    ),
    *((tone, f"{tone}-tint") for tone in ("pass", "fail", "inconclusive", "invalid", "none")),
    *(("ink", f"{tone}-tint") for tone in ("pass", "fail", "inconclusive", "invalid", "none")),
    ("ink", "mark"),
    ("ink", "allowed"),
    ("paper", "link"),
]


def luminance(colour):
    digits = colour[1:] if len(colour) == 7 else "".join(2 * d for d in colour[1:])
    channels = [int(digits[i : i + 2], 16) / 255 for i in (0, 2, 4)]
    linear = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in channels]
    return sum(w * c for w, c in zip((0.2126, 0.7152, 0.0722), linear, strict=True))


@pytest.mark.parametrize("scheme", [LIGHT, DARK], ids=["light", "dark"])
@pytest.mark.parametrize(("ink", "paper"), PAIRS, ids=lambda name: name)
def test_text_has_the_contrast_that_wcag_aa_asks_for(scheme, ink, paper):
    lighter, darker = sorted((luminance(scheme[ink]), luminance(scheme[paper])), reverse=True)
    assert (lighter + 0.05) / (darker + 0.05) >= 4.5


def test_every_colour_has_a_dark_counterpart():
    assert LIGHT.keys() == DARK.keys()


def test_the_style_sheet_loads_nothing():
    assert "url(" not in STYLE
    assert "@import" not in STYLE
