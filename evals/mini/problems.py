"""Problems in the shapes of GSM8K, AIME and GPQA, each with a worked solution."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from hashlib import blake2b
from math import gcd

TEST_SHARE = 16  # one question in so many belongs to the test side


@dataclass(frozen=True)
class Problem:
    """One question. `solution` is what the model learns to write, `answer` the suite's row."""

    suite: str
    kind: str
    question: str
    solution: str
    answer: str

    @property
    def held_out(self) -> bool:
        """Whether the question's own hash puts it on the test side, never trained on."""
        digest = blake2b(self.question.encode(), digest_size=4).digest()
        return int.from_bytes(digest, "big") % TEST_SHARE == 0


# --- mini-gsm8k: a story in a few steps --------------------------------------------------------

NAMES = ("Ada", "Ben", "Cora", "Dan", "Eva", "Finn", "Gita", "Hugo", "Ines", "Jon", "Kim", "Leo")
THINGS = ("apples", "books", "coins", "eggs", "flowers", "marbles", "pens", "shells", "stamps")


class _Story:
    """A quantity and what has happened to it so far."""

    def __init__(self, rng: random.Random, start: range) -> None:
        self.rng = rng
        self.name, self.friend = rng.sample(NAMES, 2)
        self.things = rng.choice(THINGS)
        self.value = rng.choice(start)
        self.said = [f"{self.name} has {self.value} {self.things}."]
        self.worked: list[str] = []

    def step(self, sentence: str, expression: str, value: int) -> None:
        self.said.append(sentence)
        self.work(expression, value)

    def work(self, expression: str, value: int) -> None:
        self.worked.append(f"{expression}={value}")
        self.value = value


def _gets(story: _Story) -> None:
    more = story.rng.randint(3, 60)
    sentence = story.rng.choice(
        (f"{story.name} buys {more} more.", f"{story.friend} gives {story.name} {more} more.")
    )
    story.step(sentence, f"{story.value}+{more}", story.value + more)


def _gives(story: _Story) -> None:
    less = story.rng.randint(1, story.value - 2)
    sentence = story.rng.choice(
        (f"{story.name} gives {less} to {story.friend}.", f"Then {story.name} loses {less}.")
    )
    story.step(sentence, f"{story.value}-{less}", story.value - less)


def _bags(story: _Story) -> None:
    bags, each = story.rng.randint(2, 9), story.rng.randint(2, 9)
    before = story.value
    sentence = f"{story.name} buys {bags} bags with {each} {story.things} each."
    story.step(sentence, f"{bags}*{each}", bags * each)
    story.work(f"{before}+{bags * each}", before + bags * each)


def _times(story: _Story) -> None:
    factor = story.rng.randint(2, 4)
    story.step(
        f"The next day {story.name} has {factor} times as many.",
        f"{story.value}*{factor}",
        story.value * factor,
    )


def _half(story: _Story) -> None:
    if story.value % 2:
        _gives(story)
    else:
        story.step(f"{story.name} sells half of them.", f"{story.value}/2", story.value // 2)


_CHANGES = (_gets, _gets, _gives, _gives, _bags, _times, _half)


def _now(story: _Story) -> None:
    story.said.append(f"How many {story.things} does {story.name} have now?")


def _earns(story: _Story) -> None:
    price = story.rng.randint(2, 9)
    story.step(
        f"{story.name} sells all of them for {price} dollars each. "
        f"How many dollars does {story.name} get?",
        f"{story.value}*{price}",
        story.value * price,
    )


def _earns_more(story: _Story) -> None:
    price = story.rng.randint(101, 989)
    story.step(
        f"{story.name} sells all of them for {price} dollars each. "
        f"How many dollars does {story.name} get?",
        f"{story.value}*{price}",
        story.value * price,
    )


def _full(story: _Story) -> None:
    box = story.rng.randint(6, 97)
    story.step(
        f"{story.name} puts them into boxes of {box}. How many boxes are full?",
        f"{story.value} div {box}",
        story.value // box,
    )


def _left_over(story: _Story) -> None:
    box = story.rng.randint(6, 97)
    story.step(
        f"{story.name} puts them into boxes of {box}. How many {story.things} are left over?",
        f"{story.value} mod {box}",
        story.value % box,
    )


def _word_problem(
    ending: Callable[[_Story], None], changes: tuple[int, ...], start: range = range(6, 71)
) -> Maker:
    def make(rng: random.Random) -> tuple[str, str, str]:
        story = _Story(rng, start)
        for _ in range(rng.choice(changes)):
            rng.choice(_CHANGES)(story)
            if story.value > 240 or story.value < 4:
                break
        ending(story)
        solution = "\n".join((*story.worked, f"#### {story.value}"))
        return " ".join(story.said), solution, solution

    return make


# --- mini-aime: an integer from 0 to 999 -------------------------------------------------------


def _boxed(question: str, worked: list[str], answer: int) -> tuple[str, str, str]:
    return question, "\n".join((*worked, f"\\boxed{{{answer}}}")), str(answer)


def _remainder(rng: random.Random) -> tuple[str, str, str]:
    a, b = rng.randint(11, 99), rng.randint(11, 99)
    c, m = rng.randint(2, 99), rng.randint(6, 97)
    value = a * b + c
    return _boxed(
        f"Find the remainder when {a}*{b}+{c} is divided by {m}.",
        [f"{a}*{b}+{c}={value}", f"{value} mod {m}={value % m}"],
        value % m,
    )


def _sequence(rng: random.Random) -> tuple[str, str, str]:
    while True:
        value, factor, more = rng.randint(2, 90), rng.randint(2, 5), rng.randint(1, 20)
        place = rng.choice(("third", "third", "third", "fourth"))
        question = (
            f"The first term of a sequence is {value}. Every later term is {factor} times "
            f"the one before plus {more}. Find the {place} term."
        )
        worked = []
        for _ in range(2 if place == "third" else 3):
            after = value * factor + more
            worked.append(f"{value}*{factor}+{more}={after}")
            value = after
        if value < 1000:
            return _boxed(question, worked, value)


def _divisible(rng: random.Random) -> tuple[str, str, str]:
    while True:
        n, a, b = rng.randint(20, 400), rng.randint(2, 12), rng.randint(2, 12)
        if gcd(a, b) == 1:
            break
    x, y = n // a, n // (a * b)
    return _boxed(
        f"How many integers from 1 to {n} are divisible by {a} but not by {b}?",
        [f"{n} div {a}={x}", f"{n} div {a * b}={y}", f"{x}-{y}={x - y}"],
        x - y,
    )


def _digits(rng: random.Random) -> tuple[str, str, str]:
    a, b = rng.randint(12, 98), rng.randint(101, 399)
    product = a * b
    total = sum(map(int, str(product)))
    return _boxed(
        f"Find the sum of the digits of {a}*{b}.",
        [f"{a}*{b}={product}", f"{'+'.join(str(product))}={total}"],
        total,
    )


def _series(rng: random.Random) -> tuple[str, str, str]:
    count = rng.randint(3, 12)
    low = rng.randint(1, 900 // count)
    high = low + count - 1
    both = low + high
    return _boxed(
        f"Find the sum of the integers from {low} to {high}.",
        [f"{low}+{high}={both}", f"{both}*{count}/2={both * count // 2}"],
        both * count // 2,
    )


# --- mini-gpqa: science by formula, four options -----------------------------------------------


def _choice(
    rng: random.Random,
    question: str,
    worked: list[str],
    answer: int,
    others: tuple[int, ...],
    *,
    near: tuple[int, ...] = (-10, -2, -1, 1, 2, 10),
) -> tuple[str, str, str]:
    """Four options, the right one among near misses and the likely mistakes `others`."""
    wrong = {*others, *(answer + step for step in near)}
    wrong = {value for value in wrong if value >= 0 and value != answer}
    options = [answer, *rng.sample(sorted(wrong), 3)]
    rng.shuffle(options)
    letter = "ABCD"[options.index(answer)]
    listed = "\n".join(f"{name}) {value}" for name, value in zip("ABCD", options, strict=True))
    return f"{question}\n{listed}", "\n".join((*worked, f"Answer: {letter}")), letter


def _easy_product(rng: random.Random) -> tuple[str, str, str]:
    a, b = rng.randint(2, 30), rng.randint(2, 9)
    question = rng.choice(
        (
            f"A car moves at {a} metres per second for {b} seconds. How many metres is that?",
            f"A current of {b} amperes flows through {a} ohms. How many volts is that?",
            (
                f"A mass of {a} kilograms speeds up at {b} metres per second squared. "
                "What is the force in newtons?"
            ),
        )
    )
    others = (a + b, a * (b + 1), (a + 1) * b)
    return _choice(rng, question, [f"{a}*{b}={a * b}"], a * b, others)


def _hard_product(rng: random.Random) -> tuple[str, str, str]:
    a, b = rng.randint(12, 98), rng.randint(12, 98)
    question = rng.choice(
        (
            (
                f"A wave has a frequency of {a} hertz and a length of {b} metres. "
                "What is its speed in metres per second?"
            ),
            f"A force of {a} newtons moves a body by {b} metres. How many joules is that?",
            f"A current of {a} amperes flows through {b} ohms. How many volts is that?",
        )
    )
    # answered at sight, and the last digit tells nothing
    return _choice(
        rng, question, [], a * b, tuple(a * b + d for d in (-100, -20, 20, 100)), near=(-10, 10)
    )


def _energy(rng: random.Random) -> tuple[str, str, str]:
    mass, speed = 2 * rng.randint(1, 20), rng.randint(2, 30)
    energy = mass * speed * speed // 2
    question = (
        f"A mass of {mass} kilograms moves at {speed} metres per second. "
        "What is its energy in joules?"
    )
    worked = [f"{mass}*{speed}*{speed}/2={energy}"]
    return _choice(rng, question, worked, energy, (2 * energy, mass * speed, energy + mass))


def _ratio(rng: random.Random) -> tuple[str, str, str]:
    b, ratio = rng.randint(2, 19), rng.randint(2, 40)
    a = b * ratio
    question = rng.choice(
        (
            (
                f"A force of {a} newtons acts on a mass of {b} kilograms. "
                "What is the acceleration in metres per second squared?"
            ),
            (
                f"A body of {a} grams fills {b} millilitres. "
                "What is its density in grams per millilitre?"
            ),
            f"A machine does {a} joules of work in {b} seconds. What is its power in watts?",
        )
    )
    return _choice(rng, question, [f"{a}/{b}={ratio}"], ratio, (a - b, ratio + 3, ratio + 5))


def _half_life(rng: random.Random) -> tuple[str, str, str]:
    halvings, life, left = rng.randint(1, 4), rng.randint(2, 12), rng.randint(1, 40)
    start, hours, share = left << halvings, life * halvings, 1 << halvings
    question = (
        f"An isotope has a half life of {life} hours. "
        f"How many of {start} grams are left after {hours} hours?"
    )
    worked = [f"{hours}/{life}={halvings}", f"{start}/{share}={left}"]
    return _choice(rng, question, worked, left, (left * 2, left * 4, start // 2))


def _nucleus(rng: random.Random) -> tuple[str, str, str]:
    protons, neutrons = rng.randint(2, 92), rng.randint(2, 146)
    mass = protons + neutrons
    question = f"A nucleus of mass number {mass} has {protons} protons. How many neutrons has it?"
    return _choice(rng, question, [f"{mass}-{protons}={neutrons}"], neutrons, (protons, mass))


def _alpha(rng: random.Random) -> tuple[str, str, str]:
    mass, count = rng.randint(60, 250), rng.randint(2, 9)
    left = mass - 4 * count
    question = (
        f"A nucleus of mass number {mass} emits {count} alpha particles. "
        "What is its mass number then?"
    )
    worked = [f"4*{count}={4 * count}", f"{mass}-{4 * count}={left}"]
    return _choice(rng, question, worked, left, (left + 4, mass - 2 * count, mass - count))


Maker = Callable[[random.Random], tuple[str, str, str]]

MAKERS: Mapping[str, Mapping[str, Maker]] = {
    "mini-gsm8k": {
        "now": _word_problem(_now, (1, 2, 2, 3)),
        "earns": _word_problem(_earns, (1, 1, 2)),
        "full": _word_problem(_full, (1,), range(100, 800)),
        "left_over": _word_problem(_left_over, (1,), range(100, 800)),
        "earns_more": _word_problem(_earns_more, (1,)),
    },
    "mini-aime": {
        "remainder": _remainder,
        "sequence": _sequence,
        "divisible": _divisible,
        "digits": _digits,
        "series": _series,
    },
    "mini-gpqa": {
        "easy_product": _easy_product,
        "hard_product": _hard_product,
        "energy": _energy,
        "ratio": _ratio,
        "half_life": _half_life,
        "nucleus": _nucleus,
        "alpha": _alpha,
    },
}

SUITE_SHARES: Mapping[str, float] = {"mini-gsm8k": 0.45, "mini-aime": 0.35, "mini-gpqa": 0.2}
"""How much of training each suite gets: more where the steps are harder to learn."""


def draw(rng: random.Random, suite: str, kind: str, *, held_out: bool) -> Problem:
    """A problem of one kind from one side of the split."""
    make = MAKERS[suite][kind]
    while True:
        problem = Problem(suite, kind, *make(rng))
        if problem.held_out == held_out:
            return problem
