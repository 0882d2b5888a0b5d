"""Latency of candidates beside the unfused chains and the read floor, in one process."""

from __future__ import annotations

import inspect
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from verify.bench.ratio import CONFIDENCE, RESAMPLES, Ratio, median, median_of_medians, ratio
from verify.bench.timing import timed
from verify.bench.work import CandidateWork, FloorWork, RefusedError, given
from verify.launch import FORMS
from verify.verdict import Verdict

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from torch import Tensor

    from verify.bench.timing import Clock, Method, Timed, Work
    from verify.bench.work import Given
    from verify.launch import Form
    from verify.spec import KernelSpec

Role = Literal["fused", "chain", "floor"]
TOKENS = (1, 2, 6, 8, 16, 24, 32)


@dataclass(frozen=True)
class Setup:
    """What is the same for everything that is timed: sizes, weight buffers, method, seed."""

    spec: KernelSpec
    buffers: tuple[Tensor, ...]
    method: Method
    seed: int


@dataclass(frozen=True)
class Contender:
    """Something that is timed.

    Attributes:
        name: as it stands in tables.
        role: what it is beside the others.
        work: makes the work of one T and form; raises RefusedError.
        pdl: launched so that it may start while the launch before it ends.
    """

    name: str
    role: Role
    work: Callable[[Given, Form], Work]
    pdl: bool = False


@dataclass(frozen=True)
class Cell:
    """One contender at one T in one form: its time, or why there is none.

    Attributes:
        us: microseconds a launch, the median of the sweeps' medians.
        sweeps_us: those medians.
        beside: ratios of its time to others', by their names.
    """

    contender: str
    role: Role
    pdl: bool
    tokens: int
    form: Form
    us: float | None = None
    sweeps_us: tuple[float, ...] = ()
    beside: Mapping[str, Ratio] = field(default_factory=dict)
    refused: str | None = None
    wrong: str | None = None


def contenders(name: str, call: Callable[..., object], role: Role) -> Iterator[Contender]:
    """A candidate, and once more with `pdl=True` if it takes a keyword `pdl`."""
    yield Contender(name, role, lambda inputs, form: CandidateWork(call, inputs, form))
    try:
        takes = "pdl" in inspect.signature(call).parameters
    except (TypeError, ValueError):  # a built-in that does not tell
        takes = False
    if takes:

        def overlapped(*tensors: Tensor, **options: Any) -> object:
            return call(*tensors, pdl=True, **options)

        yield Contender(
            f"{name} PDL",
            role,
            lambda inputs, form: CandidateWork(overlapped, inputs, form),
            pdl=True,
        )


def floor(
    read: Callable[[Tensor, Tensor], object], expected: Callable[[Tensor], Tensor], *, pdl: bool
) -> Contender:
    """The read floor as a contender."""
    name = "read floor PDL" if pdl else "read floor"
    return Contender(name, "floor", lambda inputs, _: FloorWork(read, expected, inputs), pdl=pdl)


def measured(
    entrants: Sequence[Contender], setup: Setup, tokens: Sequence[int], clock: Clock
) -> Iterator[list[Cell]]:
    """The cells of each T and form in turn, all contenders timed beside each other."""
    for count in tokens:
        inputs = given(setup.spec, setup.buffers, count, setup.seed)
        for form in FORMS:
            works: dict[str, Work] = {}
            refused: dict[str, str] = {}
            for entrant in entrants:
                try:
                    works[entrant.name] = entrant.work(inputs, form)
                except RefusedError as error:
                    refused[entrant.name] = str(error)
            times = timed(works, clock, setup.method)
            random = np.random.default_rng([setup.seed, count, FORMS.index(form)])
            cells = []
            for entrant in entrants:
                cell = Cell(entrant.name, entrant.role, entrant.pdl, count, form)
                cells.append(_filled(cell, times, refused, entrants, random))
            yield cells


def _filled(
    cell: Cell,
    times: Mapping[str, Timed],
    refused: Mapping[str, str],
    entrants: Sequence[Contender],
    random: np.random.Generator,
) -> Cell:
    found = times.get(cell.contender)
    common = (cell.contender, cell.role, cell.pdl, cell.tokens, cell.form)
    if found is None:
        return Cell(*common, refused=refused[cell.contender])
    beside = {
        other.name: ratio(found.sweeps, times[other.name].sweeps, random)
        for other in entrants
        if _compared(cell, other) and other.name in times
    }
    return Cell(
        *common,
        us=median_of_medians(found.sweeps),
        sweeps_us=tuple(median(sweep) for sweep in found.sweeps),
        beside=beside,
        wrong=found.wrong,
    )


def _compared(cell: Cell, other: Contender) -> bool:
    """Chains and the floor under the same launch attribute are what others stand beside."""
    if other.name == cell.contender or cell.role == "floor":
        return False
    if other.role == "floor":
        return other.pdl == cell.pdl
    return cell.role == "fused" and other.role == "chain"


def verdict(cells: Sequence[Cell]) -> Verdict:
    """Fail if an output was wrong, invalid if no candidate could be timed; speed is no verdict."""
    if any(cell.wrong or (cell.refused or "").startswith("wrong") for cell in cells):
        return Verdict.FAIL
    if not any(cell.us is not None for cell in cells if cell.role == "fused"):
        return Verdict.INVALID
    return Verdict.PASS


def document(
    cells: Sequence[Cell],
    setup: Setup,
    machine: Mapping[str, str],
    clocks: Sequence[Mapping[str, str]],
) -> dict[str, Any]:
    """What --json and latency.json hold."""
    spec, method, buffers = setup.spec, setup.method, len(setup.buffers)
    return {
        "verdict": verdict(cells),
        "measured": datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
        "shape": {"groups": spec.groups, "rank": spec.rank, "k": spec.k},
        "weight_bytes": 2 * spec.groups * spec.rank * spec.k,
        "machine": dict(machine),
        "clocks": [dict(reading) for reading in clocks],
        "method": {
            "warm_ups": method.warm_ups,
            "replays": method.replays,
            "sweeps": method.sweeps,
            "launches_per_replay": method.rounds * buffers,
            "weight_buffers": buffers,
            "figure": "median over sweeps of the median over replays, microseconds a launch",
            "interval": f"percentile bootstrap over sweeps, then replays; {RESAMPLES} resamples",
            "confidence": CONFIDENCE,
            "seed": setup.seed,
        },
        "cells": [_cell(cell) for cell in cells],
    }


def _cell(cell: Cell) -> dict[str, Any]:
    return {
        "contender": cell.contender,
        "role": cell.role,
        "pdl": cell.pdl,
        "tokens": cell.tokens,
        "form": cell.form,
        "us": None if cell.us is None else round(cell.us, 4),
        "sweeps_us": [round(us, 4) for us in cell.sweeps_us],
        "beside": {
            name: {"ratio": round(r.value, 4), "interval": [round(r.low, 4), round(r.high, 4)]}
            for name, r in cell.beside.items()
        },
        "refused": cell.refused,
        "wrong": cell.wrong,
    }
