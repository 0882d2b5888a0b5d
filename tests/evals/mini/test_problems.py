"""Generated problems against solvers that read the question, not the generator."""

import random
import re

import pytest

from evals.mini import problems, tokenizer
from evals.mini.train import make_batch

KINDS = [(suite, kind) for suite, kinds in problems.MAKERS.items() for kind in kinds]


def draws(suite, kind, count, seed=0):
    rng = random.Random(seed)
    return [problems.draw(rng, suite, kind, held_out=True) for _ in range(count)]


EVENTS = [
    ("times as many", lambda v, k: v * k),
    ("sells half", lambda v: v / 2),
    (" bags with ", lambda v, bags, each: v + bags * each),
    (" more.", lambda v, n: v + n),
    (" loses ", lambda v, n: v - n),
    (" gives .* to ", lambda v, n: v - n),
    (" dollars each.", lambda v, n: v * n),
    (" boxes of .* boxes are full", lambda v, n: v // n),
    (" boxes of .* left over", lambda v, n: v % n),
    ("^How many", lambda v: v),
]


def story(question):
    """Follow a story event by event."""
    first, *rest = re.split(r"(?<=[.?]) (?!How many boxes|How many \w+ are)", question)
    (value,) = numbers(first)
    for sentence in rest:
        (event,) = [event for pattern, event in EVENTS if re.search(pattern, sentence)]
        value = event(value, *numbers(sentence))
        assert value >= 0
        assert value == int(value)
    return value


def numbers(text):
    return [int(n) for n in re.findall(r"\d+", text)]


def nth_term(first, factor, more, place):
    for _ in range({"third": 2, "fourth": 3}[place]):
        first = first * factor + more
    return first


SOLVERS = [
    (r"when (\d+)\*(\d+)\+(\d+) is divided by (\d+)", lambda a, b, c, m: (a * b + c) % m),
    (r"sequence is (\d+)\..* is (\d+) times .* plus (\d+)\. Find the (\w+) term", nth_term),
    (
        r"from 1 to (\d+) are divisible by (\d+) but not by (\d+)",
        lambda n, a, b: sum(i % a == 0 and i % b != 0 for i in range(1, n + 1)),
    ),
    (r"digits of (\d+)\*(\d+)", lambda a, b: sum(map(int, str(a * b)))),
    (r"sum of the integers from (\d+) to (\d+)", lambda a, b: sum(range(a, b + 1))),
    (r"moves at (\d+) metres per second for (\d+) seconds", lambda v, t: v * t),
    (r"current of (\d+) amperes flows through (\d+) ohms", lambda i, r: i * r),
    (r"mass of (\d+) kilograms speeds up at (\d+) metres", lambda m, a: m * a),
    (r"frequency of (\d+) hertz and a length of (\d+) metres", lambda f, w: f * w),
    (r"force of (\d+) newtons moves a body by (\d+) metres", lambda f, s: f * s),
    (r"mass of (\d+) kilograms moves at (\d+) metres per second", lambda m, v: m * v * v / 2),
    (r"force of (\d+) newtons acts on a mass of (\d+) kilograms", lambda f, m: f / m),
    (r"body of (\d+) grams fills (\d+) millilitres", lambda m, v: m / v),
    (r"does (\d+) joules of work in (\d+) seconds", lambda w, t: w / t),
    (
        r"life of (\d+) hours\. How many of (\d+) grams are left after (\d+)",
        lambda life, start, hours: start * 0.5 ** (hours / life),
    ),
    (r"mass number (\d+) has (\d+) protons", lambda a, z: a - z),
    (r"mass number (\d+) emits (\d+) alpha particles", lambda a, n: a - 4 * n),
    (r"^(\w+ has \d+ \w+\..*)$", story),
]


def solve(question):
    found = [
        solver(*(int(group) if group.isdigit() else group for group in match.groups()))
        for pattern, solver in SOLVERS
        if (match := re.search(pattern, question))
    ]
    assert len(found) == 1, question
    return found[0]


def stated(problem):
    """The number that the suite's row calls right."""
    if problem.suite == "mini-gpqa":
        options = dict(re.findall(r"([A-D])\) (\d+)", problem.question))
        assert sorted(options) == list("ABCD")
        assert len(set(options.values())) == 4
        return int(options[problem.answer])
    if problem.suite == "mini-gsm8k":
        return int(re.search(r"#### (\d+)$", problem.answer)[1])
    return int(problem.answer)


@pytest.mark.parametrize(("suite", "kind"), KINDS)
def test_answer_solves_the_question(suite, kind):
    for problem in draws(suite, kind, 60):
        assert stated(problem) == solve(problem.question), problem.question


@pytest.mark.parametrize(("suite", "kind"), KINDS)
def test_each_worked_line_is_true_and_the_last_is_the_answer(suite, kind):
    for problem in draws(suite, kind, 60):
        *worked, last = problem.solution.split("\n")
        for line in worked:
            expression, value = line.split("=")
            expression = expression.replace("div", "//").replace("mod", "%")
            assert re.fullmatch(r"[\d+*/% -]+", expression)
            assert eval(expression) == int(value), line
        if worked:
            assert int(value) == stated(problem)
        ending = {"mini-gsm8k": "#### ", "mini-aime": "\\boxed{", "mini-gpqa": "Answer: "}[suite]
        assert last.startswith(ending)
        shown = problem.answer.rsplit("\n", 1)[-1].removeprefix("#### ")
        assert last.removeprefix(ending).rstrip("}") == shown


def test_integers_of_mini_aime_are_below_1000():
    for kind in problems.MAKERS["mini-aime"]:
        assert all(0 <= int(p.answer) <= 999 for p in draws("mini-aime", kind, 200))


def test_same_seed_same_problems():
    assert draws("mini-gsm8k", "now", 20) == draws("mini-gsm8k", "now", 20)
    assert draws("mini-gsm8k", "now", 20) != draws("mini-gsm8k", "now", 20, seed=1)


def test_training_draws_only_from_its_side_of_the_split():
    batch = make_batch(seed=20261201, index=0, size=512, context=104)
    for row in batch.tolist():
        question = tokenizer.decode(row[: row.index(tokenizer.SOLVE)])
        assert not problems.Problem("", "", question, "", "").held_out
