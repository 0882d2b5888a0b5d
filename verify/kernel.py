"""`python -m verify.kernel`: layers 1 and 2 on one kernel, from its name to a verdict."""

from __future__ import annotations

import os
import platform
import shlex
import time
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, get_args

import click
import torch
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from verify import cases, session
from verify.cases import Arithmetic, Budget, Case, KernelSpec
from verify.command import UserError, run
from verify.compare import Finding, Judgement
from verify.contracts import CONTRACTS, DEFAULT
from verify.files import write_json
from verify.formats import BLOCK
from verify.pool import Lost, Pool
from verify.session import Measure, Pace
from verify.show import LAYERS, told
from verify.tally import Tally, floors

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from verify.verdict import Verdict

_MOST_WORKERS = 8
_LIMIT_S, _LIMIT_LAUNCHES = 60.0, 40
"""A case is stopped after so many seconds, or that many measured launches if they take longer."""

_LIMIT_AFTER_HANG_S = 15.0
"""Once a call has hung, others are likely to; the grid shall still end in minutes."""


def _shape(_: click.Context, __: click.Parameter, text: str) -> tuple[int, int, int]:
    words = text.split(",")
    if len(words) != 3 or not all(word.strip().isdecimal() for word in words):
        raise click.BadParameter(f"{text!r} is not three numbers; write G,R,K such as 2,1024,4096")
    groups, rank, k = map(int, words)
    return groups, rank, k


def _claims(_: click.Context, __: click.Parameter, text: str) -> frozenset[str]:
    return frozenset(filter(None, (word.strip() for word in text.split(","))))


def _arithmetic(_: click.Context, __: click.Parameter, text: str | None) -> Arithmetic | None:
    if text is None:
        return None
    values: dict[str, Any] = {}
    for word in text.split(","):
        name, _equals, value = (part.strip() for part in word.partition("="))
        if name in ("k_step", "splits") and value.isdecimal():
            values[name] = int(value)
        elif name == "rounding":
            values[name] = value
        else:
            raise click.BadParameter(
                f"{word!r}; write k_step=N, splits=N and rounding=nearest or truncate"
            )
    if "k_step" not in values:
        raise click.BadParameter(f"{text!r} leaves out k_step, the K of one multiply-accumulate")
    try:
        return Arithmetic(**values)
    except ValueError as error:
        raise click.BadParameter(str(error)) from error


@click.command()
@click.option(
    "--candidate",
    default="kernel:fused_triton",
    show_default=True,
    help="The kernel, as module:function.",
)
@click.option(
    "--shape", callback=_shape, default="2,1024,4096", show_default=True, help="G,R,K it supports."
)
@click.option("--head-dim", default=512, show_default=True, help="Columns of one head.")
@click.option("--rope-dim", default=64, show_default=True, help="Rotated columns of each head.")
@click.option("--max-tokens", default=32, show_default=True, help="The largest T it supports.")
@click.option(
    "--claims",
    callback=_claims,
    default="",
    help="; ".join(f"{name}: {meaning}" for name, meaning in cases.CLAIMS.items()),
)
@click.option(
    "--contract",
    type=click.Choice(list(CONTRACTS)),
    default=DEFAULT,
    show_default=True,
    help="What its quantiser promises.",
)
@click.option(
    "--arithmetic",
    callback=_arithmetic,
    help="How it accumulates, such as k_step=16,splits=8,rounding=truncate; "
    "without it the bound is a calibrated one.",
)
@click.option(
    "--budget",
    type=click.Choice(get_args(Budget)),
    default="quick",
    show_default=True,
    help="6, 24 or 150 cases of each family of inputs, and some of each probe.",
)
@click.option("--seed", default=0, show_default=True, help="Of every draw.")
@click.option(
    "--json", "json_file", type=click.Path(path_type=Path, dir_okay=False), help="Write the result."
)
@click.option(
    "--out",
    type=click.Path(path_type=Path, file_okay=False),
    help="Write it to kernel.json in this folder.",
)
@click.option("--fail-fast", is_flag=True, help="Stop at the first case that finds something.")
@click.option("--case", "case_id", help="Run this case only, by its id.")
def command(  # noqa: PLR0917 - click hands over every option
    candidate: str,
    shape: tuple[int, int, int],
    head_dim: int,
    rope_dim: int,
    max_tokens: int,
    claims: frozenset[str],
    contract: str,
    arithmetic: Arithmetic | None,
    budget: Budget,
    seed: int,
    json_file: Path | None,
    out: Path | None,
    fail_fast: bool,  # noqa: FBT001 - click's way of a flag
    case_id: str | None,
) -> Verdict:
    """Layers 1 and 2 on one kernel: its BF16 output, its MXFP8 codes and scale bytes.

    Exit codes: 0 pass, 1 fail, 2 wrong use, 4 invalid (nothing executed), 130 interrupted.
    """
    began = time.monotonic()
    groups, rank, k = shape
    try:
        spec = KernelSpec(
            groups,
            rank,
            k,
            head_dim,
            rope_dim,
            max_tokens,
            arithmetic=arithmetic,
            claims=claims,
            contract=contract,
        )
        spec = session.spec_of(candidate, spec)
        only = Case.parse(case_id) if case_id is not None else None
    except ValueError as error:
        where = "--case" if str(error).startswith("a case id") else "shape or claims"
        raise UserError(f"{where}: {error}") from error
    session.load(candidate)  # a mistake in the name is told here, in one line
    files = list(filter(None, (json_file, out and out / "kernel.json")))
    for path in files:
        _reach(path)
    console = Console(highlight=False, soft_wrap=True)
    job = _Job(_program(), candidate, spec, seed, budget, only, fail_fast=fail_fast)
    tally = Tally(planned=0)
    try:
        pace = job.run(tally, console)
        told(console, tally, _heading(job, pace))
    finally:
        seconds = time.monotonic() - began
        for path in files:
            write_json(path, _result(tally, job, seconds))
    console.print(
        f"{tally.verdict.upper()}  {candidate}  {tally.executed} of {tally.planned} cases, "
        f"{len(tally.findings)} findings, {seconds:.0f} s"
    )
    return tally.verdict


@dataclass
class _Job:
    """One run of the program."""

    program: tuple[str, ...]
    candidate: str
    spec: KernelSpec
    seed: int
    budget: Budget
    only: Case | None
    fail_fast: bool

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
            Pool[Case | Measure, Judgement | Pace](self.start, self.workers, _LIMIT_S) as pool,
        ):
            bar = progress.add_task("measuring a launch", total=None)
            pace = None
            if self.only is None:
                _, pace = next(iter(pool.answers([Measure()])))
            # A kernel whose first launch is lost gets few cases: each of them may be, too.
            plan = pace.plan if isinstance(pace, Pace) else "few"
            if isinstance(pace, Pace):
                pool.limit_s = max(_LIMIT_S, _LIMIT_LAUNCHES * pace.launch_s)
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
                    pool.limit_s = min(pool.limit_s, _LIMIT_AFTER_HANG_S)
                tally.add(self._lost(case, answer) if isinstance(answer, Lost) else answer)
                wrong = f"cases, [red]{len(tally.findings)} findings" if tally.findings else "cases"
                progress.update(bar, completed=tally.executed, description=wrong)
                if self.fail_fast and tally.findings:
                    break
        return pace if isinstance(pace, Pace) else None

    def start(self, number: int) -> Callable[[Case | Measure], Judgement | Pace]:
        """What worker process `number` calls first."""
        torch.set_num_threads(max(1, (os.cpu_count() or 1) // self.workers))
        device = session.device_of(number)
        worker = session.Session(self.candidate, self.spec, self.seed, device, self.replay)
        return lambda job: worker.judge(job) if isinstance(job, Case) else worker.pace()

    def _lost(self, case: Case, lost: Lost) -> Judgement:
        if case.mapped and (lost.hung or lost.killed):
            return session.starved(case, self.spec)
        finding = Finding(case.id, "error", 1, lost.reason, None, f"{self.replay} --case {case.id}")
        return Judgement(case, (finding,), "exact" if case.exact else self.spec.tier)


def _heading(job: _Job, pace: Pace | None) -> Iterator[str]:
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


def _result(tally: Tally, job: _Job, seconds: float) -> dict[str, Any]:
    """The JSON of DESIGN, and three keys more.

    `layers` holds the verdict of each layer by itself; `use` the largest share of the bound that a
    case needed, by tier; `ulps` counts elements by BF16 steps from the correctly rounded y.
    """
    return {
        "verdict": tally.verdict,
        "layers": {str(number): tally.layer(number) for number in LAYERS},
        "cases": tally.planned,
        "executed": tally.executed,
        "findings": [asdict(finding) for finding in tally.findings],
        "tiers": dict(tally.tiers),
        "use": tally.use,
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


def _program() -> tuple[str, ...]:
    """The words it was called by; where a folder hides our packages only `kernelproof` works."""
    called = click.get_current_context().command_path
    if called.startswith("kernelproof"):
        return tuple(called.split())
    return ("python", "-m", "verify.kernel")


def _reach(path: Path) -> None:
    """Make the folder of a file to be; that it cannot be written is told before the run."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UserError(f"{path} cannot be written ({error.strerror}); name another") from error
    if not os.access(path.parent, os.W_OK):
        raise UserError(f"{path} cannot be written (no permission); name another")


if __name__ == "__main__":
    run(command, "verify.kernel")
