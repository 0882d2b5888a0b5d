"""`python -m verify.bench`."""

from verify.bench.program import command
from verify.command import run

if __name__ == "__main__":
    run(command, "verify.bench")
