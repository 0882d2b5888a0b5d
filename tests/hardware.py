"""The registry of where each test must run, and what follows from it."""

from __future__ import annotations

import tomllib
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Registry:
    """What hardware.toml says.

    Attributes:
        must_run_on: architectures by the beginning of a test's id.
        may_skip: why a skip is right, by the beginning of its reason.
    """

    must_run_on: dict[str, list[str]]
    may_skip: dict[str, str]

    @classmethod
    def read(cls) -> Registry:
        """From the file beside this one."""
        path = Path(__file__).with_name("hardware.toml")
        return cls(**tomllib.loads(path.read_text(encoding="utf-8")))

    @property
    def known(self) -> set[str]:
        """Every architecture that is named."""
        return {name for names in self.must_run_on.values() for name in names}

    def of(self, test: str) -> list[str]:
        """Where the test with this id must run; empty if no entry covers it."""
        covering = [entry for entry in self.must_run_on if _begins(test, entry)]
        return self.must_run_on[max(covering, key=len)] if covering else []

    def wrongly_skipped(self, test: str, reason: str, here: set[str]) -> bool:
        """Whether the test must run on one of the architectures that are here, and no reason is."""
        excused = any(reason.startswith(known) for known in self.may_skip)
        return bool(here.intersection(self.of(test))) and not excused


def _begins(test: str, entry: str) -> bool:
    rest = test.removeprefix(entry)
    return test.startswith(entry) and (not rest or rest[0] in "/:[")


def here() -> set[str]:
    """What this machine has."""
    import torch

    if not torch.cuda.is_available():
        return {"cpu"}
    major, minor = torch.cuda.get_device_capability()
    return {"cpu", f"sm{major}{minor}"}
