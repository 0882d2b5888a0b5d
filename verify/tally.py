"""What a run of many cases comes to: counts, verdicts, and whether it could see anything."""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from verify.findings import add_ulps
from verify.verdict import Verdict

if TYPE_CHECKING:
    from verify.findings import Finding, Judgement, Ulps

_SCALE_BYTES, _CODES = 64, 200
"""Least variety of a whole grid; the source pull request's own inputs reach 3 and 217."""


USES = {"0": 0.0, "to 0.01": 0.01, "to 0.1": 0.1, "to 0.5": 0.5, "to 1": 1.0, "over 1": math.inf}
"""Classes of a case's largest share of its bound, each with its upper end."""


def floors(blocks: int) -> dict[str, int]:
    """How much variety is asked of cases whose bytes are known, so many blocks together."""
    return {
        "distinct scale bytes": min(_SCALE_BYTES, blocks // 4),
        "distinct codes": min(_CODES, blocks),
    }


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
        starved: cases for which this machine is too small.
        uses: cases by that share, in the classes of USES.
        ulps: how far y is from the correctly rounded one.
        vacuous: junk that a case's checks would have let pass.
        unjudged_blocks: blocks with NaN or Inf.
        floors: the least of each kind of variety for a pass to mean anything, by name.
    """

    planned: int
    executed: int = 0
    judged: Counter[int] = field(default_factory=Counter)
    findings: list[Finding] = field(default_factory=list)
    tiers: Counter[str] = field(default_factory=Counter)
    use: dict[str, float] = field(default_factory=dict)
    uses: Counter[str] = field(default_factory=lambda: Counter(dict.fromkeys(USES, 0)))
    scale_bytes: set[int] = field(default_factory=set)
    codes: set[int] = field(default_factory=set)
    tokens: set[int] = field(default_factory=set)
    flushed: int = 0
    unjudged_blocks: int = 0
    starved: int = 0
    ulps: Ulps = (0, 0, 0, 0)
    vacuous: list[str] = field(default_factory=list)
    floors: dict[str, int] = field(default_factory=dict)

    def add(self, judgement: Judgement) -> None:
        """Count a case."""
        self.executed += 1
        self.judged.update(judgement.judged)
        self.findings += judgement.findings
        self.tiers[judgement.tier] += 1
        self.use[judgement.tier] = max(self.use.get(judgement.tier, 0.0), judgement.use)
        self.uses[next(name for name, end in USES.items() if not judgement.use > end)] += 1
        self.scale_bytes |= judgement.scale_bytes
        self.codes |= judgement.codes
        self.tokens.add(judgement.case.tokens)
        self.flushed += judgement.flushed
        self.unjudged_blocks += judgement.unjudged_blocks
        self.starved += judgement.starved
        self.ulps = add_ulps(self.ulps, judgement.ulps)
        self.vacuous += [f"{judgement.case.id}: {junk}" for junk in judgement.vacuous]

    @property
    def adequacy(self) -> dict[str, int]:
        """How varied the cases were."""
        return {
            "distinct scale bytes": len(self.scale_bytes),
            "distinct codes": len(self.codes),
            "distinct T": len(self.tokens),
            "cases with subnormals flushed": self.flushed,
            "blocks not judged": self.unjudged_blocks,
            "cases too large for this machine": self.starved,
            "junk let pass": len(self.vacuous),
        }

    @property
    def inadequate(self) -> list[str]:
        """Why a run without findings would still mean nothing, if so."""
        reasons = [f"junk would have passed: {words}" for words in self.vacuous]
        if self.executed == self.planned:
            reasons += [
                f"{self.adequacy[name]} {name} asked for; at least {floor} are needed"
                for name, floor in self.floors.items()
                if self.adequacy[name] < floor
            ]
        return reasons

    @property
    def verdict(self) -> Verdict:
        """FAIL as soon as anything is wrong; without findings every case must have run."""
        if self.findings:
            return Verdict.FAIL
        if self.executed == 0 or self.executed < self.planned or self.inadequate:
            return Verdict.INVALID
        return Verdict.PASS

    def layer(self, number: int) -> Verdict:
        """The verdict of one layer by itself: a pass only if it could judge every case."""
        if any(finding.layer == number for finding in self.findings):
            return Verdict.FAIL
        complete = self.judged[number] == self.planned > 0 and not self.inadequate
        return Verdict.PASS if complete else Verdict.INVALID
