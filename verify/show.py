"""A run of many cases in the terminal: each layer's verdict, then the first of each finding."""

from __future__ import annotations

import itertools
from collections import Counter
from typing import TYPE_CHECKING

from verify.cases import Case
from verify.findings import CHECKS

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from rich.console import Console

    from verify.findings import Finding
    from verify.tally import Tally

LAYERS = {1: "BF16 output", 2: "MXFP8 codes and scale bytes"}

_SHOWN_PER_LAYER = 6

_FAR_BEYOND = 10
"""Uses of the bound beyond which the digits say nothing."""


def told(console: Console, tally: Tally, heading: Iterable[str]) -> None:
    """What was asked, then for each layer its verdict and the first findings of each check."""
    for number, line in enumerate(heading):
        console.print(line, style="dim" if number else None, markup=False)
    for number, what in LAYERS.items():
        verdict = tally.layer(number)
        style = {"pass": "bold green", "fail": "bold red"}.get(verdict, "bold yellow")
        wrong = len({finding.case for finding in tally.findings if finding.layer == number})
        counts = [f"{tally.executed} cases"]
        if unjudged := tally.executed - tally.judged[number]:
            counts.append(f"{unjudged} without an output to judge")
        if wrong:
            counts.append(f"{wrong} wrong")
        console.print(
            f"layer {number}  [{style}]{verdict}[/]  {what}: {', '.join(counts)}; "
            + (_bound(tally) if number == 1 else _bytes(tally))
        )
        for line in _findings(tally.findings, number):
            console.print(line, markup=False)
    if tally.starved:
        console.print(
            f"{tally.starved} cases with a table or x past 2^31 elements say nothing: the kernel "
            "copies all of it, which takes more memory or time than there is",
            style="yellow",
        )
    for reason in tally.inadequate:
        console.print(f"not adequate: {reason}", style="bold yellow", markup=False)


def _bound(tally: Tally) -> str:
    tiers = ", ".join(f"{count} {tier}" for tier, count in sorted(tally.tiers.items()))
    used = max((use for tier, use in tally.use.items() if tier != "exact"), default=0.0)
    flushed = f"; subnormals taken for zero in {tally.flushed} cases" if tally.flushed else ""
    total = max(1, sum(tally.ulps))
    steps = ", ".join(
        f"{name} {count / total:.2%}"
        for name, count in zip(("0", "1", "2", "more"), tally.ulps, strict=True)
    )
    return (
        f"decided by: {tiers}; worst use of the bound "
        f"{f'{used:.2g}' if used <= _FAR_BEYOND else f'over {_FAR_BEYOND} times'}{flushed}; "
        f"BF16 steps from the rounded exact y: {steps}"
    )


def _bytes(tally: Tally) -> str:
    return f"{len(tally.scale_bytes)} distinct scale bytes and {len(tally.codes)} codes asked for"


def shown(findings: Sequence[Finding], layer: int) -> Iterator[Finding]:
    """Of each check that found something in a layer, the finding that is quickest to replay."""
    for check in CHECKS:
        of_check = [f for f in findings if (f.check, f.layer) == (check, layer)]
        if of_check:
            yield min(of_check, key=lambda finding: Case.parse(finding.case).rank)


def _findings(findings: Sequence[Finding], layer: int) -> Iterator[str]:
    by_check = Counter(finding.check for finding in findings if finding.layer == layer)
    for first in itertools.islice(shown(findings, layer), _SHOWN_PER_LAYER):
        others = by_check[first.check] - 1
        more = f" (and in {others} more cases)" if others else ""
        yield f"  {first.check}: {first.message}{more}"
        for line in first.picture.splitlines():
            yield f"    {line}"
        yield f"    {first.replay}"
