"""A suite as data: its suite.toml, the rows it names, and the items and prompts made of them."""

from __future__ import annotations

import hashlib
import json
import re
from dataclasses import dataclass
from decimal import Decimal, InvalidOperation
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import msgspec

from evals import rows as rows_of
from evals.rows import SuiteError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

FOLDER = Path(__file__).resolve().parent
FILE_NAME = "suite.toml"

AnswerType = Literal["integer", "decimal", "letter"]
LETTERS = "ABCDEFGHIJ"
"""Names of the options of a question, in the order shown."""


class Source(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Where rows come from: a file beside suite.toml, or a set on the hub.

    `sha256` pins the file, also one named by the user (any of several, where the same rows are
    published in several forms); `revision` pins the set on the hub.
    """

    file: str | None = None
    hub: str | None = None
    config: str | None = None
    split: str | None = None
    revision: str | None = None
    sha256: str | tuple[str, ...] = ()

    @property
    def pins(self) -> tuple[str, ...]:
        """Hashes of the files that hold these rows."""
        return (self.sha256,) if isinstance(self.sha256, str) else self.sha256


class Fields(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Names of the columns that hold the question and its right answer.

    Of several names the first counts that a row has. With `distractors`, the columns of the wrong
    options, the target is the text of the right one; they are shown in an order that depends on
    the question alone, and the answer is a letter.
    """

    question: str | tuple[str, ...]
    target: str | tuple[str, ...]
    distractors: tuple[str, ...] = ()


class PromptSpec(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """How a question is asked; `{question}`, `{target}`, `{options}`, `{shots}` are replaced.

    The first `shots` rows are shown as worked examples, and are not scored.
    """

    style: Literal["completion", "chat"]
    template: str
    shots: int = 0
    shot_template: str = ""


class Sampling(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """What an arm is asked for; temperature 0 is greedy."""

    temperature: float = 0.0
    max_tokens: int
    stop: tuple[str, ...] = ()


class Spec(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """The whole of suite.toml."""

    name: str
    title: str
    licence: str
    answered_by: Literal["embedded", "server"]
    answer: AnswerType
    floor: float
    """Share of right answers that shows nothing: chance, or 0.05."""
    margin_pt: float
    """Default margin of non-inferiority in percentage points."""
    items: int | None = None
    """Size of the default run, the first by content hash; None: all."""
    repeats: int = 1
    """Default number of answers to each question in each arm."""
    redact: bool = False
    """Whether its texts, and answers to them, are kept out of reports, exports and messages."""
    source: Source
    fields: Fields
    prompt: PromptSpec
    sampling: Sampling


@dataclass(frozen=True)
class Item:
    """One question to score."""

    id: str
    """The first 16 hex digits of its content's SHA-256."""
    row: int
    """Its row in the source, from 0."""
    prompt: str
    target: str
    worked: str = ""
    """The right answer as its row holds it: where it has a worked solution, that."""

    @property
    def prompt_sha256(self) -> str:
        """Hash of what the arms are sent."""
        return _sha256(self.prompt.encode())

    @property
    def target_sha256(self) -> str:
        """Hash of the answer that counts as right."""
        return _sha256(self.target.encode())


@dataclass(frozen=True)
class Shot:
    """A worked example in every prompt."""

    id: str
    row: int


@dataclass(frozen=True)
class Questions:
    """The items of a suite, by content hash, and what they were made of."""

    items: tuple[Item, ...]
    shots: tuple[Shot, ...]
    source: str
    sha256: str
    """Of the file; from the hub, of the rows as one JSON object a line."""
    pinned: bool
    """Whether these are the rows that suite.toml pins, by revision or by hash."""


@dataclass(frozen=True)
class Suite:
    """A suite's specification and the folder it lies in."""

    spec: Spec
    folder: Path
    sha256: str
    """Of suite.toml."""

    def questions(self, data: Path | None = None, *, unpinned: bool = False) -> Questions:
        """Every item, from the user's own file where `data` names one.

        `unpinned` accepts a file of another hash.

        Raises:
            SuiteError: rows missing, of another hash than pinned, malformed or not unique.
        """
        source = self.spec.source
        if data is None and source.hub is not None:
            rows, sha256 = rows_of.from_hub(
                source.hub, source.config, source.split, source.revision
            )
            return self._make(rows, f"{source.hub}@{source.revision}", sha256, pinned=True)
        path = data or self.folder / str(source.file)
        rows, sha256 = rows_of.from_file(path)
        if not unpinned and sha256 not in source.pins:
            pins = " or ".join(f"{pin[:12]}..." for pin in source.pins) or "no file"
            raise SuiteError(
                f"{path} has SHA-256 {sha256[:12]}..., but suite {self.spec.name} is pinned to "
                f"{pins}; use the pinned file, or accept this one with --unpinned"
            )
        return self._make(rows, path.name, sha256, pinned=sha256 in source.pins)

    def _make(
        self, rows: Sequence[Mapping[str, Any]], source: str, sha256: str, *, pinned: bool
    ) -> Questions:
        prompt = self.spec.prompt
        if len(rows) <= prompt.shots:
            raise SuiteError(
                f"{source} has {len(rows)} rows, and suite {self.spec.name} shows "
                f"{prompt.shots} of them as examples; nothing is left to score"
            )
        contents = [self._content(source, number, row) for number, row in enumerate(rows)]
        ids = [content_id(*content) for content in contents]
        shown = "".join(
            fill(prompt.shot_template, **self._words(*content))
            for content in contents[: prompt.shots]
        )
        shots = tuple(Shot(ids[row], row) for row in range(prompt.shots))
        taken = {shot.id: shot.row for shot in shots}
        items = []
        for row in range(prompt.shots, len(contents)):
            if ids[row] in taken:
                raise SuiteError(
                    f"{source}: rows {taken[ids[row]] + 1} and {row + 1} are the same question; "
                    "remove one"
                )
            taken[ids[row]] = row
            words = self._words(*contents[row])
            target = self._reduced(source, row, words.pop("target"))
            asked = fill(prompt.template, shots=shown, **words)
            items.append(Item(ids[row], row, asked, target, contents[row][1]))
        return Questions(tuple(sorted(items, key=lambda i: i.id)), shots, source, sha256, pinned)

    def _content(self, source: str, row: int, values: Mapping[str, Any]) -> list[str]:
        """Question, right answer, wrong options."""
        fields = self.spec.fields
        found = []
        for names in (fields.question, fields.target, *fields.distractors):
            name = (
                next((n for n in names if n in values), names[0]) if type(names) is tuple else names
            )
            value = values.get(str(name))
            if isinstance(value, bool) or not isinstance(value, str | int) or value == "":
                raise SuiteError(
                    f"{source}: row {row + 1} has {self._shown(value)} under {name!r}; it must "
                    "hold a text"
                )
            found.append(str(value))
        if len(set(found[1:])) < len(found) - 1:
            raise SuiteError(f"{source}: row {row + 1} has the same option twice; correct it")
        return found

    def _words(self, question: str, target: str, *wrong: str) -> dict[str, str]:
        """What a template may name."""
        if not wrong:
            return {"question": question, "target": target}
        options = shuffled(question, [target, *wrong])
        shown = "\n".join(
            f"{letter}) {option}" for letter, option in zip(LETTERS, options, strict=False)
        )
        letter = LETTERS[options.index(target)]
        return {"question": question, "target": letter, "options": shown}

    def _shown(self, value: object) -> str:
        """A value of a row for a message; of a suite whose texts are not to be spread, its type."""
        return f"a value of type {type(value).__name__}" if self.spec.redact else repr(value)

    def _reduced(self, source: str, row: int, target: str) -> str:
        try:
            return reduce_target(target, self.spec.answer)
        except ValueError as error:
            why = f"its target is no {self.spec.answer}" if self.spec.redact else str(error)
            raise SuiteError(f"{source}: row {row + 1}: {why}") from None


def load(name: str) -> Suite:
    """The suite of that name, or in the folder of that path.

    Raises:
        SuiteError: there is none, or its suite.toml says what it must not.
    """
    folder = FOLDER / name
    if "/" in name or not (folder / FILE_NAME).exists():
        folder = Path(name)
    path = folder / FILE_NAME
    try:
        content = path.read_bytes()
    except OSError:
        raise SuiteError(
            f"no suite {name!r}; choose one of {', '.join(names())}, or name a folder that holds "
            f"a {FILE_NAME}"
        ) from None
    try:
        spec = msgspec.toml.decode(content, type=Spec)
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise SuiteError(f"{path}: {error}") from None
    _check(path, spec)
    return Suite(spec, folder, _sha256(content))


def names() -> list[str]:
    """The built-in suites."""
    return sorted(path.parent.name for path in FOLDER.glob(f"*/{FILE_NAME}"))


def content_id(*content: str) -> str:
    """Id of a question by its content, so that order and file format do not matter."""
    return _sha256(json.dumps(content).encode())[:16]


def shuffled(question: str, options: Sequence[str]) -> list[str]:
    """Options in an order that the question and they themselves decide, and nothing else.

    Not by a stream of random numbers, which would depend on what else is asked.
    """
    return sorted(options, key=lambda option: _sha256(json.dumps([question, option]).encode()))


def reduce_target(target: str, answer: AnswerType) -> str:
    """A right answer in its shortest form: `#### 1,000` is 1000, ` b` is B.

    Raises:
        ValueError: the text holds no such answer.
    """
    text = target.rpartition("####")[2].strip()
    if answer == "letter":
        if not re.fullmatch("[A-Za-z]", text):
            raise ValueError(f"the target {target[-40:]!r} is not a letter")
        return text.upper()
    try:
        value = Decimal(text.replace(",", ""))
    except InvalidOperation:
        raise ValueError(f"the target {target[-40:]!r} ends in no number") from None
    if not value.is_finite():
        raise ValueError(f"the target {target[-40:]!r} is not finite")
    if answer == "integer" and value != value.to_integral_value():
        raise ValueError(f"the target {target[-40:]!r} is no integer; such answers are decimal")
    return plain(value)


def plain(value: Decimal) -> str:
    """A number without exponent, leading or trailing zeros: equal numbers read the same."""
    text = f"{value:f}"
    if "." in text:
        text = text.rstrip("0").rstrip(".")
    return "0" if text in {"-0", ""} else text


def fill(template: str, **values: str) -> str:
    """Replace `{name}` for the given names only, so that braces in questions stay as they are."""
    return re.sub(r"\{(\w+)\}", lambda m: values.get(m[1], m[0]), template)


def _check(path: Path, spec: Spec) -> None:
    """What the types of suite.toml cannot say."""
    source = spec.source
    checks = {
        f"name {spec.name!r} must be letters, digits, - and _": re.fullmatch(r"[\w-]+", spec.name),
        "source needs either file or hub": (source.file is None) != (source.hub is None),
        "source.revision must pin the set on the hub": source.hub is None or source.revision,
        "prompt.template must hold {question}": "{question}" in spec.prompt.template,
        "prompt.shots needs a shot_template, and {shots} in template": spec.prompt.shots == 0
        or (spec.prompt.shot_template and "{shots}" in spec.prompt.template),
        "prompt.shots must not be negative": spec.prompt.shots >= 0,
        "floor must lie between 0 and 1": 0 <= spec.floor < 1,
        "margin_pt must lie between 0 and 100": 0 < spec.margin_pt < 100,
        "sampling.max_tokens must be positive": spec.sampling.max_tokens > 0,
        "items must be positive": spec.items is None or spec.items > 0,
        "repeats must be positive": spec.repeats > 0,
        f"fields.distractors must be at most {len(LETTERS) - 1}, answer a letter, and "
        "prompt.template hold {options}": not spec.fields.distractors
        or (
            len(spec.fields.distractors) < len(LETTERS)
            and spec.answer == "letter"
            and "{options}" in spec.prompt.template
        ),
    }
    for problem, holds in checks.items():
        if not holds:
            raise SuiteError(f"{path}: {problem}")


def _sha256(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()
