"""What GitHub Actions shows of a run: the job summary and one annotation for each verdict."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from verify.command import UserError
from verify.verdict import Verdict

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

_LEVELS = {
    Verdict.PASS: "notice",
    Verdict.INCONCLUSIVE: "warning",
    Verdict.FAIL: "error",
    Verdict.INVALID: "error",
}
_MOST = 10
"""Annotations that GitHub shows of one step and level."""


def tell(document: Mapping[str, Any], comment: str) -> None:
    """Append `comment` to the job summary, and print annotations for the runner to read.

    Raises:
        UserError: this is no step of GitHub Actions, or its summary cannot be written.
    """
    place = os.environ.get("GITHUB_STEP_SUMMARY")
    if not place:
        raise UserError("--github: GITHUB_STEP_SUMMARY is not set; leave --github out elsewhere")
    try:
        with Path(place).open("a", encoding="utf-8") as summary:
            summary.write(f"{comment}\n")
    except OSError as error:
        raise UserError(f"--github: {place} cannot be written ({error.strerror})") from None
    for level, title, message in _annotations(document):
        named = _escaped(title).replace(":", "%3A").replace(",", "%2C")
        click.echo(f"::{level} title={named}::{_escaped(message)}")


def _annotations(document: Mapping[str, Any]) -> Iterator[tuple[str, str, str]]:
    """Level, title and message of each suite, then of each finding as long as GitHub listens."""
    suites = document.get("suites", [])
    for suite in suites:
        verdict = Verdict(suite["verdict"])
        yield _LEVELS[verdict], f"{suite['suite']}: {verdict}", suite.get("reason") or str(verdict)
    findings = (document.get("kernel") or {}).get("findings", [])
    for finding in findings[: max(0, _MOST - len(suites))]:
        title = f"layer {finding['layer']}: {finding['check']}"
        yield "error", title, f"{finding['case']}: {finding['message']}; {finding['replay']}"


def _escaped(words: str) -> str:
    """On one line, and with no sign that ends a command early."""
    return words.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")
