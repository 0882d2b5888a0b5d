"""From the records of two arms to pairs, and to the reasons why some could not be made."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

import numpy as np

from verify.stats.suite import SuiteScores

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from verify.store import Record


def pair(
    records: Iterable[Record],
    *,
    suite: str,
    items: Sequence[str],
    arms: tuple[str, str],
    margin: float,
    floor: float,
    problems: Sequence[str] = (),
) -> SuiteScores:
    """Pair the answers of both arms (base, PR) to `items`; `margin` and `floor` are shares.

    An item is paired where both arms answered the same prompt and target; every other one is a
    problem, which makes the comparison invalid, as do `problems` known already.
    """
    answers: dict[str, dict[str, Record]] = {arm: {} for arm in arms}
    for record in records:
        if record.suite == suite and record.arm in answers:
            answers[record.arm][record.item] = record
    found = list(problems)
    for arm in arms:
        found += _unanswered(arm, answers[arm], items)
    halves = [
        (answers[arms[0]][item], answers[arms[1]][item])
        for item in items
        if all(item in answers[arm] and answers[arm][item].error is None for arm in arms)
    ]
    found += _differing(halves)
    same = [(b, p) for b, p in halves if not _differences(b, p)]
    cuts = [(b.truncated, p.truncated) for b, p in same]
    known = all(cut is not None for both in cuts for cut in both)
    return SuiteScores(
        suite=suite,
        base=np.array([bool(b.correct) for b, _ in same], dtype=np.bool_),
        pr=np.array([bool(p.correct) for _, p in same], dtype=np.bool_),
        truncated=(
            np.array([bool(cut) for cut, _ in cuts], dtype=np.bool_),
            np.array([bool(cut) for _, cut in cuts], dtype=np.bool_),
        )
        if known
        else None,
        margin=margin,
        floor=floor,
        problems=tuple(found),
    )


def _unanswered(arm: str, answers: dict[str, Record], items: Sequence[str]) -> Iterator[str]:
    """Items that an arm lacks, or has only an error for."""
    missing = [item for item in items if item not in answers]
    if missing:
        yield f"{arm} lacks {len(missing)} of {len(items)} items (first: {missing[0]})"
    failed = [(item, error) for item in items if (error := _error(answers.get(item))) is not None]
    if failed:
        kinds = Counter(error.partition(":")[0] for _, error in failed)
        counts = ", ".join(f"{count} {kind}" for kind, count in kinds.most_common())
        item, error = failed[0]
        yield (
            f"{arm} never answered {len(failed)} of {len(items)} items: {counts} "
            f"(first: {item}, {error[:200]})"
        )


def _error(record: Record | None) -> str | None:
    return record.error if record else None


def _differences(base: Record, pr: Record) -> list[str]:
    names = ("prompt_sha256", "target_sha256")
    return [name for name in names if getattr(base, name) != getattr(pr, name)]


def _differing(halves: Sequence[tuple[Record, Record]]) -> Iterator[str]:
    """Items that the arms were asked or graded differently."""
    differing = [(b.item, names) for b, p in halves if (names := _differences(b, p))]
    if differing:
        item, names = differing[0]
        yield f"{len(differing)} items differ between the arms in {names[0]} (first: {item})"
