"""What `compare` must refuse ends in one line."""

import json

import pytest

from tests.verify.evals.comparing.arms import write


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


@pytest.mark.parametrize("name", [".", "/", "../evals/gsm8k", "9" * 5000])
def test_a_suites_name_is_never_taken_for_a_path(arms, refused, name):
    files = arms(lambda _, row: row | {"suite": name})
    refused(files, "has no default margin", code=2)


@pytest.mark.parametrize("name", ["\0", "\x1b[31m", "two\nlines"])
def test_a_suites_name_can_be_read(arms, refused, name):
    refused(arms(lambda _, row: row | {"suite": name}), repr(name), "line 1", code=4)


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
