"""From a case and a seed to tensors: weights, activations, rotation tables and positions.

Everything is drawn from a hash of the seed and the case's id, so that neither the order of cases
nor the process matters. Weights and tables depend on fewer axes than a case and are shared.
"""

from __future__ import annotations

import functools
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import torch

from verify import oracle
from verify.cases import FAMILIES, Case
from verify.inputs import activations, draw, huge, malformed, tables, weights
from verify.inputs.argument import Argument, Malformed
from verify.inputs.tables import Table
from verify.oracle import Weight

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from torch import Generator, Tensor

_CPU = torch.device("cpu")


@dataclass(frozen=True)
class Inputs:
    """What a WO-A kernel is given, pristine, and what is known of the result.

    Attributes:
        case: where it comes from.
        seed: likewise.
        x: BF16 [T, G, K] packed; the harness lays it out as the case says.
        weight: BF16 [G, R, K] and its oracle forms.
        table: FP32 [S, rope_dim].
        positions: INT32 or INT64 [T].
    """

    case: Case
    seed: int
    x: Tensor
    weight: Weight
    table: Table
    positions: Tensor

    @property
    def rows(self) -> int:
        """T."""
        return self.x.shape[0]

    @property
    def columns(self) -> int:
        """N = G * R, columns of the output."""
        return self.case.groups * self.case.rank

    @property
    def terms(self) -> int:
        """K, products in each sum."""
        return self.case.k

    @property
    def device(self) -> torch.device:
        """Where all of it lies."""
        return self.x.device

    @property
    def options(self) -> dict[str, object]:
        """Keyword arguments that are no tensors."""
        return {"head_dim": self.case.head_dim}

    def arguments(self) -> tuple[Argument, ...]:
        """The tensors in the order in which the kernel takes them, NaN in the heads beside."""
        case = self.case
        start, columns, width = case.first, case.groups * case.k, case.buffer
        far = self.rows * width > huge.LIMIT
        if far:
            wide = huge.zeros(self.rows * width, self.x.dtype, self.device).view(self.rows, width)
        else:
            wide = self.x.new_full((self.rows, width), torch.nan)
        wide[:, start : start + columns] = self.x.view(self.rows, columns)

        def heads(buffer: Tensor) -> Tensor:
            return buffer[:, start : start + columns].view(len(buffer), case.groups, case.k)

        return (
            Argument("x", wide, heads, guard=width * wide.itemsize, mapped=far),
            Argument("weight", self.weight.bf16, owner=self.weight),
            Argument("cos_sin", self.table.cos_sin, owner=self.table, mapped=self.table.mapped),
            Argument("positions", self.positions),
        )

    def reference(self, c: float, *, flushed: bool = False) -> oracle.Reference:
        """The right answer for an accumulation that errs by c units, subnormals kept or not.

        Kept: a case may be asked of many kernels.
        """
        if (c, flushed) not in self._references:
            make = oracle.flushed_reference if flushed else oracle.reference
            made = make(self._rotated, self.weight, c, exact=self.case.exact)
            self._references[c, flushed] = made
        return self._references[c, flushed]

    @functools.cached_property
    def _references(self) -> dict[tuple[float, bool], oracle.Reference]:
        return {}

    @functools.cached_property
    def _rotated(self) -> oracle.Rotated:
        return oracle.rotate(self.x, self.table.cos_sin, self.positions, self.case.head_dim)

    def column_name(self, column: int) -> str:
        """Group and column in it."""
        group, within = divmod(column, self.case.rank)
        return f"group {group}, column {within}"

    def slabs(self) -> dict[str, slice]:
        """The groups."""
        rank = self.case.rank
        return {f"group {g}": slice(g * rank, (g + 1) * rank) for g in range(self.case.groups)}

    def take(self, rows: Tensor) -> Inputs:
        """The same problem for some of the rows, in this order."""
        return replace(self, x=self.x[rows], positions=self.positions[rows])

    def malformed(self) -> Iterator[Malformed]:
        """Calls that a kernel which claims `rejects` must refuse."""
        return malformed.malformed(self.rows, self.device)

    def variants(self) -> Iterator[Inputs]:
        """The same but for one thing each, the rotation still exact, or none.

        The weight of column n moves to column n + 1, so that a stale one is wrong everywhere;
        every position takes another's place; the table turns half a turn further; one row stands
        in every place, its positions not; an element is NaN; a whole row is Inf.
        """
        yield replace(self, weight=Weight(self.weight.bf16.roll(1, 1).contiguous()))
        if bool((self.positions != self.positions[0]).any()):
            yield replace(self, positions=self.positions.roll(1))
        if not (self.case.golden or self.table.mapped):
            yield replace(self, table=Table(-self.table.cos_sin))
        yield replace(self, x=self.x[:1].expand_as(self.x))
        for place, value in ((0, 0, 0), torch.nan), (self.rows // 2, torch.inf):
            x = self.x.clone()
            x[place] = value
            yield replace(self, x=x)


def make(case: Case, seed: int = 0, device: torch.device = _CPU) -> Inputs:
    """Build the inputs of a case on `device`."""
    kind = KINDS[case.family]
    shape = activations.shape_of(case)
    random = draw.generator(case.id, seed)
    positions = tables.positions(case, random)
    table = (
        tables.huge_table(case.table, case.rope_dim, positions, device)
        if case.positions == "huge"
        else tables.table(case.table, tables.length_of(case), case.rope_dim, seed, device)
    )
    x = kind.activations(case, random)
    if kind.finish is not None:
        x = kind.finish(case, x, table.cos_sin.cpu(), positions)
    return Inputs(
        case=case,
        seed=seed,
        x=activations.as_bf16(x).view(case.tokens, case.groups, -1).to(device),
        weight=weights.weight(kind.weights, shape, seed, device),
        table=table,
        positions=positions.to(device),
    )


@dataclass(frozen=True)
class Kind:
    """How a family makes its tensors.

    Attributes:
        weights: name out of weights.WEIGHTS.
        activations: FP32 or FP64 [T, G, K].
        finish: changes them once table and positions are known.
    """

    weights: str
    activations: Callable[[Case, Generator], Tensor]
    finish: Callable[[Case, Tensor, Tensor, Tensor], Tensor] | None = None


KINDS = {
    "normal": Kind("normal", activations.normal),
    "positive": Kind("positive", activations.positive),
    "outliers": Kind("normal", activations.outliers),
    "cancellation": Kind("opposed", activations.cancelling),
    "spread": Kind("spread", activations.spread),
    "specials": Kind("holed", activations.specials),
    "huge_sums": Kind("huge", activations.huge),
    "integers": Kind("integers", activations.integers),
    "wide_integers": Kind("wide", activations.wide_integers),
    "cancelling_integers": Kind("opposed_integers", activations.cancelling_integers),
    "rotated": Kind("rotated", activations.normal),
    "residual": Kind("residual", activations.normal, activations.cancel_rotation),
    "golden_spread": Kind("one_hot", activations.golden(activations.blocks_spread)),
    "golden_edges": Kind("one_hot", activations.golden(activations.blocks_edges)),
    "golden_zeros": Kind("one_hot", activations.zeros),
    "golden_codes": Kind("one_hot", activations.golden(activations.blocks_codes)),
    "golden_subnormal": Kind("one_hot_lifting", activations.subnormal),
    "golden_tiny": Kind("one_hot_tiny", activations.golden(activations.blocks_tiny)),
    "golden_overflow": Kind("one_hot_overflow", activations.overflow),
    "golden_sweep": Kind("one_hot", activations.golden(activations.blocks_sweep)),
    "golden_amax": Kind("one_hot", activations.every_amax),
    "golden_integers": Kind("wide", activations.wide_integers),
}
assert KINDS.keys() == FAMILIES.keys()
