"""Layers 1 and 2 on the page."""

from __future__ import annotations

import json

import pytest

from reports import render
from verify.command import UserError


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
    (uses,) = [e for e in page.all("table") if "share of its bound" in e["text"]]
    assert "64.1\u00a0%" in uses["text"]


def score(kind, name, *checks, noticed=False):
    checked = {"checks": checks, "noticed": noticed or bool(checks)}
    return {"kind": kind, "name": name, "cases": 22, "grid": "ours", **checked}


def test_planted_faults_and_right_kernels_are_counted(write_run, make_kernel, parse):
    folder = write_run(kernel=make_kernel())
    scores = [
        score("fault", "a", "interval"),
        score("fault", "b", noticed=True),
        score("fault", "c"),
        score("equivalent", "d"),
        score("honest", "split"),
        score("honest", "split", "interval"),
        score("honest", "plain"),
    ]
    (folder / "faults.json").write_text(json.dumps({"verdict": "fail", "scores": scores}))
    page = parse(render(folder).read_text(encoding="utf-8"))
    said = next(e["text"] for e in page.all("p", "note") if "planted" in e["text"])
    assert "Of 3 faults" in said
    assert "notice 2; of 2 kernels that are right, judged in 66 cases, they accuse 1." in said


def test_a_file_of_faults_that_is_none_is_refused(write_run, make_kernel):
    folder = write_run(kernel=make_kernel())
    (folder / "faults.json").write_text('{"scores": [{"kind": "bug"}]}')
    with pytest.raises(UserError, match=r"faults\.json: .+; write it by python -m verify\.faults"):
        render(folder)
