"""What a run's folder gains: the page, a comment for the pull request, JUnit XML."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from reports.comment import comment
from reports.junit import junit
from reports.page import html
from reports.read import read
from reports.view import view
from verify.files import write_text

if TYPE_CHECKING:
    from pathlib import Path

FILES: Final = ("report.html", "comment.md", "junit.xml")


def render(run_dir: Path) -> Path:
    """Write FILES into a run folder, and return the path of the page.

    Raises:
        UserError: the folder holds no result, or a file in it is not what it should be; nothing
            has been written.
    """
    run = read(run_dir)
    page = view(run)
    contents = (html(run, page), comment(run, page), junit(page, run.result))
    for name, content in zip(FILES, contents, strict=True):
        write_text(run_dir / name, content)
    return run_dir / FILES[0]
