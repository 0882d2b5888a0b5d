"""`python -m verify.evals`."""

from verify.command import run
from verify.evals.program import command

if __name__ == "__main__":
    run(command, "verify.evals")
