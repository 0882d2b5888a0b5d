"""Which verdict each layer gets on the page, and the one number behind it."""

from __future__ import annotations

import re


def verdicts(page):
    """The words beside the three layers, in order."""
    listed = page.html[page.html.index('<ol class="layers">') : page.html.index("</ol>")]
    return re.findall(r'<span class="pill \w+">([^<]+)<', listed)


def gaps(page):
    return page.one("ul", "gaps")["text"]


def test_verdicts_come_first_and_in_order(page_of, make_suite, make_kernel, finding):
    page = page_of(
        verdict="fail",
        kernel=make_kernel([finding(layer=2)]),
        suites=[make_suite(), make_suite("mini-aime", "inconclusive", smallest_margin_pt=8.1)],
    )
    assert page.one("h1")["text"].startswith("Fails.")
    assert verdicts(page) == ["Passes", "Fails", "Cannot tell"]
    figures = [e["text"].split(" cases")[0] for e in page.all("p", "figure")]
    assert figures == ["0 of 312", "1 of 312", "\u2264 8.1 pt lost on mini-aime; 5 allowed"]
    order = [page.html.index(f'id="{part}"') for part in ("layers", "gaps", "answers", "manifest")]
    assert order == sorted(order)


def test_of_suites_that_pass_the_nearest_to_its_margin_speaks(page_of, make_suite):
    page = page_of(
        suites=[make_suite(smallest_margin_pt=1.0), make_suite("tight", smallest_margin_pt=4.2)]
    )
    assert "\u2264 4.2 pt" in page.one("p", "figure")["text"]
    assert (
        "p to 4.2 points may be lost on tight, where 5 are allowed" in page.one("p", "lead")["text"]
    )


def test_layers_that_were_not_run_are_said_to_be_missing(page_of, make_kernel):
    page = page_of(kernel=None)
    assert verdicts(page) == ["Not run", "Not run", "Passes"]
    assert "layers 1 and 2 were not run" in gaps(page)
    page = page_of(kernel=make_kernel(), suites=[], manifest=None, kept=None)
    assert verdicts(page) == ["Passes", "Passes", "Not run"]
    assert "layer 3 was not run" in gaps(page)
    assert page.errors == []


def test_a_kernel_that_did_not_run_is_invalid_not_right(page_of, make_kernel):
    page = page_of(verdict="invalid", kernel=make_kernel(verdict="invalid", executed=0))
    assert verdicts(page)[:2] == ["Invalid", "Invalid"]
    assert "312 cases that did not run" in gaps(page)


def test_a_suite_at_its_floor_is_told_by_the_base_arm(page_of, make_suite):
    blind = make_suite(
        verdict="inconclusive",
        items=40,
        both=0,
        lost=1,
        gained=0,
        neither=39,
        accuracy={"base": 0.025, "pr": 0.0},
        smallest_margin_pt=12.9,
    )
    page = page_of(verdict="inconclusive", suites=[blind])
    assert page.one("p", "figure")["text"].startswith("2.5\u00a0% right in base on mini-gsm8k")
    assert "so this suite can see nothing" in page.one("p", "lead")["text"]
    seeing = make_suite(verdict="inconclusive", smallest_margin_pt=12.9)
    page = page_of(verdict="inconclusive", suites=[seeing])
    assert page.one("p", "figure")["text"].startswith("\u2264 12.9 pt")
