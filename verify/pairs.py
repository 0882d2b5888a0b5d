"""From two arms' records to the scores that are judged, for our own runs and for any log."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from verify.logs.pairs import pair
from verify.looks import Look
from verify.stats.suite import SuiteScores
from verify.store import Record

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    import numpy.typing as npt

    from verify.logs import Columns, Pairs
    from verify.logs.pairs import Side


@dataclass(frozen=True)
class Asking:
    """How a run asked one suite, which settles what it may have left out.

    Attributes:
        items: in the random order in which the first repeat asked them.
        repeats: planned for each of them, in each arm.
        margin: a share, at which the run looked.
        early_stop: whether it might end before everything was asked.
        certify: whether the e-process is the only route to a pass.
        fresh: whether the servers were started anew for every repeat.
    """

    items: Sequence[str]
    repeats: int
    margin: float
    early_stop: bool
    certify: bool
    fresh: bool = False


def of_run(
    suite: str,
    arms: tuple[Columns, Columns],
    asking: Asking,
    names: tuple[str, str],
    *,
    margin: float,
    floor: float,
) -> tuple[Pairs, SuiteScores]:
    """The pairs of one suite of a run, and their scores, to be judged at `margin` and `floor`.

    What the run did not ask because it stopped early is not missing; then only the first repeat
    counts, which is all that both arms were asked.

    Raises:
        UserError: no item in common.
    """
    look = Look(asking.items, names, asking.margin, certify=asking.certify)
    for table, name in zip(arms, names, strict=True):
        for record in _first_answers(suite, table, name):
            look.heard(record)
    planned = len(asking.items) * asking.repeats
    stopped = asking.early_stop and look.suffices and min(map(len, arms)) < planned
    if stopped:
        arms = _common(arms)
    pairs = pair(*arms, names)
    judged = scores(suite, pairs, margin=margin, floor=floor)
    lacking = () if stopped else _lacking(asking.items, arms)
    rows = {item: row for row, item in enumerate(pairs.items.taken(np.flatnonzero(pairs.usable)))}
    return pairs, replace(
        judged,
        problems=(*judged.problems, *lacking),
        asked=np.array([rows[item] for item in look.asked if item in rows], np.intp),
        stopped=stopped,
        certify=asking.certify,
        starts=_every_repeat(judged) if asking.fresh else judged.starts,
    )


def _lacking(items: Sequence[str], arms: tuple[Columns, Columns]) -> tuple[str, ...]:
    """A line on what should have been asked and neither arm has."""
    seen = {*arms[0].items, *arms[1].items}
    unseen = [item for item in items if item not in seen]
    if not unseen:
        return ()
    return (f"neither arm has {len(unseen):,} of {len(items):,} items (first {unseen[0]!r})",)


def _every_repeat(judged: SuiteScores) -> tuple[range, range]:
    """Labels of starts, one a repeat."""
    return range(judged.base.shape[1]), range(judged.pr.shape[1])


def _first_answers(suite: str, table: Columns, arm: str) -> Iterator[Record]:
    """The first repeat, as far as a look has use for it."""
    for row in np.flatnonzero(table.repeat == 0).tolist():
        error = table.errors.get(row)
        yield Record(
            arm=arm,
            suite=suite,
            item=table.items[table.item[row]],
            correct=None if error else bool(table.score[row]),
            truncated=bool(table.truncated[row] == 1),
            error=error,
        )


def _common(arms: tuple[Columns, Columns]) -> tuple[Columns, Columns]:
    """The first repeat of the items that both arms have."""
    base, pr = (
        table.taken(np.flatnonzero((table.repeat == 0) & shared[table.item]))
        for table, other in (arms, arms[::-1])
        for shared in [table.items.places(other.items) >= 0]
    )
    return base, pr


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
