"""The probes: ways of launching a kernel, each a function from inputs to what was seen."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeVar

import torch

from verify.guard import Guarded
from verify.launch import (
    FORMS,
    POISONS,
    Candidate,
    Form,
    Given,
    Launch,
    Stage,
    as_bytes,
    attempt,
    told,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from torch import Tensor

    from verify.cases import Probe

__all__ = ["Candidate", "Launch", "Outcome", "Refusal", "Stage", "Step", "run"]


@dataclass(frozen=True)
class Step:
    """The launches on one set of inputs.

    Attributes:
        inputs: what they were given.
        launches: in order.
        rows: INT64 [T], the rows of the first step that these are; None: another problem.
    """

    inputs: Given
    launches: tuple[Launch, ...]
    rows: Tensor | None = None

    def of(self, form: Form) -> list[Launch]:
        """The launches of one form that ended without an error."""
        return [a for a in self.launches if a.form == form and a.error is None]


@dataclass(frozen=True)
class Refusal:
    """What came of a call that must be refused.

    Attributes:
        what: is wrong with it.
        beyond: only that T is larger than the kernel says it takes.
        form: which outputs it was given.
        error: what it raised, one line.
        written: outputs and inputs that changed.
    """

    what: str
    beyond: bool
    form: Form
    error: str | None
    written: tuple[str, ...]


@dataclass(frozen=True)
class Outcome:
    """All that was seen of a case."""

    steps: tuple[Step, ...]
    refusals: tuple[Refusal, ...] = ()

    @property
    def launches(self) -> tuple[Launch, ...]:
        """Of all steps."""
        return tuple(launch for step in self.steps for launch in step.launches)

    def of(self, form: Form) -> list[Launch]:
        """The launches of one form that ended without an error."""
        return [launch for step in self.steps for launch in step.of(form)]


def run(candidate: Candidate, inputs: Given) -> Outcome:
    """Launch a case by its probe; an exception ends only its launch."""
    return PROBES[inputs.case.probe](candidate, inputs)


def forms(candidate: Candidate, inputs: Given) -> Outcome:
    """Each output form with each poison, on fresh outputs."""
    stage = Stage(inputs)
    launches = stage.settled([stage.launch(candidate, form, p) for form in FORMS for p in POISONS])
    return Outcome((Step(inputs, launches, torch.arange(inputs.rows, device=inputs.device)),))


_REUSED_ROWS = (4, 17, 1, 16)


def reuse(candidate: Candidate, inputs: Given) -> Outcome:
    """All on one allocation: other T, one thing other at a time, and at last the first again."""
    return _one_after_another(candidate, inputs, _problems(inputs, _REUSED_ROWS))


def every(candidate: Candidate, inputs: Given) -> Outcome:
    """Each T down to 1 on one allocation: a kernel may have a plan of its own for any of them."""
    everything = torch.arange(inputs.rows, device=inputs.device)
    problems: list[tuple[Given, Tensor | None]] = [(inputs, everything)]
    for count in range(inputs.rows - 1, 0, -1):
        rows = (everything.roll(count))[:count]  # other rows first and last each time
        problems.append((inputs.take(rows), rows))
    return _one_after_another(candidate, inputs, problems)


def _one_after_another(
    candidate: Candidate, inputs: Given, problems: Iterable[tuple[Given, Tensor | None]]
) -> Outcome:
    """Both forms of each problem, all on the memory of the largest."""
    stage = Stage(inputs, lasting=True)
    steps = []
    for (given, rows), poison in _poisoned(problems):
        stage.load(given)
        launches = tuple(stage.launch(candidate, form, poison) for form in FORMS)
        steps.append(Step(given, launches, rows))
    return Outcome(tuple(steps))


Problem = TypeVar("Problem")


def _poisoned(problems: Iterable[Problem]) -> Iterator[tuple[Problem, int]]:
    """Each with a poison, the last, which may repeat the first, with another one than that."""
    listed = list(problems)
    for number, problem in enumerate(listed):
        yield problem, POISONS[1 if number == len(listed) - 1 else number % 2]


def _problems(inputs: Given, counts: tuple[int, ...]) -> Iterator[tuple[Given, Tensor | None]]:
    everything = torch.arange(inputs.rows, device=inputs.device)
    yield inputs, everything
    turned = everything.roll(1)
    yield inputs.take(turned), turned
    for count in counts:
        if count <= inputs.rows:
            rows = (3 + 5 * everything[:count]) % inputs.rows
            yield inputs.take(rows), rows
    for variant in inputs.variants():
        yield variant, None
    yield inputs, everything


def refuse(candidate: Candidate, inputs: Given) -> Outcome:
    """Malformed calls, each of which must raise before it writes."""
    stage = Stage(inputs)
    refusals = []
    for malformed in inputs.malformed():
        for form in FORMS:
            guarded = stage.outputs(form, POISONS[0])
            tensors = {name: buffer.tensor for name, buffer in guarded.items()}
            arguments, outputs = malformed.change(stage.arguments(), tensors)

            def call(
                arguments: dict[str, Tensor] = arguments,
                outputs: dict[str, Tensor] = outputs,
            ) -> None:
                candidate(*arguments.values(), **inputs.options, **outputs)

            raised = attempt(call, inputs.device)
            written = [name for name, buffer in guarded.items() if not buffer.untouched()]
            written += [
                name
                for name, tensor in outputs.items()
                if bool((tensor.view(torch.uint8) != POISONS[0]).any())
            ]
            refusals.append(
                Refusal(
                    malformed.what,
                    malformed.beyond,
                    form,
                    None if raised is None else told(raised),
                    tuple(dict.fromkeys((*written, *stage.altered()))),
                )
            )
    return Outcome((), tuple(refusals))


# On a GPU only.


def graph(candidate: Candidate, inputs: Given) -> Outcome:
    """Captured once and replayed on other contents, outputs poisoned before each replay.

    A kernel that cannot be captured, since it waits for the device, leaves nothing to judge.
    """
    stage = Stage(inputs, lasting=True)
    graphs: dict[Form, torch.cuda.CUDAGraph] = {}
    for form in FORMS:
        stage.launch(candidate, form, POISONS[0])  # compiles, and allocates what it keeps
        tensors = {n: buffer.tensor for n, buffer in stage.outputs(form, POISONS[0]).items()}
        graphs[form] = torch.cuda.CUDAGraph()

        def capture(form: Form = form, tensors: dict[str, Tensor] = tensors) -> None:
            with torch.cuda.graph(graphs[form]):
                candidate(*stage.arguments().values(), **inputs.options, **tensors)

        if attempt(capture, inputs.device) is not None:
            return Outcome(())
    steps = []
    for (given, rows), poison in _poisoned(_problems(inputs, ())):
        stage.load(given)
        launches = []
        for form in FORMS:
            outputs = stage.outputs(form, poison)
            launches.append(stage.watch(graphs[form].replay, form, poison, outputs))
        steps.append(Step(given, tuple(launches), rows))
    return Outcome(tuple(steps))


_LATE_CYCLES = 20_000_000
"""Some ten milliseconds of a GPU's clock."""


def stream(candidate: Candidate, inputs: Given) -> Outcome:
    """On another stream than the default one, where the inputs arrive while the kernel waits."""
    stage = Stage(inputs, lasting=True)
    side = torch.cuda.Stream(inputs.device)  # type: ignore[no-untyped-call]  # torch's

    def late(*arguments: Tensor, **rest: object) -> None:
        held = [b for b in stage.buffers.values() if isinstance(b, Guarded)]
        for buffer in held:
            buffer.raw[:] = 0xFF  # NaN, or position -1
        torch.cuda.synchronize(inputs.device)
        with torch.cuda.stream(side):
            torch.cuda._sleep(_LATE_CYCLES)  # type: ignore[no-untyped-call]  # noqa: SLF001 - as torch's own tests wait
            for buffer in held:
                buffer.restore()
            candidate(*arguments, **rest)

    launches = tuple(stage.launch(late, form, POISONS[0]) for form in FORMS)
    return Outcome((Step(inputs, launches),))


_REPEATS, _NOISE_BYTES = 100, 2**28


def pressure(candidate: Candidate, inputs: Given) -> Outcome:
    """Many repeats while another stream keeps the memory busy; what differs is shown."""
    stage = Stage(inputs, lasting=True)
    noise = torch.zeros(_NOISE_BYTES, dtype=torch.uint8, device=inputs.device)
    side = torch.cuda.Stream(inputs.device)  # type: ignore[no-untyped-call]  # torch's

    def amid_noise(*arguments: Tensor, **rest: object) -> None:
        with torch.cuda.stream(side):
            noise.copy_(noise.flip(0))
        candidate(*arguments, **rest)

    launches = []
    for form in FORMS:
        first = stage.launch(candidate, form, POISONS[0])
        last = first
        for number in range(_REPEATS):
            last = stage.launch(amid_noise, form, POISONS[(number + 1) % 2])
            if last.error is not None or not _same(first, last):
                break
        launches += [first, last]
    return Outcome((Step(inputs, tuple(launches)),))


def _same(one: Launch, other: Launch) -> bool:
    return all(
        torch.equal(as_bytes(tensor), as_bytes(other.outputs[name]))
        for name, tensor in one.outputs.items()
    )


PROBES: dict[Probe, Callable[[Candidate, Given], Outcome]] = {
    "forms": forms,
    "reuse": reuse,
    "every": every,
    "refuse": refuse,
    "graph": graph,
    "stream": stream,
    "pressure": pressure,
}
