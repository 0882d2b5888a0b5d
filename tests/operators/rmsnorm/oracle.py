"""RMSNorm and how far from it an honest kernel may be, in FP64 from the definition.

y[t, n] = x[t, n] * w[n] / sqrt(mean over n of x[t, n]^2 + eps), rounded once to BF16.
"""

from __future__ import annotations

import torch

from verify import formats, oracle

_LOCAL = 16
"""Units u beside the sum: the division, the root to a few ulp, and two products."""


def reference(x, weight, eps, c, *, flushed) -> oracle.Reference:
    """The sum of squares has no cancellation: its error of c u is one of c u / 2 in y.

    Args:
        x: BF16 [T, N].
        weight: BF16 [N].
        eps: added to the mean.
        c: units u that the sum may err.
        flushed: whether subnormal operands and results are zero.
    """
    wide, scale = x.double(), weight.double()
    if flushed:
        wide, scale = formats.flush(wide), formats.flush(scale)
    value = wide * scale / torch.sqrt((wide**2).mean(1, keepdim=True) + eps)
    bound = (c / 2 + _LOCAL) * oracle.UNIT * value.abs() + 2.0**-149
    if flushed:
        value, bound = formats.flush(value), bound + formats.SMALLEST_NORMAL
    return oracle.Reference(value, bound, torch.zeros_like(value))
