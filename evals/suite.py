"""A suite as data: its suite.toml, the rows it names, and the items and prompts made of them."""

from __future__ import annotations

import hashlib
import json
import logging
import re
from dataclasses import dataclass
from decimal import Decimal, InvalidOperation
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import msgspec

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

FOLDER = Path(__file__).resolve().parent
FILE_NAME = "suite.toml"

AnswerType = Literal["integer", "letter"]


class SuiteError(ValueError):
    """A suite that cannot be used; one line that names the file, the value and the remedy."""


class Source(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Where rows come from: a file beside suite.toml, or a set on the hub.

    `sha256` pins the file, also one named by the user; `revision` pins the set on the hub.
    """

    file: str | None = None
    hub: str | None = None
    config: str | None = None
    split: str | None = None
    revision: str | None = None
    sha256: str


class Fields(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Names of the columns that hold the question and its right answer."""

    question: str
    target: str


class PromptSpec(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """How a question is asked; `{question}`, `{target}` and `{shots}` are replaced.

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
    """Of the rows as one JSON object a line: the file's own where that is how it is written."""


@dataclass(frozen=True)
class Suite:
    """A suite's specification and the folder it lies in."""

    spec: Spec
    folder: Path
    sha256: str
    """Of suite.toml."""

    def questions(self, data: Path | None = None) -> Questions:
        """Every item, from the user's own file where `data` names one.

        Raises:
            SuiteError: rows missing, of another hash than pinned, malformed or not unique.
        """
        source = self.spec.source
        if data is None and source.file is None:
            rows, sha256 = _hub_rows(source)
            return self._make(rows, f"{source.hub}@{source.revision}", sha256)
        path = data or self.folder / str(source.file)
        rows, sha256 = _file_rows(path)
        if sha256 != source.sha256:
            raise SuiteError(
                f"{path} has SHA-256 {sha256[:12]}..., but suite {self.spec.name} is pinned to "
                f"{source.sha256[:12]}...; use the pinned file"
            )
        return self._make(rows, path.name, sha256)

    def _make(self, rows: Sequence[Mapping[str, Any]], source: str, sha256: str) -> Questions:
        prompt = self.spec.prompt
        if len(rows) <= prompt.shots:
            raise SuiteError(
                f"{source} has {len(rows)} rows, and suite {self.spec.name} shows "
                f"{prompt.shots} of them as examples; nothing is left to score"
            )
        pairs = [self._pair(source, number, row) for number, row in enumerate(rows)]
        ids = [content_id(*pair) for pair in pairs]
        shown = "".join(
            fill(prompt.shot_template, question=question, target=target)
            for question, target in pairs[: prompt.shots]
        )
        shots = tuple(Shot(ids[row], row) for row in range(prompt.shots))
        taken = {shot.id: shot.row for shot in shots}
        items = []
        for row in range(prompt.shots, len(pairs)):
            if ids[row] in taken:
                raise SuiteError(
                    f"{source}: rows {taken[ids[row]] + 1} and {row + 1} are the same question; "
                    "remove one"
                )
            taken[ids[row]] = row
            question, target = pairs[row]
            asked = fill(prompt.template, question=question, shots=shown)
            items.append(Item(ids[row], row, asked, self._reduced(source, row, target)))
        return Questions(tuple(sorted(items, key=lambda i: i.id)), shots, source, sha256)

    def _pair(self, source: str, row: int, values: Mapping[str, Any]) -> tuple[str, str]:
        fields = self.spec.fields
        found = [values.get(name) for name in (fields.question, fields.target)]
        for name, value in zip((fields.question, fields.target), found, strict=True):
            if isinstance(value, bool) or not isinstance(value, str | int) or value == "":
                raise SuiteError(
                    f"{source}: row {row + 1} has {value!r} under {name!r}; it must hold a text"
                )
        return str(found[0]), str(found[1])

    def _reduced(self, source: str, row: int, target: str) -> str:
        try:
            return reduce_target(target, self.spec.answer)
        except ValueError as error:
            raise SuiteError(f"{source}: row {row + 1}: {error}") from None


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


def content_id(question: str, target: str) -> str:
    """Id of a question by its content, so that order and file format do not matter."""
    return _sha256(json.dumps([question, target]).encode())[:16]


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
    }
    for problem, holds in checks.items():
        if not holds:
            raise SuiteError(f"{path}: {problem}")


def _file_rows(path: Path) -> tuple[list[dict[str, Any]], str]:
    try:
        content = path.read_bytes()
    except OSError as error:
        raise SuiteError(
            f"{path} cannot be read ({error.strerror}); name a readable file"
        ) from None
    rows = []
    for number, line in enumerate(content.splitlines(), 1):
        if not line.strip():
            continue
        try:
            row = json.loads(line)
        except (json.JSONDecodeError, UnicodeDecodeError) as error:
            raise SuiteError(f"{path}: line {number} is not JSON ({error})") from None
        if not isinstance(row, dict):
            raise SuiteError(f"{path}: line {number} is not a JSON object")
        rows.append(row)
    return rows, _sha256(content)


def _hub_rows(source: Source) -> tuple[list[dict[str, Any]], str]:
    import datasets  # noqa: PLC0415 - seconds of import, and an optional extra

    for name in ("huggingface_hub", "datasets"):  # they narrate each of their own retries
        logging.getLogger(name).setLevel(logging.ERROR)
    remedy = "check the network, or name a local file with --data SUITE=PATH"
    try:
        found = datasets.load_dataset(
            source.hub, source.config, split=source.split, revision=source.revision
        )
        rows = [dict(row) for row in found]
    except Exception as error:  # noqa: BLE001 - the hub fails in as many ways as it has layers
        why = f"{type(error).__name__}: {error}"
        raise SuiteError(
            f"{source.hub} could not be loaded from the hub ({' '.join(why.split())[:160]}); "
            f"{remedy}"
        ) from None
    lines = "".join(json.dumps(row) + "\n" for row in rows)
    return rows, _sha256(lines.encode())


def _sha256(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()
