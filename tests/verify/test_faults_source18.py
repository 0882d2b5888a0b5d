"""The source's 18 cases: honest kernels pass, and what they overlook is overlooked here too."""

from __future__ import annotations

import pytest

import kernel
from verify.faults.catalogue import CATALOGUE
from verify.faults.model import Model
from verify.faults.source18 import activations, questions


def failed(candidate):
    return [name for name, ask in questions() if ask(candidate)]


def test_eighteen_cases_pass_the_model_and_the_chain():
    assert len(list(questions())) == 18
    assert failed(Model()) == []
    assert failed(kernel.chain) == []


@pytest.mark.parametrize(
    ("name", "first"),
    [
        ("forward_rotation", "matches_reference-T=1-padded=False"),
        ("scale_floored", "matches_reference-T=1-padded=False"),
        ("row_stride_ignored", "matches_reference-T=2-padded=True"),
        ("int64_positions_read_as_int32", "int64_positions_match_int32-T=6"),
        ("padding_255", "scale_padding_is_zeroed-T=4"),
        ("raises_at_odd_t", "matches_reference-T=13-padded=False"),
    ],
)
def test_notices(name, first):
    assert failed(CATALOGUE[name].plant())[0] == first


# A sample of those that its author's published count has among the survivors.
@pytest.mark.parametrize(
    "name",
    ["partials_in_bf16", "rotated_truncated", "output_half_percent_large", "padding_unwritten"],
)
def test_overlooks(name):
    assert failed(CATALOGUE[name].plant()) == []


def test_padded_rows_are_64_heads_wide():
    x, positions = activations(4, padded=True)
    assert x.stride() == (64 * 512, 4096, 1)
    assert positions.max() < 4096
