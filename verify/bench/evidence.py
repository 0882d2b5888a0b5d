"""Whether the fused path ran: both arms' launches beside each other, and what follows."""

from __future__ import annotations

from collections import Counter
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING, Any, Literal

from verify.verdict import Verdict

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from verify.bench.census import Census

KIND = "kernelproof-launches"
VERSION = 1
Source = Literal["traces", "embedded"]


@dataclass(frozen=True)
class Arm:
    """What one arm did, over all its ranks.

    Attributes:
        chains: calls of WO-A by the unfused chain.
        fused: calls by the fused kernel.
        rows: fused calls by T; those of which T is not known are missing.
        launches: all kernel launches; None where they cannot be seen, as on a CPU.
        launches_of_calls: those that the calls above are made of; None likewise.
        ranks: what each trace shows.
    """

    chains: int
    fused: int
    rows: Mapping[int, int]
    launches: int | None
    launches_of_calls: int | None
    ranks: tuple[Census, ...] = ()

    @property
    def calls(self) -> int:
        """By either path."""
        return self.chains + self.fused


@dataclass(frozen=True)
class Evidence:
    """What the two arms show together.

    Attributes:
        replaced: chains of base in whose place PR has fused calls.
        kept: chains that PR still has.
        launches_fewer: launches that the calls need less in PR; None where they cannot be seen.
        verdict, reason: whether that shows that the fused path ran.
    """

    source: Source
    base: Arm
    pr: Arm
    replaced: int
    kept: int
    launches_fewer: int | None
    verdict: Verdict
    reason: str


def arm(ranks: Iterable[Census]) -> Arm:
    """One arm from the traces of its ranks."""
    each = tuple(ranks)
    rows: Counter[int] = Counter()
    for rank in each:
        rows.update(rank.rows)
    return Arm(
        chains=sum(rank.chains for rank in each),
        fused=sum(rank.fused for rank in each),
        rows=dict(sorted(rows.items())),
        launches=sum(rank.launches for rank in each),
        launches_of_calls=sum(rank.chain_launches + rank.fused_launches for rank in each),
        ranks=each,
    )


def as_chain(one: Arm) -> Arm:
    """The same arm, its own kernel being taken for an unfused chain."""
    return replace(one, chains=one.calls, fused=0, rows={})


def compared(source: Source, base: Arm, pr: Arm) -> Evidence:
    """Both arms beside each other."""
    fewer = None
    if base.launches_of_calls is not None and pr.launches_of_calls is not None:
        fewer = base.launches_of_calls - pr.launches_of_calls
    verdict, reason = _judged(source, base, pr)
    return Evidence(source, base, pr, pr.fused, pr.chains, fewer, verdict, reason)


def _judged(source: Source, base: Arm, pr: Arm) -> tuple[Verdict, str]:
    if base.fused:
        return Verdict.INVALID, f"base took the fused path too, in {base.fused:,} calls"
    if not base.chains:
        return Verdict.INVALID, "no chain is recognised in base; name its kernels with --kernels"
    idle = [rank.file for rank in pr.ranks if source == "traces" and not rank.fused]
    if idle or not pr.fused:
        where = f" in {', '.join(idle)}" if len(idle) < len(pr.ranks) and idle else ""
        return Verdict.FAIL, f"PR never took the fused path{where}"
    if doubt := _doubt(base, pr):
        return Verdict.INCONCLUSIVE, doubt
    return Verdict.PASS, f"PR took the fused path in {pr.fused:,} of {pr.calls:,} calls"


def _doubt(base: Arm, pr: Arm) -> str:
    """Why the counts may not be of the same work; empty where they agree."""
    seen = sum(rank.fused for rank in pr.ranks)
    if seen not in (0, pr.fused):  # 0: a kernel whose name is not known
        return f"{pr.fused:,} fused calls were made and the trace shows {seen:,}"
    if base.calls != pr.calls:
        return (
            f"PR has {pr.calls:,} calls and base {base.calls:,}: the traces are of different "
            "work, or a kernel has a name that --kernels does not know"
        )
    return ""


def sentence(evidence: Evidence) -> str:
    """What was replaced, what went away, what remains, in one line."""
    fewer = evidence.launches_fewer
    went = "launches cannot be seen here" if fewer is None else f"{fewer:,} launches fewer"
    return f"{evidence.replaced:,} chains replaced, {went}, {evidence.kept:,} chains kept"


def document(evidence: Evidence, made_with: Mapping[str, Any]) -> dict[str, Any]:
    """What evidence.json holds; docs/evidence.md tells of every key."""
    return {
        "kind": KIND,
        "version": VERSION,
        "verdict": evidence.verdict,
        "reason": evidence.reason,
        "source": evidence.source,
        "replaced": evidence.replaced,
        "kept": evidence.kept,
        "launches_fewer": evidence.launches_fewer,
        "rows": {str(tokens): calls for tokens, calls in evidence.pr.rows.items()},
        "rows_unknown": evidence.pr.fused - sum(evidence.pr.rows.values()),
        "arms": {"base": _arm(evidence.base), "pr": _arm(evidence.pr)},
        "made_with": dict(made_with),
    }


def _arm(one: Arm) -> dict[str, Any]:
    return {
        "chains": one.chains,
        "fused": one.fused,
        "launches": one.launches,
        "launches_of_calls": one.launches_of_calls,
        "ranks": [_rank(rank) for rank in one.ranks],
    }


def _rank(rank: Census) -> dict[str, Any]:
    return asdict(rank) | {"rows": {str(tokens): calls for tokens, calls in rank.rows.items()}}


def histogram(evidence: Evidence) -> Sequence[tuple[str, int]]:
    """Fused calls by T, and those of which T is not known."""
    known = [(f"T={tokens}", calls) for tokens, calls in evidence.pr.rows.items()]
    unknown = evidence.pr.fused - sum(evidence.pr.rows.values())
    return [*known, ("T unknown", unknown)] if unknown else known
