"""What a case comes to: findings, and how closely it was looked at."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from verify.launch import CaseLike, Form

CHECKS = {
    "error": "the call raised",
    "guard": "bytes around an output changed",
    "inputs": "an input changed",
    "unwritten": "elements still hold what filled them beforehand",
    "repeat": "elements differ between two launches on one input",
    "batch": "elements differ from those of the same row in another batch",
    "rejects": "calls were not refused as the kernel claims",
    "exact": "elements differ where every order of the sums gives one value",
    "interval": "elements lie outside the bound of an honest accumulation",
    "codes": "codes differ from the contract's, given the kernel's own BF16 output",
    "scales": "scale bytes differ from the contract's, given the kernel's own BF16 output",
    "padding": "bytes of padding are not zero",
    "golden-codes": "codes differ where the input fixes them",
    "golden-scales": "scale bytes differ where the input fixes them",
}
"""What can be found, in the order in which it is looked for."""

Ulps = tuple[int, int, int, int]
"""Elements 0, 1, 2 and more BF16 steps from the correctly rounded y."""

LAYER_OF: dict[Form, int] = {"bf16": 1, "mxfp8": 2}


@dataclass(frozen=True)
class FirstBad:
    """Where a difference begins.

    Attributes:
        index: logical coordinate: row and column, row and block column, or one flat index.
        byte: offset in bytes from the start of the buffer.
        actual: what stands there, bits and value.
        expected: what should.
    """

    index: tuple[int, ...]
    byte: int
    actual: str
    expected: str


@dataclass(frozen=True)
class Finding:
    """One thing wrong in one case.

    Attributes:
        case: the case's id.
        check: name out of CHECKS.
        layer: 1 or 2.
        message: one line for people.
        first_bad: where it begins, if it has a place.
        replay: the command that shows it again.
        picture: lines that show where in the output the bad elements lie.
    """

    case: str
    check: str
    layer: int
    message: str
    first_bad: FirstBad | None
    replay: str
    picture: str = ""


@dataclass(frozen=True)
class Judgement:
    """What was found in a case, and how closely it was looked at.

    Attributes:
        case: what was judged.
        findings: empty if nothing is wrong.
        tier: what decided layer 1: `exact`, `declared` or `calibrated`.
        judged: the layers that had something to judge; a call that raised leaves nothing.
        use: the largest share of the accumulation bound that any element needs; 0 if exact.
        scale_bytes: distinct bytes that layer 2 expected.
        codes: distinct codes that layer 2 expected.
        flushed: whether subnormals were taken for zero, and y was judged accordingly.
        unjudged_blocks: blocks with NaN or Inf, of which the contract says nothing.
        ulps: how far y is from the correctly rounded one.
        starved: it took more memory or time than there is to copy an input past 2^31 elements.
        vacuous: junk that the same checks would have let pass.
        seconds: of all launches together.
    """

    case: CaseLike
    findings: tuple[Finding, ...]
    tier: str
    judged: frozenset[int] = frozenset()
    use: float = 0.0
    scale_bytes: frozenset[int] = field(default_factory=frozenset)
    codes: frozenset[int] = field(default_factory=frozenset)
    flushed: bool = False
    unjudged_blocks: int = 0
    ulps: Ulps = (0, 0, 0, 0)
    vacuous: tuple[str, ...] = ()
    starved: bool = False
    seconds: float = 0.0


def add_ulps(one: Ulps, other: Ulps) -> Ulps:
    """Both counts together."""
    return one[0] + other[0], one[1] + other[1], one[2] + other[2], one[3] + other[3]
