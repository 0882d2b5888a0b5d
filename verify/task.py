"""What a run asks, and by which rules: fixed before its first answer."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from evals.suite import Item, Questions, Suite


@dataclass(frozen=True)
class Rules:
    """How a run is conducted, fixed before its first answer.

    Attributes:
        early_stop: whether a suite may end before all is asked, once its evidence suffices.
        certify: whether the e-process is the only route to a pass.
        seed: of the orders in which questions are asked.
        extend_capped: a larger token limit, with which both arms are asked again what either
            left unfinished; None: as it is.
    """

    early_stop: bool = True
    certify: bool = False
    seed: int = 0
    extend_capped: int | None = None


@dataclass(frozen=True)
class Task:
    """One suite as it is to be asked."""

    suite: Suite
    questions: Questions
    items: tuple[Item, ...]
    """Those asked: the first of `questions` by content hash."""
    margin_pt: float
    margin_from: str
    """Where the margin was set: the suite, verify.toml or the command line."""
    orders: tuple[tuple[int, ...], ...]
    """For each repeat, the order in which `items` are asked."""
    load: int | None = None
    """Requests in flight, where the suite is asked at several loads; None: as the arms say."""
    sampling_seed: int = 0

    @property
    def name(self) -> str:
        """The suite's name; asked at several loads it is a suite at each of them: gsm8k@64."""
        name: str = self.suite.spec.name
        return name if self.load is None else f"{name}@{self.load}"

    def seed(self, index: int, repeat: int) -> int:
        """Of the sampling: the same in both arms, another for every item and repeat."""
        about = f"{self.sampling_seed}:{self.items[index].id}:{repeat}"
        return int.from_bytes(hashlib.sha256(about.encode()).digest()[:4]) >> 1

    @property
    def answers(self) -> int:
        """Answers that are asked of each arm."""
        return len(self.items) * len(self.orders)
