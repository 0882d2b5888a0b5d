"""Runs the program of layer 3 in this process, in a folder of its own."""

from __future__ import annotations

import sys

import pytest

from verify.command import run
from verify.evals import command


@pytest.fixture
def here(tmp_path, monkeypatch):
    """A working folder of its own."""
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def evals(here, monkeypatch, capsys):  # noqa: ARG001 - it runs in that folder
    """Run the program in this process: exit code, standard output, standard error."""

    def invoke(*words):
        monkeypatch.setattr(sys, "argv", ["verify.evals", *map(str, words)])
        with pytest.raises(SystemExit) as ended:
            run(command, "verify.evals")
        out, err = capsys.readouterr()
        return ended.value.code, out, err

    return invoke
