"""The program of layer 3: two arms, the same questions, a verdict; `command` is its click group."""

from verify.evals.program import command

__all__ = ["command"]
