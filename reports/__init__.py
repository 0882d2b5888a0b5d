"""From a run folder to what a reviewer decides from: `reports.render(run_dir)`."""

from reports.outputs import render

__all__ = ["render"]
