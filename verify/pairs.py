"""From two arms' records to the scores that are judged, for our own runs and for any log."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from verify.stats.suite import SuiteScores

if TYPE_CHECKING:
    import numpy.typing as npt

    from verify.logs import Pairs
    from verify.logs.pairs import Side


def scores(
    suite: str, pairs: Pairs, *, margin: float, floor: float, allow_unequal: bool = False
) -> SuiteScores:
    """The pairs of one suite, to be judged at `margin` and `floor`, shares both.

    Each file of an arm counts as one server start. `allow_unequal` lets arms with different
    numbers of repeats pass, as item means.
    """
    problems = pairs.problems
    if allow_unequal:
        problems = tuple(problem for problem in problems if problem not in pairs.unequal)
    usable = np.flatnonzero(pairs.usable)
    sides = (pairs.base, pairs.pr)
    return SuiteScores(
        suite=suite,
        base=sides[0].score[usable],
        pr=sides[1].score[usable],
        truncated=_truncated(sides, usable),
        margin=margin,
        floor=floor,
        problems=problems,
        starts=(tuple(sides[0].runs), tuple(sides[1].runs)),
        tokens=_tokens(sides, usable),
    )


def _truncated(
    sides: tuple[Side, Side], usable: npt.NDArray[np.intp]
) -> tuple[npt.NDArray[np.bool_], npt.NDArray[np.bool_]] | None:
    """Flags of both arms; None where some answer does not say."""
    flags = []
    for side in sides:
        cut, answered = side.truncated[usable], ~np.isnan(side.score[usable])
        if np.any(answered & (cut < 0)):
            return None
        flags.append(answered & (cut == 1))
    return flags[0], flags[1]


def _tokens(
    sides: tuple[Side, Side], usable: npt.NDArray[np.intp]
) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.float64]] | None:
    """Completion tokens of both arms; None where some answer does not say, or nothing is left."""
    found = []
    for side in sides:
        tokens, answered = side.tokens[usable], ~np.isnan(side.score[usable])
        if not usable.size or np.any(answered & (tokens < 0)):
            return None
        found.append(np.where(answered, tokens, np.nan))
    return found[0], found[1]
