"""What is under test: fused inverse RoPE + WO-A + MXFP8, its unfused chain and its dispatcher."""

from kernel.chain import chain
from kernel.fused_cuda import fused_cuda
from kernel.fused_triton import fused_triton

__all__ = ["chain", "fused_cuda", "fused_triton"]
