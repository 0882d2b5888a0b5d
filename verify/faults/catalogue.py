"""The catalogue: importing a family enters its faults."""

from __future__ import annotations

from verify.faults import (
    code,
    contract,
    layout,
    memory,
    output,
    product,
    rope,
    scale,
    state,
    triton_source,
)
from verify.faults.record import CATALOGUE

FAMILIES = (rope, product, output, scale, code, layout, state, memory, contract, triton_source)

__all__ = ["CATALOGUE", "FAMILIES"]
