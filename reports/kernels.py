"""Layers 1 and 2 in words: what was run, how each value was judged, and every finding."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from typing import TYPE_CHECKING

from reports import words

if TYPE_CHECKING:
    from collections.abc import Mapping

    from reports.read import Finding, Kernel

# Findings of each check that stand open, and that can be opened; a broken kernel has hundreds.
OPEN = 3
SHOWN = 100

_TIERS = {
    "exact": "the input fixes every sum, so no error is allowed",
    "declared": "bound from the accumulation that the kernel declares",
    "calibrated": "bound from the default accumulation, as the kernel declares none",
}


@dataclass(frozen=True)
class Group:
    """The findings of one check: the first of them, more that open, and how many are left out."""

    layer: int
    check: str
    cases: int
    findings: tuple[Finding, ...]
    more: tuple[Finding, ...]
    left_out: int


@dataclass(frozen=True)
class Tier:
    """One way of judging layer 1: its cases, and the most that any value used of its bound."""

    name: str
    meaning: str
    cases: int
    use: str


@dataclass(frozen=True)
class Class:
    """One class of a histogram: how many fall into it, and their share."""

    name: str
    number: int
    share: str


@dataclass(frozen=True)
class KernelView:
    """The kernel layers as the page shows them."""

    cases: int
    executed: int
    seconds: float
    tiers: tuple[Tier, ...]
    uses: tuple[Class, ...]
    steps: tuple[Class, ...]
    adequacy: tuple[tuple[str, int], ...]
    environment: tuple[tuple[str, str], ...]
    groups: tuple[Group, ...]


def kernel_view(kernel: Kernel) -> KernelView:
    """Everything the page says of the kernel by itself."""
    return KernelView(
        cases=kernel.cases,
        executed=kernel.executed,
        seconds=kernel.seconds,
        tiers=tuple(
            Tier(
                name,
                _TIERS.get(name, ""),
                cases,
                words.share(kernel.use[name]) if kernel.use.get(name) else "\u2013",
            )
            for name, cases in kernel.tiers.items()
        ),
        uses=_histogram(kernel.uses),
        steps=_histogram(kernel.ulps),
        adequacy=tuple(kernel.adequacy.items()),
        environment=tuple(kernel.environment.items()),
        groups=_groups(kernel),
    )


def _histogram(counts: Mapping[str, int]) -> tuple[Class, ...]:
    total = sum(counts.values())
    return tuple(
        Class(name, number, f"{100 * number / total:.4g}\u00a0%")
        for name, number in counts.items()
        if total
    )


def _groups(kernel: Kernel) -> tuple[Group, ...]:
    """Findings by check: layer 1 first, within a layer as found."""
    found: dict[tuple[int, str], list[Finding]] = defaultdict(list)
    for finding in kernel.findings:
        found[finding.layer, finding.check].append(finding)
    return tuple(
        Group(
            layer,
            check,
            cases=len({finding.case for finding in group}),
            findings=tuple(group[:OPEN]),
            more=tuple(group[OPEN:SHOWN]),
            left_out=max(0, len(group) - SHOWN),
        )
        for (layer, check), group in sorted(found.items(), key=lambda entry: entry[0][0])
    )
