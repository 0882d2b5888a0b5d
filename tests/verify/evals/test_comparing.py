"""`compare` on logs: made up ones, real ones, and broken ones."""

import json
import shutil

import numpy as np
import pytest

from verify.store import FILE_NAME, Record, Store

PUBLISHED = {"both": 1275, "lost": 7, "gained": 3, "neither": 29}


def records(both, lost, gained, neither):
    """Two arms of single answers, as records."""
    right = {"base": (1, 1, 0, 0), "pr": (1, 0, 1, 0)}
    return {
        arm: [
            {"item": f"q{n}", "correct": bool(c), "suite": "gsm8k", "truncated": False}
            for n, c in enumerate(np.repeat(of, [both, lost, gained, neither]).tolist())
        ]
        for arm, of in right.items()
    }


def write(path, rows):
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


@pytest.fixture
def arms(here):
    """Write both arms, after `edit` has had its way with each record, and return the files."""

    def make(edit=lambda _, row: row, name="", **table):
        made = records(**(table or PUBLISHED))
        return [
            write(here / f"{name}{arm}.jsonl", [r for row in rows if (r := edit(arm, row))])
            for arm, rows in made.items()
        ]

    return make


@pytest.fixture
def compared(evals, here):
    """Compare, and return exit code, output and the result; nothing else may be written."""

    def invoke(*words):
        before = set(here.rglob("*"))
        code, out, err = evals("compare", *words, "--json", "result.json")
        assert err == ""
        written = here / "result.json"
        found = json.loads(written.read_text())
        written.unlink()
        assert set(here.rglob("*")) == before
        return code, out, found

    return invoke


@pytest.fixture
def refused(evals, here):
    """Compare what must be refused: one line with all of `words`, and nothing written."""

    def invoke(given, *words, code):
        before = set(here.rglob("*"))
        found, out, err = evals("compare", *given, "--json", "result.json")
        assert (found, out, err.count("\n")) == (code, "", 1)
        assert len(err) < 1000
        for word in words:
            assert word in err
        assert set(here.rglob("*")) == before

    return invoke


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


def own_run(folder, margin=5.0, limit=9):
    """A run of ours: two arms in one file, and the manifest that fixed the margin before."""
    folder.mkdir()
    arms = records(both=180, lost=1, gained=1, neither=10)
    with Store.open(folder / FILE_NAME) as store:
        for arm, rows in arms.items():
            for row in rows:
                store.add(Record(arm=arm, **row | {"suite": "sums"}))
    (folder / "manifest.json").write_text(
        json.dumps(
            {
                "suites": {
                    "sums": {
                        "margin_pt": margin,
                        "floor": 0.05,
                        "sampling": {"temperature": 0.0, "max_tokens": limit},
                    }
                },
                "arms": {"base": {"kind": "server"}, "pr": {"kind": "server"}},
            }
        )
    )
    return [f"{folder}::base", f"{folder}::pr"]


def test_a_runs_own_margin_holds_and_a_change_of_it_is_shown(compared, here):
    run = own_run(here / "run")
    code, out, found = compared(*run)
    assert code == 0
    assert found["suites"][0]["noninferiority"]["margin_pt"] == 5
    assert found["manifest"]["suites"]["sums"]["margin_from"] == "the run's manifest"
    assert "changed" not in out
    _, out, found = compared(*run, "--margin", 9)
    assert "the margin was changed after the answers existed, from 5 to 9 points" in out
    assert found["manifest"]["notes"]


def test_runs_on_fresh_starts_are_repeats_of_one_comparison(compared, refused, here):
    one, other = own_run(here / "one"), own_run(here / "other")
    words = [w for run in (one, other) for w in ("--base", run[0], "--pr", run[1])]
    code, _, found = compared(*words)
    assert code in (0, 3)
    assert found["suites"][0]["starts"] == {"base": 2, "pr": 2, "controlled": True}
    longer = own_run(here / "longer", limit=50)
    refused([one[0], longer[1]], "they differ in sampling.sums.max_tokens: 9 and 50", code=4)


def test_wrong_use_is_one_line(arms, refused, here):
    base, pr = arms()
    refused([], "name two logs", code=2)
    refused([base], "name two logs", code=2)
    refused([base, pr, base], "name two logs", code=2)
    refused([base, "--pr", pr], "name two logs", code=2)
    refused(["--base", base], "name two logs", code=2)
    refused([base, base], "is in both arms", code=2)
    refused([base, here / "nowhere"], "no such file", code=2)
    refused([base, pr, "--margin", "x"], "not a number", code=2)
    refused([base, pr, "--margin", "other=2"], "no such suite here", code=2)
    refused([base, pr, "--suite", "other"], "no record of suite", code=2)
    refused([base, pr, "--split", here / "nowhere"], "cannot be read", code=2)


def test_a_suite_without_a_default_margin_asks_for_one(arms, refused, compared):
    files = arms(lambda _, row: row | {"suite": "sums"})
    refused(files, "suite 'sums' has no default margin; add --margin", code=2)
    assert compared(*files, "--margin", "sums=2")[0] == 0


@pytest.mark.parametrize("name", [".", "/", "../evals/gsm8k", "9" * 5000])
def test_a_suites_name_is_never_taken_for_a_path(arms, refused, name):
    files = arms(lambda _, row: row | {"suite": name})
    refused(files, "has no default margin", code=2)


@pytest.mark.parametrize("name", ["\0", "\x1b[31m", "two\nlines"])
def test_a_suites_name_can_be_read(arms, refused, name):
    refused(arms(lambda _, row: row | {"suite": name}), repr(name), "line 1", code=4)


@pytest.mark.parametrize(("name", "margin"), [("gsm8k_cot", 1), ("AIME25", 5), ("gpqa_main", 3)])
def test_benchmarks_have_default_margins(arms, compared, name, margin):
    _, _, found = compared(*arms(lambda _, row: row | {"suite": name}))
    assert found["suites"][0]["noninferiority"]["margin_pt"] == margin
    assert found["manifest"]["suites"][name]["margin_from"] == "the benchmark's default"


def test_suites_of_one_arm_only_are_refused(arms, refused, compared, here):
    base, pr = arms()
    both = write(
        here / "both.jsonl",
        [json.loads(line) for line in pr.read_text().splitlines()]
        + [{"item": "a", "correct": True, "suite": "aime"}],
    )
    refused([base, both], "suite aime is in PR only", code=4)
    assert compared(base, both, "--suite", "gsm8k")[0] == 0


@pytest.mark.parametrize(
    ("damage", "words", "code"),
    [
        (lambda raw: raw[: len(raw) // 2], "ends inside this record", 4),
        (lambda raw: raw.replace(b'"correct": true', b'"correct": "yes"', 1), "correct is", 4),
        (lambda raw: raw.replace(b'"correct": true', b'"correct": NaN', 1), "NaN", 4),
        (lambda raw: raw + raw.splitlines(keepends=True)[0], "stands already", 4),
        (lambda raw: raw.replace(b'"q', b'"z'), "no item in common", 4),
        (lambda _: b"", "is empty", 4),
        (lambda _: b"\x00\x01binary", "binary file", 2),
        (lambda raw: raw.replace(b'"item"', b'"arm": "x", "item"', 1), "holds the arms", 2),
    ],
)
def test_a_damaged_log_is_refused_in_one_line(arms, refused, damage, words, code):
    base, pr = arms()
    pr.write_bytes(damage(pr.read_bytes()))
    refused([base, pr], words, code=code)


def test_the_four_models_of_openai(shared_data, compared):
    file = next((shared_data / "paired" / "openai_gsm8k_model_solutions").glob("*.jsonl"))
    right = {"6b_finetuning": 286, "6b_verification": 515, "175b_finetuning": 458,
             "175b_verification": 742}  # fmt: skip
    names = list(right)
    for base, pr in [(a, b) for a in names for b in names if a != b]:
        code, _, found = compared(f"{file}::{base}", f"{file}::{pr}")
        (suite,) = found["suites"]
        assert suite["items"] == 1319
        assert suite["both"] + suite["lost"] == right[base]
        assert suite["both"] + suite["gained"] == right[pr]
        assert code == (0 if right[pr] > right[base] else 1)


def test_the_same_configuration_twice(shared_data, compared, evals):
    one, other = sorted((shared_data / "paired" / "reflexion").glob("*.jsonl"))
    code, _, found = compared(one, other, "--margin", 3)
    (suite,) = found["suites"]
    assert (code, suite["items"], suite["lost"] + suite["gained"]) == (0, 397, 6)
    assert "exact unconditional" in suite["interval_method"]
    code, out, _ = evals("aa", one, other)
    assert code == 0
    assert "1.51" in out  # 6 of 397 questions


def test_evalscope(shared_data, compared, here):
    """As evalscope lays its files out; rows are in completion order, another in each arm."""
    source = shared_data / "paired" / "evalscope_viz"
    for file in source.glob("*__*__*.jsonl"):
        model, kind, name = file.name.split("__")
        if name == "gsm8k_main.jsonl":
            place = here / model / kind / "model" / name
            place.parent.mkdir(parents=True)
            shutil.copy(file, place)
    code, out, found = compared(here / "qwen-plus", here / "qwen3-max")
    assert code in (0, 3)
    assert found["suites"][0]["items"] == 10
    assert "method: exact unconditional" in out


def test_reviews_that_lie_in_the_working_folder(shared_data, compared, here):
    for model in ("qwen-plus", "qwen3-max"):
        source = shared_data / "paired" / "evalscope_viz" / f"{model}__reviews__gsm8k_main.jsonl"
        shutil.copy(source, here / f"{model}.jsonl")
    code, out, found = compared("qwen-plus.jsonl", "qwen3-max.jsonl", "--margin", 30)
    assert code in (0, 3)
    assert found["suites"][0]["items"] == 10
    assert "base calls the suite qwen-plus, PR qwen3-max" in out


def test_lm_eval(shared_data, compared, refused):
    arms = [shared_data / "paired" / "lm_eval_live" / name for name in ("q41", "f16")]
    refused(arms, "flexible-extract, strict-match", "--filter", code=2)
    code, out, found = compared(*arms, "--filter", "strict-match")
    assert code == 3
    assert "such a suite can see nothing" in out
    assert "not known whether answers were truncated (base and pr)" in out
    assert found["suites"][0]["items"] == 12


def test_sgl_eval(shared_data, compared, refused, here):
    gsm8k, aime = (shared_data / "paired" / "sgl_eval_live" / name for name in ("gsm8k", "aime26"))
    refused([gsm8k, aime], "cannot be compared: they differ in sampling", code=4)
    again = shutil.copytree(gsm8k, here / "again")
    code, _, found = compared(gsm8k, again)
    (suite,) = found["suites"]
    assert code == 3
    assert suite["repeats"] == {"base": 2, "pr": 2}
    assert suite["truncated"] == {"base": 10, "pr": 10}


def test_inspect(shared_data, compared, refused, here):
    logs = sorted((shared_data / "paired" / "inspect_logs").glob("*.eval"))
    refused([*logs, "--margin", 5], "no sample was scored", code=4)
    logs = sorted((shared_data / "paired" / "inspect_logs").glob("*popularity.json"))
    copy = shutil.copy(logs[0], here / "copy.json")
    code, _, found = compared(logs[0], copy, "--margin", 5)
    assert code in (0, 3)
    assert found["suites"][0]["items"] > 0
