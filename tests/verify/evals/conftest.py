"""Runs the program of layer 3 in this process, in a folder of its own."""

from __future__ import annotations

import sys

import pytest

from tests.verify.evals.sums import solver, write_suite
from verify.command import run
from verify.evals import command, opinions, program


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


@pytest.fixture
def second_opinions():
    """Ask for this where math-verify shall have its say; starting it takes a second."""


@pytest.fixture(autouse=True)
def _few_second_opinions(request, monkeypatch):
    if "second_opinions" not in request.fixturenames:
        monkeypatch.setattr(opinions, "available", lambda: False)


@pytest.fixture
def page():
    """Ask for this where a run's page matters; drawing it takes longer than a run."""


@pytest.fixture(autouse=True)
def _few_pages(request, monkeypatch):
    if "page" not in request.fixturenames:
        monkeypatch.setattr(program, "render", lambda folder: folder / "report.html")


@pytest.fixture
def suite(here):
    """A user's own suite of sums, answered by servers."""
    write_suite(here / "sums")
    return "./sums"


@pytest.fixture
def servers(fake_server):
    """Two servers that add, as arguments of the program; `wrong` and `cut` are of the second."""

    def start(**faults):
        base = fake_server(solver(fake_server.completion, wrong={5}))
        pr = fake_server(solver(fake_server.completion, **faults))
        return ["--arm", f"base={base.url}", "--arm", f"pr={pr.url}"]

    return start
