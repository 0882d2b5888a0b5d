"""Which path a call takes: the fused kernel inside its domain, the chain outside it."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, Literal

import torch

from kernel.chain import chain
from kernel.contract import ContractError
from kernel.fused_cuda import PROVEN, fused_cuda
from kernel.fused_triton import MAX_TOKENS, fused_triton

if TYPE_CHECKING:
    from kernel.contract import Candidate


@dataclass(frozen=True)
class Decision:
    """The path one call took and why."""

    path: Literal["fused", "chain"]
    reason: str


class Dispatcher:
    """A candidate that passes each call on to the fused kernel or to the chain, and counts.

    `unproven` opts in to GPUs for which the fused kernel compiles but on which it has not run.
    An object whose `__init__` never ran, as a test harness may make one, takes the chain.
    """

    # What holds where __init__ never ran.
    fused: Candidate = staticmethod(fused_triton)
    enabled: bool = False
    unproven: bool = False
    max_tokens: int = MAX_TOKENS

    def __init__(
        self,
        fused: Candidate = fused_triton,
        *,
        enabled: bool = False,
        unproven: bool = False,
        max_tokens: int = MAX_TOKENS,
    ) -> None:
        self.fused = fused
        self.enabled = enabled
        self.unproven = unproven
        self.max_tokens = max_tokens

    @cached_property
    def counts(self) -> Counter[tuple[str, int]]:
        """Calls by path and number of tokens T."""
        return Counter()

    @cached_property
    def reasons(self) -> Counter[str]:
        """Calls by reason."""
        return Counter()

    def __call__(self, x: torch.Tensor, *inputs: torch.Tensor, **options: Any) -> Decision:
        """Write the outputs by the path that applies, and say which; arguments as `chain`.

        Raises:
            ContractError: the chain refuses the call too; nothing has been written or counted.
        """
        decision = self._decide(x)
        if decision.path == "fused":
            try:
                self.fused(x, *inputs, **options)
            except ContractError as refusal:
                decision = Decision("chain", f"fused kernel refused: {refusal}")
        if decision.path == "chain":
            chain(x, *inputs, **options)
        self.counts[decision.path, x.shape[0]] += 1
        self.reasons[decision.reason] += 1
        return decision

    def _decide(self, x: torch.Tensor) -> Decision:
        if not self.enabled:
            return Decision("chain", "fused kernel not enabled")
        if x.dim() == 3 and x.shape[0] > self.max_tokens:
            return Decision("chain", f"more than {self.max_tokens} tokens")
        if self.fused is fused_cuda and x.is_cuda and not self.unproven:
            capability = torch.cuda.get_device_capability(x.device)
            if capability not in PROVEN:
                major, minor = capability
                return Decision("chain", f"not run on compute capability {major}.{minor} so far")
        return Decision("fused", "enabled and eligible")
