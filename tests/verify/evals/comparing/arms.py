"""Two arms made up from a table, as files of records."""

from __future__ import annotations

import json

import numpy as np

PUBLISHED = {"both": 1275, "lost": 7, "gained": 3, "neither": 29}


def records(both, lost, gained, neither):
    """Two arms of single answers, as records."""
    right = {"base": (1, 1, 0, 0), "pr": (1, 0, 1, 0)}
    return {
        arm: [
            {"item": f"q{n}", "correct": bool(c), "suite": "gsm8k", "truncated": False}
            for n, c in enumerate(np.repeat(of, [both, lost, gained, neither]).tolist())
        ]
        for arm, of in right.items()
    }


def write(path, rows):
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path
