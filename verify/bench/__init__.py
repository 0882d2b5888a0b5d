"""How fast, and did it run: latency beside chains and floor, launch evidence, sanitizers."""

from verify.bench.program import command

__all__ = ["command"]
