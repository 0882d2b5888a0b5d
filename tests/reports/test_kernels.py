"""Layers 1 and 2 on the page."""

from __future__ import annotations


def test_the_use_of_the_bound_is_told(page_of, make_kernel):
    page = page_of(kernel=make_kernel())
    assert "No value used more than 31.0\u00a0% of that" in page.html


def test_findings_carry_their_replay(page_of, make_kernel, finding):
    many = [finding(case=f"T={n}-seed=<{n}>") for n in range(125)] + [
        finding(case="T=1-rotated", check="interval", layer=1, first_bad=None)
    ]
    page = page_of(verdict="fail", kernel=make_kernel(many))
    shown = [e["text"] for e in page.all("p", "replay")]
    assert sum("--case T=" in text for text in shown) == 100 + 1
    assert "--case T=0-seed=<0>" in shown[1]
    first, second = page.all("details", "finding")
    assert "Layer 1" in first["text"]
    assert "125 cases" in second["text"]
    assert "25 more findings" in second["text"]
    assert "0x7e" in second["text"]


def test_a_finding_shows_where_and_steps_are_counted(page_of, make_kernel, finding):
    page = page_of(verdict="fail", kernel=make_kernel([finding()]))
    assert page.one("pre", "picture")["text"] == "|  ..::##    |\n|  ..::##    |"
    (steps,) = [e for e in page.all("table") if "BF16 steps" in e["text"]]
    assert "9,980" in steps["text"]
    assert "0.0998\u00a0%" in steps["text"]
