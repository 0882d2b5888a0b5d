"""The panel of texts that both arms scored, and what it does to a run's verdict."""

from __future__ import annotations

import json
import re

import msgspec
import pytest

from reports import likelihood, render
from reports.likelihood import Score


def text(number, difference=0.0, **divergence):
    at = {"place": 3, "before": "53-25=", "base": "28", "pr": "29", "gap": 0.25, **divergence}
    return {
        "item": f"q{number:04d}",
        "tokens": 12,
        "nll": {"base": 0.01, "pr": 0.01 + difference},
        "difference": difference,
        "kl": abs(difference),
        "agreement": 0.9,
        "divergence": at if difference else None,
    }


def kind(name="mini-gsm8k", verdict="pass", differences=(0.0, 0.0, 0.00002), **changes):
    mean = sum(differences) / len(differences)
    return {
        "name": name,
        "source": "worked solutions",
        "items": len(differences),
        "tokens": 12 * len(differences),
        "verdict": verdict,
        "reason": f"of {name}",
        "margin_nats": 1e-4,
        "nll": {"base": 0.01, "pr": 0.01 + mean},
        "difference": {"mean": mean, "interval": [mean - 1e-5, mean + 1e-5]},
        "kl": {"mean": 2e-5, "interval": [1e-5, 3e-5]},
        "kl_is_bound": False,
        "agreement": 0.9977,
        "noise": {"difference": {"mean": 0.0, "interval": [0.0, 0.0]}, "kl": 0, "identical": True},
        "confidence": 0.95,
        "interval_method": "t on item means",
        "redact": False,
        "scored": [text(n, d) for n, d in enumerate(differences)],
        **changes,
    }


def score(*kinds, verdict="pass"):
    kinds = kinds or (kind(),)
    return {"verdict": verdict, "margin_nats": 1e-4, "texts": list(kinds), "manifest": {}}


@pytest.fixture
def scored_page(write_run, parse):
    """The page of a run whose folder holds a score, taken apart."""

    def make(document, **contents):
        folder = write_run(**contents)
        (folder / "score.json").write_text(json.dumps(document))
        return parse(render(folder).read_text(encoding="utf-8"))

    return make


def test_a_run_without_a_score_has_no_panel(page_of):
    page = page_of()
    assert not page.all("section", id="likelihood")
    assert len(page.all("ol", "layers")) == 1


def test_the_panel_shows_each_kind_and_where_the_arms_part(scored_page):
    bad = kind("mini-aime", "fail", (0.5, 0.2, 0.0))
    page = scored_page(score(kind(), bad, verdict="fail"))
    assert not page.errors
    section = page.one("section", id="likelihood")["text"]
    for words in ("of mini-gsm8k", "of mini-aime", "+0.23 (+0.23 to +0.23)", "99.77\u00a0%"):
        assert words in section
    assert "identical" in section
    assert [e["text"] for e in page.all("mark") if e["text"] in {"28", "29"}][:2] == ["28", "29"]
    assert "25.0\u00a0%" in section


@pytest.mark.parametrize(
    ("accuracy", "texts", "whole"),
    [
        ("pass", "pass", "Passes."),
        ("pass", "fail", "Fails."),
        ("pass", "inconclusive", "Cannot tell."),
        ("inconclusive", "pass", "Cannot tell."),  # a pass of texts replaces nothing
        ("fail", "pass", "Fails."),
    ],
)
def test_a_score_can_only_make_a_verdict_graver(scored_page, make_suite, accuracy, texts, whole):
    page = scored_page(
        score(kind(verdict=texts), verdict=texts),
        suites=[make_suite(verdict=accuracy)],
        verdict=accuracy,
    )
    assert page.one("span", "verdict")["text"] == whole


def test_hostile_words_stay_words(scored_page):
    evil = '<script>alert(1)</script>"\u202e'
    one = text(0, 0.3, before=evil, base=evil, pr=evil) | {"item": evil}
    page = scored_page(score(kind(evil, scored=[one], reason=evil, source=evil)))
    assert not page.errors
    assert "<script>alert" not in page.html
    assert "\u202e" not in page.html


def test_a_redacted_suite_says_so(scored_page):
    one = text(0, 0.3) | {"divergence": None}
    page = scored_page(score(kind(redact=True, scored=[one])))
    assert "may not be published" in page.one("section", id="likelihood")["text"]


def test_what_was_not_scored_is_not_drawn(scored_page):
    nothing = kind(
        verdict="invalid", difference=None, kl=None, agreement=None, noise=None, nll=None, scored=[]
    )
    page = scored_page(score(nothing, verdict="invalid"))
    section = page.one("section", id="likelihood")
    assert "not known" in section["text"]
    assert page.one("span", "verdict")["text"] == "Invalid."


def test_ticks_stand_in_the_order_of_their_differences():
    differences = (-0.5, 0.0, 1e-5, 1e-4, 3.0)
    (shown,) = msgspec.convert(score(kind(differences=differences)), Score).texts
    svg = likelihood.distribution([shown]).wide
    layer = re.search(r'<g class="[^"]*\btexts_marks"[^>]*>(.*?)</g>', svg).group(1)
    places = [float(x) for x in re.findall(r"M(-?[\d.]+),", layer)]
    assert len(places) == len(differences)
    assert places == sorted(places)
    assert len(set(places)) == len(places)
    assert svg == likelihood.distribution([shown]).wide


def test_the_comment_and_the_tests_of_a_run_tell_of_it(write_run):
    folder = write_run()
    (folder / "score.json").write_text(json.dumps(score(kind(verdict="fail"), verdict="fail")))
    render(folder)
    assert "Likelihood" in (folder / "comment.md").read_text(encoding="utf-8")
    xml = (folder / "junit.xml").read_text(encoding="utf-8")
    assert re.search(r'<testsuite name="score"[^>]*failures="1"', xml)


@pytest.mark.parametrize(
    ("value", "shown"), [(0.0, "0"), (-0.0123, "\u22120.012"), (1.2e-5, "+1.2e\u221205")]
)
def test_nats_are_written_to_two_digits(value, shown):
    assert likelihood.nats(value) == shown
