"""One run of `verify.kernel`: its cases over worker processes, and what is written of them."""

from __future__ import annotations

import os
import platform
import shlex
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING, Any

import torch
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from verify import cases, session
from verify.cases import Budget, Case, KernelSpec
from verify.compare import Finding, Judgement
from verify.contracts import CONTRACTS, DEFAULT
from verify.formats import BLOCK
from verify.pool import Lost, Pool
from verify.session import Measure, Pace
from verify.show import LAYERS, shown
from verify.tally import Tally, floors

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from rich.console import Console

_MOST_WORKERS = 8
_LIMIT_S, _LIMIT_LAUNCHES = 60.0, 40
"""A case is stopped after so many seconds, or that many measured launches if they take longer."""

_LIMIT_AFTER_HANG_S = 15.0
"""Once a call has hung, others are likely to; the grid shall still end in minutes."""


@dataclass
class Job:
    """One run of the program."""

    program: tuple[str, ...]
    candidate: str
    spec: KernelSpec
    seed: int
    budget: Budget
    only: Case | None
    fail_fast: bool
    limit_s: float = _LIMIT_S

    @property
    def workers(self) -> int:
        """As many as there are cores; a process on a GPU is bound by its launches, too."""
        cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
        return 1 if self.only else min(cores or 1, _MOST_WORKERS)

    @property
    def replay(self) -> str:
        """The command that runs one case again, but for its id."""
        words = [*self.program, "--candidate", self.candidate]
        if self.seed:
            words += ["--seed", str(self.seed)]
        if self.spec.claims:
            words += ["--claims", ",".join(sorted(self.spec.claims))]
        if self.spec.contract != DEFAULT:
            words += ["--contract", self.spec.contract]
        if how := self.spec.arithmetic:
            words.append("--arithmetic")
            words.append(f"k_step={how.k_step},splits={how.splits},rounding={how.rounding}")
        return shlex.join(words)

    @property
    def whole(self) -> str:
        """The command that runs all cases again."""
        plain, spec = KernelSpec(), self.spec
        words = [self.replay, "--budget", self.budget]
        if (spec.groups, spec.rank, spec.k) != (plain.groups, plain.rank, plain.k):
            words += ["--shape", f"{spec.groups},{spec.rank},{spec.k}"]
        for name in ("head_dim", "rope_dim", "max_tokens"):
            if getattr(spec, name) != getattr(plain, name):
                words += [f"--{name.replace('_', '-')}", str(getattr(spec, name))]
        return " ".join(words)

    def run(self, tally: Tally, console: Console) -> Pace | None:
        """Plan the cases, run them and count what they find."""
        progress = Progress(
            TextColumn("{task.description}"),
            BarColumn(),
            MofNCompleteColumn(),
            TimeElapsedColumn(),
            console=console,
            transient=True,
        )
        with (
            progress,
            Pool[Case | Measure, Judgement | Pace](
                self.start, self.workers, lambda _: self.limit_s
            ) as pool,
        ):
            bar = progress.add_task("measuring a launch", total=None)
            pace = None
            if self.only is None:
                _, pace = next(iter(pool.answers([Measure()])))
            # A kernel whose first launch is lost gets few cases: each of them may be, too.
            plan = pace.plan if isinstance(pace, Pace) else "few"
            if isinstance(pace, Pace):
                self.limit_s = max(_LIMIT_S, _LIMIT_LAUNCHES * pace.launch_s)
            cuda = torch.cuda.is_available()
            grid = [self.only] if self.only else cases.grid(self.spec, self.budget, plan, cuda=cuda)
            tally.planned = len(grid)
            if not self.only:
                blocks = sum(c.tokens * c.groups * c.rank // BLOCK for c in grid if c.golden)
                tally.floors = floors(blocks)
            progress.update(bar, total=len(grid), description="cases")
            for case, answer in pool.answers(grid):
                assert isinstance(case, Case)
                assert not isinstance(answer, Pace)
                if isinstance(answer, Lost) and answer.hung and not case.mapped:
                    self.limit_s = min(self.limit_s, _LIMIT_AFTER_HANG_S)
                tally.add(self._lost(case, answer) if isinstance(answer, Lost) else answer)
                wrong = f"cases, [red]{len(tally.findings)} findings" if tally.findings else "cases"
                progress.update(bar, completed=tally.executed, description=wrong)
                if self.fail_fast and tally.findings:
                    break
        if not self.only:
            self._ask_alone(tally)
        return pace if isinstance(pace, Pace) else None

    def start(self, number: int) -> Callable[[Case | Measure], Judgement | Pace]:
        """What worker process `number` calls first."""
        torch.set_num_threads(max(1, (os.cpu_count() or 1) // self.workers))
        device = session.device_of(number)
        worker = session.Session(self.candidate, self.spec, self.seed, device, self.replay)
        return lambda job: worker.judge(job) if isinstance(job, Case) else worker.pace()

    def _ask_alone(self, tally: Tally) -> None:
        """Ask the case shown first of each layer again, in a process of its own.

        Where it passes there, the command that repeats it would show nothing.
        """
        for layer in LAYERS:
            first = next(shown(tally.findings, layer), None)
            if first is None:
                continue
            pool = Pool[Case | Measure, Judgement | Pace](self.start, 1, lambda _: self.limit_s)
            with pool:
                _, answer = next(iter(pool.answers([Case.parse(first.case)])))
            if isinstance(answer, Judgement) and not any(
                (again.layer, again.check) == (layer, first.check) for again in answer.findings
            ):
                tally.findings[tally.findings.index(first)] = replace(
                    first,
                    message=f"{first.message}; asked alone it is right: launches before it matter",
                    replay=self.whole,
                )

    def _lost(self, case: Case, lost: Lost) -> Judgement:
        if case.mapped and (lost.hung or lost.killed):
            return session.starved(case, self.spec)
        finding = Finding(case.id, "error", 1, lost.reason, None, f"{self.replay} --case {case.id}")
        return Judgement(case, (finding,), "exact" if case.exact else self.spec.tier)


def heading(job: Job, pace: Pace | None) -> Iterator[str]:
    """What is asked of which kernel."""
    spec = job.spec
    yield (
        f"{job.candidate}  G={spec.groups} R={spec.rank} K={spec.k} head_dim={spec.head_dim} "
        f"rope_dim={spec.rope_dim} T<={spec.max_tokens}  {spec.contract}"
        + (f"  claims {', '.join(sorted(spec.claims))}" if spec.claims else "")
        + f"  on {session.device_of(0)}, seed {job.seed}, budget {job.budget}"
    )
    if pace is not None and pace.plan != "whole":
        how = (
            f"most cases use R={cases.reduced(spec).rank} K={cases.reduced(spec).k}"
            if pace.plan == "reduced"
            else "only a sixth of the cases is run"
        )
        yield f"a launch at this shape takes {pace.launch_s:.2f} s, hence {how}"


def result(tally: Tally, job: Job, seconds: float) -> dict[str, Any]:
    """The JSON of DESIGN, and four keys more.

    `layers` holds the verdict of each layer by itself; `use` the largest share of the bound that a
    case needed, by tier, and `uses` the cases by that share; `ulps` counts elements by BF16 steps
    from the correctly rounded y.
    """
    return {
        "verdict": tally.verdict,
        "layers": {str(number): tally.layer(number) for number in LAYERS},
        "cases": tally.planned,
        "executed": tally.executed,
        "findings": [asdict(finding) for finding in tally.findings],
        "tiers": dict(tally.tiers),
        "use": tally.use,
        "uses": dict(tally.uses),
        "ulps": dict(zip(("0", "1", "2", "more"), tally.ulps, strict=True)),
        "adequacy": tally.adequacy,
        "environment": {
            "candidate": job.candidate,
            "shape": f"G={job.spec.groups} R={job.spec.rank} K={job.spec.k}",
            "budget": job.budget,
            "seed": str(job.seed),
            "contract": f"{job.spec.contract} version {CONTRACTS[job.spec.contract].version}",
            "claims": ", ".join(sorted(job.spec.claims)) or "none",
            **_environment(),
        },
        "seconds": round(seconds, 3),
    }


def _environment() -> dict[str, str]:
    cuda = torch.cuda.is_available()
    return {
        "device": torch.cuda.get_device_name(0) if cuda else platform.machine(),
        "torch": torch.__version__,
        "python": platform.python_version(),
        "system": platform.platform(),
    }
