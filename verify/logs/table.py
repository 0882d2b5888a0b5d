"""Records as arrays: what every reader of logs fills, and what a comparison reads."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Annotated, Any

import msgspec
import numpy as np
from msgspec import Meta

from verify.logs.names import Names, hashes
from verify.logs.values import listed, refuse, shown
from verify.verdict import WRONG_USE

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    import numpy.typing as npt

    from verify.command import UserError

UNNAMED = "unnamed"  # the suite of records that name none
_ARRAYS = ("repeat", "score", "truncated", "tokens", "prompt", "target", "run", "line")

# What each column is while it grows, the items' names in three.
_TYPES: dict[str, type[np.generic]] = {
    "buffer": np.uint8,
    "length": np.int64,
    "key": np.int64,
    "repeat": np.int32,
    "score": np.float64,
    "truncated": np.int8,
    "tokens": np.int32,
    "prompt": np.int64,
    "target": np.int64,
    "line": np.int32,
}

_Fields = dict[str, "Sequence[Any]"]  # the values of some rows, by field
_Count = Annotated[int, Meta(ge=0, le=2**31 - 1)]
_Hash = Annotated[str, Meta(max_length=64)]


class Row(msgspec.Struct, gc=False, kw_only=True):
    """One record as a log has it, before it is checked against its neighbours.

    `correct` may be a fraction (partial credit); null stands only beside an error.
    """

    item: Annotated[str, Meta(min_length=1)] | int
    correct: bool | Annotated[float, Meta(ge=0, le=1)] | None
    suite: str = UNNAMED
    repeat: _Count = 0
    truncated: bool | None = None
    error: str | None = None
    prompt_sha256: _Hash | None = None
    target_sha256: _Hash | None = None
    completion_tokens: _Count | None = None
    arm: str | None = None
    text: str | None = None
    answer: str | None = None
    rule: str | None = None


@dataclass(frozen=True)
class Choice:
    """What to take from a log that holds more than one score of the same answer.

    Attributes:
        filter: which of lm-evaluation-harness's answer filters.
        metric: which metric (lm-evaluation-harness, lighteval, evalscope) or scorer (inspect_ai).
    """

    filter: str | None = None
    metric: str | None = None


@dataclass(frozen=True, eq=False)
class Columns:
    """The records of one suite, one row a record.

    Attributes:
        items: the distinct items, in order of first appearance.
        item: [n] the item's place among them.
        repeat: [n] repeat number, from 0.
        score: [n] 0 to 1; NaN where the request was never answered or never scored.
        truncated: [n] 1 cut by an output limit, 0 not, -1 not recorded.
        tokens: [n] completion tokens, -1 not recorded.
        prompt: [n] 64 bits drawn from the prompt's SHA-256 as it was written, 0 where none was:
            they tell, within one process, whether two prompts are the same.
        target: [n] the same of the target.
        run: [n] number of the file within its arm.
        line: [n] line of the file, or number of the record where a format has no lines.
        errors: what went wrong, by row; exactly the rows whose score is NaN.
        text: [n] the answer as given, or None where no row has one; `answer` and `rule` (the
            extracted answer, the grader's rule) likewise.
    """

    items: Names
    item: npt.NDArray[np.int32]
    repeat: npt.NDArray[np.int32]
    score: npt.NDArray[np.float64]
    truncated: npt.NDArray[np.int8]
    tokens: npt.NDArray[np.int32]
    prompt: npt.NDArray[np.int64]
    target: npt.NDArray[np.int64]
    run: npt.NDArray[np.int32]
    line: npt.NDArray[np.int32]
    errors: dict[int, str]
    text: list[str | None] | None = None
    answer: list[str | None] | None = None
    rule: list[str | None] | None = None

    def __len__(self) -> int:
        return len(self.item)

    def taken(self, rows: npt.NDArray[np.intp]) -> Columns:
        """Some rows, in their order, and the items that these name."""
        codes, item = np.unique(self.item[rows], return_inverse=True)
        place = {int(row): number for number, row in enumerate(rows)}
        arrays = {name: getattr(self, name)[rows] for name in _ARRAYS}
        texts: dict[str, Any] = {
            name: None if values is None else [values[row] for row in rows]
            for name in ("text", "answer", "rule")
            for values in [getattr(self, name)]
        }
        return Columns(
            items=self.items.taken(codes),
            item=item.astype(np.int32),
            errors={place[row]: error for row, error in self.errors.items() if row in place},
            **arrays,
            **texts,
        )

    @property
    def graded(self) -> bool:
        """Whether some answer has partial credit, so that binary tests do not apply."""
        return bool(np.any((self.score > 0) & (self.score < 1)))


@dataclass
class Builder:
    """Collects rows into one table a suite, keeping only the chosen suite and arm.

    Raises UserError where rows contradict each other or mix arms.
    """

    path: Path
    suite: str | None = None
    arm: str | None = None
    notes: list[str] = field(default_factory=list)
    unit: str = "line"  # what `lines` numbers: "row" or "sample" where a format has no lines

    def __post_init__(self) -> None:
        self._tables: dict[str, _Table] = {}
        self._arms: set[str | None] = set()
        self._suites: set[str] = set()
        self._scored_errors = 0

    def extend(self, rows: Sequence[Row], lines: Sequence[int]) -> None:
        """Add `rows`, read from `lines` of the file."""
        fields = _fields(rows)
        arms = set(fields["arm"])
        self._arms |= arms
        if self.arm is not None and arms != {self.arm}:
            kept = [i for i, arm in enumerate(fields["arm"]) if arm == self.arm]
            fields, lines = _taken(fields, kept), [lines[i] for i in kept]
        suites = set(fields["suite"])
        for name in suites - self._suites:
            if not name.isprintable():
                row = fields["suite"].index(name)
                raise self.bad(lines[row], f"suite is {shown(name)}; write a name that can be read")
        if self.suite is not None and UNNAMED in suites:
            fields["suite"] = [self.suite if s == UNNAMED else s for s in fields["suite"]]
            suites = set(fields["suite"])
        self._suites |= suites
        for suite in sorted(suites):
            if self.suite not in (None, suite):
                continue
            table = self._tables.setdefault(suite, _Table(self))
            if len(suites) == 1:
                table.extend(fields, lines)
            else:
                kept = [i for i, name in enumerate(fields["suite"]) if name == suite]
                table.extend(_taken(fields, kept), [lines[i] for i in kept])

    def finish(self) -> dict[str, Columns]:
        """The tables by suite.

        Raises:
            UserError: nothing left, several arms and none chosen, or one (item, repeat) twice.
        """
        self._refuse_mixed_arms()
        if not self._tables:
            if self._suites:
                raise refuse(
                    self.path,
                    None,
                    f"no record of suite {self.suite!r}; it holds {listed(self._suites)}",
                    WRONG_USE,
                )
            raise refuse(self.path, None, "holds no record; give the log of a run that has some")
        if self._scored_errors:
            self.notes.append(
                f"{self._scored_errors} failed requests carried a score; they count as unanswered"
            )
        return {suite: table.finish() for suite, table in self._tables.items()}

    def _refuse_mixed_arms(self) -> None:
        named = sorted(arm for arm in self._arms if arm is not None)
        held = listed(named)
        if self.arm is not None and self.arm not in named:
            problem = f"it holds {held}" if held else "its records name no arm"
            raise refuse(self.path, None, f"no arm {self.arm!r}; {problem}", WRONG_USE)
        if self.arm is None and len(self._arms) > 1:
            also = ", and some records name no arm" if None in self._arms else ""
            raise refuse(
                self.path, None, f"holds the arms {held}{also}; choose one as FILE::ARM", WRONG_USE
            )

    def bad(self, line: int, problem: str) -> UserError:
        """A refusal of what stands in `line`."""
        return refuse(self.path, line, problem, unit=self.unit)

    def scored_error(self) -> None:
        """Count a failed request that its harness scored nevertheless."""
        self._scored_errors += 1


class _Table:
    """One suite's columns while they grow, chunk by chunk: rows are dropped once read.

    They grow in place; pieces to join in the end would take time and memory twice.
    """

    def __init__(self, builder: Builder) -> None:
        self.builder = builder
        self.columns = {name: bytearray() for name in _TYPES}
        self.texts: dict[str, list[str | None]] = {"text": [], "answer": [], "rule": []}
        self.errors: dict[int, str] = {}
        self.rows = 0

    def extend(self, fields: _Fields, lines: Sequence[int]) -> None:
        items = fields["item"]
        if int in set(map(type, items)):
            items = list(map(str, items))
        names = Names.of(items)
        self.columns["buffer"] += names.buffer
        self._append("length", names.length)
        self._append("key", names.key)
        self._append("repeat", fields["repeat"], lines)
        # None becomes NaN in an array of floats.
        score = np.array(fields["correct"], np.float64)
        self._note_errors(fields, lines, score)
        self._append("score", score)
        self._append("truncated", _or(fields["truncated"], -1))
        self._append("tokens", _or(fields["completion_tokens"], -1), lines)
        self._append("line", _numbers(lines))
        for name in ("prompt", "target"):
            self._append(name, hashes(_or(fields[f"{name}_sha256"], "")))
        for name in self.texts:
            self.texts[name] += fields[name]
        self.rows += len(items)

    def _append(
        self, name: str, values: Sequence[Any] | npt.NDArray[Any], lines: Sequence[int] = ()
    ) -> None:
        try:
            self.columns[name] += np.asarray(values, _TYPES[name]).data
        except OverflowError:
            row = next(i for i, value in enumerate(values) if abs(value) >= 2**31)
            raise self.builder.bad(
                lines[row], f"{name} is {values[row]}; a count has ten digits at most"
            ) from None

    def _note_errors(
        self, fields: _Fields, lines: Sequence[int], score: npt.NDArray[np.float64]
    ) -> None:
        errors, correct = fields["error"], fields["correct"]
        failed = [i for i, error in enumerate(errors) if error] if any(errors) else []
        for i in failed:
            self.errors[self.rows + i] = str(errors[i])
            if correct[i] is not None:
                self.builder.scored_error()
        score[failed] = np.nan
        if np.isnan(score).sum() > len(failed):
            row = next(
                i
                for i, (c, error) in enumerate(zip(correct, errors, strict=True))
                if c is None and not error
            )
            raise self.builder.bad(
                lines[row],
                f"correct is null for item {shown(fields['item'][row])} and no error says why; "
                "write true, false or a fraction, or the error",
            )

    def finish(self) -> Columns:
        arrays = {name: np.frombuffer(self.columns[name], kind) for name, kind in _TYPES.items()}
        start = np.cumsum(arrays["length"]) - arrays["length"]
        names = Names(self.columns["buffer"], start, arrays["length"], arrays["key"])
        items, codes = names.distinct()
        arrays["item"] = codes.astype(np.int32)
        if len(items) < self.rows:
            self._refuse_duplicates(items, arrays)
        texts = {k: v if v.count(None) < len(v) else None for k, v in self.texts.items()}
        return Columns(
            items=items,
            run=np.zeros(self.rows, np.int32),
            errors=self.errors,
            item=arrays["item"],
            repeat=arrays["repeat"],
            score=arrays["score"],
            truncated=arrays["truncated"],
            tokens=arrays["tokens"],
            prompt=arrays["prompt"],
            target=arrays["target"],
            line=arrays["line"],
            text=texts["text"],
            answer=texts["answer"],
            rule=texts["rule"],
        )

    def _refuse_duplicates(self, items: Names, arrays: dict[str, npt.NDArray[Any]]) -> None:
        key = arrays["item"].astype(np.int64) * (int(arrays["repeat"].max()) + 1)
        key += arrays["repeat"]
        order = np.argsort(key, kind="stable")
        again = np.flatnonzero(np.diff(key[order]) == 0)
        if again.size:
            first, second = order[again[0]], order[again[0] + 1]
            item = items[arrays["item"][first]]
            raise self.builder.bad(
                int(arrays["line"][second]),
                f"item {shown(item)}, repeat {arrays['repeat'][first]} stands already in "
                f"{self.builder.unit} "
                f"{arrays['line'][first]}; number the repeats, or give each run its own file",
            )


def _fields(rows: Sequence[Row]) -> _Fields:
    """The rows turned, by field: at once, which takes a third of the time of one by one."""
    values = zip(*map(msgspec.structs.astuple, rows), strict=True)
    return dict(zip(Row.__struct_fields__, values, strict=False)) or dict.fromkeys(
        Row.__struct_fields__, ()
    )


def _taken(fields: _Fields, rows: Sequence[int]) -> _Fields:
    return {name: [values[i] for i in rows] for name, values in fields.items()}


def _numbers(lines: Sequence[int]) -> npt.NDArray[np.int32]:
    if isinstance(lines, range):  # at once, not one by one
        return np.arange(lines.start, lines.stop, dtype=np.int32)
    return np.array(lines, np.int32)


def _or(values: Sequence[Any], absent: Any) -> Sequence[Any]:
    """`values` with `absent` in place of None."""
    return [absent if v is None else v for v in values] if None in values else values
