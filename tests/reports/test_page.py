"""The page as a document: whole, self-contained, deaf to what a model wrote."""

from __future__ import annotations

import base64
import hashlib
import json
import re
from itertools import pairwise

import pytest

from reports import render

HOSTILE = (
    "</pre></details><script>alert(1)</script>{{ 7 * 7 }}{% raw %}<img src=x onerror=alert(1)>"
    "\" onmouseover='x' \x1b[31mred\x00 \u202egnp.exe \r\u200b]]>-->"
)


@pytest.mark.parametrize("verdict", ["pass", "fail", "inconclusive", "invalid"])
def test_the_page_is_well_formed_in_every_state(page_of, make_suite, make_kernel, finding, verdict):
    page = page_of(
        suites=[make_suite(verdict=verdict)],
        kernel=make_kernel([finding()] if verdict == "fail" else []),
        verdict=verdict,
    )
    assert page.errors == []
    ids = [e["@id"] for e in page.elements if "@id" in e]
    assert len(ids) == len(set(ids))
    links = [e["@href"] for e in page.all("a")]
    assert {link.removeprefix("#") for link in links} <= set(ids)
    levels = [int(e["tag"][1]) for e in page.elements if re.fullmatch(r"h\d", e["tag"])]
    assert levels[0] == 1
    assert levels.count(1) == 1
    assert all(lower - upper <= 1 for upper, lower in pairwise(levels))


def test_the_page_loads_nothing_and_runs_only_its_own_script(page_of, make_kernel):
    page = page_of(kernel=make_kernel())
    assert not re.search(r"https?://", page.html)
    assert {e["@href"] for e in page.all("link")} == {"data:,"}
    assert not [e for e in page.elements if "@src" in e or "@style" in e]
    assert not [name for e in page.elements for name in e if name.startswith("@on")]
    (policy,) = [e["@content"] for e in page.all("meta") if "@http-equiv" in e]
    assert policy.startswith("default-src 'none'; ")
    script = page.all("script")[-1]["text"]
    for source in (page.one("style")["text"], script):
        digest = base64.b64encode(hashlib.sha256(source.encode()).digest()).decode()
        assert f"'sha256-{digest}'" in policy


def test_hostile_texts_stay_texts(page_of, make_suite, make_kernel, finding, records):
    hostile = {("base", "q0000"): HOSTILE, ("pr", "q0000"): HOSTILE * 2}
    page = page_of(
        verdict="fail",
        suites=[make_suite(HOSTILE, "fail", reason=HOSTILE, interval_method=HOSTILE)],
        kernel=make_kernel(
            [finding(case=HOSTILE, check=HOSTILE, message=HOSTILE, replay=HOSTILE)],
            environment={HOSTILE: HOSTILE},
            tiers={HOSTILE: 1},
        ),
        manifest={"arms": {"base": {HOSTILE: HOSTILE}, "pr": {}}, HOSTILE: HOSTILE},
        kept=records(HOSTILE, both=0, lost=1, gained=0, neither=0, texts=hostile),
        prompt=HOSTILE,
        target=HOSTILE,
    )
    assert page.errors == []
    assert len(page.all("script")) == 2
    assert not page.all("img")
    assert not [name for e in page.elements for name in e if name.startswith("@on")]
    assert "{{ 7 * 7 }}" in page.one("details", "question")["text"]
    outside = page.html[: page.html.index('<script type="application/json"')]
    assert not set("\x00\x1b\r\u202e\u200b") & set(outside)
    assert "\u27e8U+001B\u27e9[31mred\u27e8U+0000\u27e9" in page.one("details", "question")["text"]
    data = json.loads(page.one("script", id="data")["text"])
    assert data["result"]["suites"][0]["suite"] == HOSTILE


def test_a_lone_surrogate_in_a_file_does_not_stop_the_page(page_of, make_suite):
    page = page_of(suites=[make_suite(reason="half \ud83d of a sign")])
    assert "half \u27e8U+D83D\u27e9 of a sign" in page.html


def test_the_data_can_be_had_from_the_page(page_of, records, make_kernel):
    page = page_of(kernel=make_kernel(), kept=records())
    data = json.loads(page.one("script", id="data")["text"])
    assert data["result"]["kernel"]["cases"] == 312
    rows = [
        dict(zip(data["records"]["columns"], row, strict=True)) for row in data["records"]["rows"]
    ]
    assert sum(row["correct"] for row in rows if row["arm"] == "base") == 173
    assert page.one("button", id="download")["@data-name"] == "run.json"


def test_the_same_run_gives_the_same_page(write_run, records):
    folder = write_run(kept=records())
    first = render(folder).read_bytes()
    assert render(folder).read_bytes() == first
    assert sorted(p.suffix for p in folder.iterdir() if p.name.startswith("report")) == [".html"]


def test_tables_say_what_they_hold(page_of, make_kernel, records):
    page = page_of(kernel=make_kernel(), kept=records())
    assert len(page.all("table")) == len(page.all("caption"))
    assert all(e.get("@scope") in {"row", "col"} for e in page.all("th"))
