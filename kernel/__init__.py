"""What is under test: fused inverse RoPE + WO-A + MXFP8, its unfused chain and its dispatcher."""

from kernel.chain import chain

__all__ = ["chain"]
