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
    ("\\boxed{\\frac{1}{2}}", "2", ("\\frac{1}{2}", "boxed")),
    ("\\boxed{\\sqrt{{9}}}", "9", ("9", "boxed")),
    ("The answer is 18...", "18", ("18", "answer-is")),
    ("The answer is 18. I used 2 methods.", "18", ("18", "answer-is")),
    ("The answer is -3", "-3", ("-3", "answer-is")),
    ("The answer is 050", "50", ("50", "answer-is")),
    ("The answer is: **$1,234**.", "1234", ("1234", "answer-is")),
    ("The final answer is $\\boxed{7", "7", ("7", "answer-is")),
    ("Answer: 12\nAnswer: 13", "13", ("13", "answer-is")),
    ("ANSWER: 12", "12", ("12", "answer-is")),
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
    ("letter", "Answer: C", "C", (None, "none")),  # perhaps "Carbon"
    ("letter", "Answer: C, because", "C", ("C", "answer-is")),
    ("letter", "so B or C", "C", (None, "none")),
]


@pytest.mark.parametrize(("text", "target", "expected"), INTEGERS)
def test_integers(text, target, expected):
    found = grade(text, target, "integer", truncated=False)
    assert (found.answer, found.rule) == expected
    assert found.correct == (expected[0] == target)


@pytest.mark.parametrize(("text", "target", "expected"), LETTERS)
def test_letters(text, target, expected):
    found = grade(text, target, "letter", truncated=False)
    assert (found.answer, found.rule) == expected
    assert found.correct == (expected[0] == target)


@pytest.mark.parametrize(("kind", "text", "target", "expected"), TRUNCATED)
def test_truncated_texts_give_only_explicit_answers(kind, text, target, expected):
    found = grade(text, target, kind, truncated=True)
    assert (found.answer, found.rule) == expected
    assert found.correct == (expected[0] == target)


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
                 "*" * 200_000 + "x", "answer:" + "*" * 200_000):  # fmt: skip
        grade(text, "4", "integer", truncated=False)
        grade(text, "C", "letter", truncated=False)
