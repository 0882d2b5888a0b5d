"""Verdicts: the four answers a run can end in, their order and their exit codes."""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable


class Verdict(StrEnum):
    """What a run, a suite or a layer established."""

    PASS = "pass"  # noqa: S105 - not a password
    """Right, or non-inferior at the margin, with enough evidence to say so."""

    FAIL = "fail"
    """Wrong, or worse than the margin."""

    INCONCLUSIVE = "inconclusive"
    """This run could not tell; the reason says what would."""

    INVALID = "invalid"
    """The run itself is broken: unpaired, unanswered, nothing executed."""

    @property
    def exit_code(self) -> int:
        """The process exit code of a program that ends in this verdict."""
        return {"pass": 0, "fail": 1, "inconclusive": 3, "invalid": 4}[self.value]


# Exit codes without a verdict.
WRONG_USE = 2
INTERRUPTED = 130
BROKEN = Verdict.INVALID.exit_code

_GRAVEST_FIRST = (Verdict.INVALID, Verdict.FAIL, Verdict.INCONCLUSIVE, Verdict.PASS)


def combine(verdicts: Iterable[Verdict]) -> Verdict:
    """The verdict of several suites or layers together: the gravest; of none, INVALID."""
    present = set(verdicts)
    return next((v for v in _GRAVEST_FIRST if v in present), Verdict.INVALID)
