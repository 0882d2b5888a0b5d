"""Suites whose texts may stand on no page: hashes in the place of everything that was written."""

from __future__ import annotations

import hashlib
from dataclasses import replace
from typing import TYPE_CHECKING

import msgspec

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from collections.abc import Set as AbstractSet

    from reports.read import Question
    from verify.store import Record


def redacted(
    records: Sequence[Record],
    questions: Mapping[tuple[str, str], Question],
    suites: AbstractSet[str],
) -> tuple[tuple[Record, ...], dict[tuple[str, str], Question]]:
    """The same, with the texts of `suites` replaced: equal texts stay equal, none can be read.

    A model repeats the question, so its answers are texts of the suite too.
    """
    return (
        tuple(_record(record) if record.suite in suites else record for record in records),
        {
            key: _question(question) if key[0] in suites else question
            for key, question in questions.items()
        },
    )


def _record(record: Record) -> Record:
    return msgspec.structs.replace(
        record,
        text=_hash(record.text),
        answer=_hash(record.answer),
        error=record.error and record.error.partition(":")[0],
    )


def _question(question: Question) -> Question:
    return replace(
        question, prompt=_hash(question.prompt) or "", target=_hash(question.target) or ""
    )


def _hash(text: str | None) -> str | None:
    """The letter of a choice tells nothing of what it stood for, and stays."""
    if text is None or len(text) <= 1:
        return text
    return f"sha256 {hashlib.sha256(text.encode('utf-8', 'surrogatepass')).hexdigest()}"
