import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from verify import logs
from verify.command import UserError

A, B = "aa" * 32, "bb" * 32


def record(item, correct=True, repeat=0, **fields):  # noqa: FBT002 - a record's own field
    return {"item": item, "correct": correct, "repeat": repeat} | fields


@pytest.fixture
def pair(lines):
    def pair_of(base, pr):
        tables = [
            logs.read(lines(n, *rows)).suites["unnamed"] for n, rows in (("b", base), ("p", pr))
        ]
        return logs.pair(*tables)

    return pair_of


def test_openai_models_question_by_question(shared_data):
    path = shared_data / "paired" / "openai_gsm8k_model_solutions" / "example_model_solutions.jsonl"
    base, pr = (
        logs.read(f"{path}::{m}").suites["gsm8k"] for m in ("175b_finetuning", "175b_verification")
    )
    pairs = logs.pair(base, pr)
    assert pairs.problems == ()
    assert len(pairs.items) == 1319
    assert pairs.base.score.sum() == 458
    assert pairs.pr.score.sum() == 742
    flips = pairs.pr.score - pairs.base.score
    assert flips.sum() == 742 - 458


def test_evalscope_arms_in_different_orders(shared_data):
    folder = shared_data / "paired" / "evalscope_viz"
    for name in ("gsm8k_main", "ifeval_default", "iquiz_EQ", "iquiz_IQ"):
        tables = []
        for model in ("qwen-plus", "qwen3-max"):
            log = logs.read(folder / f"{model}__reviews__{name}.jsonl")
            tables += log.suites.values()
        pairs = logs.pair(*tables)
        assert pairs.problems == ()
        assert len(pairs.items) == 10


@settings(max_examples=60, deadline=None)
@given(data=st.data())
def test_order_is_irrelevant_and_every_score_finds_its_place(tmp_path_factory, data):
    import json

    items = data.draw(st.lists(st.integers(0, 99), min_size=1, max_size=12, unique=True))
    repeats = data.draw(st.integers(1, 3))
    folder = tmp_path_factory.mktemp("pair")
    tables, truth = [], []
    for arm in ("base", "pr"):
        scores = {
            (item, k): data.draw(st.sampled_from([0, 0.5, 1]))
            for item in items
            for k in range(repeats)
        }
        rows = data.draw(st.permutations([record(f"q{i}", s, k) for (i, k), s in scores.items()]))
        path = folder / arm
        path.write_text("".join(json.dumps(row) + "\n" for row in rows))
        tables.append(logs.read(path).suites["unnamed"])
        truth.append(scores)
    pairs = logs.pair(*tables)
    assert pairs.problems == ()
    assert sorted(pairs.items) == sorted(f"q{i}" for i in items)
    for side, scores in zip((pairs.base, pairs.pr), truth, strict=True):
        assert side.score.shape == (len(items), repeats)
        for place, item in enumerate(pairs.items):
            assert side.score[place].tolist() == [scores[int(item[1:]), k] for k in range(repeats)]


def test_items_that_one_arm_lacks_are_named(pair):
    pairs = pair([record("a"), record("b")], [record("c"), record("b", 0), record("d")])
    assert list(pairs.items) == ["b"]
    assert pairs.problems == ("1 item (first 'a') in base only", "2 items (first 'c') in pr only")
    assert pairs.unequal == ()
    assert (pairs.base.score.tolist(), pairs.pr.score.tolist()) == ([[1]], [[0]])


def test_differing_prompts_and_targets_are_named(pair):
    base = [record("a", prompt_sha256=A, target_sha256=A), record("b", prompt_sha256=A)]
    same = pair(base, [record("b", prompt_sha256=A), record("a", prompt_sha256=A, target_sha256=A)])
    assert same.problems == ()
    pr = [record("a", prompt_sha256=A, target_sha256=B), record("b", prompt_sha256=B)]
    assert pair(base, pr).problems == (
        "1 prompt (first 'b') not the same in both arms",
        "1 target (first 'a') not the same in both arms",
    )


def test_a_hash_that_one_arm_does_not_record_is_no_difference(pair):
    assert pair([record("a", prompt_sha256=A)], [record("a")]).problems == ()


def test_a_prompt_that_changes_between_repeats_is_named(pair):
    base = [record("a", prompt_sha256=A), record("a", repeat=1, prompt_sha256=B)]
    pr = [record("a", prompt_sha256=A), record("a", repeat=1, prompt_sha256=A)]
    assert pair(base, pr).problems == ("1 prompt (first 'a') not the same in both arms",)
    assert pair(pr, base).problems == ("1 prompt (first 'a') not the same in both arms",)


def test_a_repeat_that_is_missing_has_no_prompt_to_differ(pair):
    base = [
        record("b", prompt_sha256=B),
        record("c", repeat=1, prompt_sha256=B),
        record("a", prompt_sha256=A),
        record("a", repeat=1, prompt_sha256=A),
    ]
    assert pair(base, base).problems == pair(base, base).unequal != ()


def test_unanswered_requests_are_named_with_their_error(pair):
    pairs = pair([record("a"), record("b")], [record("a"), record("b", None, error="timed out")])
    assert pairs.problems == ("pr never answered 1 of 2 items: 1 timed out (first 'b', timed out)",)
    assert np.isnan(pairs.pr.score).tolist() == [[False], [True]]


def test_unequal_repeats_are_a_problem_that_may_be_allowed(pair):
    base = [record("a", 1), record("a", 0, 1, truncated=True, completion_tokens=5), record("b")]
    pr = [record("a"), record("b", 0)]
    pairs = pair(base, pr)
    assert pairs.problems == pairs.unequal
    assert pairs.unequal == (
        "1 item (first 'b') without all repeats in base",
        "base has 2 repeats and pr 1",
    )
    assert pairs.base.score[0].tolist() == [1, 0]
    assert pairs.base.score[1, 0] == 1
    assert np.isnan(pairs.base.score[1, 1])
    assert pairs.base.truncated.tolist() == [[-1, 1], [-1, -1]]
    assert pairs.base.tokens.tolist() == [[-1, 5], [-1, -1]]


def test_repeats_know_their_file(lines):
    paths = [lines("0", record("a"), record("a", 0, 1)), lines("1", record("a"))]
    table = logs.read_arm(paths).suites["unnamed"]
    assert logs.pair(table, table).base.runs == [0, 0, 1]


def test_nothing_in_common_is_refused(pair):
    with pytest.raises(UserError, match=r"no item in common.*'a', of pr 'b'") as caught:
        pair([record("a")], [record("b")])
    assert caught.value.exit_code == 4


def test_repeats_numbered_through_the_file_are_refused(pair):
    rows = [record(f"q{i}", repeat=i) for i in range(300)]
    with pytest.raises(UserError, match="300 repeat numbers for 300 records"):
        pair(rows, rows)
