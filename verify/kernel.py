"""`python -m verify.kernel`: layers 1 and 2 on one kernel, from its name to a verdict."""

from __future__ import annotations

import json
import os
import platform
import shlex
import time
from collections import Counter
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, get_args

import click
import torch
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from verify import cases, session
from verify.cases import Arithmetic, Budget, Case, KernelSpec
from verify.command import UserError, run
from verify.compare import CHECKS, Finding, Judgement
from verify.pool import Lost, Pool
from verify.session import Measure, Pace
from verify.verdict import Verdict

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

LAYERS = {1: "BF16 output", 2: "MXFP8 codes and scale bytes"}

_MOST_WORKERS = 8
_LIMIT_S, _LIMIT_LAUNCHES = 60.0, 40
"""A case is stopped after so many seconds, or that many measured launches if they take longer."""

_LIMIT_AFTER_HANG_S = 15.0
"""Once a call has hung, others are likely to; the grid shall still end in minutes."""

_SHOWN_PER_LAYER = 6


@dataclass
class Tally:
    """What a run has found so far.

    Attributes:
        planned: cases to execute.
        executed: cases that ended, whether or not they found something.
        judged: by layer, the cases that had something to judge.
        findings: of all cases, in order of arrival.
        tiers: cases by what decided layer 1.
        use: the largest share of its bound that a case needed, by tier.
        scale_bytes: distinct scale bytes asked for.
        codes: distinct codes asked for.
        tokens: distinct T.
        flushed: cases in which subnormals counted as zero.
        unjudged_blocks: blocks with NaN or Inf.
    """

    planned: int
    executed: int = 0
    judged: Counter[int] = field(default_factory=Counter)
    findings: list[Finding] = field(default_factory=list)
    tiers: Counter[str] = field(default_factory=Counter)
    use: dict[str, float] = field(default_factory=dict)
    scale_bytes: set[int] = field(default_factory=set)
    codes: set[int] = field(default_factory=set)
    tokens: set[int] = field(default_factory=set)
    flushed: int = 0
    unjudged_blocks: int = 0

    def add(self, judgement: Judgement) -> None:
        """Count a case."""
        self.executed += 1
        self.judged.update(judgement.judged)
        self.findings += judgement.findings
        self.tiers[judgement.tier] += 1
        self.use[judgement.tier] = max(self.use.get(judgement.tier, 0.0), judgement.use)
        self.scale_bytes |= judgement.scale_bytes
        self.codes |= judgement.codes
        self.tokens.add(judgement.case.tokens)
        self.flushed += judgement.flushed
        self.unjudged_blocks += judgement.unjudged_blocks

    @property
    def verdict(self) -> Verdict:
        """FAIL as soon as anything is wrong; without findings every case must have run."""
        if self.findings:
            return Verdict.FAIL
        if self.executed == 0 or self.executed < self.planned:
            return Verdict.INVALID
        return Verdict.PASS

    def layer(self, number: int) -> Verdict:
        """The verdict of one layer by itself: a pass only if it could judge every case."""
        if any(finding.layer == number for finding in self.findings):
            return Verdict.FAIL
        complete = self.judged[number] == self.planned > 0
        return Verdict.PASS if complete else Verdict.INVALID


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
    help="6, 24 or 150 cases of each family of inputs.",
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
            groups, rank, k, head_dim, rope_dim, max_tokens, arithmetic=arithmetic, claims=claims
        )
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
        _print(console, tally, pace, job)
    finally:
        seconds = time.monotonic() - began
        for path in files:
            _write(path, _result(tally, job, seconds))
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
            grid = [self.only] if self.only else cases.grid(self.spec, self.budget, plan)
            tally.planned = len(grid)
            progress.update(bar, total=len(grid), description="cases")
            for case, answer in pool.answers(grid):
                assert isinstance(case, Case)
                assert not isinstance(answer, Pace)
                if isinstance(answer, Lost) and answer.hung:
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
        finding = Finding(case.id, "error", 1, lost.reason, None, f"{self.replay} --case {case.id}")
        return Judgement(case, (finding,), "exact" if case.exact else self.spec.tier)


def _print(console: Console, tally: Tally, pace: Pace | None, job: _Job) -> None:
    """What was asked, then for each layer its verdict and the first findings of each check."""
    spec = job.spec
    console.print(
        f"{job.candidate}  G={spec.groups} R={spec.rank} K={spec.k} head_dim={spec.head_dim} "
        f"rope_dim={spec.rope_dim} T<={spec.max_tokens}  on {session.device_of(0)}, "
        f"seed {job.seed}, budget {job.budget}"
    )
    if pace is not None and pace.plan != "whole":
        how = (
            f"most cases use R={cases.reduced(spec).rank} K={cases.reduced(spec).k}"
            if pace.plan == "reduced"
            else "only a sixth of the cases is run"
        )
        console.print(
            f"a launch at this shape takes {pace.launch_s:.2f} s, hence {how}", style="dim"
        )
    for number, what in LAYERS.items():
        verdict = tally.layer(number)
        style = {"pass": "bold green", "fail": "bold red"}.get(verdict, "bold yellow")
        mine = [finding for finding in tally.findings if finding.layer == number]
        wrong = len({finding.case for finding in mine})
        counts = [f"{tally.executed} cases"]
        if unjudged := tally.executed - tally.judged[number]:
            counts.append(f"{unjudged} without an output to judge")
        if wrong:
            counts.append(f"{wrong} wrong")
        console.print(
            f"layer {number}  [{style}]{verdict}[/]  {what}: {', '.join(counts)}; "
            + (_bound(tally) if number == 1 else _bytes(tally))
        )
        for line in _findings(mine):
            console.print(line, markup=False)


def _bound(tally: Tally) -> str:
    tiers = ", ".join(f"{count} {tier}" for tier, count in sorted(tally.tiers.items()))
    used = max((use for tier, use in tally.use.items() if tier != "exact"), default=0.0)
    flushed = f"; subnormals taken for zero in {tally.flushed} cases" if tally.flushed else ""
    return f"decided by: {tiers}; worst use of the bound {used:.2g}{flushed}"


def _bytes(tally: Tally) -> str:
    return f"{len(tally.scale_bytes)} distinct scale bytes and {len(tally.codes)} codes asked for"


def _findings(findings: Sequence[Finding]) -> Iterator[str]:
    by_check: dict[str, list[Finding]] = {}
    for finding in findings:
        by_check.setdefault(finding.check, []).append(finding)
    for check in sorted(by_check, key=list(CHECKS).index)[:_SHOWN_PER_LAYER]:
        first = min(by_check[check], key=lambda f: Case.parse(f.case).rank)  # quickest to replay
        others = len(by_check[check]) - 1
        yield f"  {check}: {first.message}" + (f" (and in {others} more cases)" if others else "")
        yield f"    {first.replay}"


def _result(tally: Tally, job: _Job, seconds: float) -> dict[str, Any]:
    """The JSON of DESIGN, and two keys more.

    `layers` holds the verdict of each layer by itself; `use` the largest share of the bound that a
    case needed, by tier.
    """
    return {
        "verdict": tally.verdict,
        "layers": {str(number): tally.layer(number) for number in LAYERS},
        "cases": tally.planned,
        "executed": tally.executed,
        "findings": [asdict(finding) for finding in tally.findings],
        "tiers": dict(tally.tiers),
        "use": tally.use,
        "adequacy": {
            "distinct scale bytes": len(tally.scale_bytes),
            "distinct codes": len(tally.codes),
            "distinct T": len(tally.tokens),
            "cases with subnormals flushed": tally.flushed,
            "blocks not judged": tally.unjudged_blocks,
        },
        "environment": {
            "candidate": job.candidate,
            "shape": f"G={job.spec.groups} R={job.spec.rank} K={job.spec.k}",
            "budget": job.budget,
            "seed": str(job.seed),
            "contract": job.spec.contract,
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


def _write(path: Path, result: dict[str, Any]) -> None:
    """Written aside, then renamed: nobody reads half a file."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        aside = path.with_name(path.name + ".part")
        aside.write_text(json.dumps(result, indent=1) + "\n", encoding="utf-8")
        aside.replace(path)
    except OSError as error:
        raise UserError(f"{path} cannot be written ({error.strerror}); name another") from error


if __name__ == "__main__":
    run(command, "verify.kernel")
