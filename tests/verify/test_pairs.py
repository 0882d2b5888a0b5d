import pytest

from verify.pairs import pair
from verify.stats.suite import judge
from verify.store import Record
from verify.verdict import Verdict

ITEMS = [f"q{i}" for i in range(6)]


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


def paired(edit=as_it_is, items=ITEMS, **options):
    """Pair records of both arms; `edit` changes or, by None, drops one."""
    records = [
        record(arm, item, **changes)
        for item in reversed(ITEMS)
        for arm in ("pr", "base")
        if (changes := edit(arm, item)) is not None
    ]
    return pair(
        records, suite="s", items=items, arms=("base", "pr"), margin=0.05, floor=0.05, **options
    )


def only(arm, item, change):
    return lambda a, i: change if (a, i) == (arm, item) else {}


def test_pairs_follow_the_items_whatever_the_order_of_answers():
    scores = paired(only("pr", "q2", {"correct": False}))
    assert scores.base.tolist() == [True, True, True, True, True, False]
    assert scores.pr.tolist() == [True, True, False, True, True, False]
    assert [flags.tolist() for flags in scores.truncated] == [[False, True] + [False] * 4] * 2
    assert scores.problems == ()


@pytest.mark.parametrize("arm", ["base", "pr"])
def test_an_item_missing_from_one_arm_is_a_problem(arm):
    scores = paired(only(arm, "q3", None))
    assert scores.problems == (f"{arm} lacks 1 of 6 items (first: q3)",)
    assert scores.base.size == 5
    assert judge([scores])[0].verdict is Verdict.INVALID


def test_a_request_never_answered_is_a_problem_and_not_a_wrong_answer():
    failed = {"correct": None, "truncated": None, "error": "http_500: out of memory"}
    scores = paired(only("pr", "q0", failed))
    (problem,) = scores.problems
    assert problem == (
        "pr never answered 1 of 6 items: 1 http_500 (first: q0, http_500: out of memory)"
    )
    assert scores.pr.size == 5
    assert scores.truncated is not None  # what did not come is not truncated


@pytest.mark.parametrize("name", ["prompt_sha256", "target_sha256"])
def test_differing_hashes_are_a_problem(name):
    scores = paired(only("pr", "q4", {name: "other"}))
    assert scores.problems == (f"1 items differ between the arms in {name} (first: q4)",)
    assert scores.base.size == 5


def test_truncation_is_unknown_if_any_answer_does_not_say():
    assert paired(only("base", "q0", {"truncated": None})).truncated is None


def test_known_problems_come_first_and_other_suites_do_not_count():
    scores = paired(only("pr", "q0", {"suite": "other"}), problems=["never took the fused path"])
    assert scores.problems[0] == "never took the fused path"
    assert scores.problems[1].startswith("pr lacks 1")


def test_nothing_answered():
    scores = paired(lambda *_: None)
    assert scores.base.size == 0
    assert judge([scores])[0].verdict is Verdict.INVALID
