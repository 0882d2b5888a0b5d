"""The order of verdicts and their exit codes, as DESIGN.md fixes them."""

from __future__ import annotations

import itertools

import pytest

from verify.verdict import Verdict, combine

GRAVEST_FIRST = [Verdict.INVALID, Verdict.FAIL, Verdict.INCONCLUSIVE, Verdict.PASS]


def test_exit_codes():
    assert [v.exit_code for v in GRAVEST_FIRST] == [4, 1, 3, 0]


@pytest.mark.parametrize("size", [1, 2, 3])
def test_the_gravest_decides_in_any_order(size):
    for together in itertools.product(GRAVEST_FIRST, repeat=size):
        assert combine(together) is min(together, key=GRAVEST_FIRST.index)


def test_nothing_executed_is_invalid():
    assert combine([]) is Verdict.INVALID
