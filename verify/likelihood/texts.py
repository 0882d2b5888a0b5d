"""The texts that both arms score: worked solutions, a user's own, or what the base arm answers."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING

import msgspec

from evals.suite import content_id
from verify.arms import Completion
from verify.command import UserError
from verify.files import lines

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from evals.suite import Item, Spec
    from verify.arms import Arm

LONGEST_LINE = 1 << 20
"""Bytes of a line of a user's file."""


@dataclass(frozen=True)
class Text:
    """A prompt and what is scored after it; `item` names it."""

    item: str
    prompt: str
    completion: str


@dataclass(frozen=True)
class Texts:
    """Texts of one kind, which are judged together.

    Attributes:
        name: of the suite, or of the user's file.
        source: where the completions come from, in words.
        texts: in the order of their items.
        redact: whether no word of them may be shown.
    """

    name: str
    source: str
    texts: tuple[Text, ...]
    redact: bool = False


def solutions(spec: Spec, items: Sequence[Item]) -> Texts | None:
    """The worked solutions of a suite's rows; None where they hold bare answers.

    A solution follows its prompt as the answers of worked examples follow theirs.
    """
    if not all(item.worked.rpartition("####")[0].strip() for item in items):
        return None
    before = spec.prompt.shot_template.partition("{target}")[0]
    gap = before[len(before.rstrip()) :]
    texts = tuple(Text(item.id, item.prompt, gap + item.worked) for item in items)
    return Texts(spec.name, "worked solutions", texts, spec.redact)


async def own_answers(arm: Arm, spec: Spec, items: Sequence[Item]) -> Texts:
    """What an arm answers, greedily; those that are empty or cut off are left out.

    Raises:
        UserError: the arm does not start, or a question stays without an answer.
    """
    prompts = [item.prompt for item in items]
    found: dict[int, Completion] = {}
    try:
        await arm.start()
        async for index, answer in arm.answers(spec, prompts, [0] * len(prompts)):
            if not isinstance(answer, Completion):
                raise UserError(
                    f"arm {arm.name} left {items[index].id} of {spec.name} unanswered "
                    f"({answer.message}); there is no text to score",
                    exit_code=4,
                )
            found[index] = answer
    finally:
        await arm.close()
    texts = tuple(
        Text(item.id, item.prompt, found[index].text)
        for index, item in enumerate(items)
        if found[index].text.strip() and not found[index].truncated
    )
    return Texts(spec.name, f"answers of {arm.name}", texts, spec.redact)


class Line(msgspec.Struct):
    """A line of a user's file."""

    prompt: str
    completion: str
    item: str | None = None


def from_file(path: Path, limit: int | None) -> Texts:
    """JSON lines {"prompt", "completion", "item"?}; the first `limit` by content hash.

    Raises:
        UserError: it cannot be read, or a line is not of that form.
    """
    try:
        with path.open("rb") as file:
            content = list(lines(file, path))
    except OSError as error:
        raise UserError(
            f"--texts {path} cannot be read ({error.strerror}); name a file of JSON lines"
        ) from None
    found: dict[str, tuple[int, Text]] = {}
    for number, line in content:
        if not line.strip():
            continue
        text = _line(path, number, line)
        key = content_id(text.prompt, text.completion)
        item = text.item or key
        if item in found:
            raise UserError(
                f"{path}: lines {found[item][0]} and {number} are both item {item!r}; remove one"
            )
        found[item] = number, Text(item, text.prompt, text.completion)
    texts = [text for _, text in found.values()]
    texts.sort(key=lambda text: content_id(text.prompt, text.completion))
    if not texts:
        raise UserError(f"--texts {path} holds no line; write one JSON object a line")
    return Texts(path.name, "a file", tuple(texts[:limit]))


def _line(path: Path, number: int, line: bytes) -> Line:
    form = 'write {"prompt": ..., "completion": ...}'
    if len(line) > LONGEST_LINE:
        raise UserError(f"{path}: line {number} has {len(line):,} bytes; {LONGEST_LINE:,} at most")
    try:
        text = msgspec.convert(json.loads(line), Line)
        text.completion.encode(), text.prompt.encode()
    except (ValueError, RecursionError) as error:  # msgspec's own errors are ValueErrors
        raise UserError(f"{path}: line {number}: {error}; {form}") from None
    if not text.completion.strip():
        raise UserError(f"{path}: line {number} has an empty completion; {form}")
    return text
