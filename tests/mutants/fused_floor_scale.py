"""The fused Triton kernel with its scale rounded down: a block's largest value saturates."""

from tests.mutants.planted import plant

fused_triton = plant(
    "planted_floor_scale",
    "scale = tl.maximum((amax + 0x1F >> 7) - 8, 0)",
    "scale = tl.maximum((amax + 0x20 >> 7) - 9, 0)",
).fused_triton
