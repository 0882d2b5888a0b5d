"""Serving speed in a terminal: a row for each start, one for each arm, and what they come to."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich.table import Table

if TYPE_CHECKING:
    from collections.abc import Iterator

    from verify.bench.serve.judging import Load, Medians

_COLUMNS = (
    "", "requests", "tokens/s", "first\nms", "gap\nms", "gap p99\nms", "tokens\na chunk",
    "accepted\na step",
)  # fmt: skip


def table(load: Load) -> Table:
    """Medians of one load."""
    found = Table(
        title=f"{load.concurrency} in flight, medians over requests",
        title_justify="left", box=None, pad_edge=False, header_style="dim", padding=(0, 1, 0, 0),
    )  # fmt: skip
    for name in _COLUMNS:
        found.add_column(name, no_wrap=True, justify="right" if name else "left")
    for name, side in load.arms.items():
        for number, start in enumerate(side.starts, 1):
            found.add_row(f"{name}, start {number}", *_figures(start))
        found.add_row(f"{name}, all", *_figures(side.pooled))
    return found


def lines(load: Load) -> Iterator[str]:
    """What the load came to, in words."""
    several = load.invalid if len(load.invalid) > 1 else ()
    yield f"{load.concurrency} in flight: {load.reason}"
    if load.pooled_ratio is not None:
        yield f"  ratio of the medians over all requests: {load.pooled_ratio:.4f}"
    yield from (f"  invalid: {each}" for each in several)
    yield from (f"  note: {each}" for each in load.remarks)


def _figures(medians: Medians) -> list[str]:
    return [
        str(medians.requests),
        _shown(medians.tokens_per_s, 2),
        _shown(medians.ttft_ms, 2),
        _shown(medians.gap_ms, 3),
        _shown(medians.gap_p99_ms, 3),
        _shown(medians.chunk_tokens, 2),
        _shown(medians.acceptance, 3),
    ]


def _shown(value: float | None, digits: int) -> str:
    return "-" if value is None else f"{value:.{digits}f}"
