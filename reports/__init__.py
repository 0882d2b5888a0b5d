"""From run folders to what a reviewer decides from: `render(run)`, `overview(runs, out)`."""

from reports.outputs import render
from reports.runs import overview

__all__ = ["overview", "render"]
