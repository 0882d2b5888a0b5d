"""`python -m verify.evals grade SUITE`: the graders of a run, on texts of anybody's."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, BinaryIO

import click
import msgspec

from evals.grading import grade as graded
from evals.rows import SuiteError
from evals.suite import load, reduce_target
from verify.command import UserError
from verify.evals.opinions import asked, available, opinions
from verify.files import lines

if TYPE_CHECKING:
    from collections.abc import Iterator

    from evals.suite import Spec


class Answer(msgspec.Struct):
    """One line of input: a model's text, the right answer, and how the text ended if known."""

    text: str
    target: str | int
    finish_reason: str | None = None


@click.command()
@click.argument("suite")
@click.argument("file", type=click.File("rb"), default="-")
def grade(suite: str, file: BinaryIO) -> None:
    """Grade JSON lines {"text", "target", "finish_reason"?} as a run of SUITE would.

    Prints {"answer", "correct", "rule", "second_opinion"} for each line, the last by math-verify:
    whether it too finds the text right, null where it finds no answer, or the text was cut off.
    """
    try:
        spec = load(suite).spec
    except SuiteError as error:
        raise UserError(str(error)) from None
    answers = list(_read(file, spec))
    about = [asked(answer.text, str(answer.target), spec) for answer in answers]
    said = opinions(
        one for one, answer in zip(about, answers, strict=True) if not _truncated(answer)
    )
    if not available():
        click.echo("no second opinions: math-verify is not installed (extra: evals)", err=True)
    for answer, one in zip(answers, about, strict=True):
        found = graded(
            answer.text,
            str(answer.target),
            spec.answer,
            truncated=_truncated(answer),
            stop=spec.sampling.stop,
        )
        line = {
            "answer": found.answer,
            "correct": found.correct,
            "rule": found.rule,
            "second_opinion": said.get(one) if not _truncated(answer) else None,
        }
        click.echo(json.dumps(line))


def _truncated(answer: Answer) -> bool:
    return answer.finish_reason == "length"


def _read(file: BinaryIO, spec: Spec) -> Iterator[Answer]:
    where = getattr(file, "name", "<stdin>")
    for number, line in lines(file, where):
        if not line.strip():
            continue
        try:
            # not msgspec's own decoder: it refuses lone surrogates, which models do produce
            answer = msgspec.convert(json.loads(line), Answer)
            answer.target = reduce_target(str(answer.target), spec.answer)
        except (ValueError, RecursionError) as error:  # msgspec's own errors are ValueErrors
            raise UserError(
                f'{where}: line {number}: {error}; write {{"text": ..., "target": ...}}'
            ) from None
        yield answer
