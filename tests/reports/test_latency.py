from __future__ import annotations

import json

import pytest

from reports import latency, render
from verify.command import UserError


def cell(contender, tokens, us, role="fused", form="mxfp8", **changes):
    return {
        "contender": contender,
        "role": role,
        "pdl": False,
        "tokens": tokens,
        "form": form,
        "us": us,
        "sweeps_us": [us],
        "beside": {},
        "refused": None,
        "wrong": None,
        **changes,
    }


LATENCY = {
    "verdict": "pass",
    "measured": "2026-12-01T13:00:00Z",
    "machine": {"gpu": "NVIDIA H200", "driver": "580"},
    "method": {"figure": "median", "sweeps": 3, "replays": 2000, "weight_buffers": 19},
    "cells": [
        cell("<mine>", 1, 6.2, beside={"floor": {"ratio": 1.127, "interval": [1.12, 1.135]}}),
        cell("<mine>", 32, 9.6, beside={"floor": {"ratio": 1.745, "interval": [1.74, 1.75]}}),
        cell("floor", 1, 5.5, "floor"),
        cell("floor", 32, 5.5, "floor"),
        cell("other", 1, None, refused="no GPU of that kind"),
        cell("other", 32, None, refused="no GPU of that kind"),
        cell("<mine>", 1, 6.25, form="bf16"),
    ],
}
EVIDENCE = {
    "kind": "kernelproof-launches",
    "version": 1,
    "verdict": "pass",
    "reason": "PR took the fused path in 800 of 860 calls",
    "source": "traces",
    "replaced": 800,
    "kept": 60,
    "launches_fewer": 1600,
    "rows": {"24": 790},
    "rows_unknown": 10,
    "arms": {},
}


@pytest.fixture
def page_with(write_run, parse):
    def make(**files):
        folder = write_run()
        for name, content in files.items():
            (folder / f"{name}.json").write_text(json.dumps(content))
        return parse(render(folder).read_text(encoding="utf-8"))

    return make


def test_a_run_without_them_has_no_such_part(page_with):
    assert page_with().all("section", id="speed") == []


def test_times_ratios_and_refusals_are_shown(page_with):
    page = page_with(latency=LATENCY)
    assert page.errors == []
    shown = page.one("section", id="speed")["text"]
    for words in ("6.20", "9.60", "1.13 [1.12, 1.14]", "other: no GPU of that kind", "NVIDIA H200"):
        assert words in shown
    assert shown.count("other: no GPU") == 1
    assert "Launch evidence" not in shown
    charts = [e for e in page.all("div", role="img") if "microseconds" in e["@aria-label"]]
    assert [c["@aria-label"] for c in charts] == [
        "BF16 output. <mine>: 6.25 microseconds.",
        "MXFP8 output. <mine>: 6.20\u20139.60 microseconds; floor: 5.50 microseconds.",
    ]


def test_evidence_says_what_was_replaced_what_went_and_what_is_left(page_with):
    shown = page_with(evidence=EVIDENCE).one("section", id="speed")["text"]
    assert "800 chains replaced, 1,600 launches fewer, 60 chains kept." in shown
    assert "T = 24: 790, T unknown: 10" in shown
    assert "Latency" not in shown


def test_launches_that_cannot_be_seen_are_not_made_up(page_with):
    shown = page_with(evidence=EVIDENCE | {"launches_fewer": None}).one("section", id="speed")
    assert "launches cannot be seen on a CPU" in shown["text"]


@pytest.mark.parametrize(
    "content",
    [b"[]", b"{", b"\xff", b'{"verdict": "good"}', json.dumps({"verdict": "pass"}).encode()],
)
@pytest.mark.parametrize("name", [latency.LATENCY, latency.EVIDENCE])
def test_a_file_that_is_something_else_is_one_line(name, content, tmp_path):
    (tmp_path / name).write_bytes(content)
    with pytest.raises(UserError, match=name) as error:
        latency.speed(tmp_path)
    assert "\n" not in str(error.value)
