"""`aa` and `power`."""

import json

import pytest


def write(path, rows):
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


def repeats(here, wrong, items=300):
    """A file a start: in each, the items named are wrong."""
    return [
        write(
            here / f"run{number}.jsonl",
            [{"item": f"q{n}", "correct": n not in those, "suite": "s"} for n in range(items)],
        )
        for number, those in enumerate(wrong)
    ]


def measured(evals, here, *words):
    code, out, err = evals("aa", *words, "--json", "aa.json")
    assert err == ""
    return code, out, json.loads((here / "aa.json").read_text())["suites"][0]


def test_independent_flips_are_noise(evals, here):
    files = repeats(here, [{1, 2, 3}, {4, 5, 6}, {7, 8, 9}])
    code, out, found = measured(evals, here, *files)
    assert code == 0
    assert (found["items"], found["repeats"], found["starts"]) == (300, 3, 3)
    assert found["accuracy"] == pytest.approx([0.99] * 3)
    assert found["flips"] == pytest.approx(6 / 300)  # any two runs disagree on six questions
    assert found["shift"]["ratio"] < 1
    assert "vary as independent answers do" in out


def test_a_start_that_shifts_the_whole_run_is_seen_with_its_size(evals, here):
    files = repeats(here, [set(), set(), set(range(30))])
    code, out, found = measured(evals, here, *files)
    assert code == 3
    assert found["shift"]["p"] < 0.001
    # starts at 100, 100 and 90 %: a standard deviation of 5.8 points
    assert found["shift"]["shift_pt"] == pytest.approx(5.8, abs=0.3)
    assert "shift whole runs" in out


def test_repeats_of_one_start(evals, here):
    rows = [{"item": f"q{n}", "correct": n != r, "repeat": r} for n in range(50) for r in range(2)]
    code, out, found = measured(evals, here, write(here / "one", rows))
    assert (code, found["starts"], found["repeats"]) == (0, 1, 2)
    assert "one start cannot show" in out


def test_identical_repeats(evals, here):
    code, out, found = measured(evals, here, *repeats(here, [{1}, {1}]))
    assert (code, found["flips"], found["shift"]) == (0, 0, None)
    assert "answer every item alike" in out


def test_subsets_are_measured_apart(evals, here):
    files = repeats(here, [set(), set(), set(range(0, 60, 2))])  # even ones shift
    rows = [f"q{n},{'odd' if n % 2 else 'even'}" for n in range(300)]
    (here / "split.csv").write_text("\n".join(["item,subset", *rows]))
    code, _, err = evals("aa", *files, "--split", "split.csv", "--json", "aa.json")
    assert (code, err) == (3, "")
    even, odd = json.loads((here / "aa.json").read_text())["suites"]
    assert (even["suite"], even["items"], even["verdict"]) == ("s/even", 150, "inconclusive")
    assert (odd["suite"], odd["flips"], odd["verdict"]) == ("s/odd", 0, "pass")
    (here / "split.csv").write_text("item,subset\nq0,a\nq0,b\n")
    code, out, err = evals("aa", *files, "--split", "split.csv")
    assert (code, out, err.count("\n")) == (2, "", 1)
    assert "item 'q0' is in two subsets" in err


def test_an_unanswered_request_is_invalid(evals, here):
    one, other = repeats(here, [{1}, {2}])
    rows = [json.loads(line) for line in other.read_text().splitlines()]
    write(other, [{"item": "q0", "correct": None, "error": "timeout", "suite": "s"}, *rows[1:]])
    assert measured(evals, here, one, other)[0] == 4


def test_one_answer_an_item_has_no_noise_to_measure(evals, here):
    code, out, err = evals("aa", *repeats(here, [{1}]), "--json", "aa.json")
    assert (code, out, err.count("\n")) == (2, "", 1)
    assert "name several runs" in err
    assert not (here / "aa.json").exists()
    assert evals("aa")[0] == 2


def test_power(evals, here):
    words = ["--items", 1319, "--flips", 0.76, "--margin", 1, "--repeats", 1, "--repeats", 4]
    code, out, err = evals("power", *words, "--json", "power.json")
    assert (code, err) == (0, "")
    found = json.loads((here / "power.json").read_text())
    once, four = found["detectable"]
    assert once["margin_pt"] > four["margin_pt"] > found["least_margin_pt"]
    (needed,) = found["needed"]
    assert once["margin_pt"] < 1
    assert needed["items"] < 1319
    assert needed["repeats"] == 1
    assert "0.76 % flip" in out


def test_what_no_number_of_repeats_can_show(evals, here):
    words = ["--items", 30, "--flips", 5, "--margin", 5]
    code, out, _ = evals("power", *words, "--json", "power.json")
    assert code == 0
    assert json.loads((here / "power.json").read_text())["needed"][0]["repeats"] is None
    assert "never" in out


@pytest.mark.parametrize(
    "words",
    [
        [],
        ["--items", 0],
        ["--items", 10, "--flips", 0],
        ["--items", 10, "--flips", 100],
        ["--items", 10, "--margin", 0],
        ["--items", 10, "--flips", 2, "--shifts", 3],
    ],
)
def test_wrong_use_of_power_is_one_line(evals, words):
    code, out, err = evals("power", *words)
    assert (code, out, err.count("\n")) == (2, "", 1)
