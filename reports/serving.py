"""Serving speed, as `verify.bench serve` left it: a section of a run's page, or a page alone."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import altair as alt
import msgspec
import vl_convert

from reports import charts, page, text, words
from reports.latency import Row
from verify.command import UserError
from verify.files import write_text
from verify.verdict import Verdict

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from markupsafe import Markup

FILE: Final = "serving.json"
PAGE: Final = "report.html"


class Medians(msgspec.Struct, frozen=True):
    """Of one start, or of all requests of an arm; times in milliseconds."""

    requests: int
    tokens_per_s: float | None
    ttft_ms: float | None
    gap_ms: float | None
    gap_p99_ms: float | None
    chunk_tokens: float | None
    acceptance: float | None


class Side(msgspec.Struct, frozen=True):
    """One arm at one load."""

    starts: tuple[Medians, ...]
    pooled: Medians


class Ratio(msgspec.Struct, frozen=True):
    """PR over base, start by start."""

    value: float
    interval: tuple[float, float] | None
    stable: bool


class Load(msgspec.Struct, frozen=True):
    """What one load came to."""

    concurrency: int
    arms: dict[str, Side]
    ratio: Ratio | None
    pooled_ratio: float | None
    verdict: Verdict
    reason: str
    invalid: tuple[str, ...]
    remarks: tuple[str, ...]


class Figures(msgspec.Struct, frozen=True):
    """Of one request."""

    tokens_per_s: float | None


class Request(msgspec.Struct, frozen=True):
    """One request, as far as it is drawn."""

    arm: str
    start: int
    load: int
    warm_up: bool
    figures: Figures | None


class Method(msgspec.Struct, frozen=True):
    """What was asked."""

    input_len: int
    output_len: int
    warm_ups: int
    requests: int
    prompt: str | None = None


class Delay(msgspec.Struct, frozen=True):
    """The client's own."""

    median_ms: float
    p99_ms: float


class About(msgspec.Struct, frozen=True):
    """What the page needs of the manifest."""

    command: tuple[str, ...]
    order: tuple[str, ...]
    fresh: bool


class Serving(msgspec.Struct, frozen=True):
    """What the page needs of FILE."""

    verdict: Verdict
    measured: str
    method: Method
    client_delay: Delay
    loads: tuple[Load, ...]
    requests: tuple[Request, ...]
    manifest: About


@dataclass(frozen=True)
class Part:
    """One load."""

    name: str
    verdict: Verdict
    reason: str
    change: str
    rows: tuple[Row, ...]
    chart: charts.Chart | None
    invalid: tuple[str, ...]
    remarks: tuple[str, ...]


@dataclass(frozen=True)
class View:
    """The serving part of a page."""

    verdict: Verdict
    how: str
    command: str
    columns: tuple[str, ...]
    parts: tuple[Part, ...]

    @property
    def headline(self) -> str:
        """The verdict in words."""
        return _HEADLINES[self.verdict]


_HEADLINES = {
    Verdict.PASS: "PR decodes faster.",
    Verdict.FAIL: "PR decodes slower.",
    Verdict.INCONCLUSIVE: "Neither faster nor slower is shown.",
    Verdict.INVALID: "This measurement proves nothing.",
}
_COLUMNS = (
    "requests", "tokens/s", "first chunk, ms", "gap, ms", "gap p99, ms", "tokens a chunk",
    "accepted a step",
)  # fmt: skip


def serving(folder: Path) -> View | None:
    """What stands in the folder; None if nothing does.

    Raises:
        UserError: the file does not hold what it should.
    """
    path = folder / FILE
    try:
        found = msgspec.json.decode(path.read_bytes(), type=Serving)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise UserError(f"{path} cannot be read ({error.strerror})") from None
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise UserError(f"{path}: {error}; measure again with verify.bench serve") from None
    parts = tuple(_part(load, found.requests) for load in found.loads)
    return View(found.verdict, _how(found), " ".join(found.manifest.command), _COLUMNS, parts)


def render(folder: Path) -> Path:
    """Write PAGE into a folder that holds FILE and no run of layer 3, and return its path.

    Raises:
        UserError: FILE does not hold what it should.
    """
    view = serving(folder)
    if view is None:
        raise UserError(f"{folder} holds no {FILE}; name the folder of verify.bench serve")
    write_text(
        folder / PAGE,
        page.document("serving_page.html.j2", title=folder.resolve().name, serving=view),
    )
    return folder / PAGE


def _how(found: Serving) -> str:
    method, about = found.method, found.manifest
    prompt = "the same text" if method.prompt else f"{method.input_len:,} random tokens"
    servers = "a fresh server each" if about.fresh else "servers that were up already"
    warm = words.count(method.warm_ups, "warm-up")
    return (
        f"Starts in the order {', '.join(about.order)}, {servers}; {warm} and "
        f"{words.count(method.requests, 'request')} a start, {prompt} in and "
        f"{method.output_len:,} tokens out; {words.time(found.measured)}. The client's own delay: "
        f"median {found.client_delay.median_ms:.3f} ms, 99 % within "
        f"{found.client_delay.p99_ms:.3f} ms"
    )


def _part(load: Load, requests: Sequence[Request]) -> Part:
    return Part(
        f"{words.count(load.concurrency, 'request')} in flight",
        load.verdict,
        load.reason,
        _change(load.ratio),
        tuple(_rows(load)),
        _chart(load, [r for r in requests if r.load == load.concurrency and not r.warm_up]),
        load.invalid,
        load.remarks,
    )


def _change(ratio: Ratio | None) -> str:
    """PR against base in percent, with its interval."""
    if ratio is None:
        return ""
    change = f"{words.change(100 * (ratio.value - 1))} %"
    if ratio.interval is None:
        return f"{change}, without an interval"
    low, high = (100 * (end - 1) for end in ratio.interval)
    sure = "sign-stable" if ratio.stable else "not sign-stable"
    return f"{change} (95 % interval {words.interval((low, high))} %), {sure} over starts"


def _rows(load: Load) -> Iterator[Row]:
    for name, side in load.arms.items():
        for number, start in enumerate(side.starts, 1):
            yield Row(f"{name}, start {number}", _texts(start))
        yield Row(f"{name}, all", _texts(side.pooled))


def _texts(medians: Medians) -> tuple[str, ...]:
    figures = (
        (medians.tokens_per_s, 2),
        (medians.ttft_ms, 2),
        (medians.gap_ms, 3),
        (medians.gap_p99_ms, 3),
        (medians.chunk_tokens, 2),
        (medians.acceptance, 3),
    )
    shown = ("\u2013" if value is None else f"{value:,.{digits}f}" for value, digits in figures)
    return (f"{medians.requests:,}", *shown)


def _chart(load: Load, requests: Sequence[Request]) -> charts.Chart | None:
    """A row for each start: its requests, and their median; None without any rate."""
    rows = [
        (f"{name}, start {number}", start.tokens_per_s, _rates(requests, name, number))
        for name, side in load.arms.items()
        for number, start in enumerate(side.starts, 1)
    ]
    shown = [(name, median, rates) for name, median, rates in rows if median is not None]
    if not shown:
        return None
    described = "; ".join(f"{name}: median {median:,.2f}" for name, median, _ in shown)
    drawn = [_drawn(shown, width) for width in (900, 330)]
    return charts.Chart(drawn[0], drawn[1], f"Tokens a second. {described}.")


def _rates(requests: Sequence[Request], arm: str, start: int) -> list[float]:
    mine = [r.figures for r in requests if (r.arm, r.start) == (arm, start) and r.figures]
    return [figures.tokens_per_s for figures in mine if figures.tokens_per_s is not None]


def _drawn(rows: Sequence[tuple[str, float, list[float]]], width: int) -> Markup:
    place = [number * charts.ROW for number in range(len(rows))]
    dots = [
        {"rate": rate, "y": top + charts.MARK}
        for top, (_, _, rates) in zip(place, rows, strict=True)
        for rate in rates
    ]
    medians = [
        {
            "name": text.visible(name),
            "figures": f"{median:,.2f}",
            "median": median,
            "y": top + charts.MARK,
            "label": top + charts.LABEL,
        }
        for top, (name, median, _) in zip(place, rows, strict=True)
    ]
    height = len(rows) * charts.ROW
    every = [dot["rate"] for dot in dots]
    room = max(0.05 * (max(every) - min(every)), 0.001 * max(every))
    scale = alt.Scale(domain=[min(every) - room, max(every) + room], nice=False)
    axis = alt.Axis(title="tokens a second", grid=False, tickCount=4 if width < 500 else 9)
    down = alt.Scale(domain=[0, height], reverse=True, nice=False)
    y, label = (alt.Y(f"{field}:Q", axis=None, scale=down) for field in ("y", "label"))
    each, base = (alt.Chart(alt.InlineData(values=values)) for values in (dots, medians))

    def at(field: str) -> alt.X:
        return alt.X(f"{field}:Q", scale=scale, axis=axis)

    layered = alt.layer(
        # the names by which the style sheet knows the forest plot's marks
        each.mark_tick(thickness=1, height=20, opacity=0.6)
        .encode(at("rate"), y)
        .properties(name="texts"),
        base.mark_point(filled=True, size=110, opacity=1, strokeWidth=2)
        .encode(at("median"), y)
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
