"""The figures of each suite."""

from __future__ import annotations

import re

from msgspec.structs import replace


def gaps(page):
    return page.one("ul", "gaps")["text"]


NOISE = {
    "flips_base": 0.006,
    "flips_pr": 0.005,
    "flips_between": 0.0076,
    "repeats": [
        {"repeat": 0, "lost": 7, "gained": 3, "recovered": 0, "newly_lost": 0},
        {"repeat": 1, "lost": 6, "gained": 4, "recovered": 5, "newly_lost": 4},
    ],
    "shift_base": {"starts": 2, "ratio": 9.0, "p": 0.003, "shift_pt": 0.8,
                   "shift_interval_pt": [0.2, 11.0]},
    "shift_pr": None,
}  # fmt: skip


def test_repeats_show_where_the_arms_part_and_mcnemar_may_be_null(page_of, make_suite, records):
    kept = list(records(both=1, lost=1, gained=0, neither=0, repeats=3))
    flipped = next(r for r in kept if (r.arm, r.item, r.repeat) == ("pr", "q0001", 1))
    kept[kept.index(flipped)] = replace(flipped, correct=True)
    page = page_of(
        suites=[
            make_suite(
                repeats={"base": 3, "pr": 3},
                mcnemar=None,
                items=2,
                interval_method="Gaffke bound on item means and Welch t on server starts",
            )
        ],
        kept=kept,
    )
    question = page.one("details", "question")
    assert re.findall(r"Repeat \d", question["text"]) == ["Repeat 1", "Repeat 3"]
    assert "McNemar" not in page.one("table", "figures")["text"]
    methods = page.one("dl", "methods")["text"]
    assert "clustered by question" in methods
    assert "server starts" in methods
    assert "Tango" not in methods


def test_noise_of_each_arm_stands_beside_the_change(page_of, make_suite):
    page = page_of(
        suites=[
            make_suite(
                repeats={"base": 2, "pr": 2},
                mcnemar=None,
                noise=NOISE,
                starts={"base": 2, "pr": 2, "controlled": True},
            )
        ]
    )
    table = page.one("table", "figures")["text"]
    assert "0.60\u00a0%, 0.50\u00a0%; 0.76\u00a0%" in table
    assert "7 lost, 3 gained; 6 lost (5 recovered, 4 new), 4 gained" in table
    assert "0.8 pt (p = 0.003); none" in table
    assert "in the interval" in table
    assert "A/A" not in gaps(page)
    assert "shifts of whole starts" not in gaps(page)
    one_start = make_suite(starts={"base": 1, "pr": 1, "controlled": False})
    assert "shifts of whole starts are not controlled" in gaps(page_of(suites=[one_start]))


def test_a_run_that_stopped_early_shows_its_e_value_and_no_p_value(page_of, make_suite):
    page = page_of(
        verdict="fail",
        suites=[
            make_suite(
                verdict="fail",
                items=17,
                mcnemar=None,
                interval_pt=[-96.0, -20.0],
                interval_method="betting confidence sequence, valid at any look",
                noninferiority={"margin_pt": 5.0, "p": None, "method": ""},
                equivalence={"margin_pt": 5.0, "p": None},
                smallest_margin_pt=None,
                detectable_pt=None,
                sequential={"questions": 17, "harm": 23.4, "certificate": None, "stopped": True,
                            "confidence_sequence_pt": [-96.0, -20.0]},
                reason="PR is worse than base by more than 5 points: e-value 23.4",
            )
        ],
    )  # fmt: skip
    assert page.errors == []
    table = page.one("table", "figures")["text"]
    assert "23.4" in table
    assert "over 17 questions, then stopped" in table
    assert "betting confidence sequence" in table
    for absent in ("McNemar", "Non-inferiority", "Equivalence", "Certificate"):
        assert absent not in table
    methods = page.one("dl", "methods")["text"]
    assert "by betting" in methods
    assert "Two one-sided" not in methods
    assert "mini-gsm8k stopped early" in gaps(page)


def test_what_is_not_known_is_said_so(page_of, make_suite):
    page = page_of(
        verdict="invalid",
        suites=[
            {"suite": "gsm8k", "verdict": "invalid", "items": 0, "reason": "item 7 is missing"},
            make_suite(truncated=None, truncation_bounds_pt=None),
        ],
        kept=None,
    )
    assert page.errors == []
    assert "gsm8k and mini-gsm8k did not record it" in gaps(page)
    assert "item 7 is missing" in page.html
    assert "No answers were kept" in page.html
