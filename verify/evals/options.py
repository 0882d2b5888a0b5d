"""Options that several commands share, each worded once."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

if TYPE_CHECKING:
    from collections.abc import Callable

Command = TypeVar("Command", bound="Callable[..., Any]")

_OPTIONS = (
    click.option(
        "--arms", default="base,pr", show_default=True, help="Names of the two arms, base first."
    ),
    click.option(
        "--arm",
        multiple=True,
        metavar="NAME=URL|MODULE:FUNCTION",
        help="What an arm is: an OpenAI-compatible server, or the embedded model with that kernel "
        "behind WO-A. By default base uses the unfused chain and pr kernel:fused_triton.",
    ),
    click.option(
        "--suite",
        multiple=True,
        help="A built-in suite, or a folder with a suite.toml; may be given several times. "
        "Embedded arms answer mini-gsm8k, mini-aime and mini-gpqa by default.",
    ),
    click.option(
        "--data",
        multiple=True,
        metavar="SUITE=PATH",
        help="A local file of a suite's rows: JSON lines, .csv or .parquet.",
    ),
    click.option("--unpinned", is_flag=True, help="Accept files of other hashes than suites pin."),
    click.option("--model", help="The model to ask servers for; not needed where they offer one."),
    click.option(
        "--json",
        "json_file",
        type=click.Path(path_type=Path, dir_okay=False),
        help="Write the result here too.",
    ),
)

json_file = click.option(
    "--json",
    "json_file",
    type=click.Path(path_type=Path, dir_okay=False),
    help="Write the result here.",
)


def shared(command: Command) -> Command:
    """Put the arms, what they are asked and a second file of the result before a command's own."""
    for option in reversed(_OPTIONS):
        command = option(command)
    return command
