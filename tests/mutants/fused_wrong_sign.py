"""The fused Triton kernel with one sign wrong: it rotates forward instead of back."""

from tests.mutants.planted import plant

fused_triton = plant(
    "planted_wrong_sign",
    "tl.join(re * cos + im * sin, im * cos - re * sin)",
    "tl.join(re * cos - im * sin, im * cos + re * sin)",
).fused_triton
