"""How good the verifier is: planted faults that it must catch, honest kernels that must pass."""

from verify.faults.program import command

__all__ = ["command"]
