"""Several suites at once: alarms are corrected for their number, a joint pass needs no correction.

References:
----------
.. [1] S. Holm, "A simple sequentially rejective multiple test procedure", Scandinavian Journal
   of Statistics 6 (1979) 65-70.
.. [2] R. L. Berger, "Multiparameter hypothesis testing and acceptance sampling", Technometrics
   24 (1982) 295-300: the intersection-union test.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from collections.abc import Mapping

Name = TypeVar("Name")


def holm(p_values: Mapping[Name, float]) -> dict[Name, float]:
    """Holm's adjusted p-values [1]_: any below alpha is an alarm at family-wise level alpha."""
    adjusted: dict[Name, float] = {}
    largest = 0.0
    ordered = sorted(p_values.items(), key=lambda pair: pair[1])
    for rank, (name, p) in enumerate(ordered):
        largest = max(largest, min(1.0, (len(ordered) - rank) * p))
        adjusted[name] = largest
    return {name: adjusted[name] for name in p_values}


def all_pass_p(p_values: Mapping[Name, float]) -> float:
    """p-value of "some suite is inferior" [2]_: the largest, each suite tested at full level."""
    if not p_values:
        raise ValueError("no suite was tested")
    return max(p_values.values())
