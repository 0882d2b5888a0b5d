"""A user's mistake ends in one line and the right exit code, whichever program met it."""

from __future__ import annotations

import subprocess
import sys

import click
import pytest

from verify.command import UserError, run
from verify.verdict import Verdict


def end_of(function, capsys, arguments=()):
    """Exit code and stderr of a program that runs `function`."""
    command = click.command()(function)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sys, "argv", ["program", *arguments])
        with pytest.raises(SystemExit) as ended:
            run(command, "verify.program")
    return ended.value.code, capsys.readouterr().err


@pytest.mark.parametrize("verdict", Verdict)
def test_a_verdict_becomes_the_exit_code(verdict, capsys):
    assert end_of(lambda: verdict, capsys) == (verdict.exit_code, "")


@pytest.mark.parametrize("code", [2, 4])
def test_a_user_error_is_one_line(code, capsys):
    def mistaken():
        raise UserError("shape 0,1:\n must be three numbers", code)

    assert end_of(mistaken, capsys) == (code, "verify.program: shape 0,1: must be three numbers\n")


def test_words_of_others_in_an_error_do_not_reach_the_terminal_as_commands(capsys):
    def mistaken():
        raise UserError("a server offers \x1b]0;title\x07 \x9b31m \u202e \ud800; choose one")

    code, err = end_of(mistaken, capsys)
    assert (code, err.rstrip("\n").isprintable()) == (2, True)
    assert err.startswith("verify.program: a server offers ")
    assert "title" in err


def test_a_wrong_argument_is_one_line(capsys):
    code, err = end_of(lambda: Verdict.PASS, capsys, ["--unheard-of"])
    assert (code, err.count("\n")) == (2, 1)
    assert "--unheard-of" in err


def test_an_interruption_is_130(capsys):
    def interrupted():
        raise KeyboardInterrupt

    assert end_of(interrupted, capsys)[0] == 130


@pytest.mark.parametrize("ctrl_c", ["default_int_handler", "SIG_IGN"])
def test_sigterm_cleans_up_like_an_interruption(ctrl_c):
    program = (
        "import click, os, signal\n"
        f"signal.signal(signal.SIGINT, signal.{ctrl_c})\n"
        "from verify.command import run\n"
        "def work():\n"
        "    try:\n"
        "        os.kill(os.getpid(), signal.SIGTERM)\n"
        "        signal.pause()\n"
        "    finally:\n"
        "        os.kill(os.getpid(), signal.SIGTERM)\n"  # as make and timeout both send it
        "        print('cleaned up')\n"
        "run(click.command()(work), 'p')\n"
    )
    ended = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=False
    )
    assert (ended.returncode, ended.stdout) == (130, "cleaned up\n")
    assert ended.stderr.strip() == "p: interrupted"


def test_a_defect_of_ours_is_no_verdict_on_the_kernel(capsys):
    def broken():
        raise ZeroDivisionError

    code, err = end_of(broken, capsys)
    assert code == Verdict.INVALID.exit_code
    assert "ZeroDivisionError" in err
    assert "please report it" in err


def test_a_folder_that_hides_ours_is_named(tmp_path):
    (tmp_path / "kernel").mkdir()
    (tmp_path / "kernel" / "__init__.py").write_text("")
    program = "import click; from verify.command import run; run(click.command()(lambda: 0), 'p')"
    ended = subprocess.run(
        [sys.executable, "-c", program], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert ended.returncode == 2
    assert ended.stderr.count("\n") == 1
    assert str(tmp_path / "kernel") in ended.stderr
