"""What `verify.bench` left in a run's folder: times beside chains and floor, launch evidence."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeVar

import altair as alt
import msgspec
import vl_convert

from reports import charts, text, words
from verify.command import UserError
from verify.verdict import Verdict  # noqa: TC001 - msgspec reads it

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from markupsafe import Markup

T = TypeVar("T")
LATENCY, EVIDENCE = "latency.json", "evidence.json"


class Beside(msgspec.Struct, frozen=True):
    """A ratio of one time to another, with its interval."""

    ratio: float
    interval: tuple[float, float]


class Cell(msgspec.Struct, frozen=True):
    """One contender at one T in one output form: its time, or why there is none."""

    contender: str
    role: str
    tokens: int
    form: str
    us: float | None = None
    beside: dict[str, Beside] = {}
    refused: str | None = None
    wrong: str | None = None


class Latency(msgspec.Struct, frozen=True):
    """What the page needs of latency.json."""

    verdict: Verdict
    measured: str
    machine: dict[str, str]
    method: dict[str, str | int | float]
    cells: tuple[Cell, ...]


class Evidence(msgspec.Struct, frozen=True):
    """What the page needs of evidence.json; `rows` are fused calls by T."""

    verdict: Verdict
    reason: str
    source: str
    replaced: int
    kept: int
    launches_fewer: int | None = None
    rows: dict[str, int] = {}
    rows_unknown: int = 0


@dataclass(frozen=True)
class Row:
    """A row of a table: whose figures, one text for each column."""

    name: str
    texts: tuple[str, ...]


@dataclass(frozen=True)
class Form:
    """Both tables of one output form, and its chart."""

    name: str
    tokens: tuple[int, ...]
    times: tuple[Row, ...]
    ratios: tuple[Row, ...]
    chart: charts.Chart


@dataclass(frozen=True)
class Times:
    """The latency part of the page."""

    how: str
    where: str
    forms: tuple[Form, ...]
    remarks: tuple[str, ...]


@dataclass(frozen=True)
class Speed:
    """Times and launch evidence; either may be missing, not both."""

    times: Times | None
    evidence: Evidence | None
    rows: str

    @property
    def launches(self) -> str:
        """What was replaced, what went away and what remains."""
        assert self.evidence is not None
        fewer = self.evidence.launches_fewer
        went = "launches cannot be seen on a CPU" if fewer is None else f"{fewer:,} launches fewer"
        return (
            f"{words.count(self.evidence.replaced, 'chain')} replaced, {went}, "
            f"{words.count(self.evidence.kept, 'chain')} kept"
        )


def speed(folder: Path) -> Speed | None:
    """What stands in the folder; None if nothing does.

    Raises:
        UserError: a file does not hold what it should.
    """
    latency, evidence = _read(folder / LATENCY, Latency), _read(folder / EVIDENCE, Evidence)
    if latency is None and evidence is None:
        return None
    return Speed(_times(latency) if latency else None, evidence, _rows(evidence))


def _rows(evidence: Evidence | None) -> str:
    if evidence is None:
        return ""
    known = [f"T = {tokens}: {calls:,}" for tokens, calls in evidence.rows.items()]
    unknown = [f"T unknown: {evidence.rows_unknown:,}"] if evidence.rows_unknown else []
    return ", ".join([*known, *unknown])


def _times(latency: Latency) -> Times:
    method = latency.method
    how = (
        f"{str(method.get('figure', '')).capitalize()}; {method.get('sweeps', '?')} sweeps of "
        f"{method.get('replays', '?')} replays, {method.get('weight_buffers', '?')} weight buffers "
        "in turn, so that none comes from the cache; every timed output was checked"
    )
    where = ", ".join(f"{name} {value}" for name, value in latency.machine.items())
    forms = [
        _form(name, [cell for cell in latency.cells if cell.form == form])
        for form, name in (("bf16", "BF16 output"), ("mxfp8", "MXFP8 output"))
    ]
    said: dict[str, None] = {}
    for cell in latency.cells:
        if cell.refused or cell.wrong:
            said[f"{cell.contender}: {cell.wrong or cell.refused}"] = None
    measured = words.time(latency.measured)
    return Times(how, f"{where}, {measured}", tuple(filter(None, forms)), tuple(said))


def _form(name: str, cells: Sequence[Cell]) -> Form | None:
    timed = [cell for cell in cells if cell.us is not None]
    if not timed:
        return None
    tokens = tuple(sorted({cell.tokens for cell in timed}))
    by = {(cell.contender, cell.tokens): cell for cell in timed}
    names = list(dict.fromkeys(cell.contender for cell in timed))
    pairs = list(dict.fromkeys((cell.contender, other) for cell in timed for other in cell.beside))
    return Form(
        name,
        tokens,
        tuple(Row(n, tuple(_time(by.get((n, t))) for t in tokens)) for n in names),
        tuple(
            Row(f"{n} / {other}", tuple(_ratio(by.get((n, t)), other) for t in tokens))
            for n, other in pairs
        ),
        _chart(name, timed, names),
    )


def _time(cell: Cell | None) -> str:
    return "\u2013" if cell is None or cell.us is None else f"{cell.us:.2f}"


def _ratio(cell: Cell | None, other: str) -> str:
    found = cell.beside.get(other) if cell else None
    if found is None:
        return "\u2013"
    low, high = found.interval
    return f"{found.ratio:.2f} [{low:.2f}, {high:.2f}]"


def _chart(name: str, cells: Sequence[Cell], names: Sequence[str]) -> charts.Chart:
    """A row for each contender, a dot for each T on one axis of microseconds."""
    spans = {n: [c.us for c in cells if c.contender == n and c.us is not None] for n in names}
    described = "; ".join(f"{n}: {_span(spans[n])} microseconds" for n in names)
    drawn = [_drawn(cells, spans, width) for width in (900, 330)]
    return charts.Chart(drawn[0], drawn[1], f"{name}. {described}.")


def _span(times: Sequence[float]) -> str:
    low, high = f"{min(times):.2f}", f"{max(times):.2f}"
    return low if low == high else f"{low}\u2013{high}"


def _drawn(cells: Sequence[Cell], spans: dict[str, list[float]], width: int) -> Markup:
    place = {name: number * charts.ROW for number, name in enumerate(spans)}
    dots = [{"us": c.us, "y": place[c.contender] + charts.MARK} for c in cells]
    rows = [
        {
            "name": text.visible(name),
            "figures": f"{_span(times)} \u00b5s",
            "low": min(times),
            "high": max(times),
            "y": place[name] + charts.MARK,
            "label": place[name] + charts.LABEL,
        }
        for name, times in spans.items()
    ]
    height = len(spans) * charts.ROW
    top = math.ceil(max(time for times in spans.values() for time in times) + 0.5)
    scale = alt.Scale(domain=[0, top], nice=False)
    axis = alt.Axis(title="microseconds a launch", grid=False, tickCount=5 if width < 500 else 10)
    down = alt.Scale(domain=[0, height], reverse=True, nice=False)
    y, label = (alt.Y(f"{field}:Q", axis=None, scale=down) for field in ("y", "label"))
    base = alt.Chart(alt.InlineData(values=rows))

    def at(field: str) -> alt.X:
        return alt.X(f"{field}:Q", scale=scale, axis=axis)

    layered = alt.layer(
        # the names by which the style sheet knows the forest plot's marks
        base.mark_rule(strokeWidth=3, strokeCap="round")
        .encode(at("low"), y, x2="high:Q")
        .properties(name="interval"),
        alt.Chart(alt.InlineData(values=dots))
        .mark_point(filled=True, size=70, opacity=1, strokeWidth=1.5)
        .encode(at("us"), y)
        .properties(name="difference"),
        base.mark_text(align="left", baseline="middle", fontSize=14, fontWeight=600)
        .encode(x=alt.value(0), y=label, text="name:N")
        .properties(name="suite"),
        base.mark_text(align="right", baseline="middle", fontSize=13)
        .encode(x=alt.value(width - 20), y=label, text="figures:N")
        .properties(name="figures"),
    )
    padding = {"left": 10, "right": 10, "top": 4, "bottom": 4}
    chart = layered.properties(width=width - 20, height=height, padding=padding)
    chart = chart.configure_view(stroke=None)
    return charts.inline(vl_convert.vegalite_to_svg(chart.to_dict()))


def _read(path: Path, kind: type[T]) -> T | None:
    try:
        return msgspec.json.decode(path.read_bytes(), type=kind)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise UserError(f"{path} cannot be read ({error.strerror})") from None
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise UserError(f"{path}: {error}; write it again with verify.bench") from None
