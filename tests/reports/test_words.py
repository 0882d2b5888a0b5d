from __future__ import annotations

import pytest

from reports import words


@pytest.mark.parametrize(
    ("points", "written"),
    [(-0.304, "\u22120.30"), (1.25, "+1.25"), (0.001, "0.00"), (-0.004, "0.00"), (0, "0.00")],
)
def test_changes_carry_their_sign(points, written):
    assert words.change(points) == written


@pytest.mark.parametrize(
    ("points", "written"),
    [(3.61, "3.61"), (3.6101, "3.62"), (5.0, "5"), (5.004, "5.01"), (0.0, "0"), (10.0, "10")],
)
def test_an_upper_limit_is_never_rounded_down(points, written):
    assert words.at_most(points) == written


@pytest.mark.parametrize(
    ("p", "written"),
    [
        (1.0, "p = 1.00"),
        (0.344, "p = 0.34"),
        (0.0031, "p = 0.0031"),
        (0.00012, "p = 0.00012"),
        (1e-9, "p < 0.0001"),
    ],
)
def test_p_values(p, written):
    assert words.p_value(p) == written


def test_counts_and_lists():
    assert words.count(1, "case") == "1 case"
    assert words.count(1314, "question") == "1,314 questions"
    assert words.count(2, "entry", "entries") == "2 entries"
    assert words.listed(["a"]) == "a"
    assert words.listed(["a", "b", "c"]) == "a, b and c"


@pytest.mark.parametrize(
    ("fraction", "written"),
    [(0.943, "94.3\u00a0%"), (10.0, "1000.0\u00a0%"), (3.4e8, "over 1,000\u00a0%")],
)
def test_a_share_far_beyond_one_has_no_digits(fraction, written):
    assert words.share(fraction) == written
