"""`python -m verify.likelihood`: which layer sees which fault, published as a page of docs."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

import click
from rich.console import Console
from rich.progress import track

from verify.command import UserError, run
from verify.faults.catalogue import CATALOGUE
from verify.faults.honest import VARIANTS
from verify.files import write_text
from verify.likelihood import detection
from verify.verdict import Verdict

if TYPE_CHECKING:
    from collections.abc import Sequence

    from verify.likelihood.detection import Seen

HEAD = """\
# Which layer sees which fault

Written by `python -m verify.likelihood --publish docs/detection.md{words}`; not by hand.

Each row is a kernel judged four ways, each with a fresh candidate. Layers 1 and 2: cases of the
quick grid until the first finding, of {cases}. Likelihood: tokens of worked solutions of {suite}
until the verdict of `score` is *fail* at {nats:g} nats a token, by looks at 4, 8, 16, … of {texts}
texts. Accuracy: questions of {suite} until the e-process for a loss beyond {points:g} points has
won, of {questions}. A dash says that it was not noticed in as many. *Raises*: the model's arm ends,
which leaves a run invalid.

{summary}

| kernel | what is wrong | layer 1 | layer 2 | likelihood | accuracy |
|---|---|---|---|---|---|
"""


@click.command()
@click.option("--only", "words", multiple=True, metavar="TEXT",
              help="Names that contain TEXT, or a family, or honest; may be repeated.")  # fmt: skip
@click.option("--workers", type=click.IntRange(1), default=os.cpu_count() or 1, show_default=True,
              help="Processes.")  # fmt: skip
@click.option("--publish", "page", type=click.Path(dir_okay=False, path_type=Path),
              help="Write the table to this file, as Markdown.")  # fmt: skip
def command(words: tuple[str, ...], workers: int, page: Path | None) -> Verdict:
    """Judge every fault by itself and inside the embedded model, and show what notices it.

    Passes if every fault is noticed somewhere and no honest kernel is.
    """
    for word in words:
        if not detection.hosted([word]):
            raise UserError(f"--only {word} names no fault that the model hosts, and no family")
    jobs = detection.hosted(words)
    shown = Console(stderr=True)
    found = detection.detect_all(jobs, workers)
    seen = list(track(found, "judging", len(jobs), console=shown, disable=not shown.is_terminal))
    place = {job: number for number, job in enumerate(jobs)}
    seen.sort(key=lambda each: place[each.job])
    text = published(seen, words)
    click.echo(text[text.index("| kernel") :], nl=False)
    click.echo(summary(seen))
    if page is not None:
        write_text(page, text)
    right = all(each.anywhere == (each.job.kind == "fault") for each in seen)
    return Verdict.PASS if right else Verdict.FAIL


def published(seen: Sequence[Seen], words: Sequence[str]) -> str:
    """The page."""
    head = HEAD.format(
        words="".join(f" --only '{word}'" for word in words),
        cases=detection.CASES,
        suite=detection.SUITE,
        nats=detection.MARGIN_NATS,
        texts=detection.TEXTS,
        points=100 * detection.MARGIN,
        questions=detection.QUESTIONS,
        summary=summary(seen),
    )
    return head + "".join(f"{_row(each)}\n" for each in seen)


def summary(seen: Sequence[Seen]) -> str:
    """How many faults each way noticed, and the honest kernels that any did."""
    faults = [each for each in seen if each.job.kind == "fault"]
    honest = [each for each in seen if each.job.kind == "honest"]
    counts = {
        "layer 1": sum(each.layers[0] is not None for each in faults),
        "layer 2": sum(each.layers[1] is not None for each in faults),
        "likelihood": sum(each.tokens is not None for each in faults),
        "accuracy": sum(each.questions is not None for each in faults),
    }
    noticed = ", ".join(f"{name} {count}" for name, count in counts.items())
    raised = sum(each.raised is not None for each in faults)
    alarms = sum(each.anywhere for each in honest)
    return (
        f"Of {len(faults)} faults: {noticed}; {raised} raise inside the model. Of {len(honest)} "
        f"kernels that are right, {alarms} raised an alarm."
    )


def _row(each: Seen) -> str:
    job = each.job
    what = CATALOGUE[job.name] if job.kind == "fault" else VARIANTS[job.name]
    said = what.description.rstrip(".") if job.kind == "fault" else f"*nothing*: {what.description}"
    cells = [_count(n, "case") for n in each.layers]
    cells += (
        ["raises", "raises"]
        if each.raised is not None
        else [_count(each.tokens, "token"), _count(each.questions, "question")]
    )
    return f"| {job.name} | {said.rstrip('.').replace('|', chr(92) + '|')} | {' | '.join(cells)} |"


def _count(number: int | None, noun: str) -> str:
    return "-" if number is None else f"{number:,} {noun}{'s' * (number != 1)}"


if __name__ == "__main__":
    run(command, "verify.likelihood")
