"""From a run folder to a page that a reviewer can decide from: `reports.render(run_dir)`."""

from reports.page import render

__all__ = ["render"]
