"""Which layer sees which fault: kernels of the catalogue by themselves and inside the model.

A fault is judged four ways, each by itself with a fresh candidate: layers 1 and 2 case by case,
the likelihood of worked solutions text by text, and accuracy question by question.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Literal

from evals.grading import grade
from evals.mini.engine import Engine
from evals.suite import load
from kernel.dispatch import Dispatcher
from verify import cases, harness, inputs
from verify.compare import judge as judged
from verify.faults.catalogue import CATALOGUE
from verify.faults.honest import VARIANTS
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
    from verify.likelihood.scores import Pair, Scores

SUITE = "mini-gsm8k"
CASES, TEXTS, QUESTIONS = 96, 64, 96
"""How much of each is asked before a fault counts as not noticed there."""
FIRST_TEXTS = 4
"""The first look at the likelihood; every further one is at twice as many texts."""
BATCH = 32
MARGIN_NATS, MARGIN = 1e-4, 0.05
"""Of likelihood, nats a token; of accuracy, a share."""
DEVICE = "cpu"
"""Of the catalogue's own model of the kernel."""
LIMIT_S = 900.0
"""Seconds for one kernel, all four ways."""


@dataclass(frozen=True)
class Job:
    """A kernel: a fault of the catalogue, or an honest variant."""

    kind: Literal["fault", "honest"]
    name: str

    def build(self) -> Candidate:
        """A fresh candidate."""
        return CATALOGUE[self.name].plant() if self.kind == "fault" else VARIANTS[self.name].build()

    @property
    def family(self) -> str:
        """The part of the kernel that the fault lives in."""
        return CATALOGUE[self.name].family if self.kind == "fault" else "honest"

    @property
    def spec(self) -> KernelSpec:
        """What the kernel is held to."""
        claims = {"batch-invariant", "rejects"}
        return KernelSpec(
            claims=frozenset(claims) if self.kind == "fault" else VARIANTS[self.name].claims
        )


@dataclass(frozen=True)
class Seen:
    """After how much of each a kernel was noticed; None where it was not.

    Attributes:
        layers: cases until the first finding of layer 1 and of layer 2.
        tokens: scored until the likelihood's verdict is `fail`.
        questions: answered until the e-process for harm beyond the margin has won.
        raised: what the kernel raised inside the model, which leaves a run there invalid.
    """

    job: Job
    layers: tuple[int | None, int | None] = (None, None)
    tokens: int | None = None
    questions: int | None = None
    raised: str | None = None

    @property
    def anywhere(self) -> bool:
        """Whether any of the four noticed it."""
        return any(n is not None for n in (*self.layers, self.tokens, self.questions, self.raised))


def hosted(words: Sequence[str]) -> list[Job]:
    """Every kernel that the model's arm can host and the words select; all if there are none.

    Faults that take their process down, and kernels that take seconds a launch, it cannot.
    """
    jobs = [Job("fault", each.name) for each in CATALOGUE.values() if not (each.kills or each.slow)]
    jobs += [Job("honest", each.name) for each in VARIANTS.values() if not each.slow]
    return [
        job
        for job in jobs
        if not words or any(word == job.family or word in job.name for word in words)
    ]


def detect_all(jobs: Sequence[Job], workers: int) -> Iterator[Seen]:
    """What notices each kernel, as they come; one that takes its process down raised that."""
    with Pool[Job, Seen](start, min(workers, len(jobs)), lambda _: LIMIT_S) as pool:
        for job, seen in pool.answers(jobs):
            yield Seen(job, raised=seen.reason) if isinstance(seen, Lost) else seen


def start(_: int) -> Callable[[Job], Seen]:
    """What a worker process does."""
    import torch  # noqa: PLC0415 - a second of import, which the parent need not wait for

    torch.set_num_threads(1)
    return detect


def detect(job: Job) -> Seen:
    """All four ways, each with a fresh candidate."""
    layers = _layers(job)
    try:
        return Seen(job, layers, _tokens(job.build()), _questions(job.build()))
    except Exception as error:  # noqa: BLE001 - a planted fault may raise anything
        return Seen(job, layers, raised=" ".join(f"{type(error).__name__}: {error}".split())[:120])


# --- layers 1 and 2 ------------------------------------------------------------------------------


@cache
def _grid() -> tuple[Case, ...]:
    """One case of each kind first."""
    grid = cases.grid(KernelSpec(), "quick", "reduced")
    own = KernelSpec().rank
    return tuple(sorted(grid, key=lambda case: (case.rank == own, case.draw, case.k))[:CASES])


def _layers(job: Job) -> tuple[int | None, int | None]:
    candidate, found = job.build(), dict[int, int]()
    for count, case in enumerate(_grid(), 1):
        made = inputs.make(case, 0)
        for finding in judged(made, harness.run(candidate, made), job.spec).findings:
            found.setdefault(finding.layer, count)
        if len(found) == 2:
            break
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


def _tokens(candidate: Candidate) -> int | None:
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


def _questions(candidate: Candidate) -> int | None:
    """Questions until harm beyond the margin is shown at any time."""
    harm = EProcess.harm(MARGIN)
    for first in range(0, QUESTIONS, BATCH):
        pairs = zip(_base_right(first), _right(candidate, first), strict=True)
        path = harm.update([float(new) - float(old) for old, new in pairs])
        for count, value in enumerate(path, 1):
            if value >= 1 / HARM_ALPHA:
                return first + count
    return None
