"""Values of a log: read strictly, hashed, and shown in the one line that refuses them."""

from __future__ import annotations

import hashlib
import json
import math
from typing import TYPE_CHECKING, Any

from verify.command import UserError
from verify.verdict import Verdict

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

INVALID = Verdict.INVALID.exit_code
_LONGEST = 60  # of a value in a message
_MOST = 12  # names in a message


def refuse(
    path: Path, line: int | None, problem: str, exit_code: int = INVALID, unit: str = "line"
) -> UserError:
    """The one line that names the file, the line, what is wrong there and the remedy."""
    where = f"{path}, {unit} {line}" if line is not None else f"{path}"
    return UserError(f"{where}: {problem}", exit_code)


def shown(value: Any) -> str:
    """A bad value as a message shows it."""
    text = repr(value)
    return text if len(text) <= _LONGEST else text[: _LONGEST - 3] + "..."


def listed(names: Iterable[str]) -> str:
    """Names to choose from, the first few of many."""
    found = sorted(names)
    more = f" and {len(found) - _MOST} more" if len(found) > _MOST else ""
    readable = (name if name.isprintable() else shown(name) for name in found[:_MOST])
    return ", ".join(name[:_LONGEST] for name in readable) + more


def sha256(value: Any) -> str:
    """SHA-256 in hexadecimal of a text, or of anything else as JSON with sorted keys."""
    text = value if isinstance(value, str) else json.dumps(value, sort_keys=True)
    # Half a surrogate pair is what a cut answer may end in.
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


_WORDS = {"c": 1.0, "p": 0.5, "i": 0.0, "n": 0.0, "true": 1.0, "yes": 1.0, "false": 0.0, "no": 0.0}


def as_score(value: Any) -> float:
    """A score from 0 to 1: true and false, a number, or inspect_ai's C, P, I and N.

    Raises:
        ValueError: anything else, NaN included; the message says what was found.
    """
    if isinstance(value, str):
        word = _WORDS.get(value.strip().lower())
        try:
            value = float(value) if word is None else word
        except ValueError:
            problem = f"score {shown(value)} is no number, true, false, C, I, P or N"
            raise ValueError(problem) from None
    if not isinstance(value, (bool, int, float)):
        raise ValueError(f"score {shown(value)} ({type(value).__name__}) is no number")  # noqa: TRY004 - a bad value of the log, not of the program
    try:
        number = float(value)
    except OverflowError:  # a whole number beyond every float
        number = math.inf
    if math.isnan(number):
        raise ValueError("score is NaN, so the answer was never graded; grade it or drop the run")
    if not 0 <= number <= 1:
        raise ValueError(f"score {number:g} is outside 0 to 1; rescale it")
    return number
