"""What a run left in its folder, decoded and checked: the one input of a page."""

from __future__ import annotations

import json
import sqlite3
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Generic, TypeVar

import msgspec

from reports import likelihood
from reports.likelihood import Score  # noqa: TC001 - msgspec reads the annotations when it runs
from reports.redact import redacted
from verify.command import UserError
from verify.store import FILE_NAME, Store
from verify.verdict import Verdict, combine

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from verify.store import Record

T = TypeVar("T")


class Arms(msgspec.Struct, Generic[T], frozen=True):
    """One value for each arm."""

    base: T
    pr: T


class McNemar(msgspec.Struct, frozen=True):
    """Two-sided p-values of the lost against the gained."""

    exact: float
    midp: float


class Noninferiority(msgspec.Struct, frozen=True):
    """One-sided test of a loss of `margin_pt` percentage points or more."""

    margin_pt: float
    p: float | None = None
    method: str = ""


class Equivalence(msgspec.Struct, frozen=True):
    """Two one-sided tests of a change of `margin_pt` percentage points or more."""

    margin_pt: float
    p: float | None = None


class RepeatFlips(msgspec.Struct, frozen=True):
    """One repeat: lost and gained; of those lost in the first, recovered; newly lost."""

    repeat: int
    lost: int
    gained: int
    recovered: int
    newly_lost: int


class StartShift(msgspec.Struct, frozen=True):
    """How far server starts, or repeats of one start, shift whole runs of an arm."""

    p: float
    shift_pt: float


class Noise(msgspec.Struct, frozen=True):
    """Flips of each arm against itself beside flips between the arms, as shares."""

    flips_base: float | None
    flips_pr: float | None
    flips_between: float
    repeats: tuple[RepeatFlips, ...]
    shift_base: StartShift | None
    shift_pr: StartShift | None


class Starts(msgspec.Struct, frozen=True):
    """Server starts told apart in each arm, and whether the interval allows for their shifts."""

    base: int
    pr: int
    controlled: bool


class Sequential(msgspec.Struct, frozen=True):
    """Evidence valid at any look: e-values over the questions in the order asked."""

    questions: int
    harm: float
    certificate: float | None
    stopped: bool


class Change(msgspec.Struct, frozen=True):
    """A change between the arms and its p-value: of the cap rate, or of answer length."""

    p: float | None
    difference_pt: float = 0.0
    ratio: float = 1.0


class Suite(msgspec.Struct, frozen=True):
    """One suite's comparison; differences are PR - base, in percentage points.

    Whatever an invalid or unfinished comparison could not compute is None.
    """

    suite: str
    verdict: Verdict
    items: int = 0
    reason: str = ""
    repeats: Arms[int | None] | None = None
    both: int | None = None
    lost: int | None = None
    gained: int | None = None
    neither: int | None = None
    accuracy: Arms[float | None] | None = None
    difference_pt: float | None = None
    interval_pt: tuple[float, float] | None = None
    confidence: float = 0.95
    interval_method: str | None = None
    mcnemar: McNemar | None = None
    noninferiority: Noninferiority | None = None
    equivalence: Equivalence | None = None
    smallest_margin_pt: float | None = None
    truncated: Arms[int | None] | None = None
    truncation_bounds_pt: tuple[float, float] | None = None
    detectable_pt: float | None = None
    starts: Starts | None = None
    noise: Noise | None = None
    sequential: Sequential | None = None
    cap_rate: Change | None = None
    length: Change | None = None


class FirstBad(msgspec.Struct, frozen=True):
    """The first wrong element: where it is, its value and the value it should have."""

    index: tuple[int, ...]
    byte: int
    actual: str
    expected: str


class Finding(msgspec.Struct, frozen=True):
    """One check that failed in one case; `picture` shows where in the output, in lines of cells."""

    case: str
    check: str
    layer: int
    message: str
    replay: str
    first_bad: FirstBad | None = None
    picture: str = ""


class Kernel(msgspec.Struct, frozen=True):
    """What `verify.kernel` wrote.

    `layers` are the verdicts of layers 1 and 2, each by itself; `use` is the largest share of the
    bound that a case needed, by tier, `uses` the cases by that share; `ulps` elements by BF16 steps
    from the correctly rounded output; `seconds` the whole time.
    """

    verdict: Verdict
    layers: dict[str, Verdict]
    cases: int
    executed: int
    findings: tuple[Finding, ...]
    tiers: dict[str, int]
    adequacy: dict[str, int]
    environment: dict[str, str]
    seconds: float
    use: dict[str, float] = {}
    uses: dict[str, int] = {}
    ulps: dict[str, int] = {}


class Extractor(msgspec.Struct, frozen=True):
    """A second grader of a suite, and the questions whose difference it sees otherwise."""

    by: str
    items: tuple[str, ...] = ()


class Result(msgspec.Struct, frozen=True):
    """What `result.json` says; the manifest stands beside it, in a file of its own.

    With the `score` of the same arms the verdict is of both: a pass of texts changes nothing.
    """

    verdict: Verdict
    suites: tuple[Suite, ...] = ()
    kernel: Kernel | None = None
    extractors: dict[str, Extractor] | None = None
    score: Score | None = None


class Asked(msgspec.Struct, frozen=True):
    """A suite as the manifest tells of it: what it is, how much of it was asked, its floor.

    `redact` says that its texts may stand on no page.
    """

    title: str = ""
    redact: bool = False
    floor: float | None = None
    items_in_suite: int | None = None
    items_asked: int | None = None


class ArmSettings(msgspec.Struct, frozen=True):
    """What the page needs to know of an arm; `wo_a` names its kernel, `calls` counts by path."""

    kind: str = ""
    wo_a: str | None = None
    calls: dict[str, int] = {}


class About(msgspec.Struct, frozen=True):
    """What the page needs of `manifest.json`; `arms` lists base first."""

    started: str = ""
    arms: dict[str, ArmSettings] = {}
    suites: dict[str, Asked] = {}


@dataclass(frozen=True)
class Question:
    """What both arms were asked, and the answer that counts as right."""

    prompt: str
    target: str


@dataclass(frozen=True)
class Run:
    """A run folder's content. `document` and `manifest` are as written, to hand on."""

    folder: Path
    result: Result
    document: Mapping[str, Any]
    manifest: Mapping[str, Any]
    about: About
    records: tuple[Record, ...]
    questions: Mapping[tuple[str, str], Question]


def read(folder: Path) -> Run:
    """Read a run folder.

    Raises:
        UserError: `result.json` is missing, or a file does not hold what it should.
    """
    document, result = read_result(folder)
    records, questions = _records(folder, result)
    manifest, about = read_manifest(folder, document)
    hidden = {name for name, asked in about.suites.items() if asked.redact}
    if hidden:
        records, questions = redacted(records, questions, hidden)
    return Run(folder, result, document, manifest, about, records, questions)


def read_result(folder: Path) -> tuple[dict[str, Any], Result]:
    """`result.json` as written and decoded, with `kernel.json` where it holds no kernel.

    Raises:
        UserError: it is missing, or does not hold what it should.
    """
    path = folder / "result.json"
    document = _json(path)
    if document is None:
        raise UserError(f"{path} does not exist; name a folder that verify.evals wrote")
    if "kernel" not in document:
        document["kernel"] = _json(folder / "kernel.json")
    document["score"] = _json(folder / likelihood.FILE)
    try:
        result = msgspec.convert(document, Result)
    except msgspec.ValidationError as error:
        raise UserError(f"{path}: {error}; it is not a result of verify.evals") from error
    if result.score is not None:
        whole = combine((result.verdict, result.score.verdict))
        result = msgspec.structs.replace(result, verdict=whole)
    return document, result


def read_manifest(folder: Path, document: Mapping[str, Any]) -> tuple[dict[str, Any], About]:
    """The manifest as written, or else as the result holds it, and what a page needs of it.

    Raises:
        UserError: it does not hold what it should.
    """
    path = folder / "manifest.json"
    found = _json(path)
    if found is None:
        found = dict(document.get("manifest") or {})
    try:
        return found, msgspec.convert(found, About)
    except msgspec.ValidationError as error:
        raise UserError(f"{path}: {error}; it is not a manifest of verify.evals") from error


def _json(path: Path) -> dict[str, Any] | None:
    """The object in `path`, or None where there is no such file."""
    try:
        # not msgspec: a lone surrogate in a model's words is data here, and it refuses those
        value = json.loads(path.read_text(encoding="utf-8"))
    except (FileNotFoundError, NotADirectoryError):
        return None
    except (UnicodeDecodeError, json.JSONDecodeError) as error:
        raise UserError(f"{path} is not JSON ({error}); run again into a fresh --out") from error
    if not isinstance(value, dict):
        raise UserError(f"{path} holds no JSON object; run again into a fresh --out")
    return value


def _records(
    folder: Path, result: Result
) -> tuple[tuple[Record, ...], dict[tuple[str, str], Question]]:
    """Every record and question of the run; none where only counts were compared."""
    path = folder / FILE_NAME
    if not path.exists():
        return (), {}
    try:
        with Store.open(path) as store:
            questions = {
                (suite.suite, row.item): Question(row.prompt, row.target)
                for suite in result.suites
                for row in store.items(suite.suite)
            }
            return tuple(store.records()), questions
    except sqlite3.Error as error:
        raise UserError(f"{path} cannot be read ({error}); run again into a fresh --out") from error
