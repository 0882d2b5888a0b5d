"""The page as data: from what a run left behind to every word and figure that is shown."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from reports import (
    arms,
    faults,
    gaps,
    kernels,
    latency,
    layers,
    likelihood,
    methods,
    questions,
    serving,
    suites,
    words,
)

if TYPE_CHECKING:
    from reports.read import Run


@dataclass(frozen=True)
class Page:
    """Everything that one page shows, in the order shown; `data` is what it lets one download."""

    title: str
    started: str
    whole: layers.Whole
    layers: tuple[layers.Layer, ...]
    gaps: tuple[gaps.Gap, ...]
    kernel: kernels.KernelView | None
    faults: str
    likelihood: likelihood.Panel | None
    speed: latency.Speed | None
    serving: serving.View | None
    figures: tuple[suites.Figure, ...]
    suites: tuple[suites.SuiteView, ...]
    names: arms.Names
    paths: tuple[str, ...]
    manifest: arms.Manifest
    methods: tuple[methods.Method, ...]
    data: dict[str, Any]


def view(run: Run) -> Page:
    """The page of a run."""
    score = run.result.score
    parts = layers.layers(run)
    if score is not None:
        parts = (*parts, likelihood.layer(score))
    names = arms.names(run)
    answers = questions.answers(run.records, names, run.questions)
    kernel = run.result.kernel
    return Page(
        title=run.folder.resolve().name,
        started=words.time(run.about.started),
        whole=layers.whole(run.result.verdict, parts),
        layers=parts,
        gaps=gaps.gaps(run),
        kernel=kernels.kernel_view(kernel) if kernel else None,
        faults=faults.sharpness(run.folder),
        likelihood=likelihood.panel(score) if score else None,
        speed=latency.speed(run.folder),
        serving=serving.serving(run.folder),
        figures=suites.figures(run.result.suites),
        suites=suites.suite_views(run, answers),
        names=names,
        paths=arms.paths(run),
        manifest=arms.manifest(run),
        methods=tuple(methods.methods(kernel, run.result.suites)),
        data=_data(run),
    )


# A record without its texts, which stand in records.sqlite.
_COLUMNS = (
    "arm",
    "suite",
    "item",
    "repeat",
    "correct",
    "truncated",
    "error",
    "answer",
    "completion_tokens",
)


def _data(run: Run) -> dict[str, Any]:
    """The result and the manifest as written, and one row for each record."""
    return {
        "result": {key: value for key, value in run.document.items() if key != "manifest"},
        "manifest": dict(run.manifest),
        "records": {
            "columns": _COLUMNS,
            "rows": [[getattr(record, column) for column in _COLUMNS] for record in run.records],
        },
    }
