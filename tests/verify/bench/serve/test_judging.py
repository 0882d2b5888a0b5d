"""Verdicts on requests whose arrivals were recorded beforehand: known rates, known faults."""

from __future__ import annotations

import random
from dataclasses import replace

import pytest

from tests.verify.bench.serve.streams import steady, stream
from verify.bench.serve.chunks import figures, hear
from verify.bench.serve.conduct import Request
from verify.bench.serve.judging import judge
from verify.bench.serve.method import Method
from verify.verdict import Verdict

TOKENS = 32
METHOD = Method(7, TOKENS, None, 1, 20, (1,), 0)


def request(arm, start, number, rate=100.0, *, warm_up=False, acceptance=None, **told):
    heard = hear(stream(steady(rate, told.pop("tokens", TOKENS), size=3), **told))
    return Request(
        arm, start, 1, number, warm_up, True, figures(0.5, heard.chunks), heard, acceptance
    )


def run(rates, requests=20, spread=0.0):
    """Requests of starts, by arm and start the rate; `spread` is of requests within them."""
    draw = random.Random(3)
    return [
        request(arm, start, number, rate * (1 + draw.gauss(0, spread)), warm_up=number < 0)
        for arm, starts in rates.items()
        for start, rate in enumerate(starts, 1)
        for number in range(-1, requests)
    ]


def one(requests, **more):
    (load,) = judge(requests, ("base", "pr"), METHOD, **more)
    return load


def test_a_planted_three_per_cent_is_recovered_and_covered():
    load = one(run({"base": (100.0, 100.2), "pr": (103.1, 102.9)}, spread=0.005))
    assert (load.verdict, load.invalid) == (Verdict.PASS, ())
    low, high = load.ratio.interval
    assert 1 < low < 1.03 < high
    assert load.pooled_ratio == pytest.approx(1.03, abs=0.003)
    assert load.ratio.stable
    assert [s.requests for s in load.arms["base"].starts] == [20, 20]
    assert "faster" in load.reason


def test_planted_the_other_way_it_fails():
    load = one(run({"base": (103.1, 102.9), "pr": (100.0, 100.2)}))
    assert load.verdict is Verdict.FAIL
    assert "slower" in load.reason


def test_what_starts_could_explain_is_no_difference():
    load = one(run({"base": (100.0, 102.5), "pr": (101.0, 104.0)}))
    assert load.verdict is Verdict.INCONCLUSIVE
    assert load.ratio.interval[0] < 1 < load.ratio.interval[1]
    assert "starts an arm" in load.reason
    assert any("not stable" in remark for remark in load.remarks)
    assert any("4 starts in all" in remark for remark in load.remarks)


def test_more_requests_do_not_stand_in_for_starts():
    few, many = (one(run({"base": (100.0, 102.5), "pr": (101.0, 104.0)}, requests=n))
                 for n in (2, 60))  # fmt: skip
    assert few.ratio.interval == pytest.approx(many.ratio.interval)


def test_one_start_an_arm_decides_nothing_however_large_the_difference():
    load = one(run({"base": (100.0,), "pr": (200.0,)}))
    assert (load.verdict, load.ratio.interval) == (Verdict.INCONCLUSIVE, None)
    assert "one start of each" in load.reason


def test_warm_ups_do_not_count_but_must_be_whole():
    whole = run({"base": (100.0, 100.0), "pr": (100.0, 100.0)})
    slow = [request(r.arm, r.start, r.number, 5.0, warm_up=True) if r.warm_up else r for r in whole]
    assert one(slow).arms == one(whole).arms
    short = request("pr", 2, -1, tokens=9, warm_up=True)
    assert "warm-up" in one([*slow[:-21], short, *slow[-20:]]).reason


FAULTY = {
    "another length": lambda: request("pr", 2, 7, tokens=31),
    "from a cache": lambda: request("pr", 2, 7, cached=5),
    "how many tokens they generated": lambda: request("pr", 2, 7, tells=None, usage=False),
    "their first chunk": lambda: request("pr", 2, 7, tells=None),
    "have no rate": lambda: replace(
        request("pr", 2, 7), figures=figures(0.0, hear(stream([(1.0, TOKENS)])).chunks)
    ),
    "failed (half_answer)": lambda: Request(
        "pr", 2, 1, 7, warm_up=False, flushed=True, error="half_answer: it ended"
    ),
}  # fmt: skip


@pytest.mark.parametrize("said", FAULTY)
def test_one_faulty_request_makes_the_run_invalid_and_is_named(said):
    requests = run({"base": (100.0, 100.2), "pr": (103.1, 102.9)})
    place = next(n for n, r in enumerate(requests) if (r.arm, r.start, r.number) == ("pr", 2, 7))
    requests[place] = FAULTY[said]()
    load = one(requests)
    assert load.verdict is Verdict.INVALID
    (told,) = load.invalid
    assert said in told
    assert told.startswith("1 of 42 requests of pr ")
    assert "request 8 of start 2" in told
    assert load.arms["pr"].starts[1].requests == 20  # it is still among them


def test_prompts_that_were_read_otherwise_are_told():
    requests = run({"base": (100.0, 100.2), "pr": (103.1, 102.9)})
    heard = replace(requests[-1].heard, prompt_tokens=8)
    requests[-1] = replace(requests[-1], heard=heard)
    assert "as 7 and 8 tokens" in one(requests).reason


def test_unlike_arms_are_invalid_whatever_their_speed():
    load = one(run({"base": (100.0, 100.2), "pr": (103.1, 102.9)}), unequal=["they differ in x"])
    assert (load.verdict, load.reason) == (Verdict.INVALID, "they differ in x")


def test_acceptance_must_be_the_same_for_the_same_prompt_and_only_there():
    def accepted(change):
        return [
            replace(r, acceptance=2.0 + r.number / 10 + change(r))
            for r in run({"base": (100.0, 100.2), "pr": (103.1, 102.9)})
        ]

    alike = one(accepted(lambda _: 0.0))
    assert alike.verdict is Verdict.PASS
    assert alike.arms["pr"].pooled.acceptance == pytest.approx(2.95)
    unlike = one(accepted(lambda r: 0.1 * (r.arm == "pr" and r.number in {3, 9})))
    assert unlike.verdict is Verdict.INVALID
    assert "in 2 of 20 prompts" in unlike.reason
    assert "of prompt 4 2.300 tokens a step in start 1 of base, 2.400 in start 1 of pr" in (
        unlike.reason
    )


def test_nothing_answered_is_invalid_and_has_no_ratio():
    requests = [
        replace(r, heard=None, figures=None, error="connection: refused")
        for r in run({"base": (100.0, 100.2), "pr": (103.1, 102.9)})
    ]
    load = one(requests)
    assert (load.verdict, load.ratio, load.pooled_ratio) == (Verdict.INVALID, None, None)
    assert "failed (connection)" in load.reason


def test_what_servers_do_not_tell_is_said():
    requests = [
        replace(r, flushed=False, heard=replace(r.heard, cached_tokens=None))
        for r in run({"base": (100.0, 100.2), "pr": (103.1, 102.9)})
    ]
    told = " ".join(one(requests).remarks)
    for name in ("base", "pr"):
        assert f"{name} does not tell whether tokens of prompts were cached" in told
        assert f"{name} has no way to empty its prefix cache" in told


def test_each_load_is_judged_by_itself():
    requests = run({"base": (100.0, 100.2), "pr": (103.1, 102.9)})
    method = replace(METHOD, loads=(1, 4))
    loads = judge([*requests, *(replace(r, load=4, acceptance=None, figures=None)
                                for r in requests)], ("base", "pr"), method)  # fmt: skip
    assert [load.verdict for load in loads] == [Verdict.PASS, Verdict.INVALID]
