"""Writes the test files of mini-gsm8k, mini-aime and mini-gpqa: `python -m evals.mini.generate`.

The shares of easy and hard kinds set how often the embedded model is right, so that there is
something to lose: see MODEL_CARD.md for its accuracy on each kind.
"""

from __future__ import annotations

import hashlib
import json
import random
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from evals.mini import problems

if TYPE_CHECKING:
    from collections.abc import Mapping

SEED = 20261201


@dataclass(frozen=True)
class Mixture:
    """What a suite's test file is made of."""

    rows: int
    shares: Mapping[str, float]  # of each kind of problem


MIXTURES: Mapping[str, Mixture] = {
    "mini-gsm8k": Mixture(
        rows=1319,
        shares={"now": 0.30, "earns": 0.20, "full": 0.15, "left_over": 0.12, "earns_more": 0.23},
    ),
    "mini-aime": Mixture(
        rows=320,
        shares={
            "remainder": 0.15,
            "sequence": 0.15,
            "divisible": 0.15,
            "digits": 0.40,
            "series": 0.15,
        },
    ),
    "mini-gpqa": Mixture(
        rows=448,
        shares={
            "easy_product": 0.1,
            "hard_product": 0.4,
            "energy": 0.1,
            "ratio": 0.1,
            "half_life": 0.1,
            "nucleus": 0.1,
            "alpha": 0.1,
        },
    ),
}


def generate(suite: str) -> list[problems.Problem]:
    """The suite's test problems: held out, no question twice."""
    mixture = MIXTURES[suite]
    rng = random.Random(f"{suite}/{SEED}")  # noqa: S311 - problems, not secrets
    kinds, shares = tuple(mixture.shares), tuple(mixture.shares.values())
    made: dict[str, problems.Problem] = {}
    while len(made) < mixture.rows:
        problem = problems.draw(rng, suite, rng.choices(kinds, shares)[0], held_out=True)
        made.setdefault(problem.question, problem)
    return list(made.values())


def serialise(rows: list[problems.Problem]) -> str:
    """One JSON object a line."""
    return "".join(f"{json.dumps({'question': p.question, 'answer': p.answer})}\n" for p in rows)


def main() -> None:
    """Write each test file and print the hash that its suite.toml must state."""
    for suite in MIXTURES:
        path = Path(__file__).parents[1] / suite / "test.jsonl"
        text = serialise(generate(suite))
        aside = path.with_suffix(".partial")
        aside.write_text(text, encoding="utf-8")
        aside.rename(path)
        print(f'{suite}: sha256 = "{hashlib.sha256(text.encode()).hexdigest()}"')  # noqa: T201 - the program's output


if __name__ == "__main__":
    main()
