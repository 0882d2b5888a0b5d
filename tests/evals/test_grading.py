import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evals.grading import grade

# text, target, (answer, rule); right where the answer is the target
INTEGERS = [
    ("... #### 18", "18", ("18", "hashes")),
    ("####18", "18", ("18", "hashes")),
    ("#### 70,000", "70000", ("70000", "hashes")),
    ("#### $1,000.00", "1000", ("1000", "hashes")),
    ("#### \\$29.00", "29", ("29", "hashes")),
    ("#### -3", "-3", ("-3", "hashes")),
    ("#### \u22123", "-3", ("-3", "hashes")),
    ("#### -$3", "-3", ("-3", "hashes")),
    ("#### $-3", "-3", ("-3", "hashes")),
    ("#### **18**", "18", ("18", "hashes")),
    ("#### x = 5", "5", ("5", "hashes")),
    ("#### 5 dollars and 7 more", "5", ("5", "hashes")),
    ("#### 4\nNo, wait.\n#### 5", "5", ("5", "hashes")),
    ("So 7.\n#### 4\n\nQuestion: Two of 3?\nAnswer: #### 9", "4", ("4", "hashes")),
    ("#### 5 kg", "5", ("5", "hashes")),
    ("#### 75%", "75", ("75", "hashes")),
    ("#### 1e3", "1000", ("1000", "hashes")),
    ("#### 18/2", "9", ("9", "hashes")),
    ("#### 18/4", "18", ("4.5", "hashes")),
    ("#### 3/4.5", "3", (None, "none")),
    ("#### 1/2/2020", "1", (None, "none")),
    ("#### 2^10", "2", (None, "none")),
    ("#### 1,000^2", "1", (None, "none")),
    ("#### 1\u202f000", "1000", ("1000", "hashes")),
    ("#### 4\nThe answer is 5.", "4", ("4", "hashes")),
    ("#### 2.5", "3", ("2.5", "hashes")),
    ("#### 711", "11", ("711", "hashes")),
    ("#### 42!", "42", ("42", "hashes")),
    ("\\boxed{1{,}000}", "1000", ("1000", "boxed")),
    ("\\[ \\boxed{18} \\]", "18", ("18", "boxed")),
    ("\\boxed{8,000}", "8000", ("8000", "boxed")),
    ("\\boxed{18 \\text{ dollars}}", "18", ("18", "boxed")),
    ("\\boxed{\\text{18}}", "18", ("18", "boxed")),
    ("\\boxed{\\$18}", "18", ("18", "boxed")),
    ("\\boxed{3} then \\boxed{4}", "4", ("4", "boxed")),
    ("\\boxed{3} then \\boxed{4", "3", ("3", "boxed")),
    ("\\boxed{\\frac{1}{2}}", "2", ("0.5", "boxed")),
    ("\\boxed{-\\frac{8}{2}}", "-4", ("-4", "boxed")),
    ("\\boxed{3\\frac{1}{2}}", "3", ("3\\frac{1}{2}", "boxed")),
    ("\\boxed{\\frac{1}{3}}", "3", ("1/3", "boxed")),
    ("\\boxed{\\frac{x}{3}}", "3", ("\\frac{x}{3}", "boxed")),
    ("\\boxed{\\sqrt{{9}}}", "9", ("\\sqrt{{9}}", "boxed")),
    ("\\boxed{2^{10}}", "10", ("2^{10}", "boxed")),
    ("\\boxed{x^2}", "2", ("x^2", "boxed")),
    ("\\boxed{x_{2}}", "2", ("x_{2}", "boxed")),
    ("\\boxed{5!}", "5", ("5!", "boxed")),
    ("\\boxed{2\\pi}", "2", ("2\\pi", "boxed")),
    ("\\boxed{3 \\times 10^6}", "3000000", ("3000000", "boxed")),
    ("\\boxed{3 \\times 10^{6}}", "3000000", ("3000000", "boxed")),
    ("\\boxed{1,\\!000}", "1000", ("1000", "boxed")),
    ("\\boxed{90^\\circ}", "90", ("90^\\circ", "boxed")),
    ("\\boxed{5, 6}", "5", ("5, 6", "boxed")),
    ("\\boxed{5} or \\boxed{6}", "6", ("6", "boxed")),
    ("\\boxed{75\\%}", "75", ("75", "boxed")),
    ("\\boxed{x = 5}", "5", ("5", "boxed")),
    ("\\boxed{\\left(5\\right)}", "5", ("5", "boxed")),
    ("\\boxed{}", "5", ("", "boxed")),
    ("The answer is 18...", "18", ("18", "answer-is")),
    ("The answer is 18. I used 2 methods.", "18", ("18", "answer-is")),
    ("The answer is -3", "-3", ("-3", "answer-is")),
    ("The answer is 050", "50", ("50", "answer-is")),
    ("The answer is: **$1,234**.", "1234", ("1234", "answer-is")),
    ("The final answer is $\\boxed{7", "7", ("7", "answer-is")),
    ("Answer: 12\nAnswer: 13", "13", ("13", "answer-is")),
    ("ANSWER: 12", "12", ("12", "answer-is")),
    ("**Answer**: 12", "12", ("12", "answer-is")),
    ("Answer: x = 12", "12", ("12", "answer-is")),
    ("The answer is \\(12\\).", "12", ("12", "answer-is")),
    ("The answer is 5 or 6.", "5", ("5 or 6", "answer-is")),
    ("The answer is 5 and it is not 6.", "5", ("5", "answer-is")),
    ("781", "781", ("781", "alone")),
    (" 007.\n", "7", ("7", "alone")),
    ("The total is $1,000.00.", "1000", ("1000", "last-number")),
    ("16 - 3 - 4 = 9 eggs", "9", ("9", "last-number")),
    ("that is 5-3", "-3", ("3", "last-number")),
    ("from H2O we get 4", "4", ("4", "last-number")),
    ("that makes x2", "2", (None, "none")),
    ("between 18, 20", "20", ("20", "last-number")),
    ("no idea", "4", (None, "none")),
    ("", "4", (None, "none")),
    ("Question: 3", "3", (None, "none")),
    ("<think>#### 3\nSo 3.</think>#### 4", "4", ("4", "hashes")),
    ("It is 3.</think>The answer is 4.", "4", ("4", "answer-is")),
    ("<think>so 3</think>", "3", (None, "none")),
    ("<think>Question: so 3</think>#### 4", "4", ("4", "hashes")),
]

DECIMALS = [
    ("#### 2.50", "2.5", ("2.5", "hashes")),
    ("#### .5", "0.5", (None, "none")),
    ("\\boxed{\\tfrac{1}{8}}", "0.125", ("0.125", "boxed")),
    ("The answer is 1/8", "0.125", ("0.125", "answer-is")),
    ("The answer is \u22121,234.50 m", "-1234.5", ("-1234.5", "answer-is")),
    ("2.5e-3", "0.0025", ("0.0025", "alone")),
    ("50%", "50", ("50", "alone")),
]

LETTERS = [
    ("Answer: C", "C", ("C", "answer-is")),
    ("Answer: **C**", "C", ("C", "answer-is")),
    ("**Answer:** C", "C", ("C", "answer-is")),
    ("Answer: \\boxed{C}", "C", ("C", "answer-is")),
    ("Answer: $\\boxed{\\text{C}}$", "C", ("C", "answer-is")),
    ("Answer: (C) because of B", "C", ("C", "answer-is")),
    ("The answer is C.", "C", ("C", "answer-is")),
    ("The correct answer is (C)", "C", ("C", "answer-is")),
    ("Answer: A is tempting.. Answer: C", "C", ("C", "answer-is")),
    ("Answer: Because X, C", "C", (None, "none")),
    ("Answer: DNA polymerase", "D", (None, "none")),
    ("\\boxed{C}", "C", ("C", "boxed")),
    ("\\boxed{\\text{(C)}}", "C", ("C", "boxed")),
    ("\\boxed{carbon}", "C", ("carbon", "boxed")),
    ("C", "C", ("C", "alone")),
    (" (c).\n", "C", ("C", "alone")),
    ("We compare A, B and C", "C", (None, "none")),
    ("The answer is option C.", "C", ("C", "answer-is")),
    ("Answer: A\nNo: **Answer: (B)**", "B", ("B", "answer-is")),
    ("Answer: A</think>Answer: B", "B", ("B", "answer-is")),
    ("", "C", (None, "none")),
]

TRUNCATED = [
    ("integer", "... compute 18 * 3 =", "54", (None, "none")),
    ("integer", "we get 54", "54", (None, "none")),
    ("integer", "#### 54 and so", "54", ("54", "hashes")),
    ("integer", "#### 5", "5", (None, "none")),  # perhaps 54, cut
    ("integer", "#### 5.", "5", (None, "none")),  # perhaps 5.4
    ("integer", "#### 4\nNo:\n#### 5", "4", ("4", "hashes")),
    ("integer", "The answer is 1,0", "10", (None, "none")),
    ("integer", "#### 5\n\nQuestion: and then", "5", ("5", "hashes")),  # ended before the cut
    ("integer", "7\n\nQuestion: and then", "7", ("7", "alone")),
    ("integer", "The answer is 3/", "3", (None, "none")),
    ("integer", "The answer is 3\\", "3", (None, "none")),
    ("integer", "<think>The answer is 3, or", "3", (None, "none")),
    ("integer", "<think>The answer is 3</think>The answer is 4, as", "4", ("4", "answer-is")),
    ("integer", "\\boxed{3} so", "3", ("3", "boxed")),
    ("integer", "\\boxed{3", "3", (None, "none")),
    ("letter", "Answer: C", "C", (None, "none")),  # perhaps "Carbon"
    ("letter", "Answer: C, because", "C", ("C", "answer-is")),
    ("letter", "so B or C", "C", (None, "none")),
]


GRADED = [
    (kind, truncated, *row)
    for kind, truncated, table in (
        ("integer", False, INTEGERS),
        ("decimal", False, INTEGERS + DECIMALS),
        ("letter", False, LETTERS),
        ("integer", True, [row[1:] for row in TRUNCATED if row[0] == "integer"]),
        ("letter", True, [row[1:] for row in TRUNCATED if row[0] == "letter"]),
    )
    for row in table
]


@pytest.mark.parametrize(("kind", "truncated", "text", "target", "expected"), GRADED)
def test_answers_are_taken_and_graded(kind, truncated, text, target, expected):
    found = grade(text, target, kind, truncated=truncated, stop=["Question:"])
    assert (found.answer, found.rule) == expected
    assert found.correct == (expected[0] == target)
    if found.span is None:
        assert found.answer is None
    else:
        taken = text[slice(*found.span)]
        assert taken or found.answer == ""
        assert re.sub(r"[^0-9A-Za-z]", "", taken) or found.answer == ""


def test_a_stop_word_ends_an_answer_only_where_the_suite_has_it():
    text = "Question: what?\nAnswer: 5"
    assert grade(text, "5", "integer", truncated=False).correct
    assert grade(text, "5", "integer", truncated=False, stop=["Question:"]).rule == "none"
    assert grade("5 END 6", "5", "integer", truncated=False, stop=["Question:", "END"]).correct


@given(st.integers(-(10**9), 10**9), st.text("\u00e9x #-", max_size=9))
def test_the_span_is_where_the_answer_stands(number, before):
    text = f"{before}\nThe answer is {number:,}. Or so."
    found = grade(text, str(number), "integer", truncated=False)
    assert text[slice(*found.span)] == f"{number:,}"


@given(st.integers(-(10**30), 10**30), st.sampled_from(["{}", "{:,}", "{}.00", "{:,}.", "**{}**"]))
def test_every_way_to_write_a_number_reads_the_same(number, form):
    for prefix in ("#### ", "The answer is ", "so it comes to "):
        found = grade(f"2 + 2 = 4.\n{prefix}{form.format(number)}", str(number), "integer",
                      truncated=False)  # fmt: skip
        assert found.correct, found


@given(st.text(), st.sampled_from(["integer", "letter"]), st.booleans())
def test_no_text_breaks_the_grader(text, kind, truncated):
    for dressed in (text, f"\\boxed{{{text}}}", f"#### {text}", f"Answer: {text}"):
        found = grade(dressed, "4" if kind == "integer" else "C", kind, truncated=truncated)
        assert (found.answer is None) == (found.rule == "none")


def test_long_texts_take_linear_time():
    # a pattern that backtracks over pairs of positions would need minutes
    for text in ("\\boxed{" * 20_000, "#### " * 50_000, "answer is " * 50_000, "1," * 100_000,
                 "*" * 200_000 + "x", "answer:" + "*" * 200_000, "answer" + " " * 200_000,
                 "####" + "_" * 200_000, "#" * 200_000, "1" * 200_000, "1,111" + ",111" * 50_000,
                 "\\boxed{" + "9" * 200_000 + "}", "#### " + "7" * 200_000, "-$" * 100_000,
                 "1/" * 100_000, "1^" * 100_000, "1e" * 100_000, "</think>" * 30_000,
                 "#### 1 or " * 30_000, "1 \\times 10" * 30_000, "{" * 200_000):  # fmt: skip
        grade(text, "4", "integer", truncated=False)
        grade(text, "C", "letter", truncated=False)
