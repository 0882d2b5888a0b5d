"""Quantiser contracts as data: which scale byte and which codes a block of 32 values must get.

Published MXFP8 quantisers disagree, so there is no `the` cast: a kernel is judged by the contract
it names. What all of these share: blocks of 32 consecutive columns, amax over the BF16 values, the
scale byte s an E8M0 exponent of value 2^(s - 127) with s at most 254 for finite values, codes E4M3
to nearest even of y * 2^(127 - s), saturating at 448, -0 kept as 0x80, subnormals kept.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

DEFAULT = "mxfp8-e4m3-ceil448"


@dataclass(frozen=True)
class Contract:
    """What differs between quantisers.

    Attributes:
        name: what --contract takes.
        version: raised whenever a byte of its golden table changes.
        source: who does it so.
        scale: `ceil448` is the smallest power of two with amax <= 448 * 2^(s - 127), `ceil` that
            with amax <= 256 * 2^(s - 127); `floor` is floor(log2(amax)) - 8 of the OCP
            specification, which saturates amax above 448, `even` the same of an amax rounded to
            four significant bits, halves up.
        least_amax: amax is raised to this FP32 value first; 0 leaves it.
        byte_zero: codes under scale byte 0 are those of y * 2^127 (`scaled`) or of y * 2^126
            (`halved`), or zeros of the values' signs (`zeros`).
        specials: a block with NaN or Inf is `unjudged`; or `nan`: NaN makes byte 255 and NaN of
            every code, Inf byte 254, under which it saturates.
    """

    name: str
    version: int
    source: str
    scale: Literal["ceil448", "ceil", "floor", "even"] = "ceil448"
    least_amax: float = 0.0
    byte_zero: Literal["scaled", "halved", "zeros"] = "scaled"
    specials: Literal["unjudged", "nan"] = "unjudged"


CONTRACTS = {
    contract.name: contract
    for contract in (
        Contract(DEFAULT, 1, "the fused WO-A kernel of SGLang and its MXFP8 epilogue"),
        Contract("ocp-floor", 1, "OCP Microscaling Formats 1.0, section 6.3", scale="floor"),
        Contract("deepgemm-1e-4", 1, "DeepGEMM with UE8M0 scales", least_amax=1e-4),
        Contract("flashinfer", 1, "FlashInfer's mxfp8_quantize", byte_zero="zeros"),
        Contract("torchao-rceil", 2, "torchao 0.18, RCEIL", byte_zero="zeros", specials="nan"),
        Contract("torchao-floor", 1, "torchao 0.18, FLOOR", "floor", byte_zero="halved"),
        Contract("torchao-ceil", 1, "torchao 0.18, CEIL", "ceil", byte_zero="halved"),
        Contract("torchao-even", 1, "torchao 0.18, EVEN", "even", byte_zero="halved"),
    )
}
