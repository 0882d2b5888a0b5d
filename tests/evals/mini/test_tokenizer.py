"""The embedded model's tokens: lossless on everything it reads and writes."""

import random

import pytest

from evals.mini import problems, tokenizer

KINDS = [(suite, kind) for suite, kinds in problems.MAKERS.items() for kind in kinds]


def drawn(count):
    rng = random.Random(3)
    for suite, kind in KINDS:
        for side in (True, False):
            for _ in range(count):
                yield problems.draw(rng, suite, kind, held_out=side)


def test_every_text_comes_back():
    for problem in drawn(40):
        for text in (problem.question, problem.solution):
            assert tokenizer.decode(tokenizer.encode(text)) == text


def test_vocabulary_is_what_the_problems_use():
    used = set()
    for problem in drawn(250):
        used.update(tokenizer.split(problem.question), tokenizer.split(problem.solution))
    known = {tokenizer.decode([code]).strip(" ") for code in range(4, tokenizer.size())}
    assert known == used


def test_numbers_are_single_digits():
    assert len(tokenizer.encode("371")) == 3


def test_unknown_word_is_named():
    with pytest.raises(ValueError, match="'Janet'"):
        tokenizer.encode("Janet has 3 eggs.")
