"""Holm's correction against statsmodels, and the joint pass."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from statsmodels.stats.multitest import multipletests

from verify.stats.families import all_pass_p, holm


@settings(max_examples=30, deadline=None)
@given(st.lists(st.floats(0, 1), min_size=1, max_size=8))
def test_holm_agrees_with_statsmodels(p_values):
    named = {f"suite {i}": p for i, p in enumerate(p_values)}
    expected = multipletests(p_values, method="holm")[1]
    assert list(holm(named).values()) == pytest.approx(list(expected))


def test_holm_of_nothing_is_nothing():
    assert holm({}) == {}


def test_all_suites_pass_as_the_weakest_does():
    assert all_pass_p({"gsm8k": 0.01, "aime26": 0.2, "gpqa_diamond": 0.04}) == 0.2
    with pytest.raises(ValueError, match="no suite"):
        all_pass_p({})
