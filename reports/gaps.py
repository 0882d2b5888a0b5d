"""What a run does not establish, written from its data, with what would settle it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from reports import words
from reports.arms import names
from reports.latency import LATENCY
from reports.layers import worst_loss
from reports.serving import FILE as SERVING
from verify.verdict import Verdict

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from reports.read import Kernel, Run, Suite


@dataclass(frozen=True)
class Gap:
    """Something this run leaves open, and what would settle it (empty if nothing is known)."""

    claim: str
    remedy: str = ""


def gaps(run: Run) -> tuple[Gap, ...]:
    """Everything left open, the gravest first."""
    return (
        *_missing_layers(run),
        *_another_kernel(run),
        *_margins(run.result.suites),
        *_unseen(run.result.suites),
        *_truncation(run.result.suites),
        *(_kernel(run.result.kernel) if run.result.kernel else ()),
        *_parts(run),
        *_noise(run),
        *_arms(run),
        *_speed(run),
    )


def _speed(run: Run) -> Iterator[Gap]:
    latency, throughput = ((run.folder / name).exists() for name in (LATENCY, SERVING))
    if not latency and not throughput:
        yield Gap("Speed: neither latency nor throughput was measured.")
    elif not throughput:
        yield Gap(
            "Serving speed: throughput was not measured.",
            "python -m verify.bench serve --out with this folder.",
        )


def _missing_layers(run: Run) -> Iterator[Gap]:
    if run.result.kernel is None:
        yield Gap(
            "Whether the kernel\u2019s own output and bytes are right: layers 1 and 2 were not run "
            "here.",
            "python -m verify.kernel --out with this folder.",
        )
    if not run.result.suites:
        yield Gap(
            "Whether the model still answers as well: layer 3 was not run here.",
            "python -m verify.evals --arms base,pr",
        )


def _another_kernel(run: Run) -> Iterator[Gap]:
    """Layers 1 and 2 looked at one kernel, the PR arm ran another."""
    checked = run.result.kernel.environment.get("candidate") if run.result.kernel else None
    arm = run.about.arms.get(names(run).pr)
    if checked and arm and arm.wo_a and arm.wo_a != checked:
        yield Gap(
            f"Whether the kernel that answered is right: layers 1 and 2 checked {checked}, the "
            f"answers came from {arm.wo_a}.",
            f"python -m verify.kernel --candidate {arm.wo_a}",
        )


def _margins(suites: Sequence[Suite]) -> Iterator[Gap]:
    """Suites that could not tell, each with the reason that says what would settle it."""
    for suite in suites:
        allowed = suite.noninferiority
        if suite.verdict is Verdict.INCONCLUSIVE and allowed is not None:
            yield Gap(
                f"That {suite.suite} loses less than {words.size(allowed.margin_pt)} points: "
                f"{words.sentence(suite.reason)}"
            )


def _unseen(suites: Sequence[Suite]) -> Iterator[Gap]:
    """What a pass leaves open."""
    worst = {s.suite: worst_loss(s) for s in suites if s.verdict is Verdict.PASS}
    losses = [
        f"{words.at_most(points)} points on {name}" for name, points in worst.items() if points
    ]
    if losses:
        yield Gap(
            f"That nothing is lost at all: a loss of up to {words.listed(losses)} agrees with "
            "these answers.",
            "a smaller --margin, with more questions or repeats.",
        )


def _truncation(suites: Sequence[Suite]) -> Iterator[Gap]:
    """Answers that were cut off, or may have been."""
    unknown = [s.suite for s in suites if s.truncated is None]
    if unknown:
        yield Gap(
            f"Whether answers were cut off at the token limit: {words.listed(unknown)} did not "
            "record it."
        )
    cut = {
        suite.suite: number
        for suite in suites
        if suite.truncated and (number := (suite.truncated.base or 0) + (suite.truncated.pr or 0))
    }
    if cut:
        named = words.listed([f"{number:,} on {suite}" for suite, number in cut.items()])
        yield Gap(
            f"What the answers cut off at the token limit would have said: {named}, both arms "
            "together.",
            "a higher token limit, for both arms.",
        )


# What `verify.kernel` names where it found no GPU.
_CPUS = {"x86_64", "amd64", "aarch64", "arm64"}


def _kernel(kernel: Kernel) -> Iterator[Gap]:
    """Where the kernel was not looked at, or not as closely as it could have been."""
    where = kernel.environment
    if kernel.executed < kernel.cases:
        yield Gap(
            "The kernel\u2019s output in "
            f"{words.count(kernel.cases - kernel.executed, 'case')} that did not run."
        )
    if where.get("device", "").lower() in _CPUS:
        yield Gap(
            "What the kernel does on a GPU: its cases ran on a CPU, where Triton kernels are "
            "interpreted, not compiled.",
            "the same command on each architecture that will serve the model.",
        )
    if loose := kernel.tiers.get("calibrated"):
        yield Gap(
            f"The tightest bound on the kernel\u2019s rounding: it declares no accumulation, so in "
            f"{words.count(loose, 'case')} a default one applied.",
            "--arithmetic, with the K step, splits and rounding of the kernel.",
        )
    if unjudged := kernel.adequacy.get("blocks not judged"):
        yield Gap(
            f"The codes of {words.count(unjudged, 'block')} with NaN or Inf: the quantiser\u2019s "
            "contract says nothing of them."
        )
    if where.get("budget", "full") != "full":
        yield Gap(
            f"Inputs beyond these {words.count(kernel.executed, 'case')}: the budget was "
            f"{where['budget']}.",
            "--budget full.",
        )


def _parts(run: Run) -> Iterator[Gap]:
    """Suites of which a part was asked."""
    parts = [
        f"{asked.items_asked:,} of {asked.items_in_suite:,} on {name}"
        for name, asked in run.about.suites.items()
        if asked.items_asked and asked.items_in_suite and asked.items_asked < asked.items_in_suite
    ]
    if parts:
        yield Gap(f"The questions left out: asked were {words.listed(parts)}.", "--full.")


def _noise(run: Run) -> Iterator[Gap]:
    """How much the arms, or starts of one arm, would differ without any change between them."""
    suites = run.result.suites
    if suites and not any(s.noise and s.noise.flips_base is not None for s in suites):
        repeats = [s.repeats for s in suites if s.repeats]
        once = all(max(r.base or 1, r.pr or 1) == 1 for r in repeats)
        yield Gap(
            "How far the base arm differs from itself when it is run twice (A/A): the noise was "
            f"not measured.{' Each question was asked once.' if once else ''}",
            "--repeats 2, or python -m verify.evals aa on several runs of it.",
        )
    if any(s.starts and not s.starts.controlled for s in suites):
        yield Gap(
            "How far one start of a server differs from another: shifts of whole starts are not "
            "controlled.",
            "runs on several fresh starts of each arm, joined by python -m verify.evals compare.",
        )
    stopped = [s.suite for s in suites if s.sequential and s.sequential.stopped]
    if stopped:
        yield Gap(
            f"The questions not asked: {words.listed(stopped)} stopped early, when the evidence "
            "sufficed.",
            "--no-early-stop.",
        )


def _arms(run: Run) -> Iterator[Gap]:
    """What the arms are not, or do not show."""
    kinds = {arm.kind for arm in run.about.arms.values()}
    if "embedded" in kinds:
        yield Gap(
            "The model that will be served: a small one stood in for it, with the same attention "
            "output in small.",
            "--arm base=URL --arm pr=URL, two servers of the real model.",
        )
    if "server" in kinds:
        yield Gap(
            "That the servers ran the kernels they were started for: an answer does not show what "
            "computed it."
        )
