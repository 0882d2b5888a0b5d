"""The families of inputs: each is there to see a kind of fault that the others cannot."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Table = Literal["plain", "yarn", "shifted", "quarter", "turned"]
Positions = Literal["zero", "short", "long", "repeated", "huge"]


_TURNS: tuple[Table, ...] = ("quarter", "turned")


@dataclass(frozen=True)
class Family:
    """One kind of input and the axes that suit it.

    Attributes:
        sees: what it is there to notice.
        exact: every order of the sums gives the same value; judged with E = 0.
        tables: the cos/sin tables it may use.
        positions: the position patterns it may use.
        far: it is asked of a table past 2^31 elements, too.
        needs_plain_dims: it uses dims that are not rotated.
        widest: always asked at the largest T, to hold as many values as a launch can.
        sweeps: at the kernel's own shape it gets as many cases as hold every block maximum.
        order_only: its values are far below the bound of an undeclared accumulation; what it sees
            is that they change, with the rows beside them or from launch to launch.
    """

    sees: str
    exact: bool = False
    tables: tuple[Table, ...] = ("plain", "yarn", "shifted")
    positions: tuple[Positions, ...] = ("long", "short", "repeated")
    far: bool = False
    needs_plain_dims: bool = False
    widest: bool = False
    sweeps: bool = False
    order_only: bool = False

    @property
    def still(self) -> bool:
        """Nothing is rotated, but every byte is known."""
        return self.exact and self.positions == ("zero",)


def _golden(sees: str, *, widest: bool = False, sweeps: bool = False) -> Family:
    """At position 0 no rotation happens: y is known exactly, and so is every byte."""
    return Family(
        sees,
        exact=True,
        tables=("plain", "yarn"),
        positions=("zero",),
        widest=widest,
        sweeps=sweeps,
    )


FAMILIES = {
    # Dense: every term of every sum takes part.
    "normal": Family("gross faults at the distribution that a model sees", far=True),
    "positive": Family("bias: errors of one sign add up"),
    "outliers": Family("a few terms of 1000 times the size"),
    "cancellation": Family("large partial sums that nearly cancel: their order", order_only=True),
    "spread": Family("rows and blocks of very different size: any one swapped or shared"),
    "specials": Family("NaN and Inf, which must reach their own row and no other"),
    "huge_sums": Family("sums beyond FP32 beside others that are not"),
    # Dense and exact: small integers, cos and sin in {0, 1, -1}.
    "integers": Family("any lost, doubled or misplaced term; rounding of ties", True, _TURNS),
    "wide_integers": Family("any sum kept in fewer than 24 bits", True, _TURNS),
    "cancelling_integers": Family("partial sums rounded before they cancel", True, _TURNS),
    # Sparse: one or two terms a sum, hence a bound far below one BF16 step.
    "rotated": Family("the rotation itself, element by element", far=True),
    "residual": Family("what the rotation rounds, and how", needs_plain_dims=True),
    # One-hot weights at position 0: y is a chosen BF16 value, so each byte is known beforehand.
    "golden_spread": _golden("misplaced scale bytes: neighbours all differ"),
    "golden_edges": _golden("block maxima at 448 * 2^k, powers of two and their neighbours"),
    "golden_zeros": _golden(
        "zero blocks, rows and launches, and blocks with one element in any lane"
    ),
    "golden_codes": _golden("every E4M3 code and every tie between two"),
    "golden_subnormal": _golden("scale byte 0 and BF16 subnormals"),
    "golden_tiny": _golden("sums below the smallest BF16 number: to -0, +0 or one step"),
    "golden_overflow": _golden("products beyond FP32, and what they do to other columns"),
    "golden_sweep": _golden("every finite BF16 value", widest=True),
    "golden_amax": _golden(
        "every block maximum, and every code under every byte", widest=True, sweeps=True
    ),
    "golden_integers": Family(
        "dense sums that are known exactly", exact=True, tables=("quarter",), positions=("zero",)
    ),
}
