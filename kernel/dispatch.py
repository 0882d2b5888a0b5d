"""Which path a call takes: the fused kernel inside its domain, the chain outside it."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Literal, Protocol

from kernel.chain import chain
from kernel.contract import ContractError
from kernel.fused_triton import MAX_TOKENS, fused_triton

if TYPE_CHECKING:
    import torch


class Candidate(Protocol):
    """A WO-A kernel; arguments as `kernel.chain.chain`."""

    def __call__(
        self,
        x: torch.Tensor,
        weight: torch.Tensor,
        cos_sin: torch.Tensor,
        positions: torch.Tensor,
        *,
        head_dim: int = 512,
        out: torch.Tensor | None = None,
        q: torch.Tensor | None = None,
        scales: torch.Tensor | None = None,
    ) -> None:
        """Write `out`, or `q` and `scales`."""


@dataclass(frozen=True)
class Decision:
    """The path one call took and why."""

    path: Literal["fused", "chain"]
    reason: str


class Dispatcher:
    """A candidate that passes each call on to the fused kernel or to the chain, and counts.

    An object whose `__init__` never ran, as a test harness may make one, takes the chain.
    """

    # What holds where __init__ never ran.
    fused: Candidate = staticmethod(fused_triton)
    enabled: bool = False
    max_tokens: int = MAX_TOKENS

    def __init__(
        self,
        fused: Candidate = fused_triton,
        *,
        enabled: bool = False,
        max_tokens: int = MAX_TOKENS,
    ) -> None:
        self.fused = fused
        self.enabled = enabled
        self.max_tokens = max_tokens

    @cached_property
    def counts(self) -> Counter[tuple[str, int]]:
        """Calls by path and number of tokens T."""
        return Counter()

    @cached_property
    def reasons(self) -> Counter[str]:
        """Calls by reason."""
        return Counter()

    def __call__(
        self,
        x: torch.Tensor,
        weight: torch.Tensor,
        cos_sin: torch.Tensor,
        positions: torch.Tensor,
        *,
        head_dim: int = 512,
        out: torch.Tensor | None = None,
        q: torch.Tensor | None = None,
        scales: torch.Tensor | None = None,
    ) -> Decision:
        """Write the outputs by the path that applies, and say which; arguments as `chain`.

        Raises:
            ContractError: the chain refuses the call too; nothing has been written or counted.
        """
        decision = self._decide(x)
        if decision.path == "fused":
            try:
                self.fused(
                    x, weight, cos_sin, positions, head_dim=head_dim, out=out, q=q, scales=scales
                )
            except ContractError as refusal:
                decision = Decision("chain", f"fused kernel refused: {refusal}")
        if decision.path == "chain":
            chain(x, weight, cos_sin, positions, head_dim=head_dim, out=out, q=q, scales=scales)
        self.counts[decision.path, x.shape[0]] += 1
        self.reasons[decision.reason] += 1
        return decision

    def _decide(self, x: torch.Tensor) -> Decision:
        if not self.enabled:
            return Decision("chain", "fused kernel not enabled")
        if x.dim() == 3 and x.shape[0] > self.max_tokens:
            return Decision("chain", f"more than {self.max_tokens} tokens")
        return Decision("fused", "enabled and eligible")
