"""The questions on which the arms disagree, with both answers split where they part."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from statistics import fmean
from typing import TYPE_CHECKING

from reports import text

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from reports.arms import Names
    from reports.read import Question
    from verify.store import Record

# Characters: what one page gives to all its texts together, and to one of them at most and least.
PAGE_LIMIT = 1_500_000
TEXT_LIMIT = 8_000
TEXT_LEAST = 300


@dataclass(frozen=True)
class Answer:
    """One arm's answer to one question: its grade, and its text after the shared beginning."""

    arm: str
    grade: str  # right, wrong, or not answered
    extracted: str | None
    rule: str | None
    tokens: int | None
    truncated: bool
    error: str | None
    token: str
    rest: text.Excerpt


@dataclass(frozen=True)
class Attempt:
    """Both arms' answers to one repeat of a question, and the text with which both begin."""

    repeat: int
    shared: text.Excerpt
    base: Answer
    pr: Answer


@dataclass(frozen=True)
class Disagreement:
    """A question that one arm answers better than the other; `lost` is worse in the PR arm."""

    anchor: str
    item: str
    lost: bool
    prompt: text.Excerpt
    target: str
    attempts: tuple[Attempt, ...]

    @property
    def tokens(self) -> int:
        """Of its longest answer; 0 where the arms did not say."""
        both = [answer for attempt in self.attempts for answer in (attempt.base, attempt.pr)]
        return max((answer.tokens or 0 for answer in both), default=0)


@dataclass(frozen=True)
class Answers:
    """A suite's answers: how many pairs are the same letter for letter, and where arms disagree."""

    pairs: int
    identical: int
    disagreements: tuple[Disagreement, ...]


# (base, pr) of one repeat of one item
_Pair = tuple["Record", "Record"]


def answers(
    records: Iterable[Record],
    names: Names,
    questions: Mapping[tuple[str, str], Question],
) -> dict[str, Answers]:
    """Each suite's answers, lost questions before gained ones, else in the order asked."""
    pairs = _pair(records, names)
    differing = {key: attempts for key, attempts in pairs.items() if _balance(attempts)}
    texts = sum(len(attempts) for attempts in differing.values()) * 4
    limit = max(TEXT_LEAST, min(TEXT_LIMIT, PAGE_LIMIT // max(1, texts)))
    return {
        suite: Answers(
            pairs=sum(len(attempts) for (of, _), attempts in pairs.items() if of == suite),
            identical=sum(
                base.text == pr.text
                for (of, _), attempts in pairs.items()
                if of == suite
                for base, pr in attempts
            ),
            disagreements=tuple(
                sorted(
                    (
                        _disagreement(key, attempts, questions.get(key), limit)
                        for key, attempts in differing.items()
                        if key[0] == suite
                    ),
                    key=lambda found: not found.lost,
                )
            ),
        )
        for suite in dict.fromkeys(of for of, _ in pairs)
    }


def _pair(records: Iterable[Record], names: Names) -> dict[tuple[str, str], list[_Pair]]:
    """Pairs by (suite, item), in the order of the records; what stands alone is no pair."""
    halves: dict[tuple[str, str, int], dict[str, Record]] = defaultdict(dict)
    for record in records:
        halves[record.suite, record.item, record.repeat][record.arm] = record
    pairs: dict[tuple[str, str], list[_Pair]] = defaultdict(list)
    for (suite, item, _), by_arm in halves.items():
        if names.base in by_arm and names.pr in by_arm:
            pairs[suite, item].append((by_arm[names.base], by_arm[names.pr]))
    for attempts in pairs.values():
        attempts.sort(key=lambda pair: pair[0].repeat)
    return pairs


def _balance(attempts: Sequence[_Pair]) -> float:
    """Mean of PR - base over the graded repeats: 0 where the arms agree."""
    graded = [
        pr.correct - base.correct
        for base, pr in attempts
        if base.correct is not None and pr.correct is not None
    ]
    return fmean(graded) if graded else 0.0


def _disagreement(
    key: tuple[str, str], attempts: Sequence[_Pair], question: Question | None, limit: int
) -> Disagreement:
    suite, item = key
    return Disagreement(
        anchor=text.anchor("question", suite, item),
        item=item,
        lost=_balance(attempts) < 0,
        prompt=text.tail(question.prompt, limit) if question else text.Excerpt(""),
        target=question.target if question else "",
        attempts=tuple(
            _attempt(base, pr, limit) for base, pr in attempts if base.correct != pr.correct
        ),
    )


def _attempt(base: Record, pr: Record, limit: int) -> Attempt:
    parted = text.split(base.text or "", pr.text or "")
    ours, theirs = (
        _answer(record, token, text.head(rest, limit))
        for record, token, rest in zip((base, pr), parted.tokens, parted.rests, strict=True)
    )
    return Attempt(base.repeat, text.tail(parted.shared, limit), ours, theirs)


def _answer(record: Record, token: str, rest: text.Excerpt) -> Answer:
    grade = {True: "right", False: "wrong", None: "not answered"}[record.correct]
    return Answer(
        arm=record.arm,
        grade=grade,
        extracted=record.answer,
        rule=record.rule,
        tokens=record.completion_tokens,
        truncated=bool(record.truncated),
        error=record.error,
        token=token,
        rest=rest,
    )
