"""A second opinion on an answer, by math-verify: other code, other rules, symbolic equality."""

from __future__ import annotations

import logging
import re
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable

    from evals.suite import AnswerType

# An answer stands at the end; its parser is not linear.
LAST_CHARACTERS = 20_000
LIMIT_S = 5
"""Seconds for each of reading and comparing, by an alarm: main thread of a process only."""

_DRESS = re.compile(r"\\(?:boxed|text|mathrm|mathbf|textbf)\b|[*_(){}\[\]$\\]")


class Asked(NamedTuple):
    """One answer to have an opinion of.

    Attributes:
        text: what is to be heard of an answer that came to its own end.
        target: the right answer, as `evals.suite.reduce_target` gives it.
        answer: what kind of answer it is.
    """

    text: str
    target: str
    answer: AnswerType


def start(_: int) -> Callable[[Asked], bool | None]:
    """What a worker process does."""
    return opinion


def opinion(asked: Asked) -> bool | None:
    """Whether math-verify finds `target` to be the answer of `text`; None if it finds none.

    Raises:
        ModuleNotFoundError: math-verify is not installed.
    """
    from math_verify import (  # noqa: PLC0415 - half a second of import, and an optional extra
        ExprExtractionConfig,
        LatexExtractionConfig,
        StringExtractionConfig,
        parse,
        verify,
    )

    logging.getLogger("math_verify").setLevel(logging.CRITICAL)  # it narrates what it cannot read
    target, answer = asked.target, asked.answer
    text = asked.text[-LAST_CHARACTERS:].replace("\u2212", "-")
    if answer == "letter":
        text = _DRESS.sub(" ", text)  # which it takes for part of a word
        letters = "ABCD" if target in "ABCD" else "ABCDEFGHIJ"
        looks_for: tuple[object, ...] = (StringExtractionConfig(strings=tuple(letters)),)
    else:
        looks_for = (LatexExtractionConfig(), ExprExtractionConfig())
    found = parse(text, looks_for, parsing_timeout=LIMIT_S)
    if not found:
        return None
    right = parse(target, looks_for, parsing_timeout=LIMIT_S)
    return bool(verify(right, found, timeout_seconds=LIMIT_S))
