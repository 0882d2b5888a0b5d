"""Patterns are guessed from bad elements alone; pictures stay small."""

from __future__ import annotations

import pytest
import torch

from verify import describe

SLABS = {"group 0": slice(0, 1024), "group 1": slice(1024, 2048)}


def marked(*places, rows=32, columns=2048):
    bad = torch.zeros(rows, columns, dtype=torch.bool)
    for row, column in places:
        bad[row, column] = True
    return bad


ALL = slice(None)


@pytest.mark.parametrize(
    ("place", "words"),
    [
        ((ALL, ALL), "everything"),
        ((slice(16, 32), ALL), "whole rows 16 to 31"),
        ((31, ALL), "whole row 31"),
        ((slice(0, 32, 2), ALL), "whole rows 0, 2, ... 30"),
        ((ALL, SLABS["group 1"]), "all of group 1"),
        ((3, SLABS["group 0"]), "all of group 0, row 3"),
        ((ALL, slice(64, 96)), "block column 2"),
        ((ALL, slice(31, 2048, 32)), "lane 31 of blocks"),
        ((ALL, slice(0, 2048, 2)), "even columns"),
        ((ALL, 2047), "column 2047"),
        ((7, 5), ""),
        ((7, slice(0, 2000)), "most of row 7"),
        ((ALL, slice(1024, 2000)), "most of group 1"),
        ((4, slice(64, 160)), "block columns 2 to 4 of row 4"),
    ],
)
def test_pattern(place, words):
    assert describe.pattern(marked(place), slabs=SLABS) == words


def test_scattered_elements_have_no_pattern():
    random = torch.Generator().manual_seed(0)
    assert describe.pattern(torch.rand(32, 2048, generator=random) < 0.01, slabs=SLABS) == ""


def test_blocks_here_and_there_are_told_as_blocks():
    blocks = [(row, slice(32 * (5 * row % 61), 32 * (5 * row % 61) + 32)) for row in range(9)]
    assert describe.pattern(marked(*blocks), slabs=SLABS) == "9 whole blocks of 32 columns"


def test_picture_shows_where_and_how_much():
    bad = marked((slice(16, 32), slice(0, 1024)), (slice(0, 2), slice(2016, 2032)))
    lines = describe.picture(bad).splitlines()
    assert len(lines) == 16
    assert {len(line) for line in lines} == {66}
    assert lines[0] == "|" + " " * 63 + "▓|"
    assert lines[1] == "|" + " " * 64 + "|"
    assert lines[8:] == ["|" + "█" * 32 + " " * 32 + "|"] * 8
