"""From the records of a run to the scores that are judged."""

from types import SimpleNamespace

import numpy as np
import pytest

from verify.conclusion import suite_scores
from verify.runner import _capped
from verify.stats.suite import judge
from verify.store import Record, Store
from verify.task import Rules, Task
from verify.verdict import Verdict

ARMS = ("base", "pr")


def task(size=6, repeats=1, margin_pt=5.0):
    items = tuple(SimpleNamespace(id=f"q{i}") for i in range(size))
    suite = SimpleNamespace(spec=SimpleNamespace(name="s", floor=0.05))
    orders = tuple(tuple(range(size)) for _ in range(repeats))
    return Task(suite, None, items, margin_pt, "the suite", orders)


def record(arm, item, **changes):
    return Record(
        **{
            "arm": arm,
            "suite": "s",
            "item": item,
            "correct": item != "q5",
            "truncated": item == "q1",
            "prompt_sha256": f"p{item}",
            "target_sha256": f"t{item}",
            **changes,
        }
    )


def as_it_is(*_):
    return {}


def paired(edit=as_it_is, rules=None, size=6, repeats=1):
    """Records of both arms, in no order; `edit` changes or, by None, drops one."""
    of = task(size, repeats)
    records = [
        record(arm, item.id, repeat=repeat, **changes)
        for repeat in range(repeats)
        for item in reversed(of.items)
        for arm in reversed(ARMS)
        if (changes := edit(arm, item.id, repeat)) is not None
    ]
    return suite_scores(records, of, ARMS, rules or Rules(repeats))


def only(arm, item, change):
    return lambda a, i, _: change if (a, i) == (arm, item) else {}


def by_item(scores, arm):
    """Scores of the first repeat; the order of items is that of the records, reversed here."""
    return getattr(scores, arm)[::-1, 0].tolist()


def test_pairs_are_made_whatever_the_order_of_answers():
    scores = paired(only("pr", "q2", {"correct": False}))
    assert by_item(scores, "base") == [1, 1, 1, 1, 1, 0]
    assert by_item(scores, "pr") == [1, 1, 0, 1, 1, 0]
    for flags in scores.truncated:
        assert flags[::-1, 0].tolist() == [False, True] + [False] * 4
    assert scores.problems == ()
    assert scores.asked[::-1].tolist() == list(range(6))  # q0 was asked first
    assert not scores.stopped


@pytest.mark.parametrize("arm", ARMS)
def test_an_item_missing_from_one_arm_is_a_problem(arm):
    scores = paired(only(arm, "q3", None))
    other = "pr" if arm == "base" else "base"
    assert scores.problems == (f"1 item (first 'q3') in {other} only",)
    assert scores.base.shape == (5, 1)
    assert judge([scores])[0].verdict is Verdict.INVALID


def test_an_item_missing_from_both_arms_is_a_problem():
    scores = paired(lambda _, item, __: None if item == "q4" else {})
    assert scores.problems == ("neither arm has 1 of 6 items (first 'q4')",)


def test_a_request_never_answered_is_a_problem_and_not_a_wrong_answer():
    failed = {"correct": None, "truncated": None, "error": "http_500: out of memory"}
    scores = paired(only("pr", "q0", failed))
    assert scores.problems == (
        "pr never answered 1 of 6 items: 1 http_500 (first 'q0', http_500: out of memory)",
    )
    assert scores.pr.size == 5
    assert scores.truncated is not None  # what did not come is not truncated
    assert not scores.asked.size  # nor does it let later answers be bet on before it


@pytest.mark.parametrize("name", ["prompt", "target"])
def test_differing_hashes_are_a_problem(name):
    scores = paired(only("pr", "q4", {f"{name}_sha256": "other"}))
    assert scores.problems == (f"1 {name} (first 'q4') not the same in both arms",)
    assert scores.base.size == 5


def test_truncation_is_unknown_if_any_answer_does_not_say():
    assert paired(only("base", "q0", {"truncated": None})).truncated is None


def test_an_arm_that_answered_nothing():
    scores = paired(lambda arm, *_: {} if arm == "base" else None)
    assert scores.problems == ("pr answered none of 6 items",)
    assert scores.base.size == 0
    assert judge([scores])[0].verdict is Verdict.INVALID


def test_repeats_are_kept_apart_and_a_missing_one_is_a_problem():
    def flips(arm, item, repeat):
        return {"correct": False} if (arm, item, repeat) == ("pr", "q2", 1) else {}

    scores = paired(flips, repeats=3)
    assert scores.pr[::-1][2].tolist() == [1, 0, 1]
    assert scores.problems == ()
    lacking = paired(lambda a, i, r: None if (a, i, r) == ("pr", "q2", 1) else {}, repeats=3)
    assert lacking.problems == ("1 item (first 'q2') without all repeats in pr",)
    assert np.isnan(lacking.pr[::-1][2, 1])


def broken_from_the_start(arm, item, _):
    """All of pr wrong; the run ended when 30 of 200 items were answered."""
    if int(item[1:]) >= 30 + 5 * (arm == "base"):
        return None
    return {"correct": arm == "base", "truncated": False}


def test_what_a_stopped_run_did_not_ask_is_not_missing():
    scores = paired(broken_from_the_start, size=200)
    assert scores.stopped
    assert scores.problems == ()
    assert len(scores.base) == 30  # base was five questions ahead
    (found,) = judge([scores])
    assert found.verdict is Verdict.FAIL
    assert "where the run stopped" in found.reason
    assert found.sequential.harm >= 20
    assert found.interval_pt == found.sequential.confidence_sequence_pt
    assert found.interval_pt[1] < -5
    assert "betting" in found.interval_method
    assert found.mcnemar is found.noninferiority.p is found.smallest_margin_pt is None
    assert found.equivalence.p is found.detectable_pt is None


def test_without_early_stop_what_is_missing_is_missing():
    scores = paired(broken_from_the_start, Rules(early_stop=False), size=200)
    assert not scores.stopped
    assert judge([scores])[0].verdict is Verdict.INVALID


def test_a_run_that_broke_off_without_evidence_is_invalid():
    def half(_, item, __):
        return {"truncated": False, "correct": True} if int(item[1:]) < 100 else None

    scores = paired(half, size=200)
    assert not scores.stopped
    assert judge([scores])[0].verdict is Verdict.INVALID


def test_only_the_first_repeat_is_bet_on():
    def breaks_later(arm, _, repeat):
        return {"correct": arm == "base" or repeat == 0, "truncated": False}

    scores = paired(breaks_later, size=50, repeats=2)
    (found,) = judge([scores])
    assert found.sequential.harm == 1
    assert found.verdict is Verdict.FAIL  # by the fixed-size test


def all_right(cut=()):
    return lambda arm, item, _: {"correct": True, "truncated": (arm, item) in cut}


def test_a_certificate_is_the_only_route_to_its_pass():
    (fixed,) = judge([paired(all_right(), size=100)])
    assert fixed.verdict is Verdict.PASS
    (short,) = judge([paired(all_right(), Rules(certify=True), size=60)])
    assert short.verdict is Verdict.INCONCLUSIVE
    assert "the certificate reached e-value" in short.reason
    (long,) = judge([paired(all_right(), Rules(certify=True), size=400)])
    assert long.verdict is Verdict.PASS
    assert long.sequential.certificate >= 40
    assert long.noninferiority.p is None  # a fixed-size test is no second route


def test_a_certificate_counts_truncated_answers_against_pr():
    cut = {("pr", f"q{i}") for i in range(0, 400, 8)}
    (found,) = judge([paired(all_right(cut), Rules(certify=True), size=400)])
    assert found.verdict is Verdict.INCONCLUSIVE


def test_what_was_asked_again_of_one_arm_is_still_asked_again_of_the_other(tmp_path):
    of = task(size=3)
    of.suite.spec.sampling = SimpleNamespace(max_tokens=9)
    with Store.open(tmp_path / "r.sqlite") as store:
        for item in ("q0", "q1", "q2"):
            for arm in ARMS:
                cut = (arm, item) in {("base", "q1"), ("pr", "q2")}
                store.add(record(arm, item, truncated=cut, max_tokens=9))
        assert _capped(of, store) == [(1, 0), (2, 0)]
        store.add(record("base", "q1", truncated=False, max_tokens=99))
        assert _capped(of, store) == [(1, 0), (2, 0)]
