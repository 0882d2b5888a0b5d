"""The serving section, in a run's page and on a page of its own."""

from __future__ import annotations

import json
from copy import deepcopy

import pytest

from reports import render, serving
from verify.command import UserError


def medians(rate, requests=2, **changes):
    found = {
        "requests": requests, "tokens_per_s": rate, "ttft_ms": 12.5, "gap_ms": 8.25,
        "gap_p99_ms": 9.125, "chunk_tokens": 1.0, "acceptance": None,
    }  # fmt: skip
    return found | changes


def side(*rates):
    return {"starts": [medians(rate) for rate in rates], "pooled": medians(rates[0], 4)}


def request(arm, start, rate, *, warm_up=False):
    figures = None if rate is None else {"tokens_per_s": rate, "ttft_ms": 12.5}
    return {"arm": arm, "start": start, "load": 4, "warm_up": warm_up, "figures": figures}


SERVING = {
    "kind": "kernelproof-serving",
    "verdict": "pass",
    "measured": "2026-12-01T13:00:00Z",
    "method": {"input_len": 1024, "output_len": 512, "prompt": None, "warm_ups": 1, "requests": 2},
    "client_delay": {"median_ms": 0.071, "p99_ms": 0.4},
    "loads": [
        {
            "concurrency": 4,
            "arms": {"<base>": side(1167.2, 1169.0), "pr": side(1203.1, 1201.4)},
            "ratio": {"value": 1.0292, "interval": [1.0216, 1.0368], "stable": True},
            "pooled_ratio": 1.03,
            "verdict": "pass",
            "reason": "pr decodes at 1.0292 of the rate of <base>: faster",
            "invalid": [],
            "remarks": ["4 starts in all tell little"],
        }
    ],
    "requests": [
        request(arm, start, rate + more)
        for arm, rates in (("<base>", (1167.2, 1169.0)), ("pr", (1203.1, 1201.4)))
        for start, rate in enumerate(rates, 1)
        for more in (-0.5, 0.5)
    ],
    "manifest": {
        "command": ["python", "-m", "verify.bench", "serve"],
        "order": ["<base>", "pr", "pr", "<base>"],
        "fresh": True,
    },
}


@pytest.fixture
def alone(tmp_path, parse):
    def make(content):
        (tmp_path / "serving.json").write_text(json.dumps(content))
        return parse(serving.render(tmp_path).read_text(encoding="utf-8"))

    return make


def changed(**of_load):
    found = deepcopy(SERVING)
    found["loads"][0] |= of_load
    found["verdict"] = found["loads"][0]["verdict"]
    return found


def test_a_run_without_it_has_no_such_part_and_says_that_it_is_missing(write_run, parse):
    page = parse(render(write_run()).read_text(encoding="utf-8"))
    assert page.all("section", id="serving") == []
    assert "neither latency nor throughput" in page.one("section", id="gaps")["text"]


def test_a_run_shows_it_and_keeps_its_own_verdict(write_run, parse):
    folder = write_run()
    before = parse(render(folder).read_text(encoding="utf-8")).one("h1")["text"]
    (folder / "serving.json").write_text(json.dumps(changed(verdict="fail")))
    page = parse(render(folder).read_text(encoding="utf-8"))
    assert page.errors == []
    assert page.one("h1")["text"] == before
    shown = page.one("section", id="serving")["text"]
    for words in ("1,167.20", "<base>, start 2", "12.50", "9.125", "+2.92 %", "+2.16 to +3.68 %",
                  "sign-stable over starts", "4 starts in all", "median 0.071 ms"):  # fmt: skip
        assert words in shown
    assert "Starts in the order <base>, pr, pr, <base>, a fresh server each" in shown
    assert "throughput" not in page.one("section", id="gaps")["text"]


@pytest.mark.parametrize(
    ("verdict", "headline"),
    [
        ("pass", "PR decodes faster."),
        ("fail", "PR decodes slower."),
        ("inconclusive", "Neither faster nor slower is shown."),
        ("invalid", "This measurement proves nothing."),
    ],
)
def test_a_page_of_its_own_leads_with_the_verdict(alone, verdict, headline):
    page = alone(changed(verdict=verdict))
    assert page.errors == []
    assert page.one("h1")["text"] == headline
    assert "1,201.40" in page.one("section", id="serving")["text"]


def test_the_chart_tells_its_medians_in_words(alone):
    assert alone(SERVING).one("div", role="img")["@aria-label"] == (
        "Tokens a second. <base>, start 1: median 1,167.20; <base>, start 2: median 1,169.00; "
        "pr, start 1: median 1,203.10; pr, start 2: median 1,201.40."
    )


def test_what_is_not_known_is_not_made_up(alone):
    nothing = {"starts": [medians(None, ttft_ms=None)], "pooled": medians(None)}
    content = changed(
        arms={"<base>": nothing, "pr": nothing}, ratio=None, pooled_ratio=None,
        verdict="invalid", reason="it failed", invalid=["it failed", "and so did that"],
    )  # fmt: skip
    page = alone(content)
    shown = page.one("section", id="serving")["text"]
    assert page.all("div", role="img") == []
    assert "PR against base" not in shown
    assert "and so did that" in shown
    without = alone(changed(ratio={"value": 1.03, "interval": None, "stable": True}))
    assert "+3.00 %, without an interval" in without.one("section", id="serving")["text"]


def test_equal_rates_can_be_drawn(alone):
    content = deepcopy(SERVING)
    for each in content["requests"]:
        each["figures"]["tokens_per_s"] = 100.0
    assert alone(content).errors == []


@pytest.mark.parametrize(
    "content", [b"[]", b"{", b"\xff", b'{"verdict": "good"}', b'{"verdict": "pass"}']
)
def test_a_file_that_is_something_else_is_one_line(content, tmp_path):
    (tmp_path / "serving.json").write_bytes(content)
    with pytest.raises(UserError, match=r"serving\.json") as error:
        serving.render(tmp_path)
    assert "\n" not in str(error.value)


def test_a_folder_without_one_is_told(tmp_path):
    with pytest.raises(UserError, match=r"holds no serving\.json"):
        serving.render(tmp_path)
