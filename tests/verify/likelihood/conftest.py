"""The program of layer 3, for what is asked of servers."""

from tests.verify.evals.conftest import evals, here

__all__ = ["evals", "here"]
