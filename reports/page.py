"""The page: one self-contained document of HTML."""

from __future__ import annotations

import base64
import hashlib
import json
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup

from reports import charts, text, words

if TYPE_CHECKING:
    from reports.read import Run
    from reports.view import Page

TEMPLATES = Path(__file__).parent / "templates"


def html(run: Run, page: Page) -> str:
    """The page as one document that loads nothing."""
    forest = charts.forest(run.result.suites)
    return document("page.html.j2", page=page, forest=forest, data=_embedded(page.data))


def document(template: str, **content: Any) -> str:
    """A document of this folder's templates, with the style sheet and script they share."""
    style, script = (_source(name) for name in ("style.css", "page.js"))
    shared = {"style": style, "script": script, "policy": _policy(style, script)}
    return _environment().get_template(template).render(**shared, **content)


@cache
def _environment() -> Environment:
    environment = Environment(
        loader=FileSystemLoader(TEMPLATES),
        autoescape=True,
        undefined=StrictUndefined,
        finalize=_shown,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters["marked"] = text.marked
    environment.globals["words"] = words
    return environment


def _shown(value: Any) -> Any:
    """Whatever a template prints: hidden characters as signs, in attributes too; never None."""
    if value is None:
        raise TypeError("a template prints None; it must say what is not known")
    return text.visible(value) if type(value) is str else value


def _source(name: str) -> Markup:
    """A style sheet or script of ours, as it stands between its tags."""
    source = (TEMPLATES / name).read_text(encoding="utf-8")
    return Markup(source)  # noqa: S704 - a file of this package


def _policy(style: str, script: str) -> str:
    """A content security policy: this style sheet, this script, and nothing from anywhere else."""
    return "; ".join(
        [
            "default-src 'none'",
            f"style-src '{_digest(style)}'",
            f"script-src '{_digest(script)}'",
            "img-src data:",
            "base-uri 'none'",
            "form-action 'none'",
        ]
    )


def _digest(source: str) -> str:
    return "sha256-" + base64.b64encode(hashlib.sha256(source.encode()).digest()).decode()


def _embedded(data: dict[str, Any]) -> Markup:
    """JSON that no content can end early: ASCII, with each sign that HTML reads written out."""
    document = json.dumps(data, ensure_ascii=True, separators=(",", ":"))
    for sign in "<>&":
        document = document.replace(sign, f"\\u{ord(sign):04x}")
    return Markup(document)  # noqa: S704 - no sign that HTML reads is left
