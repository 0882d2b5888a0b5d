"""The same texts under both arms: what `score` left, its layer, its figures and its worst texts."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import altair as alt
import msgspec
import vl_convert

from reports import text, words
from reports.charts import Chart, inline
from reports.layers import Layer
from verify.likelihood.judging import Result  # noqa: TC001 - msgspec reads the annotations
from verify.verdict import Verdict

if TYPE_CHECKING:
    from collections.abc import Sequence

    from markupsafe import Markup

    from reports.text import Excerpt
    from verify.likelihood.judging import Mean, Scored
    from verify.likelihood.scores import Divergence

FILE = "score.json"
WORST = 8
"""Texts shown with their words, of each kind."""
CONTEXT = 160
"""Characters shown before a diverging token."""
ROW, MARK, LABEL = 72, 50, 18
"""Pixels of a row, and from its top to its marks and to its words."""


class Score(msgspec.Struct, frozen=True):
    """What `score.json` says."""

    verdict: Verdict
    texts: tuple[Result, ...]


@dataclass(frozen=True)
class Row:
    """One kind in figures."""

    name: str
    source: str
    verdict: Verdict
    cells: tuple[str, ...]


@dataclass(frozen=True)
class Worst:
    """A text that lost most, and where the arms part in it."""

    item: str
    difference: str
    kl: str
    before: Excerpt | None
    base: str
    pr: str
    gap: str


@dataclass(frozen=True)
class Part:
    """One kind by itself."""

    anchor: str
    name: str
    verdict: Verdict
    reason: str
    redacted: bool
    worst: tuple[Worst, ...]


@dataclass(frozen=True)
class Panel:
    """The section of a page."""

    chart: Chart | None
    columns: tuple[str, ...]
    rows: tuple[Row, ...]
    parts: tuple[Part, ...]


COLUMNS = (
    "texts scored",
    "difference, nats a token",
    "allowed",
    "KL, nats a token",
    "same greedy token",
    "base against itself",
)


def layer(score: Score) -> Layer:
    """Its line among the layers: a pass claims no more than the texts it was of."""
    deciding = max(
        (kind for kind in score.texts if kind.verdict is score.verdict),
        key=lambda kind: abs(kind.difference.mean) if kind.difference else 0.0,
    )
    figure, unit = f"{deciding.items:,}", f"texts of {deciding.name}"
    clause = f"the texts of {deciding.name} prove nothing"
    if deciding.difference is not None:
        figure = nats(deciding.difference.mean)
        unit = f"nats a token on {deciding.name}; {size(deciding.margin_nats)} allowed"
        clause = f"both arms find {deciding.name} equally likely"
        if score.verdict is not Verdict.PASS:
            clause = f"the likelihood of {deciding.name} moved by {figure} nats a token"
    sentence = (
        "Text by text, both arms expect the same words. This says nothing of right answers."
        if score.verdict is Verdict.PASS
        else f"{deciding.name}: {words.sentence(deciding.reason)}"
    )
    question = "Does the model still expect the same texts?"
    return Layer(
        "Likelihood", question, score.verdict, figure, unit, sentence, clause, "likelihood"
    )


def panel(score: Score) -> Panel:
    """Everything shown of it."""
    return Panel(
        distribution(score.texts),
        COLUMNS,
        tuple(Row(kind.name, kind.source, kind.verdict, _cells(kind)) for kind in score.texts),
        tuple(map(_part, score.texts)),
    )


def _cells(kind: Result) -> tuple[str, ...]:
    if kind.difference is None or kind.kl is None or kind.agreement is None or kind.noise is None:
        return (f"{kind.items:,}", *[words.NOT_KNOWN] * (len(COLUMNS) - 1))
    bound = "at least " if kind.kl_is_bound else ""
    noise = "identical" if kind.noise.identical else _interval(kind.noise.difference)
    return (
        f"{kind.items:,} ({words.count(kind.tokens, 'token')})",
        _interval(kind.difference),
        size(kind.margin_nats),
        f"{bound}{size(kind.kl.mean)}",
        f"{100 * kind.agreement:.2f}\u00a0%",
        noise,
    )


def _interval(mean: Mean) -> str:
    if mean.interval is None:
        return nats(mean.mean)
    low, high = mean.interval
    return f"{nats(mean.mean)} ({nats(low)} to {nats(high)})"


def nats(value: float) -> str:
    """A signed number of nats, to two digits."""
    sign = "+" if value > 0 else words.MINUS if value < 0 else ""
    return sign + size(abs(value))


def size(value: float) -> str:
    """An unsigned number of nats, to two digits."""
    return f"{value:.2g}".replace("e-", f"e{words.MINUS}")


def _part(kind: Result) -> Part:
    parted = [each for each in kind.scored if each.divergence is not None]
    return Part(
        text.anchor("texts", kind.name),
        kind.name,
        kind.verdict,
        kind.reason,
        kind.redact,
        tuple(_worst(each, each.divergence) for each in parted[:WORST] if each.divergence),
    )


def _worst(each: Scored, at: Divergence) -> Worst:
    return Worst(
        each.item,
        nats(each.difference),
        size(each.kl),
        text.tail(at.before, CONTEXT) if at.before else None,
        at.base[: text.TOKEN_LIMIT],
        at.pr[: text.TOKEN_LIMIT],
        words.NOT_KNOWN if at.gap is None else words.share(at.gap),
    )


# --- the chart -----------------------------------------------------------------------------------


def distribution(kinds: Sequence[Result]) -> Chart | None:
    """A tick for every text, with mean, interval and margin; None where nothing was scored."""
    shown = [kind for kind in kinds if kind.difference is not None]
    if not shown:
        return None
    described = "; ".join(
        f"{kind.name}: {_interval(kind.difference)} nats a token over {kind.items:,} texts, "
        f"allowed {size(kind.margin_nats)}"
        for kind in shown
        if kind.difference is not None
    )
    return Chart(_drawn(shown, 900), _drawn(shown, 330), f"{described}.")


def _drawn(kinds: Sequence[Result], width: int) -> Markup:
    rows = [_row(kind, index) for index, kind in enumerate(kinds)]
    ticks = [
        {"x": each.difference, "y": index * ROW + MARK}
        for index, kind in enumerate(kinds)
        for each in kind.scored
    ]
    height = len(rows) * ROW
    # linear within the margin, logarithmic beyond: both what is allowed and a ruin can be seen
    scale = alt.Scale(type="symlog", constant=kinds[0].margin_nats, nice=False)
    axis = alt.Axis(
        title="PR \u2212 base, nats a token",
        values=_values(rows, ticks, 5 if width < 500 else 9),
        format="~g",
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
    base, each = (alt.Chart(alt.InlineData(values=values)) for values in (rows, ticks))

    def at(field: str) -> alt.X:
        return alt.X(f"{field}:Q", scale=scale, axis=axis)

    layered = alt.layer(
        base.mark_bar(height=30).encode(at("zero"), y, x2="margin:Q").properties(name="allowed"),
        base.mark_tick(thickness=3, height=30).encode(at("margin"), y).properties(name="margin"),
        base.mark_tick(thickness=1, height=38).encode(at("zero"), y).properties(name="zero"),
        each.mark_tick(thickness=1, height=20, opacity=0.5)
        .encode(at("x"), y)
        .properties(name="texts"),
        base.mark_rule(strokeWidth=4, strokeCap="round")
        .encode(at("low"), y, x2="high:Q")
        .properties(name="interval"),
        base.mark_point(filled=True, size=110, opacity=1, strokeWidth=2)
        .encode(at("mean"), y)
        .properties(name="difference"),
        base.mark_text(align="left", baseline="middle", fontSize=14, fontWeight=600)
        .encode(x=alt.value(0), y=label, text="name:N")
        .properties(name="suite"),
    )
    chart = layered.properties(
        width=width - 20, height=height, padding={"left": 10, "right": 10, "top": 4, "bottom": 4}
    ).configure_view(stroke=None)
    return inline(vl_convert.vegalite_to_svg(chart.to_dict()))


def _row(kind: Result, index: int) -> dict[str, object]:
    assert kind.difference is not None
    mean = kind.difference.mean
    low, high = kind.difference.interval or (mean, mean)
    return {
        "name": text.visible(kind.name),
        "y": index * ROW + MARK,
        "label": index * ROW + LABEL,
        "mean": mean,
        "low": low,
        "high": high,
        "margin": kind.margin_nats,
        "zero": 0,
    }


def _values(
    rows: Sequence[dict[str, object]], ticks: Sequence[dict[str, float]], most: int
) -> list[float]:
    """Where the axis is labelled: 0, and powers of ten out to what is drawn on each side."""
    drawn = [tick["x"] for tick in ticks]
    drawn += [value for row in rows for key in ("low", "high", "margin")
              if isinstance(value := row[key], float)]  # fmt: skip
    margin = min(float(str(row["margin"])) for row in rows)
    found = [0.0]
    for side in (-1, 1):
        end, value = max((side * x for x in drawn), default=0.0), margin
        while value <= end:
            found.append(side * value)
            value *= 10
    step = -(-len(found) // most)
    return sorted(found)[:: max(step, 1)]
