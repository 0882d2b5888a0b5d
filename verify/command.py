"""What every program shares: one-line errors, exit codes and a check for shadowed packages."""

from __future__ import annotations

import signal
import sys
import threading
import traceback
from pathlib import Path
from typing import NoReturn

import click

from verify.verdict import BROKEN, INTERRUPTED, WRONG_USE, Verdict

ROOT = Path(__file__).resolve().parent.parent


def printable(text: str) -> str:
    """Text that others may have written, without what moves a terminal's cursor or its colours."""
    return "".join(c if c.isprintable() else "\ufffd" for c in text)


class UserError(Exception):
    """A user's mistake: its message is one line naming what, where, the bad value and the remedy.

    `exit_code` is 2 (wrong use) unless the input itself makes the run invalid (4).
    """

    def __init__(self, message: str, exit_code: int = WRONG_USE) -> None:
        super().__init__(printable(" ".join(message.split())))
        self.exit_code = exit_code


class Programs(click.Group):
    """A group whose first program is meant where none is named."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Put the first program's name before options that follow no name."""
        if not args or (args[0].startswith("-") and args[0] != "--help"):
            args = [next(iter(self.commands)), *args]
        return super().parse_args(ctx, args)


def run(command: click.Command, name: str) -> NoReturn:
    """Run `command` as program `name` and exit; a command returns the Verdict it reached."""
    if threading.current_thread() is threading.main_thread():
        # as `timeout` and job schedulers send it: whatever Ctrl-C cleans up, this does too
        signal.signal(signal.SIGTERM, _interrupt)
    try:
        _refuse_shadowed_packages(name)
        outcome = command.main(prog_name=name, standalone_mode=False)
    except UserError as error:
        _end(name, str(error), error.exit_code)
    except click.ClickException as error:
        _end(name, f"{' '.join(error.format_message().split())} (see {name} --help)", WRONG_USE)
    except (KeyboardInterrupt, click.Abort):
        _end(name, "interrupted", INTERRUPTED)
    except BrokenPipeError:  # the reader of our output left, as `head` does
        sys.stderr.close()
        sys.exit(0)
    except Exception:  # noqa: BLE001 - ours, and no verdict on the kernel: exit code 1 would be one
        traceback.print_exc()
        _end(name, "this is a defect of kernelproof; please report it with the lines above", BROKEN)
    # click hands back the exit code of --help and --version
    sys.exit(outcome.exit_code if isinstance(outcome, Verdict) else int(outcome or 0))


def _interrupt(*_: object) -> None:
    """What Ctrl-C does, also in a background job, where Ctrl-C itself is ignored."""
    signal.signal(signal.SIGTERM, signal.SIG_IGN)  # `timeout make` sends it twice; once is enough
    meant = signal.getsignal(signal.SIGINT)
    if not callable(meant):
        raise KeyboardInterrupt
    meant(signal.SIGINT, None)  # asyncio's own, while it runs


def _end(name: str, message: str, exit_code: int) -> NoReturn:
    print(f"{name}: {message}", file=sys.stderr)  # noqa: T201 - the one place errors are printed
    sys.exit(exit_code)


def _refuse_shadowed_packages(name: str) -> None:
    """Say so when the working folder's own kernel/, evals/ or reports/ hides ours."""
    for package in ("kernel", "evals", "reports"):
        here = Path.cwd() / package
        first = next((p for p in sys.path if _holds(p, package)), None)
        if first is not None and Path(first or ".").resolve() != ROOT:
            raise UserError(
                f"{here} shadows kernelproof's own package {package!r}; "
                f"run `kernelproof {name.rpartition('.')[2]} ...` instead of `python -m {name}`"
            )


def _holds(path: str, package: str) -> bool:
    folder = Path(path or ".") / package
    return (folder / "__init__.py").exists() or any(folder.glob("*.py"))
