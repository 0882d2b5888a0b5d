"""From a case and a seed to tensors: weights, activations, rotation tables and positions.

Everything is drawn from a hash of the seed and the case's id, so that neither the order of cases
nor the process matters. Weights and tables depend on fewer axes than a case and are shared.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch

from verify.cases import FAMILIES, Case
from verify.inputs import activations, draw, tables, weights

if TYPE_CHECKING:
    from collections.abc import Callable

    from torch import Generator, Tensor

    from verify.inputs.tables import Table
    from verify.oracle import Weight

_CPU = torch.device("cpu")


@dataclass(frozen=True)
class Inputs:
    """What a kernel is given, pristine, and what is known of the result.

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


def make(case: Case, seed: int = 0, device: torch.device = _CPU) -> Inputs:
    """Build the inputs of a case on `device`."""
    kind = KINDS[case.family]
    shape = activations.shape_of(case)
    length = tables.SHORT_TABLE if case.positions in ("zero", "short") else tables.LONG_TABLE
    table = tables.table(case.table, length, case.rope_dim, seed, device)
    random = draw.generator(case.id, seed)
    positions = tables.positions(case, length, random)
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
    "integers": Kind("integers", activations.integers),
    "wide_integers": Kind("wide", activations.wide_integers),
    "cancelling_integers": Kind("opposed_integers", activations.cancelling_integers),
    "rotated": Kind("rotated", activations.normal),
    "residual": Kind("residual", activations.normal, activations.cancel_rotation),
    "golden_spread": Kind("one_hot", activations.golden(activations.blocks_spread)),
    "golden_edges": Kind("one_hot", activations.golden(activations.blocks_edges)),
    "golden_zeros": Kind("one_hot", activations.golden(activations.blocks_zeros)),
    "golden_codes": Kind("one_hot", activations.golden(activations.blocks_codes)),
    "golden_subnormal": Kind("one_hot_lifting", activations.subnormal),
    "golden_tiny": Kind("one_hot_tiny", activations.golden(activations.blocks_tiny)),
    "golden_sweep": Kind("one_hot", activations.golden(activations.blocks_sweep)),
    "golden_integers": Kind("wide", activations.wide_integers),
}
assert KINDS.keys() == FAMILIES.keys()
