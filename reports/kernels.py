"""Layers 1 and 2 in words: what was run, how each value was judged, and every finding."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from reports.read import Finding, Kernel

# Findings written out for each check; a broken kernel has hundreds that say the same.
SHOWN = 20


@dataclass(frozen=True)
class Group:
    """The findings of one check: the first of them, and how many more there are."""

    layer: int
    check: str
    cases: int
    findings: tuple[Finding, ...]
    left_out: int


@dataclass(frozen=True)
class KernelView:
    """The kernel layers as the page shows them; `environment` is where the cases ran."""

    cases: int
    executed: int
    seconds: float
    tiers: tuple[tuple[str, int], ...]
    adequacy: tuple[tuple[str, int], ...]
    environment: tuple[tuple[str, str], ...]
    groups: tuple[Group, ...]


def kernel_view(kernel: Kernel) -> KernelView:
    """Everything the page says of the kernel by itself."""
    return KernelView(
        cases=kernel.cases,
        executed=kernel.executed,
        seconds=kernel.seconds,
        tiers=tuple(kernel.tiers.items()),
        adequacy=tuple(kernel.adequacy.items()),
        environment=tuple(kernel.environment.items()),
        groups=_groups(kernel),
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
            findings=tuple(group[:SHOWN]),
            left_out=max(0, len(group) - SHOWN),
        )
        for (layer, check), group in sorted(found.items(), key=lambda entry: entry[0][0])
    )
