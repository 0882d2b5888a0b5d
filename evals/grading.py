r"""Answers out of model text, and whether they are right: exact, typed, each by a named rule.

Rules are tried in order, and the first that finds something decides:

integer  hashes       `#### N`, the form that the worked examples show
         boxed        `\boxed{N}`
         answer-is    "the answer is N", "Answer: N"
         alone        the whole text is one number
         last-number  the last number of a text that ended by itself
letter   answer-is    "Answer: C", "the answer is (C)"
         boxed        `\boxed{C}`
         alone        the whole text is one letter

Of several matches the last counts, because reasoning corrects itself. A model that goes on with a
question of its own is not heard beyond its first "Question:". From a truncated text only
an explicit answer is taken, and not one that the cut may have shortened.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from decimal import Decimal
from typing import TYPE_CHECKING

from evals.suite import plain

if TYPE_CHECKING:
    from evals.suite import AnswerType

NO_ANSWER = "none"
"""The rule of a text in which no other rule found anything."""


@dataclass(frozen=True)
class Grade:
    """What was taken from a text, by which rule, and whether it is right."""

    answer: str | None
    correct: bool
    rule: str


# Not inside a word or another number; a minus counts unless something is subtracted from.
_NUMBER = (
    r"(?<![\w.,])(?P<sign>(?:(?<![\w)\]}])-\s?)?)(?:\\?\$\s?)?(?P<late>-?)"
    r"(?P<digits>[0-9]{1,3}(?:,[0-9]{3})+(?![0-9])|[0-9]+)(?P<fraction>\.[0-9]+)?"
)
# One loop: two in a row would take quadratic time on a long run of stars.
_GAP = r"(?:\\boxed\{|[\s*_:=(\[{$\\])*?"
_HASHES = re.compile(rf"####{_GAP}(?:\w\s*=\s*)?{_NUMBER}")
_STATED = re.compile(rf"(?i)\banswer(?:\s+is|\s*[:=])(?:\s+is)?{_GAP}{_NUMBER}")
_ANY = re.compile(_NUMBER)

_LETTER_STATED = re.compile(
    r"\b[Aa](?:nswer|NSWER)\b[\s*_]*(?:[Ii][Ss]\b|:|=)(?:boxed\{|text\{|[\s*_:(\[{$\\])*"
    r"([A-Z])(?![\w'])"
)
_LETTER_ALONE = re.compile(r"[\s*_(\[$]*([A-Za-z])[\s*_)\].,:$]*")
_LATEX = re.compile(r"\\(?:text|mathrm|mathbf|textbf)\{([^{}]*)\}")


def grade(text: str, target: str, answer: AnswerType, *, truncated: bool) -> Grade:
    """Grade one answer against a target as `evals.suite.reduce_target` gives it."""
    heard = text.split("Question:", 1)[0].replace("\u2212", "-")
    find = _integer if answer == "integer" else _letter
    found, rule = find(heard, truncated and len(heard) == len(text))
    return Grade(found, found == target, rule)


def _integer(text: str, truncated: bool) -> tuple[str | None, str]:  # noqa: FBT001 - private
    text = text.replace("{,}", ",").replace("\\,", "").replace("\\!", "")
    if found := _last_number(_HASHES, text, truncated):
        return found, "hashes"
    if (boxed := _boxed(text)) is not None:
        inside = [plain(_value(m)) for m in _ANY.finditer(_LATEX.sub(r" \1 ", boxed))]
        # \frac{1}{2} holds two numbers and is neither
        return (inside[0] if len(inside) == 1 else boxed), "boxed"
    if found := _last_number(_STATED, text, truncated):
        return found, "answer-is"
    numbers = [] if truncated else list(_ANY.finditer(text))
    if numbers:
        alone = not (text[: numbers[0].start()] + text[numbers[0].end() :]).strip(" \n.$*")
        return plain(_value(numbers[-1])), "alone" if alone else "last-number"
    return None, NO_ANSWER


def _letter(text: str, truncated: bool) -> tuple[str | None, str]:  # noqa: FBT001 - private
    stated = [m[1] for m in _LETTER_STATED.finditer(text) if not _cut(m, text, truncated)]
    if stated:
        return stated[-1], "answer-is"
    if (boxed := _boxed(text)) is not None:
        alone = _LETTER_ALONE.fullmatch(_LATEX.sub(r"\1", boxed))
        return (alone[1].upper() if alone else boxed), "boxed"
    if not truncated and (alone := _LETTER_ALONE.fullmatch(text)):
        return alone[1].upper(), "alone"
    return None, NO_ANSWER


def _last_number(pattern: re.Pattern[str], text: str, truncated: bool) -> str | None:  # noqa: FBT001
    found = [m for m in pattern.finditer(text) if not _cut(m, text, truncated)]
    return plain(_value(found[-1])) if found else None


def _cut(match: re.Match[str], text: str, truncated: bool) -> bool:  # noqa: FBT001 - private
    """Whether more of the match may have lain beyond a truncated text's end."""
    return truncated and not text[match.end() :].strip(".,0123456789")


def _value(match: re.Match[str]) -> Decimal:
    minus = match["sign"].strip() or match["late"]
    return Decimal(minus + match["digits"].replace(",", "") + (match["fraction"] or ""))


def _boxed(text: str) -> str | None:
    r"""What the last complete `\boxed{...}` holds, braces balanced."""
    opened: list[int] = []
    start, stop = -1, -1
    for brace in re.finditer("[{}]", text):
        if brace[0] == "{":
            opened.append(brace.start())
        elif opened and text.endswith("\\boxed", 0, begin := opened.pop()) and begin > start:
            start, stop = begin, brace.start()
    return text[start + 1 : stop].strip() if stop >= 0 else None
