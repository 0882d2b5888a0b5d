"""`python -m verify.faults`."""

from verify.command import run
from verify.faults.program import command

if __name__ == "__main__":
    run(command, "verify.faults")
