"""Calls a kernel so that it cannot hide what it does to memory: poison, guards, pristine copies.

A launch is given outputs filled with one byte pattern inside a buffer that holds the pattern on
both sides too, and inputs whose neighbourhood is NaN. Afterwards the harness says what changed; it
judges nothing.
"""

from __future__ import annotations

import functools
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, Protocol

import torch

from verify import oracle

if TYPE_CHECKING:
    from torch import Tensor

    from verify.inputs import Inputs
    from verify.inputs.tables import Table
    from verify.oracle import Weight

Form = Literal["bf16", "mxfp8"]

POISONS = (0xFF, 0xA5)
"""0xFF is NaN in BF16, E4M3 and E8M0; 0xA5 a small number in each. What is left unwritten, or
written with one of the two by chance, shows in the other launch."""

_NAN_BYTE = 0xFF
_PAGE = 4096
"""Guards are a multiple of this, so that what lies between keeps its alignment."""


class Candidate(Protocol):
    """A kernel under test; see DESIGN for the arguments."""

    def __call__(
        self,
        x: Tensor,
        weight: Tensor,
        cos_sin: Tensor,
        positions: Tensor,
        *,
        head_dim: int = 512,
        out: Tensor | None = None,
        q: Tensor | None = None,
        scales: Tensor | None = None,
    ) -> None:
        """Write into `out`, or into `q` and `scales`."""


class Guarded:
    """A tensor in the middle of a buffer that is filled with one byte."""

    def __init__(
        self,
        shape: tuple[int, ...],
        dtype: torch.dtype,
        fill: int,
        guard: int,
        device: torch.device,
    ) -> None:
        self.fill = fill
        self.guard = -(-guard // _PAGE) * _PAGE
        live = torch.Size(shape).numel() * dtype.itemsize
        self.end = self.guard + live
        # Whole 8-byte words, as which two buffers compare six times faster than as bytes.
        size = -(-(self.end + self.guard) // 8) * 8
        self.raw = torch.full((size,), fill, dtype=torch.uint8, device=device)
        self.tensor = self.raw[self.guard : self.end].view(dtype).view(shape)
        self.pristine: Tensor | None = None

    @classmethod
    def holding(cls, values: Tensor, guard: int) -> Guarded:
        """A guarded copy that remembers what it holds, NaN on both sides (-1 for integers)."""
        copy = cls(tuple(values.shape), values.dtype, _NAN_BYTE, guard, values.device)
        copy.tensor.copy_(values)
        copy.pristine = copy.raw.clone()
        return copy

    def broken(self) -> int | None:
        """Offset in bytes, from the tensor's start, of the first guard byte that changed."""
        before = self.raw[: self.guard] != self.fill
        after = self.raw[self.end :] != self.fill
        # What lies behind is the likelier overrun, and nearest to the tensor the likelier cause.
        if bool(after.any()):
            return self.end - self.guard + int(after.nonzero()[0, 0])
        if bool(before.any()):
            return int(before.nonzero()[-1, 0]) - self.guard
        return None

    def changed(self) -> bool:
        """Whether anything differs from what `holding` put there; restores it."""
        assert self.pristine is not None
        if torch.equal(self.raw.view(torch.int64), self.pristine.view(torch.int64)):
            return False
        self.raw.copy_(self.pristine)
        return True


@dataclass(frozen=True)
class Launch:
    """What one call did.

    Attributes:
        form: which outputs it was given.
        poison: the byte that filled them.
        outputs: `out`, or `q` and `scales`, as the call left them.
        overruns: per output, offset in bytes from its start of a guard byte that changed.
        altered: inputs that no longer hold what they were given, and settings of torch that are
            no longer what they were.
        error: the exception, one line; None if there was none.
        seconds: duration of the call, device included.
    """

    form: Form
    poison: int
    outputs: dict[str, Tensor]
    overruns: dict[str, int]
    altered: tuple[str, ...]
    error: str | None
    seconds: float


@dataclass(frozen=True)
class Outcome:
    """All launches of a case, each form once with every poison."""

    launches: tuple[Launch, ...]

    def of(self, form: Form) -> list[Launch]:
        """The launches of one form that ended without an error."""
        return [a for a in self.launches if a.form == form and a.error is None]


def run(candidate: Candidate, inputs: Inputs) -> Outcome:
    """Launch both forms on differently poisoned buffers; an exception ends only its launch."""
    staged = stage(inputs)
    forms: tuple[Form, ...] = ("bf16", "mxfp8")
    return Outcome(
        tuple(launch(candidate, inputs, staged, form, p) for form in forms for p in POISONS)
    )


@dataclass(frozen=True)
class Staged:
    """Inputs where the kernel finds them."""

    x: Tensor
    buffers: dict[str, Guarded]


def stage(inputs: Inputs) -> Staged:
    """Lay the inputs out as the case says, everything around them NaN."""
    case = inputs.case
    wide = case.buffer * case.head_dim
    # NaN in the heads beside the kernel's own, and a whole row of it before and after.
    buffer = torch.full(
        (case.tokens, wide), torch.nan, dtype=inputs.x.dtype, device=inputs.x.device
    )
    start = case.first * case.head_dim
    columns = case.groups * case.k
    buffer[:, start : start + columns] = inputs.x.view(case.tokens, columns)
    rows = Guarded.holding(buffer, wide * buffer.itemsize)
    x = rows.tensor[:, start : start + columns].view(case.tokens, case.groups, case.k)
    return Staged(
        x,
        {
            "x": rows,
            "weight": _staged_weight(inputs.weight),
            "cos_sin": _staged_table(inputs.table),
            "positions": Guarded.holding(inputs.positions, _PAGE),
        },
    )


# Large and shared between cases; `Guarded.changed` restores them if a kernel wrote to them.


@functools.lru_cache(maxsize=2)
def _staged_weight(weight: Weight) -> Guarded:
    return Guarded.holding(weight.bf16, _PAGE)


@functools.lru_cache(maxsize=4)
def _staged_table(table: Table) -> Guarded:
    return Guarded.holding(table.cos_sin, _PAGE)


def launch(candidate: Candidate, inputs: Inputs, staged: Staged, form: Form, poison: int) -> Launch:
    """Call the kernel once on fresh outputs filled with `poison`."""
    outputs = _outputs(inputs, form, poison)
    buffers = staged.buffers
    error = None
    before = settings()
    began = time.perf_counter()
    try:
        candidate(
            staged.x,
            buffers["weight"].tensor,
            buffers["cos_sin"].tensor,
            buffers["positions"].tensor,
            head_dim=inputs.case.head_dim,
            **{name: buffer.tensor for name, buffer in outputs.items()},
        )
        if inputs.x.is_cuda:
            torch.cuda.synchronize(inputs.x.device)
    except (Exception, SystemExit) as raised:  # noqa: BLE001 - whatever it raises is the finding
        error = _told(raised)
    seconds = time.perf_counter() - began
    torch.set_flush_denormal(False)  # state that a kernel may leave behind in this thread
    left = tuple(name for name, value in settings().items() if value != before[name])
    if left:
        restore(before)
    overruns = {name: buffer.broken() for name, buffer in outputs.items()}
    return Launch(
        form=form,
        poison=poison,
        outputs={name: buffer.tensor for name, buffer in outputs.items()},
        overruns={name: offset for name, offset in overruns.items() if offset is not None},
        altered=(*(name for name, buffer in buffers.items() if buffer.changed()), *left),
        error=error,
        seconds=seconds,
    )


def _told(raised: BaseException) -> str:
    """Its type and message, one line that any terminal and file can take."""
    try:
        message = " ".join(str(raised).split())[:300]
    except Exception:  # noqa: BLE001 - the candidate's class, the candidate's __str__
        message = "(its message raises, too)"
    line = f"{type(raised).__name__}: {message}"
    return "".join(c if c.isprintable() else "\ufffd" for c in line)


def settings() -> dict[str, Any]:
    """What a call can change for everything that runs after it."""
    return {
        "torch's default dtype": torch.get_default_dtype(),
        "torch's default device": torch.get_default_device(),
        "torch's grad mode": torch.is_grad_enabled(),
    }


def restore(before: dict[str, Any]) -> None:
    """Put back what `settings` told."""
    dtype, device, grad = before.values()
    torch.set_default_dtype(dtype)
    if torch.get_default_device() != device:  # setting one, even the same, slows every call
        torch.set_default_device(device)
    torch.set_grad_enabled(grad)


def _outputs(inputs: Inputs, form: Form, poison: int) -> dict[str, Guarded]:
    case, device = inputs.case, inputs.x.device
    columns = case.groups * case.rank
    if form == "bf16":
        shape = (case.tokens, columns)
        return {"out": Guarded(shape, torch.bfloat16, poison, 4 * columns, device)}
    size = oracle.scale_bytes(case.tokens, columns)
    return {
        "q": Guarded((case.tokens, columns), torch.float8_e4m3fn, poison, 4 * columns, device),
        "scales": Guarded((size,), torch.uint8, poison, size, device),
    }
