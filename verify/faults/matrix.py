"""`matrix`: which layer sees which fault, also inside the model; published as a page of docs."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

import click
from rich.console import Console
from rich.progress import track

from verify.command import UserError
from verify.files import write_text
from verify.likelihood import detection
from verify.verdict import Verdict

if TYPE_CHECKING:
    from collections.abc import Sequence

    from verify.likelihood.detection import Notice, Seen

PAGE = """\
# Which layer sees which fault

Written by `python -m verify.faults matrix --publish docs/detection.md{words}`; not by hand.

{summary}

{overview}
## How each was judged

In four ways, each with a fresh candidate. Layers 1 and 2: cases of the quick grid until the first
finding, of {cases}; while neither has found anything, of the whole grid. Likelihood: tokens of
worked solutions of {suite} until the verdict of `score` is *fail* at {nats:g} nats a
token, by looks at 4, 8, 16, … of {texts} texts. Accuracy: questions of {suite} until the
e-process for a loss beyond {points:g} points has won, of {questions}. A dash: not noticed in as
many. *Ends*: the kernel raises or takes its process down, so the model's arm cannot host it, which
leaves a run invalid; why stands below the table.

## Every kernel

Those that are right come first: what notices them is a false alarm.

| kernel | family | what is wrong | layer 1 | layer 2 | likelihood | accuracy |
|---|---|---|---|---|---|---|
{rows}
## What the model's arm cannot host

{ended}
"""


@click.command()
@click.option("--only", "words", multiple=True, metavar="TEXT",
              help="Names that contain TEXT, or a family, or honest; may be repeated.")  # fmt: skip
@click.option("--workers", type=click.IntRange(1), default=os.cpu_count() or 1, show_default=True,
              help="Processes.")  # fmt: skip
@click.option("--publish", "page", type=click.Path(dir_okay=False, path_type=Path),
              help="Write the page to this file, as Markdown.")  # fmt: skip
def matrix(words: tuple[str, ...], workers: int, page: Path | None) -> Verdict:
    """Judge every kernel by itself and inside the embedded model, and show what notices it.

    The whole takes hours of one core. Passes if every fault is noticed by layers 1 and 2 or in the
    model, and no honest kernel is.
    """
    for word in words:
        if not detection.chosen([word]):
            raise UserError(f"--only {word} names no fault, no family and no honest kernel")
    jobs = detection.chosen(words)
    shown = Console(stderr=True)
    found = detection.detect_all(jobs, workers)
    seen = list(track(found, "judging", len(jobs), console=shown, disable=not shown.is_terminal))
    place = {job: number for number, job in enumerate(jobs)}
    seen.sort(key=lambda each: place[each.job])
    click.echo("".join(map(_row, seen)), nl=False)
    click.echo(_summary(seen))
    if page is not None:
        write_text(page, published(seen, words))
    right = all(each.noticed == (each.job.kind == "fault") for each in seen)
    return Verdict.PASS if right else Verdict.FAIL


def published(seen: Sequence[Seen], words: Sequence[str]) -> str:
    """The page."""
    return PAGE.format(
        words="".join(f" --only '{word}'" for word in words),
        summary=_summary(seen),
        overview=_overview(seen),
        cases=detection.CASES,
        suite=detection.SUITE,
        nats=detection.MARGIN_NATS,
        texts=detection.TEXTS,
        points=100 * detection.MARGIN,
        questions=detection.QUESTIONS,
        rows="".join(map(_row, seen)),
        ended="\n".join(map(_end, filter(_ends, seen))) or "Nothing: every kernel came back.",
    )


def _summary(seen: Sequence[Seen]) -> str:
    """What it came to, in two sentences."""
    faults = [each for each in seen if each.job.kind == "fault"]
    honest = [each for each in seen if each.job.kind == "honest"]
    noticed = sum(each.noticed for each in faults)
    launch = sum(each.by_a_layer and not each.in_the_model for each in faults)
    alarms = sum(each.noticed for each in honest)
    return (
        f"Of {len(faults)} planted faults {noticed} are noticed, {launch} of them only by layers 1 "
        f"and 2: a run of the model would have missed them. Of {len(honest)} kernels that are "
        f"right, {alarms} raised an alarm."
    )


def _overview(seen: Sequence[Seen]) -> str:
    """How many faults each way notices, and how many it alone."""
    faults = [each for each in seen if each.job.kind == "fault"]
    lines = ["| way | faults noticed | that no other way noticed | arm ends |", "|---|---|---|---|"]
    for number, name in enumerate(("layer 1", "layer 2", "likelihood", "accuracy")):
        mine = [each for each in faults if each.ways[number] is not None]
        alone = sum(sum(way is not None for way in each.ways) == 1 for each in mine)
        ended = sum(isinstance(each.ways[number], str) for each in mine)
        lines.append(f"| {name} | {len(mine)} | {alone} | {ended or '-'} |")
    return "".join(f"{line}\n" for line in lines)


def _row(each: Seen) -> str:
    job = each.job
    said = job.entry.description.rstrip(".")
    what = said if job.kind == "fault" else f"*nothing*: {said}"
    nouns = ("case", "case", "token", "question")
    cells = [_cell(way, noun) for way, noun in zip(each.ways, nouns, strict=True)]
    return f"| {job.name} | {job.family} | {_plain(what)} | {' | '.join(cells)} |\n"


def _cell(notice: Notice, noun: str) -> str:
    if notice is None:
        return "-"
    if isinstance(notice, str):
        return "ends"
    return f"{notice:,} {noun}{'s' * (notice != 1)}"


def _ends(each: Seen) -> bool:
    return isinstance(each.likelihood, str) or isinstance(each.accuracy, str)


def _end(each: Seen) -> str:
    said = {how: None for how in (each.likelihood, each.accuracy) if isinstance(how, str)}
    return f"- {each.job.name}: {_plain('; '.join(said))}"


def _plain(text: str) -> str:
    """What stands in a cell, without what Markdown would take for its own."""
    return text.replace("|", "\\|").replace("<", "&lt;")
