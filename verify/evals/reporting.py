"""`report`: the page of a run again, or several runs on one page."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from verify.command import UserError
from verify.evals import github, show
from verify.evals.going_on import advice, unfinished
from verify.evals.output import console_for_people
from verify.verdict import Verdict, combine

if TYPE_CHECKING:
    from collections.abc import Sequence


@click.command()
@click.argument(
    "runs",
    nargs=-1,
    required=True,
    metavar="RUN...",
    type=click.Path(path_type=Path, file_okay=False),
)
@click.option(
    "--out",
    type=click.Path(path_type=Path, file_okay=False),
    help="Folder of the overview of several runs; by default the one that holds them all.",
)
@click.option(
    "--github",
    "to_github",
    is_flag=True,
    help="Also write the job summary and annotations of GitHub Actions.",
)
def report(runs: tuple[Path, ...], out: Path | None, *, to_github: bool) -> Verdict:
    """Write report.html, comment.md and junit.xml of a run again, from its folder.

    Of several runs, overview.html: suites by runs, and each suite's differences over time.

    Exit codes: the verdict's, 0 pass, 1 fail, 3 inconclusive, 4 invalid; 2 wrong use.
    """
    if len(runs) > 1 and to_github:
        raise UserError(f"--github tells of one run, not of {len(runs)}; name one")
    if len(runs) > 1:
        return _overview(runs, out)
    if out is not None:
        raise UserError(f"--out {out}: the page of one run stands in its folder; leave it out")
    return _one(runs[0], to_github=to_github)


def _one(run: Path, *, to_github: bool) -> Verdict:
    path = run / "result.json"
    try:
        document = json.loads(path.read_text(encoding="utf-8"))
        verdict = combine([Verdict(document["verdict"]), *_scored(run)])
        document["verdict"] = str(verdict)
        show.verdicts(console_for_people(), document, str(render(run)))
    except FileNotFoundError:
        if unfinished(run):
            raise UserError(advice(run)) from None
        raise UserError(f"{run} holds no result.json; name the folder of a run") from None
    except (OSError, ValueError, TypeError) as error:
        raise UserError(f"{path} is not a run's result ({error}); run again") from None
    except KeyError as error:
        raise UserError(f"{path} is not a run's result (no {error}); run again") from None
    if to_github:
        github.tell(document, (run / "comment.md").read_text(encoding="utf-8"))
    return verdict


def _scored(run: Path) -> list[Verdict]:
    """The verdict of `score` on the same arms, if it left one in the folder."""
    path = run / "score.json"
    if not path.exists():
        return []
    return [Verdict(json.loads(path.read_text(encoding="utf-8"))["verdict"])]


def _overview(runs: Sequence[Path], out: Path | None) -> Verdict:
    folder = out or Path(os.path.commonpath([run.resolve() for run in runs]))
    path, gravest = _reports(folder).overview(runs, folder)
    click.echo(f"{gravest.upper()}  {path}")
    return Verdict(gravest)


def render(folder: Path) -> Path:
    """Write what a reviewer reads into a run's folder, and return the path of the page.

    Raises:
        UserError: the folder is no run's, or the extra `report` is not installed.
    """
    return Path(_reports(folder).render(folder))


def _reports(folder: Path) -> Any:
    try:
        import reports  # noqa: PLC0415 - charts take a second to import, and come with an extra
    except ModuleNotFoundError as error:
        raise UserError(
            f"no report.html in {folder}: it needs {error.name}; install kernelproof with its "
            "extra: report"
        ) from None
    return reports
