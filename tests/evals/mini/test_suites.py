"""The three suites' files: what they claim, whole, and never trained on."""

import hashlib
import json
import tomllib
from math import log, sqrt
from pathlib import Path

import pytest
from scipy.optimize import minimize_scalar

from evals.mini import generate, model, problems, tokenizer
from evals.mini.train import make_batch

EVALS = Path(generate.__file__).parents[1]
SUITES = list(generate.MIXTURES)


def suite_toml(suite):
    return tomllib.loads((EVALS / suite / "suite.toml").read_text(encoding="utf-8"))


def rows(suite):
    text = (EVALS / suite / "test.jsonl").read_text(encoding="utf-8")
    return [json.loads(line) for line in text.splitlines()]


@pytest.mark.parametrize("suite", SUITES)
def test_sha256_is_the_files(suite):
    toml = suite_toml(suite)
    data = (EVALS / suite / toml["source"]["file"]).read_bytes()
    assert toml["source"]["sha256"] == hashlib.sha256(data).hexdigest()


@pytest.mark.parametrize("suite", SUITES)
def test_generator_writes_the_same_file_again(suite):
    text = generate.serialise(generate.generate(suite))
    assert text == (EVALS / suite / "test.jsonl").read_text(encoding="utf-8")


@pytest.mark.parametrize(
    ("suite", "count"), [("mini-gsm8k", 1319), ("mini-aime", 320), ("mini-gpqa", 448)]
)
def test_rows_are_distinct_held_out_and_short_enough(suite, count):
    toml = suite_toml(suite)
    questions = [row["question"] for row in rows(suite)]
    assert len(questions) == len(set(questions)) == count
    assert toml["items"] <= count
    for question in questions:
        assert problems.Problem("", "", question, "", "").held_out


@pytest.mark.parametrize("suite", SUITES)
def test_right_answers_fit(suite):
    limit = suite_toml(suite)["sampling"]["max_tokens"]
    for problem in generate.generate(suite):
        answer = len(tokenizer.encode(problem.solution)) + 1
        assert answer <= limit
        assert len(tokenizer.encode(problem.question)) + 2 + answer <= model.CONFIG.context


@pytest.mark.parametrize("suite", SUITES)
def test_no_row_is_in_the_training_batches(suite):
    asked = {tuple(tokenizer.encode(row["question"])) for row in rows(suite)}
    for index in range(8):
        for row in make_batch(20261201, index, 1024, model.CONFIG.context).tolist():
            assert tuple(row[1 : row.index(tokenizer.SOLVE)]) not in asked


def tango_z(lost, gained, n, margin):
    """Score statistic of non-inferiority (Tango 1998), its variance by numeric likelihood."""

    def unlikelihood(p):
        return -(
            lost * log(p) + gained * log(p - margin) + (n - lost - gained) * log(1 + margin - 2 * p)
        )

    p = minimize_scalar(unlikelihood, bounds=(margin, (1 + margin) / 2), method="bounded").x
    return (gained - lost + n * margin) / sqrt(n * (2 * p - margin - margin**2))


@pytest.mark.parametrize("suite", SUITES)
def test_margin_leaves_room_for_a_handful_of_flips(suite):
    toml = suite_toml(suite)
    n, margin = toml["items"], toml["margin_pt"] / 100
    assert tango_z(3, 3, n, margin) > 1.96
    assert tango_z(5, 3, n, margin) > 1.96
    assert tango_z(12, 3, n, margin) < 1.96
