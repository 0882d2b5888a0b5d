"""Looks at a suite while it is being asked: whether what is known by now suffices."""

from __future__ import annotations

from typing import TYPE_CHECKING

from verify.stats.evidence import ALPHA, HARM_ALPHA
from verify.stats.sequential import EProcess

if TYPE_CHECKING:
    from collections.abc import Sequence

    from verify.store import Record


class Look:
    """Bets on the first repeat of a suite, in the random order in which it is asked.

    A question counts once both arms have answered it and every question asked before it: so
    neither slow answers nor failed ones choose what is bet on. Further repeats of a question are
    no new questions, and add nothing here.

    Args:
        order: items in the order asked.
        names: of the arms, base first.
        margin: a share.
        certify: whether to look for non-inferiority as well as for harm.
    """

    def __init__(
        self, order: Sequence[str], names: tuple[str, str], margin: float, *, certify: bool
    ) -> None:
        self._order = order
        self._names = names
        self._answers: dict[tuple[str, str], Record] = {}
        self._harm = EProcess.harm(margin)
        self._certificate = EProcess.certificate(margin) if certify else None
        self._count = 0

    @property
    def asked(self) -> Sequence[str]:
        """The items that count so far, in the order asked."""
        return self._order[: self._count]

    @property
    def suffices(self) -> bool:
        """Whether harm is shown, or non-inferiority where that is looked for."""
        if self._harm.peak >= 1 / HARM_ALPHA:
            return True
        return self._certificate is not None and self._certificate.peak >= 1 / ALPHA

    def heard(self, record: Record) -> None:
        """Take one answer of either arm."""
        if record.repeat or record.error is not None:
            return
        self._answers[record.arm, record.item] = record
        while self._count < len(self._order):
            item = self._order[self._count]
            base, pr = (self._answers.get((name, item)) for name in self._names)
            if base is None or pr is None:
                return
            self._count += 1
            self._harm.update(float(bool(pr.correct)) - float(bool(base.correct)))
            if self._certificate is not None:
                # every truncated answer counted against PR
                right = bool(pr.correct) and not pr.truncated
                was_right = bool(base.correct) or bool(base.truncated)
                self._certificate.update(float(right) - float(was_right))
