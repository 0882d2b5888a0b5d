from __future__ import annotations

import base64
import hashlib
import json
import re
from itertools import pairwise

import pytest
from msgspec.structs import replace

from reports import render
from verify.command import UserError

HOSTILE = (
    "</pre></details><script>alert(1)</script>{{ 7 * 7 }}{% raw %}<img src=x onerror=alert(1)>"
    "\" onmouseover='x' \x1b[31mred\x00 \u202egnp.exe \r\u200b]]>-->"
)


@pytest.fixture
def page_of(write_run, parse):
    return lambda **contents: parse(render(write_run(**contents)).read_text(encoding="utf-8"))


def verdicts(page):
    """The words beside the three layers, in order."""
    listed = page.html[page.html.index('<ol class="layers">') : page.html.index("</ol>")]
    return re.findall(r'<span class="pill \w+">([^<]+)<', listed)


def gaps(page):
    return page.one("ul", "gaps")["text"]


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


def test_what_the_kernel_cases_leave_open_is_written_from_their_data(page_of, make_kernel):
    text = gaps(page_of(kernel=make_kernel()))
    assert "its cases ran on a CPU" in text
    assert "in 216 cases a default one applied" in text
    assert "2 blocks with NaN or Inf" in text
    assert "the budget was quick" in text
    thorough = make_kernel(
        tiers={"declared": 312},
        adequacy={"blocks not judged": 0},
        environment={"device": "NVIDIA H200", "budget": "full"},
    )
    text = gaps(page_of(kernel=thorough))
    assert not re.search("CPU|default one|NaN|budget", text)


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


def test_every_disagreement_is_listed_once(page_of, make_suite, records):
    kept = [*records(), *records("mini-aime", both=1, lost=0, gained=1, neither=0)]
    page = page_of(suites=[make_suite(), make_suite("mini-aime", items=2)], kept=kept)
    items = [e["text"] for e in page.all("code", "item")]
    assert items == ["q0170", "q0171", "q0172", "q0173", "q0174", "q0001"]
    tags = [e["text"] for e in page.all("span", "tag")]
    assert tags == ["lost"] * 3 + ["gained"] * 3
    assert "187 of 192 pairs of answers are the same letter for letter" in page.html


def test_records_that_contradict_the_result_are_noticed(page_of, records):
    assert not page_of(kept=records()).all("p", "warning")
    warning = page_of(kept=records(lost=1)).one("p", "warning")["text"]
    assert "counts 3 lost and 2 gained, the records kept show 1 and 2" in warning


def test_a_disagreement_shows_both_answers_from_where_they_part(page_of, records):
    page = page_of(kept=records(both=0, lost=1, gained=0, neither=0))
    question = page.one("details", "question")
    assert "What is 40 + 2?" in question["text"]
    assert [e["text"] for e in page.all("mark")] == [" 42", " 41"]
    assert page.one("pre", "shared")["text"] == "First 40 + 2 is taken.\nThe sum is"
    assert question["text"].count("by the rule after-hashes; 17 tokens") == 2


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


def test_repeats_that_balance_are_no_disagreement(page_of, records):
    def graded(arm, repeat):
        return (arm == "base") == (repeat == 0)

    kept = [
        replace(r, correct=graded(r.arm, r.repeat))
        for r in records(both=1, lost=0, gained=0, neither=0, repeats=2)
    ]
    assert not page_of(kept=kept).all("details", "question")


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


def test_gaps_are_written_from_the_data(page_of, make_suite):
    page = page_of(
        verdict="inconclusive",
        suites=[
            make_suite(truncated={"base": 2, "pr": 1}, smallest_margin_pt=3.6101),
            make_suite("mini-aime", "inconclusive", reason="needs 412 questions"),
        ],
    )
    text = gaps(page)
    assert "a loss of up to 3.62 points on mini-gsm8k agrees" in text
    assert "3 on mini-gsm8k, both arms together" in text
    assert "That mini-aime loses less than 5 points: needs 412 questions." in text
    assert "(A/A): the noise was not measured" in text


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


def test_long_texts_are_cut_and_say_so(page_of, records):
    texts = {("base", "q0000"): "x " * 500_000, ("pr", "q0000"): "y" * 1_000_000}
    page = page_of(
        kept=records(both=0, lost=1, gained=0, neither=0, texts=texts), prompt="p" * 100_000
    )
    assert len(page.html) < 150_000
    assert "later characters: see records.sqlite" in page.html
    assert "92,000 earlier characters: see records.sqlite" in page.html


def test_the_manifest_marks_what_differs(page_of):
    page = page_of()
    differing = [e["text"].split()[1] for e in page.all("tr", "differs")]
    assert differing == ["wo_a", "calls", "calls_by_rows.chain", "calls_by_rows.fused"]
    assert "python -m verify.evals --arms base,pr" in page.html
    assert "versions.torch" in page.html
    assert "192 entries, in the data below" in page.html
    assert "T=31: 61, T=32: 1,204" in page.html


def test_the_path_that_each_arm_took_is_told(page_of):
    text = page_of().one("section", id="answers")["text"]
    assert "In base, the attention output took the chain path 1,265 times." in text
    assert (
        "In pr, the attention output took the fused path 1,204 times and the chain path 61 times."
        in text
    )


def test_gaps_from_the_manifest(page_of):
    text = gaps(page_of())
    assert "asked were 192 of 1,319 on mini-gsm8k" in text
    assert "a small one stood in for it" in text
    servers = {name: {"kind": "server", "base_url": name} for name in ("base", "pr")}
    text = gaps(page_of(manifest={"arms": servers}))
    assert "an answer does not show what computed it" in text
    assert "stood in for it" not in text


def test_a_kernel_checked_in_place_of_another_is_noticed(page_of, make_kernel):
    assert "the answers came from" not in gaps(page_of(kernel=make_kernel()))
    other = make_kernel(environment={"candidate": "kernel:chain"})
    text = gaps(page_of(kernel=other))
    assert "checked kernel:chain, the answers came from kernel:fused_triton" in text


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


def test_arms_bear_their_own_names(page_of, records):
    kept = [replace(r, arm={"base": "old", "pr": "new"}[r.arm]) for r in records()]
    page = page_of(manifest={"arms": {"old": {"url": "a"}, "new": {"url": "b"}}}, kept=kept)
    assert len(page.all("details", "question")) == 5
    assert "new: 41" in page.one("article", "suite")["text"]


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


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (None, "does not exist"),
        ("{", "is not JSON"),
        ("[]", "holds no JSON object"),
        ('{"verdict": "maybe"}', "verdict"),
        ('{"verdict": "pass", "manifest": {"arms": {"base": 7}}}', "arms"),
        ('{"verdict": "pass", "suites": [{"suite": 7, "verdict": "pass"}]}', "suites[0].suite"),
    ],
)
def test_a_folder_that_is_no_run_is_refused_in_one_line(tmp_path, content, message):
    if content is not None:
        (tmp_path / "result.json").write_text(content)
    with pytest.raises(UserError, match=re.escape(message)) as caught:
        render(tmp_path)
    assert "\n" not in str(caught.value)
    assert not (tmp_path / "report.html").exists()


def test_records_that_are_no_database_are_refused_in_one_line(write_run):
    folder = write_run(kept=None)
    (folder / "records.sqlite").write_text("not a database, but longer than a header " * 9)
    with pytest.raises(UserError, match="cannot be read"):
        render(folder)
