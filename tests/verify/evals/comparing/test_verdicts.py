"""`compare` on arms made up."""

import json

import numpy as np
import pytest

from tests.verify.evals.comparing.arms import write


def test_the_published_pull_request(arms, compared):
    code, out, found = compared(*arms())
    (suite,) = found["suites"]
    assert code == 0
    assert suite["difference_pt"] == pytest.approx(-0.304, abs=1e-3)
    assert suite["interval_pt"] == pytest.approx([-0.894, 0.202], abs=1e-3)
    assert suite["noninferiority"]["p"] == pytest.approx(0.013, abs=5e-4)
    assert suite["noninferiority"]["margin_pt"] == 1
    assert suite["interval_method"] == suite["noninferiority"]["method"] == "Tango score"
    assert suite["mcnemar"]["exact"] == pytest.approx(0.344, abs=1e-3)
    assert suite["smallest_margin_pt"] == pytest.approx(0.894, abs=1e-3)
    for word in ("PASS", "7/3", "Tango", "0.013", "shifts of starts not controlled"):
        assert word in out
    assert found["manifest"]["suites"]["gsm8k"]["margin_from"] == "the suite"
    code, out, _ = compared(*arms(), "--margin", "0.5")
    assert code == 3
    assert "would probably settle it" in out


def test_swapping_the_arms_mirrors_everything(arms, compared):
    base, pr = arms(both=150, lost=9, gained=4, neither=20)
    (one,) = compared(base, pr, "--margin", 5)[2]["suites"]
    (other,) = compared(pr, base, "--margin", 5)[2]["suites"]
    assert one["difference_pt"] == pytest.approx(-other["difference_pt"])
    assert one["interval_pt"] == pytest.approx([-x for x in reversed(other["interval_pt"])])
    assert (one["lost"], one["gained"]) == (other["gained"], other["lost"])
    assert one["mcnemar"] == other["mcnemar"]
    assert one["equivalence"] == other["equivalence"]
    assert one["accuracy"]["base"] == other["accuracy"]["pr"]


def test_the_order_of_lines_and_of_arms_options_is_irrelevant(arms, compared, here):
    base, pr = arms()
    rows = pr.read_text().splitlines(keepends=True)
    np.random.default_rng(1).shuffle(rows)
    mixed = here / "mixed.jsonl"
    mixed.write_text("".join(rows))
    one = compared(base, pr)[2]["suites"]
    assert compared("--pr", mixed, "--base", base)[2]["suites"] == one


def test_several_files_are_repeats_and_starts(arms, compared):
    def flips(number):
        def edit(arm, row):
            changed = int(row["item"][1:]) % 97 == (number if arm == "pr" else number + 9)
            return row | {"correct": row["correct"] ^ changed}

        return edit

    files = [arms(flips(r), name=f"run{r}-", both=900, lost=0, gained=0, neither=100)
             for r in range(3)]  # fmt: skip
    words = [w for base, pr in files for w in ("--base", base, "--pr", pr)]
    code, out, found = compared(*words)
    (suite,) = found["suites"]
    assert suite["repeats"] == {"base": 3, "pr": 3}
    assert suite["interval_method"] == "Gaffke bound on item means and Welch t on server starts"
    assert suite["mcnemar"] is None
    assert suite["starts"] == {"base": 3, "pr": 3, "controlled": True}
    assert suite["noise"]["flips_base"] == pytest.approx(suite["noise"]["flips_pr"], rel=0.1)
    assert suite["noise"]["flips_pr"] == pytest.approx(2 / 97, rel=0.1)
    first, second = suite["noise"]["repeats"][:2]
    assert second["recovered"] == first["lost"]
    assert second["newly_lost"] == second["lost"]
    assert "base to base 2." in out
    assert code in (0, 3)


def test_repeats_of_one_file_share_a_start_and_that_is_said(arms, compared):
    def twice(path):
        rows = [json.loads(line) for line in path.read_text().splitlines()]
        return write(path, [row | {"repeat": r} for r in (0, 1) for row in rows])

    code, out, found = compared(*map(twice, arms()))
    (suite,) = found["suites"]
    assert code == 0
    assert suite["starts"] == {"base": 1, "pr": 1, "controlled": False}
    assert "shifts of starts not controlled" in out


def test_runs_that_shift_as_wholes_are_no_pass_where_the_interval_does_not_allow_for_it(
    here, compared
):
    # one file an arm; in base, the second repeat loses 30 of 1,000 questions that the first has
    # right, and the third gains 30 others
    def rows(shifted):
        for n in range(1000):
            for r in range(3):
                right = n < 900
                if shifted and ((r == 1 and n < 30) or (r == 2 and n >= 970)):
                    right = not right
                yield {"item": f"q{n}", "correct": right, "repeat": r, "suite": "gsm8k"}

    base = write(here / "base", rows(shifted=True))
    pr = write(here / "pr", rows(shifted=False))
    code, out, found = compared(base, pr, "--margin", 3)
    assert found["suites"][0]["noninferiority"]["p"] < 0.025
    assert code == 3
    assert "runs of base shift as wholes by some" in out


def test_unequal_repeats_are_invalid_unless_allowed(arms, compared):
    base, pr = arms()
    rows = [json.loads(line) for line in pr.read_text().splitlines()]
    write(pr, [*rows, *(row | {"repeat": 1} for row in rows)])
    code, out, _ = compared(base, pr)
    assert code == 4
    assert "base has 1 repeats and pr 2" in out
    code, _, found = compared(base, pr, "--allow-unequal")
    assert code == 0
    assert found["suites"][0]["repeats"] == {"base": 1, "pr": 2}


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"prompt_sha256": "f" * 64}, "1 prompt (first 'q7') not the same in both arms"),
        ({"target_sha256": "f" * 64}, "1 target (first 'q7') not the same in both arms"),
        ({"correct": None, "error": "timeout: 60 s"}, "pr never answered 1 of 1314 items"),
        (None, "1 item (first 'q7') in base only"),
    ],
)
def test_what_does_not_pair_is_invalid_and_names_the_item(arms, compared, change, words):
    def edit(arm, row):
        row = row | {"prompt_sha256": "a" * 64, "target_sha256": "b" * 64}
        if (arm, row["item"]) != ("pr", "q7"):
            return row
        return None if change is None else row | change

    code, out, found = compared(*arms(edit))
    assert code == 4
    assert found["verdict"] == "invalid"
    assert words in out
    assert found["suites"][0]["items"] == 1313


def test_truncated_answers_are_counted_against_pr(arms, compared):
    def cut(arm, row):
        return row | {"truncated": arm == "pr" and int(row["item"][1:]) < 20}

    code, out, found = compared(*arms(cut))
    (suite,) = found["suites"]
    assert code == 3
    assert "20 truncated answers (0 of base, 20 of PR)" in out
    assert suite["truncation_bounds_pt"] == pytest.approx([-24 / 13.14, -4 / 13.14])
    assert suite["cap_rate"]["p"] < 0.001


def test_partial_credit_is_compared_by_means_not_by_tango(arms, compared):
    def credit(arm, row):
        return row | {
            "correct": 0.5 if row["item"] in ("q0", "q1") and arm == "pr" else row["correct"]
        }

    _, out, found = compared(*arms(credit))
    (suite,) = found["suites"]
    assert suite["interval_method"] == "Gaffke bound on item means"
    assert suite["mcnemar"] is None
    assert suite["lost"] == 9
    assert suite["difference_pt"] == pytest.approx(-5 / 13.14)
    assert suite["partial_credit"]["t_p"] == pytest.approx(0.15, abs=0.05)
    assert "permutation p" in out


def test_subsets_are_suites_of_their_own(arms, compared, here, refused):
    base, pr = arms()
    split = here / "split.csv"
    lines = [f"q{n},{'easy' if n % 2 else 'hard'}" for n in range(1314)]
    split.write_text("item,subset\n" + "\n".join(lines) + "\n")
    _, _, found = compared(base, pr, "--split", split)
    easy, hard = found["suites"]
    assert (easy["suite"], hard["suite"]) == ("gsm8k/easy", "gsm8k/hard")
    assert easy["items"] + hard["items"] == 1314
    assert easy["lost"] + hard["lost"] == 7
    split.write_text("item,subset\nq0,a\n")
    refused([base, pr, "--split", split], "item 'q1' of suite gsm8k is in no subset", code=2)
    split.write_text("name,subset\nq0,a\n")
    refused([base, pr, "--split", split], "no columns item and subset", code=2)


def test_a_suite_without_a_default_margin_asks_for_one(arms, refused, compared):
    files = arms(lambda _, row: row | {"suite": "sums"})
    refused(files, "suite 'sums' has no default margin; add --margin", code=2)
    assert compared(*files, "--margin", "sums=2")[0] == 0


@pytest.mark.parametrize(("name", "margin"), [("gsm8k_cot", 1), ("AIME25", 5), ("gpqa_main", 3)])
def test_benchmarks_have_default_margins(arms, compared, name, margin):
    _, _, found = compared(*arms(lambda _, row: row | {"suite": name}))
    assert found["suites"][0]["noninferiority"]["margin_pt"] == margin
    assert found["manifest"]["suites"][name]["margin_from"] == "the benchmark's default"
