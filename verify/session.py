"""One candidate in one process: how fast it is, what it supports, and the judgement of a case."""

from __future__ import annotations

import importlib
import sys
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, cast

import torch

from verify import cases, compare, harness, inputs
from verify.command import UserError
from verify.compare import Judgement
from verify.families import FAMILIES
from verify.launch import POISONS, restore, settings
from verify.spec import KernelSpec

if TYPE_CHECKING:
    from verify.cases import Case, Plan
    from verify.harness import Candidate

OWN_CLAIMS = {
    "kernel:chain": frozenset({"rejects", "unbounded"}),
    "kernel:fused_triton": frozenset({"rejects"}),
    "kernel:fused_cuda": frozenset({"rejects", "batch-invariant"}),
}
"""What our own kernels are always held to. They are found even where the working folder has a
kernel/ of its own."""

NEEDS_GPU = frozenset({"kernel:fused_cuda"})


def own(*, cuda: bool) -> tuple[str, ...]:
    """Those of our own kernels that can run here."""
    return tuple(name for name in OWN_CLAIMS if cuda or name not in NEEDS_GPU)


def spec_of(candidate: str, spec: KernelSpec | None = None) -> KernelSpec:
    """The spec with what our own kernels are held to besides."""
    spec = spec or KernelSpec()
    return replace(spec, claims=spec.claims | OWN_CLAIMS.get(candidate, frozenset()))


SLOW_S = 0.25
"""Seconds a launch at the kernel's own shape may take before most cases use a smaller one."""


def load(path: str) -> Candidate:
    """The function named `module:function`, found from the working folder too.

    Raises:
        UserError: there is no such module or function, or no GPU for it.
    """
    if path in NEEDS_GPU and not torch.cuda.is_available():
        raise UserError(f"--candidate {path}: it needs a CUDA GPU, and torch finds none here")
    module_name, colon, function = path.partition(":")
    if not (module_name and colon and function):
        raise UserError(f"--candidate is {path!r}; write it as module:function")
    here = str(Path.cwd())
    if here not in sys.path and path not in OWN_CLAIMS:
        sys.path.insert(0, here)
    try:
        module = importlib.import_module(module_name)
    except (Exception, SystemExit) as error:
        message = f"{type(error).__name__}: {error}"
        raise UserError(
            f"--candidate {path}: module {module_name!r} cannot be imported from {here} ({message})"
        ) from error
    candidate = getattr(module, function, None)
    if not callable(candidate):
        names = [n for n, v in vars(module).items() if callable(v) and not n.startswith("_")]
        kind = "has no function" if candidate is None else "holds something not callable as"
        raise UserError(
            f"--candidate {path}: module {module_name!r} {kind} {function!r}; "
            f"it has {', '.join(names[:12]) or 'none'}"
        )
    return cast("Candidate", candidate)


@dataclass(frozen=True)
class Measure:
    """Asks a worker for the Pace."""


@dataclass(frozen=True)
class Pace:
    """What was measured before the grid.

    Attributes:
        plan: which shapes the cases use.
        launch_s: seconds of one launch at the kernel's own shape.
    """

    plan: Plan
    launch_s: float


def device_of(number: int) -> torch.device:
    """Where worker `number` runs: the GPUs in turn, the CPU if there is none."""
    if torch.cuda.is_available():
        return torch.device("cuda", number % torch.cuda.device_count())
    return torch.device("cpu")


def starved(case: Case, spec: KernelSpec) -> Judgement:
    """The judgement of a case of which this machine is too small to say anything."""
    tier = "exact" if case.exact else spec.tier
    return Judgement(case, (), tier, judged=frozenset({1, 2}), starved=True)


class Session:
    """A candidate and what it claims; judges one case at a time."""

    def __init__(
        self, path: str, spec: KernelSpec, seed: int, device: torch.device, replay: str = ""
    ) -> None:
        before = settings()
        self.candidate = load(path)
        restore(before)  # what its module sets for itself is not for the judge
        self.spec = spec
        self.seed = seed
        self.device = device
        self.replay = replay

    def judge(self, case: Case) -> Judgement:
        """Run the case and judge what came of it."""
        if not case.mapped:
            return self._judge(case)
        try:
            return self._judge(case)
        except torch.OutOfMemoryError:
            return starved(case, self.spec)
        finally:
            if self.device.type == "cuda":
                torch.cuda.empty_cache()  # other workers need the memory of such inputs, too

    def _judge(self, case: Case) -> Judgement:
        given = inputs.make(case, self.seed, self.device)
        outcome = harness.run(self.candidate, given)
        if case.mapped and any(launch.starved for launch in outcome.launches):
            return starved(case, self.spec)
        replay = f"{self.replay} --case {case.id}".strip()
        judgement = compare.judge(given, outcome, self.spec, replay)
        telling = case.probe == "forms" and not FAMILIES[case.family].order_only
        if judgement.findings or case.draw or not telling:
            return judgement
        # Once a family: would the same checks have noticed junk?
        return replace(judgement, vacuous=tuple(compare.vacuous(given, outcome, self.spec)))

    def pace(self) -> Pace:
        """Time a launch; if slow, see whether the candidate takes the reduced shape.

        The first launch may compile, so the fastest of three counts, unless the first is fast.
        A candidate takes the reduced shape if it gets one easy case there right, without rotation
        and quantisation. One that does not has not failed: nobody said that it should.
        """
        launch_s = float("inf")
        for _ in range(3):
            launch_s = min(launch_s, self._time(self.spec))
            if launch_s <= SLOW_S:
                return Pace("whole", launch_s)
        easy = cases.easy(cases.reduced(self.spec))
        wrong = any(finding.layer == 1 for finding in self.judge(easy).findings)
        return Pace("few" if wrong else "reduced", launch_s)

    def _time(self, spec: KernelSpec) -> float:
        given = inputs.make(cases.easy(spec), self.seed, self.device)
        return harness.Stage(given).launch(self.candidate, "bf16", POISONS[0]).seconds
