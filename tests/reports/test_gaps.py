"""What a run leaves open is written from its data."""

from __future__ import annotations

import re


def gaps(page):
    return page.one("ul", "gaps")["text"]


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
