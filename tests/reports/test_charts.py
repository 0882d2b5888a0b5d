from __future__ import annotations

import re

import msgspec
import pytest

from reports import charts
from reports.read import Suite


@pytest.fixture
def read_suite(make_suite):
    return lambda *args, **changes: msgspec.convert(make_suite(*args, **changes), Suite)


def marks(svg, name):
    """The horizontal extents of one named layer's marks."""
    layer = re.search(rf'<g class="[^"]*\b{name}_marks"[^>]*>(.*?)</g>', svg).group(1)
    return [
        (float(x), float(x) + float(x2 or 0))
        for x, x2 in re.findall(r'translate\(([-\d.]+),[-\d.]+\)"(?: x2="([-\d.]+)")?', layer)
    ]


def test_the_plot_is_drawn_the_same_each_time(read_suite):
    suites = [read_suite(), read_suite("mini-aime", "fail")]
    assert charts.forest(suites) == charts.forest(suites)


def test_marks_stand_where_the_figures_say(read_suite):
    suites = [
        read_suite(difference_pt=-2.0, interval_pt=[-4.0, 0.0]),
        read_suite("b", difference_pt=2.0, interval_pt=[0.0, 4.0]),
    ]
    svg = charts.forest(suites).wide
    (first, _), (second, _) = marks(svg, "difference")
    (low, zero), (same_zero, high) = marks(svg, "interval")
    assert zero == pytest.approx(same_zero)
    assert low < first < zero < second < high
    assert zero - low == pytest.approx(2 * (zero - first))  # one linear scale


def test_nothing_to_draw(read_suite):
    assert charts.forest([]) is None
    assert charts.forest([read_suite(difference_pt=None, interval_pt=None)]) is None


def test_a_suite_without_margin_or_truncation(read_suite):
    plot = charts.forest(
        [read_suite(noninferiority=None, truncation_bounds_pt=None), read_suite("b")]
    )
    assert len(marks(plot.wide, "difference")) == 2
    assert len(marks(plot.wide, "truncation")) == 1


def test_names_are_escaped_and_nothing_is_loaded(read_suite):
    svg = charts.forest([read_suite('<script>"&\x1b')]).narrow
    assert "<script" not in svg
    assert "U+001B" in svg
    assert "http" not in svg
    assert " style=" not in svg  # the policy of the page would block it
