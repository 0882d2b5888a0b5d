"""What is timed, on weights that rotate: a candidate, or the read floor; and whether it is right.

A candidate's outputs are judged once by the oracle, layer 1 and 2, before they are timed; each
sweep must leave the same bytes again, in outputs that were poisoned before it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch

from verify import oracle
from verify.inputs import draw, tables
from verify.launch import FORMS, POISONS

if TYPE_CHECKING:
    from collections.abc import Callable

    from torch import Tensor

    from verify.launch import Form
    from verify.spec import KernelSpec

_LENGTH = tables.SHORT_TABLE


class RefusedError(Exception):
    """A candidate that does not run here, or is wrong before it is timed; one line says why."""


@dataclass(frozen=True)
class Given:
    """The inputs of all launches at one T.

    Attributes:
        spec: the sizes.
        weights: BF16 [G, R, K] each, together at least five times the cache.
        x: BF16 [T, G, K] contiguous; as positions and table the same for all, and in the cache.
        cos_sin: FP32 [S, rope_dim].
        positions: INT32 [T].
    """

    spec: KernelSpec
    weights: tuple[Tensor, ...]
    x: Tensor
    cos_sin: Tensor
    positions: Tensor

    def outputs(self, form: Form) -> dict[str, Tensor]:
        """Fresh outputs of one launch, poisoned."""
        rows, columns = self.x.shape[0], self.spec.groups * self.spec.rank
        made: dict[str, Tensor] = {}
        if form == "bf16":
            made["out"] = self.x.new_empty(rows, columns)
        else:
            made["q"] = self.x.new_empty((rows, columns), dtype=torch.float8_e4m3fn)
            size = oracle.scale_bytes(rows, columns)
            made["scales"] = self.x.new_empty(size, dtype=torch.uint8)
        for tensor in made.values():
            poison(tensor)
        return made


def weights(spec: KernelSpec, cache: int, seed: int, device: torch.device) -> tuple[Tensor, ...]:
    """So many weights N(0, 1/K) that together they are at least five times `cache` bytes."""
    size = 2 * spec.groups * spec.rank * spec.k
    random = torch.Generator(device).manual_seed(seed)
    made = []
    for _ in range(max(2, -(-5 * cache // size))):
        drawn = torch.randn(
            spec.groups, spec.rank, spec.k, generator=random, device=device, dtype=torch.float32
        )
        made.append((drawn / spec.k**0.5).to(torch.bfloat16))
    return tuple(made)


def given(spec: KernelSpec, buffers: tuple[Tensor, ...], tokens: int, seed: int) -> Given:
    """Normal activations and positions anywhere in a short table."""
    device = buffers[0].device
    random = draw.generator(f"latency T={tokens}", seed)
    x = draw.normal((tokens, spec.groups, spec.k), random).to(torch.bfloat16)
    positions = torch.randint(0, _LENGTH, (tokens,), generator=random, dtype=torch.int32)
    table = tables.table("yarn", _LENGTH, spec.rope_dim, seed, device)
    return Given(spec, buffers, x.to(device), table.cos_sin, positions.to(device))


def poison(tensor: Tensor) -> None:
    """Fill with a byte that is NaN in every output format."""
    tensor.view(torch.uint8).fill_(POISONS[0])


class CandidateWork:
    """A candidate in one output form.

    Raises:
        RefusedError: it raises, or what it writes is wrong.
    """

    def __init__(self, call: Callable[..., object], inputs: Given, form: Form) -> None:
        self.outputs = [inputs.outputs(form) for _ in inputs.weights]
        self.expected = [judged(call, inputs, weight)[form] for weight in inputs.weights]
        self.launches = [
            _launch(call, inputs, weight, outputs)
            for weight, outputs in zip(inputs.weights, self.outputs, strict=True)
        ]

    def spoil(self) -> None:
        """Poison every output."""
        for outputs in self.outputs:
            for tensor in outputs.values():
                poison(tensor)

    def wrong(self) -> str | None:
        """Which output of which weight buffer is not what it was when it was judged."""
        for number, (now, before) in enumerate(zip(self.outputs, self.expected, strict=True)):
            for name, tensor in now.items():
                bad = int((tensor.view(torch.uint8) != before[name].view(torch.uint8)).sum())
                if bad:
                    return f"{name} of weight buffer {number}: {bad} bytes differ"
        return None


class FloorWork:
    """The read floor: every KB of every weight buffer, one word kept."""

    def __init__(
        self,
        read: Callable[[Tensor, Tensor], object],
        expected: Callable[[Tensor], Tensor],
        inputs: Given,
    ) -> None:
        self.expected = [expected(weight) for weight in inputs.weights]
        self.kept = [torch.empty_like(words) for words in self.expected]
        self.launches = [
            _bound(read, weight, kept)
            for weight, kept in zip(inputs.weights, self.kept, strict=True)
        ]
        self.spoil()
        for launch in self.launches:
            _try(launch, inputs.x.device)

    def spoil(self) -> None:
        """Poison what it keeps."""
        for kept in self.kept:
            poison(kept)

    def wrong(self) -> str | None:
        """Which weight buffer was not read."""
        for number, (kept, expected) in enumerate(zip(self.kept, self.expected, strict=True)):
            if not torch.equal(kept, expected):
                return f"weight buffer {number} was not read whole"
        return None


def judged(
    call: Callable[..., object], inputs: Given, weight: Tensor
) -> dict[Form, dict[str, Tensor]]:
    """What a candidate writes for one weight, in both forms, once the oracle has agreed.

    Raises:
        RefusedError: it raises, or what it writes is wrong.
    """
    made = {form: inputs.outputs(form) for form in FORMS}
    for outputs in made.values():
        _try(_launch(call, inputs, weight, outputs), inputs.x.device)
    spec = inputs.spec
    rotated = oracle.rotate(inputs.x, inputs.cos_sin, inputs.positions, spec.head_dim)
    reference = oracle.reference(rotated, oracle.Weight(weight), spec.roundings(spec.k))
    out = made["bf16"]["out"]
    y = out.to(torch.float64)
    bad = int((~((y >= reference.lower) & (y <= reference.upper))).sum())
    if bad:
        raise RefusedError(f"wrong: out has {bad} elements outside the bound of layer 1")
    right = oracle.quantise(out)
    scales = {"q": right.codes, "scales": oracle.swizzle(right.scales)}
    for name, tensor in made["mxfp8"].items():
        bad = int((tensor.view(torch.uint8) != scales[name]).sum())
        if bad:
            raise RefusedError(f"wrong: {name} has {bad} bytes that are not those of its own out")
    return made


def _try(call: Callable[[], object], device: torch.device) -> None:
    """Make a call and wait for it; what it raises is why it is not timed."""
    try:
        call()
        if device.type == "cuda":
            torch.cuda.synchronize(device)
    except Exception as error:  # a candidate may raise anything
        message = " ".join(f"{type(error).__name__}: {error}".split())[:300]
        raise RefusedError(message) from error


def _launch(
    call: Callable[..., object], inputs: Given, weight: Tensor, outputs: dict[str, Tensor]
) -> Callable[[], object]:
    options: dict[str, Any] = {"head_dim": inputs.spec.head_dim, **outputs}
    return lambda: call(inputs.x, weight, inputs.cos_sin, inputs.positions, **options)


def _bound(
    read: Callable[[Tensor, Tensor], object], weight: Tensor, kept: Tensor
) -> Callable[[], object]:
    return lambda: read(weight, kept)
