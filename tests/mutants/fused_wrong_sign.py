"""The fused Triton kernel with one sign wrong: it rotates forward instead of back."""

from verify.faults.triton_source import planted

fused_triton = planted(
    "wrong_sign",
    "tl.join(re * cos + im * sin, im * cos - re * sin)",
    "tl.join(re * cos - im * sin, im * cos + re * sin)",
).fused_triton
