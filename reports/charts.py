"""Charts as inline SVG: drawn without a browser, coloured by the page's own style sheet."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

import altair as alt
import vl_convert
from markupsafe import Markup

from reports import text, words

if TYPE_CHECKING:
    from collections.abc import Sequence

    from reports.read import Suite

# Pixels. Labels stand above each row's mark, so that one layout serves any width.
ROW = 64
MARK = 42  # from the top of a row down to its interval
LABEL = 18
# A mark's shape tells the verdict without its colour: circle passes, cross fails, diamond neither.
CROSS = "M-1,-.6L-.6,-1L0,-.4L.6,-1L1,-.6L.4,0L1,.6L.6,1L0,.4L-.6,1L-1,.6L-.4,0Z"


@dataclass(frozen=True)
class Chart:
    """One chart drawn at two widths, and what it shows in words."""

    wide: Markup
    narrow: Markup
    description: str


def forest(suites: Sequence[Suite]) -> Chart | None:
    """Differences with interval, truncation bounds and margin; None where no suite has one."""
    shown = [suite for suite in suites if suite.difference_pt is not None and suite.interval_pt]
    if not shown:
        return None
    described = "; ".join(_described(suite) for suite in shown)
    return Chart(_forest(shown, 900), _forest(shown, 330), f"{described}.")


def _described(suite: Suite) -> str:
    assert suite.interval_pt is not None
    assert suite.difference_pt is not None
    limit = (
        f", allowed loss {words.size(suite.noninferiority.margin_pt)}"
        if suite.noninferiority
        else ""
    )
    return (
        f"{suite.suite}: {words.change(suite.difference_pt)} points, "
        f"interval {words.interval(suite.interval_pt)}{limit}"
    )


def _row(suite: Suite, index: int) -> dict[str, object]:
    assert suite.interval_pt is not None
    assert suite.difference_pt is not None
    low, high = suite.interval_pt
    worst, best = suite.truncation_bounds_pt or (None, None)
    return {
        "suite": text.visible(suite.suite),
        "figures": f"{words.change(suite.difference_pt)}  [{words.interval(suite.interval_pt)}]",
        "y": index * ROW + MARK,
        "label": index * ROW + LABEL,
        "difference": suite.difference_pt,
        "low": low,
        "high": high,
        "worst": worst,
        "best": best,
        "margin": -suite.noninferiority.margin_pt if suite.noninferiority else None,
        "zero": 0,
        "shape": {"pass": "circle", "fail": CROSS}.get(suite.verdict, "diamond"),
    }


def _domain(rows: Sequence[dict[str, object]]) -> tuple[float, float]:
    """A little more than all that is drawn, in points."""
    keys = ("low", "high", "worst", "best", "margin", "zero")
    values = [value for row in rows for key in keys if isinstance(value := row[key], int | float)]
    low, high = min(values), max(values)
    room = max(0.08 * (high - low), 0.25)
    return math.floor((low - room) * 2) / 2, math.ceil((high + room) * 2) / 2


def _forest(suites: Sequence[Suite], width: int) -> Markup:
    rows = [_row(suite, index) for index, suite in enumerate(suites)]
    height = len(rows) * ROW
    x = alt.Scale(domain=list(_domain(rows)), nice=False)
    axis = alt.Axis(
        title="PR \u2212 base, percentage points",
        tickCount=5 if width < 500 else 9,
        labelExpr="datum.value === 0 ? '0' : format(datum.value, '+~r')",
        grid=False,
        tickSize=4,
        labelFontSize=12,
        titleFontSize=12,
        titleFontWeight="normal",
        titlePadding=8,
        labelPadding=6,
    )
    down = alt.Scale(domain=[0, height], reverse=True, nice=False)
    y = alt.Y("y:Q", axis=None, scale=down)
    label = alt.Y("label:Q", axis=None, scale=down)
    base = alt.Chart(alt.InlineData(values=rows))

    def at(field: str) -> alt.X:
        return alt.X(f"{field}:Q", scale=x, axis=axis)

    layered = alt.layer(
        base.mark_bar(height=26).encode(at("margin"), y, x2="zero:Q").properties(name="allowed"),
        base.mark_tick(thickness=3, height=26)
        .transform_filter("datum.margin !== null")
        .encode(at("margin"), y)
        .properties(name="margin"),
        base.mark_tick(thickness=1, height=34).encode(at("zero"), y).properties(name="zero"),
        base.mark_rule(strokeDash=[2, 3], strokeWidth=2)
        .transform_filter("datum.worst !== null")
        .encode(at("worst"), y, x2="best:Q")
        .properties(name="truncation"),
        base.mark_rule(strokeWidth=4, strokeCap="round")
        .encode(at("low"), y, x2="high:Q")
        .properties(name="interval"),
        base.mark_point(filled=True, size=130, opacity=1, strokeWidth=2)
        .encode(at("difference"), y, shape=alt.Shape("shape:N", scale=None))
        .properties(name="difference"),
        base.mark_text(align="left", baseline="middle", fontSize=14, fontWeight=600)
        .encode(x=alt.value(0), y=label, text="suite:N")
        .properties(name="suite"),
        base.mark_text(align="right", baseline="middle", fontSize=13)
        .encode(x=alt.value(width - 20), y=label, text="figures:N")
        .properties(name="figures"),
    )
    chart = layered.properties(
        width=width - 20, height=height, padding={"left": 10, "right": 10, "top": 4, "bottom": 4}
    ).configure_view(stroke=None)
    return inline(vl_convert.vegalite_to_svg(chart.to_dict()))


def inline(svg: str) -> Markup:
    """An SVG document as part of an HTML page, which names it and tells it in words.

    Namespaces are the parser's business there; the white background would defy dark mode; and
    the labels that Vega gives to every mark would be read aloud one by one.
    """
    svg = re.sub(r' (xmlns(:\w+)?|role|aria-[a-z]+)="[^"]*"', "", svg)
    svg = re.sub(r'<rect [^>]*fill="white"/>', "", svg, count=1)
    svg = svg.replace("<svg ", '<svg aria-hidden="true" focusable="false" ', 1)
    return Markup(svg)  # noqa: S704 - Vega escapes the texts that it draws
