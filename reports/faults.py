"""How sharp the cases of layers 1 and 2 are: what `verify.faults` left in a run's folder."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

import msgspec

from reports import words
from verify.command import UserError

if TYPE_CHECKING:
    from pathlib import Path

FILE = "faults.json"


class Score(msgspec.Struct, frozen=True):
    """What is used of one kernel's score."""

    kind: Literal["fault", "honest", "equivalent"]
    name: str
    noticed: bool
    checks: tuple[str, ...]
    cases: int


class Scores(msgspec.Struct, frozen=True):
    """What is used of faults.json."""

    scores: tuple[Score, ...]


def sharpness(folder: Path) -> str:
    """One sentence: planted faults noticed, right kernels accused; empty where none were planted.

    Raises:
        UserError: the file is there and is not what verify.faults writes.
    """
    path = folder / FILE
    try:
        found = msgspec.json.decode(path.read_bytes(), type=Scores)
    except (FileNotFoundError, NotADirectoryError):
        return ""
    except (OSError, msgspec.DecodeError) as error:
        raise UserError(f"{path}: {error}; write it by python -m verify.faults --json") from None
    faults = [score for score in found.scores if score.kind == "fault"]
    right = [score for score in found.scores if score.kind == "honest"]
    noticed = sum(score.noticed for score in faults)
    accused = {score.name for score in right if score.checks}
    return (
        f"Of {words.count(len(faults), 'fault')} planted in a model of this kernel, such cases "
        f"notice {noticed:,}; of {words.count(len({s.name for s in right}), 'kernel')} that are "
        f"right, judged in {words.count(sum(s.cases for s in right), 'case')}, they accuse "
        f"{len(accused):,}."
    )
