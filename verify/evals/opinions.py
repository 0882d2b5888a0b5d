"""Second opinions on many answers, in worker processes, and the questions that hang on them."""

from __future__ import annotations

import importlib.util
from collections import defaultdict
from typing import TYPE_CHECKING, Any

from evals.grading import heard
from evals.opinion import LIMIT_S, Asked, start
from verify.pool import Lost, Pool

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from evals.suite import Spec
    from verify.store import Record
    from verify.task import Task

WORKERS = 2


def available() -> bool:
    """Whether there is anybody to ask."""
    return importlib.util.find_spec("math_verify") is not None


def asked(text: str, target: str, spec: Spec) -> Asked:
    """An answer as the suite's own grader hears it."""
    begin, end = heard(text, spec.sampling.stop)
    return Asked(text[begin:end], target, spec.answer)


def opinions(about: Iterable[Asked]) -> dict[Asked, bool | None]:
    """The opinion of each; None where there is none, or where it took too long."""
    jobs = list(dict.fromkeys(about))
    if not jobs or not available():
        return dict.fromkeys(jobs)
    with Pool(start, min(WORKERS, len(jobs)), lambda _: 4.0 * LIMIT_S) as pool:
        found = {job: None if isinstance(said, Lost) else said for job, said in pool.answers(jobs)}
    return {job: found[job] for job in jobs}


def dependent(
    records: Sequence[Record], tasks: Sequence[Task], names: tuple[str, str]
) -> dict[str, dict[str, Any]] | None:
    """For each suite, where the difference between the arms depends on who grades.

    Only pairs whose texts differ can; of those that both graders have an opinion of, `items` are
    the questions on whose difference they disagree. None where math-verify is not installed.
    """
    if not available():
        return None
    specs = {task.name: task.suite.spec for task in tasks}
    targets = {(task.name, item.id): item.target for task in tasks for item in task.items}
    pairs: dict[tuple[str, str, int], dict[str, Record]] = defaultdict(dict)
    for record in records:
        if record.text is not None and not record.truncated:
            pairs[record.suite, record.item, record.repeat][record.arm] = record
    differing = [
        tuple(
            (arms[name], asked(arms[name].text or "", targets[suite, item], specs[suite]))
            for name in names
        )
        for (suite, item, _), arms in pairs.items()
        if len(arms) == 2 and arms[names[0]].text != arms[names[1]].text
    ]
    said = opinions(about for pair in differing for _, about in pair)
    found: dict[str, dict[str, Any]] = {
        task.name: {"by": "math-verify", "pairs": 0, "items": []} for task in tasks
    }
    for (base, about_base), (pr, about_pr) in differing:
        theirs = said[about_base], said[about_pr]
        if None in theirs or base.correct is None or pr.correct is None:
            continue
        of_suite = found[base.suite]
        of_suite["pairs"] += 1
        if bool(theirs[1]) - bool(theirs[0]) != pr.correct - base.correct:
            of_suite["items"] = list(dict.fromkeys([*of_suite["items"], base.item]))
    return found


def hanging(extractors: Mapping[str, Mapping[str, Any]] | None) -> Iterator[str]:
    """What `dependent` found, a line a suite in which anything was."""
    for suite, found in (extractors or {}).items():
        items = found["items"]
        if items:
            more = f" and {len(items) - 5:,} more" if len(items) > 5 else ""
            yield (
                f"{suite}: the arms' difference on {len(items):,} question"
                f"{'s' if len(items) > 1 else ''} depends on who grades "
                f"({found['by']} disagrees on {', '.join(items[:5])}{more})"
            )
