import io
import json
import sys

import pytest

from evals.opinion import Asked, opinion
from evals.suite import load
from verify import pool
from verify.evals import opinions as module
from verify.evals.opinions import asked, opinions

pytest.importorskip("math_verify")


@pytest.fixture
def grade(evals, monkeypatch, second_opinions):  # noqa: ARG001 - they are looked at
    """Grade lines given on standard input: exit code, decoded lines of output, standard error."""

    def invoke(suite, *lines):
        words = [line if isinstance(line, bytes) else json.dumps(line).encode() for line in lines]
        stdin = io.TextIOWrapper(io.BytesIO(b"\n".join(words)))
        monkeypatch.setattr(sys, "stdin", stdin)
        code, out, err = evals("grade", suite)
        return code, [json.loads(line) for line in out.splitlines()], err

    return invoke


def test_lines_are_graded_in_order(grade):
    code, lines, err = grade(
        "gsm8k",
        {"text": "so #### 1,000", "target": "1 + 999\n#### 1000", "finish_reason": "stop"},
        {"text": "it is 54", "target": 54, "finish_reason": "length"},
        b"",
        {"text": "it is 54", "target": 54},
        {"text": "\\boxed{2^{3}}", "target": "8"},
        {"text": "#### 5\nQuestion: 6?", "target": 5},
        {"text": "\ud800", "target": 5},
    )
    assert (code, err) == (0, "")
    assert [tuple(line.values()) for line in lines] == [
        ("1000", True, "hashes", True),
        (None, False, "none", None),  # cut off: no last number, and nobody's opinion
        ("54", True, "last-number", True),
        ("2^{3}", False, "boxed", True),  # where graders disagree, both are shown
        ("5", True, "hashes", True),
        (None, False, "none", None),
    ]
    assert list(lines[0]) == ["answer", "correct", "rule", "second_opinion"]


def test_letters(grade):
    _, lines, _ = grade(
        "gpqa_diamond",
        {"text": "**Answer: (C)**", "target": "c"},
        {"text": "\\boxed{\\text{B}}", "target": "C"},
    )
    assert [tuple(line.values()) for line in lines] == [
        ("C", True, "answer-is", True),
        ("B", False, "boxed", False),
    ]


@pytest.mark.parametrize(
    ("line", "message"),
    [
        (b"{", "line 2: "),
        (b"[]", "line 2: Expected `object`"),
        (b'{"text": "x"}', "missing required field `target`"),
        (b'{"text": 5, "target": 5}', "Expected `str`"),
        (b'{"text": "x", "target": "many"}', "ends in no number"),
        (b"\xff", "line 2: "),
        (b"[" * 100_000, "line 2: "),
    ],
)
def test_a_wrong_line_is_one_line(grade, line, message):
    code, lines, err = grade("gsm8k", {"text": "4", "target": 4}, line)
    assert (code, lines, err.count("\n")) == (2, [], 1)
    assert message in err


def test_an_unknown_suite_is_one_line(grade):
    code, _, err = grade("gsm9k")
    assert code == 2
    assert "choose one of" in err


def test_without_math_verify_there_is_no_second_opinion(grade, monkeypatch):
    monkeypatch.setattr(module.importlib.util, "find_spec", lambda _: None)
    code, lines, err = grade("gsm8k", {"text": "#### 4", "target": 4})
    assert code == 0
    assert lines == [{"answer": "4", "correct": True, "rule": "hashes", "second_opinion": None}]
    assert "math-verify is not installed" in err


@pytest.mark.parametrize(
    ("text", "target", "kind", "said"),
    [
        ("\\boxed{1{,}000}", "1000", "integer", True),
        ("The answer is \u22123", "-3", "integer", True),
        ("\\boxed{\\frac{1}{2}}", "0.5", "decimal", True),
        ("#### 711", "11", "integer", False),
        ("no idea", "4", "integer", None),
        ("The answer is (C)", "C", "letter", True),
        ("$\\boxed{\\text{(D)}}$", "C", "letter", False),
        ("G", "G", "letter", True),
        ("", "C", "letter", None),
        ("\\boxed{" * 30_000, "4", "integer", None),
        ("\\frac{" * 30_000, "4", "integer", None),
    ],
)
def test_opinions(text, target, kind, said):
    assert opinion(Asked(text, target, kind)) is said


def test_an_opinion_hears_what_the_grader_hears():
    spec = load("gsm8k").spec
    assert asked("<think>5</think>#### 4\nQuestion: 6", "4", spec).text == "#### 4\n"


@pytest.mark.usefixtures("second_opinions")
def test_an_opinion_that_takes_too_long_is_none(monkeypatch):
    monkeypatch.setattr(
        pool.Pool, "answers", lambda _, jobs: [(job, pool.Lost("slow", hung=True)) for job in jobs]
    )
    about = asked("4", "4", load("gsm8k").spec)
    assert opinions([about, about]) == {about: None}
