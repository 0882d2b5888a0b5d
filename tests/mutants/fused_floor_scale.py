"""The fused Triton kernel with its scale rounded down: a block's largest values saturate."""

from verify.faults.triton_source import planted

fused_triton = planted(
    "floor_scale",
    """\
        scale = tl.maximum((amax + 0x1F >> 7) - 8, 0)
        scale = tl.where(amax >= 0x7F80, 255, scale)
        inverse = ((254 - scale) << 23).to(tl.float32, bitcast=True)  # 2^(127-s), unused for 255
        scaled = (magnitude << 16).to(tl.float32, bitcast=True) * inverse[:, :, None]
""",
    """\
        scale = tl.maximum((amax + 0x20 >> 7) - 9, 0)
        scale = tl.where(amax >= 0x7F80, 255, scale)
        inverse = ((254 - scale) << 23).to(tl.float32, bitcast=True)  # 2^(127-s), unused for 255
        scaled = (magnitude << 16).to(tl.float32, bitcast=True) * inverse[:, :, None]
        scaled = tl.minimum(scaled, 448.0)
""",
).fused_triton
