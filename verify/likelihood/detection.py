"""Which layer sees which fault: kernels of the catalogue by themselves and inside the model.

Each is judged in three ways, each with a fresh candidate: by layers 1 and 2 case by case, by the
likelihood of worked solutions text by text, and by accuracy question by question.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Any, Literal

from evals.grading import grade
from evals.mini.engine import Engine
from evals.suite import load
from kernel.dispatch import Dispatcher
from verify import harness, inputs
from verify.compare import judge as judged
from verify.faults.catalogue import CATALOGUE
from verify.faults.honest import VARIANTS, Honest
from verify.faults.model import KEPT_CLAIMS
from verify.faults.record import Fault, selected
from verify.faults.score import Task, asked
from verify.likelihood import embedded
from verify.likelihood.judging import judge
from verify.likelihood.scores import pair
from verify.likelihood.texts import Texts, solutions
from verify.pool import Lost, Pool
from verify.spec import KernelSpec
from verify.stats.evidence import HARM_ALPHA
from verify.stats.sequential import EProcess
from verify.verdict import Verdict

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from evals.suite import Item, Spec
    from verify.case import Case
    from verify.harness import Candidate
    from verify.inputs import Inputs
    from verify.likelihood.scores import Pair, Scores

SUITE = "mini-gsm8k"
CASES, TEXTS, QUESTIONS = 96, 64, 96
"""How much of each is asked before a fault counts as not noticed there. What neither layer 1 nor 2
has noticed by then gets the rest of the grid, too."""
FIRST_TEXTS = 4
"""The first look at the likelihood; every further one is at twice as many texts."""
BATCH = 32
MARGIN_NATS, MARGIN = 1e-4, 0.05
"""Of likelihood, nats a token; of accuracy, a share."""
DEVICE = "cpu"
"""Of the catalogue's own model of the kernel."""
LIMIT_S, KILLED_S = 900.0, 60.0
"""Seconds for one kernel, asked in one way; and for one that is known never to come back."""

WAYS = ("layers", "likelihood", "accuracy")

Notice = int | str | None
"""After how many cases, tokens or questions a kernel was noticed; how it ended instead of
answering, which is noticed, too; None where nothing was."""


@dataclass(frozen=True)
class Job:
    """A kernel: a fault of the catalogue, or an honest variant."""

    kind: Literal["fault", "honest"]
    name: str

    @property
    def entry(self) -> Fault | Honest:
        """What its list says of it."""
        return CATALOGUE[self.name] if self.kind == "fault" else VARIANTS[self.name]

    def build(self) -> Candidate:
        """A fresh candidate."""
        entry = self.entry
        return entry.plant() if isinstance(entry, Fault) else entry.build()

    @property
    def family(self) -> str:
        """The part of the kernel that the fault lives in."""
        return self.entry.family if isinstance(self.entry, Fault) else "honest"

    @property
    def spec(self) -> KernelSpec:
        """What the kernel is held to."""
        return KernelSpec(
            claims=KEPT_CLAIMS if isinstance(self.entry, Fault) else self.entry.claims
        )


@dataclass(frozen=True)
class Seen:
    """What noticed a kernel.

    Attributes:
        layers: cases until the first finding of layer 1 and of layer 2.
        likelihood: tokens scored until its verdict is `fail`.
        accuracy: questions answered until the e-process for harm beyond the margin has won.
    """

    job: Job
    layers: tuple[Notice, Notice] = (None, None)
    likelihood: Notice = None
    accuracy: Notice = None

    @property
    def ways(self) -> tuple[Notice, Notice, Notice, Notice]:
        """Layer 1, layer 2, likelihood and accuracy."""
        return (*self.layers, self.likelihood, self.accuracy)

    @property
    def noticed(self) -> bool:
        """Whether anything noticed it."""
        return self.by_a_layer or self.in_the_model

    @property
    def by_a_layer(self) -> bool:
        """Whether layer 1 or 2 noticed it."""
        return self.layers != (None, None)

    @property
    def in_the_model(self) -> bool:
        """Whether it shows inside the model."""
        return self.likelihood is not None or self.accuracy is not None


Asked = tuple[Job, str]
"""A kernel and one of the ways."""


def chosen(words: Sequence[str]) -> list[Job]:
    """Every kernel that the words select; all if there are none."""
    jobs = [Job("honest", name) for name in VARIANTS] + [Job("fault", name) for name in CATALOGUE]
    return [job for job in jobs if selected(words, job.family, job.name)]


def detect_all(jobs: Sequence[Job], workers: int) -> Iterator[Seen]:
    """What notices each kernel, as they come."""
    each_way = [(job, way) for job in jobs for way in WAYS]
    found: dict[Job, dict[str, Any]] = {}
    with Pool(start, min(workers, len(each_way)), _limit_s) as pool:
        for (job, way), answer in pool.answers(each_way):
            mine = found.setdefault(job, {})
            mine[way] = _ended(way, answer.reason) if isinstance(answer, Lost) else answer
            if len(mine) == len(WAYS):
                yield Seen(job, **found.pop(job))


def _limit_s(asked: Asked) -> float:
    entry = asked[0].entry
    return KILLED_S if isinstance(entry, Fault) and entry.kills and not entry.slow else LIMIT_S


def _ended(way: str, how: str) -> Notice | tuple[Notice, Notice]:
    """A kernel that takes its process down is a finding of layer 1, as `verify.kernel` has it."""
    return (how, None) if way == "layers" else how


def start(_: int) -> Callable[[Asked], Any]:
    """What a worker process does."""
    import torch  # noqa: PLC0415 - a second of import, which the parent need not wait for

    torch.set_num_threads(1)
    return lambda asked: detect(*asked)


def detect(job: Job, way: str) -> Any:
    """What one way sees of a fresh candidate: the value of that field of `Seen`."""
    if way == "layers":
        return layers(job)
    try:
        return (likelihood if way == "likelihood" else accuracy)(job.build())
    except Exception as error:  # noqa: BLE001 - a planted fault may raise anything
        return " ".join(f"{type(error).__name__}: {error}".split())[:120]


# --- layers 1 and 2 ------------------------------------------------------------------------------


@cache
def _grid() -> tuple[Case, ...]:
    """What `verify.faults run` asks a fault."""
    task = Task("fault", "", "ours", KernelSpec(claims=KEPT_CLAIMS), "quick", 0)
    return tuple(asked(task))


def _whole(case: Case) -> bool:
    """Whether it is of the kernel's own shape, of which one is made in a second or two."""
    return case.rank == KernelSpec().rank


@cache
def _reduced(case: Case) -> Inputs:
    """What a case of the reduced shape gives; kept, with all that is worked out from it."""
    return inputs.make(case, 0)


def layers(job: Job) -> tuple[int | None, int | None]:
    """Cases until the first finding of layer 1 and of layer 2."""
    candidate, found = job.build(), dict[int, int]()
    for count, case in enumerate(_grid(), 1):
        if len(found) == 2 or (found and count > CASES) or (job.entry.slow and _whole(case)):
            break
        made = inputs.make(case, 0) if _whole(case) else _reduced(case)
        for finding in judged(made, harness.run(candidate, made), job.spec).findings:
            found.setdefault(finding.layer, count)
    return found.get(1), found.get(2)


# --- the model -----------------------------------------------------------------------------------


@cache
def _suite() -> tuple[Spec, tuple[Item, ...]]:
    suite = load(SUITE)
    return suite.spec, suite.questions().items


@cache
def _texts() -> Texts:
    spec, items = _suite()
    found = solutions(spec, items[:TEXTS])
    assert found is not None
    return found


def _asked() -> list[tuple[str, str]]:
    return [(text.prompt, text.completion) for text in _texts().texts]


@cache
def _base_scores() -> tuple[Scores, ...]:
    return embedded.score(Dispatcher(), _asked(), DEVICE).scores


def likelihood(candidate: Candidate) -> int | None:
    """Tokens until the likelihood fails the kernel, by looks at 4, 8, 16, ... texts."""
    texts, base = _texts(), _base_scores()
    scores = embedded.score(Dispatcher(candidate, enabled=True), _asked(), DEVICE).scores
    pairs: list[Pair] = []
    tokens = 0
    for count, (text, old, new) in enumerate(zip(texts.texts, base, scores, strict=True), 1):
        tokens += len(new.tokens)
        if not new.finite:
            return tokens
        pairs.append(pair(text.item, old, new))
        if count >= FIRST_TEXTS and not count & (count - 1):
            found = judge(texts, pairs, _same(pairs), margin=MARGIN_NATS)
            if found.verdict is Verdict.FAIL:
                return tokens
    return None


def _same(pairs: Sequence[Pair]) -> list[Pair]:
    """Base against itself, which is deterministic: no difference."""
    return [type(each)(each.item, each.tokens, (0.0, 0.0), 0.0, 1.0, None) for each in pairs]


def _right(candidate: Candidate | None, first: int) -> list[bool]:
    """Which of a batch of questions the model answers rightly."""
    spec, items = _suite()
    batch = items[first : first + BATCH]
    wo_a = Dispatcher() if candidate is None else Dispatcher(candidate, enabled=True)
    engine = Engine(wo_a, device=DEVICE)
    found = dict(engine.generate([item.prompt for item in batch],
                                 max_tokens=spec.sampling.max_tokens))  # fmt: skip
    return [
        bool(grade(found[n].text, item.target, spec.answer, truncated=found[n].truncated).correct)
        for n, item in enumerate(batch)
    ]


@cache
def _base_right(first: int) -> tuple[bool, ...]:
    return tuple(_right(None, first))


def accuracy(candidate: Candidate) -> int | None:
    """Questions until harm beyond the margin is shown at any time."""
    harm = EProcess.harm(MARGIN)
    for first in range(0, QUESTIONS, BATCH):
        pairs = zip(_base_right(first), _right(candidate, first), strict=True)
        path = harm.update([float(new) - float(old) for old, new in pairs])
        for count, value in enumerate(path, 1):
            if value >= 1 / HARM_ALPHA:
                return first + count
    return None
