r"""Answers out of model text, and whether they are right: exact, typed, each by a named rule.

Rules are tried in order, and the first that finds something decides:

numbers  hashes       `#### N`, the form that the worked examples show
         boxed        `\boxed{N}`
         answer-is    "the answer is N", "Answer: N"
         alone        the whole text is one number
         last-number  the last number of a text that ended by itself
letter   answer-is    "Answer: C", "the answer is (C)"
         boxed        `\boxed{C}`
         alone        the whole text is one letter

Of several matches the last counts, because reasoning corrects itself. A model that goes on past a
stop word of its suite is not heard beyond it, nor is what it thinks before `</think>`. From
a truncated text only an explicit answer is taken, and not one that the cut may have shortened.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from decimal import Context, Decimal, Inexact
from typing import TYPE_CHECKING

from evals.suite import plain

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from evals.suite import AnswerType

NO_ANSWER = "none"
"""The rule of a text in which no other rule found anything."""


@dataclass(frozen=True)
class Grade:
    """What was taken from a text, by which rule, and whether it is right."""

    answer: str | None
    correct: bool
    rule: str
    span: tuple[int, int] | None
    """Where in the text the answer stands: `text[span[0]:span[1]]`."""


@dataclass(frozen=True)
class _Found:
    answer: str
    rule: str
    start: int
    stop: int


# A comma between groups of three, as people and LaTeX write it: 1,000  1{,}000  1,\!000  1\,000
# and, as typographers do, a narrow or unbreakable space.
_COMMA = r"(?:,(?:\\!)?|\{,\}|\\,|[\u00a0\u2009\u202f])"
# Not inside a word, an index, a power or another number; a minus counts unless something is
# subtracted from. Digits are taken whole (++), so that no part of a number is one.
_NUMBER = (
    r"(?<![\w.,^/])(?<![\^_]\{)(?<!/\s)"
    r"(?P<sign>(?:(?<![\w)\]}])[-\u2212]\s?)?)(?:\\?\$\s?)?(?P<late>[-\u2212]?)"
    rf"(?P<digits>[0-9]{{1,3}}(?:{_COMMA}[0-9]{{3}})++(?![0-9])|[0-9]++(?!,[0-9]{{3}}(?![0-9])))"
    r"(?P<fraction>(?:\.[0-9]++)?)"
    r"(?:\s?/\s?(?P<over>[1-9][0-9]{0,17}+)(?![.,]?[0-9]))?"
    r"(?P<exponent>(?:[eE][-+]?[0-9]{1,2}+(?!\w)"
    r"|\s?(?:\\times|\\cdot|\u00d7|\*)\s?10\s?\^\s?(?:\{[0-9]{1,2}\}|[0-9]{1,2}+))?)"
    r"(?!\s?\^|\s?/\s?[0-9]|[eE][-+]?[0-9])"
)
_MORE = re.compile(rf"\s+or\s+{_NUMBER}")
# One loop: two in a row would take quadratic time on a long run of stars.
_GAP = r"(?:\\boxed\{|[\s*_:=(\[{$\\])*?"
_HASHES = re.compile(rf"####{_GAP}(?:\w\s*=\s*)?{_NUMBER}")
_STATED = re.compile(
    rf"(?i:\banswer(?:[\s*_]+is|[\s*_]*[:=])(?:\s+is)?){_GAP}(?:\w\s*=\s*)?{_NUMBER}"
)
_ANY = re.compile(_NUMBER)

_LETTER_STATED = re.compile(
    r"\b[Aa](?:nswer|NSWER)\b[\s*_]*(?:[Ii][Ss]\b|:|=)"
    r"(?:boxed\{|text\{|[Oo]ption\b|[Cc]hoice\b|[\s*_:(\[{$\\])*([A-Z])(?![\w'])"
)
_LETTER_ALONE = re.compile(r"[\s*_(\[$]*([A-Za-z])[\s*_)\].,:$]*")
_LATEX = re.compile(r"\\(?:text|mathrm|mathbf|textbf)\{([^{}]*)\}")
_FRACTION = re.compile(r"\\[dt]?frac\{(-?[0-9]{1,18})\}\{([1-9][0-9]{0,17})\}")
# What makes more of a number than itself: \sqrt{9}, \pi, 5!
_MATHS = re.compile(r"\\(?!(?:left|right|times|cdot|circ|quad|degree)\b)[A-Za-z]|[0-9]!")
_THOUGHT = "</think>"


def grade(
    text: str, target: str, answer: AnswerType, *, truncated: bool, stop: Sequence[str] = ()
) -> Grade:
    """Grade one answer.

    Args:
        text: the model's own words.
        target: the right answer, as `evals.suite.reduce_target` gives it.
        answer: what kind of answer to look for.
        truncated: whether the text was cut off by a limit.
        stop: words at which the model should have stopped.
    """
    begin, end = heard(text, stop)
    cut = truncated and end == len(text)
    if cut and begin == 0 and text.lstrip().startswith("<think>"):
        return Grade(None, False, NO_ANSWER, None)  # cut off in mid-thought
    find = _letter if answer == "letter" else _number
    found = find(text[begin:end], cut)
    if found is None:
        return Grade(None, False, NO_ANSWER, None)
    span = begin + found.start, begin + found.stop
    return Grade(found.answer, found.answer == target, found.rule, span)


def heard(text: str, stop: Sequence[str]) -> tuple[int, int]:
    """Where the answer lies: after all thinking, and before the first stop word."""
    begin = text.rfind(_THOUGHT)
    begin = 0 if begin < 0 else begin + len(_THOUGHT)
    ends = [place for word in stop if (place := text.find(word, begin)) >= 0]
    return begin, min(ends, default=len(text))


def _number(text: str, truncated: bool) -> _Found | None:  # noqa: FBT001 - private
    if found := _last(_HASHES, text, "hashes", truncated):
        return found
    if (boxed := _boxed(text)) is not None:
        start, stop = boxed
        return _Found(_inside(text[start:stop]), "boxed", start, stop)
    if found := _last(_STATED, text, "answer-is", truncated):
        return found
    last = None
    if not truncated:
        for last in _ANY.finditer(text):  # noqa: B007 - the last one is wanted
            pass
    if last is None:
        return None
    start, stop = _span(last)
    alone = not (text[:start] + text[stop:]).strip(" \n.$*%")
    return _Found(_value(last), "alone" if alone else "last-number", start, stop)


def _letter(text: str, truncated: bool) -> _Found | None:  # noqa: FBT001 - private
    last = _last_whole(_LETTER_STATED.finditer(text), text, truncated)
    if last is not None:
        return _Found(last[1], "answer-is", *last.span(1))
    if (boxed := _boxed(text)) is not None:
        inside = text[slice(*boxed)]
        alone = _LETTER_ALONE.fullmatch(_LATEX.sub(r"\1", inside))
        return _Found(alone[1].upper() if alone else inside.strip(), "boxed", *boxed)
    if not truncated and (alone := _LETTER_ALONE.fullmatch(text)):
        return _Found(alone[1].upper(), "alone", *alone.span(1))
    return None


def _last(pattern: re.Pattern[str], text: str, rule: str, truncated: bool) -> _Found | None:  # noqa: FBT001 - private
    last = _last_whole(pattern.finditer(text), text, truncated)
    if last is None:
        return None
    start, stop = _span(last)
    if more := _MORE.match(text, stop):  # "5 or 6" is no answer
        return _Found(text[start : more.end()], rule, start, more.end())
    return _Found(_value(last), rule, start, stop)


def _last_whole(
    matches: Iterable[re.Match[str]],
    text: str,
    truncated: bool,  # noqa: FBT001 - private
) -> re.Match[str] | None:
    """The last match of which no part may have lain beyond a truncated text's end."""
    end = len(text)
    if truncated:
        end = len(text.rstrip(".,0123456789eE/^+-\\{"))
    last = None
    for match in matches:
        if not truncated or match.end() < end:
            last = match
    return last


def _span(match: re.Match[str]) -> tuple[int, int]:
    """The number alone, its sign and its currency included."""
    return match.start("sign"), match.end()


def _value(match: re.Match[str]) -> str:
    """A matched number in its shortest form; a fraction that has no such form, as it stands."""
    digits = re.sub(r"[^0-9]", "", match["digits"])
    minus = "-" if (match["sign"].strip() or match["late"]) else ""
    value = Decimal(minus + digits + match["fraction"])
    if match["exponent"]:
        value = value.scaleb(int(re.sub(r".*?(-?[0-9]+)\}?$", r"\1", match["exponent"])), _WIDE)
    if match["over"] is None:
        return plain(value)
    return _divided(value, match["over"])


_WIDE = Context(prec=400_000, Emax=10**9, Emin=-(10**9))
_EXACT = Context(prec=40, traps=[Inexact])


def _divided(value: Decimal, over: str) -> str:
    """A quotient as a decimal, where it is one."""
    try:
        return plain(_EXACT.divide(value, Decimal(over)))
    except Inexact:
        return f"{plain(value)}/{over}"


def _inside(boxed: str) -> str:
    """The number that a box holds; one that holds more, or none, as it stands."""
    inside = _FRACTION.sub(r" \1/\2 ", _LATEX.sub(r" \1 ", boxed))
    numbers = [] if _MATHS.search(inside) else [_value(m) for m in _ANY.finditer(inside)]
    return numbers[0] if len(numbers) == 1 else boxed.strip()


def _boxed(text: str) -> tuple[int, int] | None:
    r"""Where the content of the last complete `\boxed{...}` lies, braces balanced."""
    opened: list[int] = []
    start, stop = -1, -1
    for brace in re.finditer("[{}]", text):
        if brace[0] == "{":
            opened.append(brace.start())
        elif opened and text.endswith("\\boxed", 0, begin := opened.pop()) and begin > start:
            start, stop = begin, brace.start()
    return (start + 1, stop) if stop >= 0 else None
