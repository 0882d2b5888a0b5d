"""One call of a kernel, watched: poisoned outputs, guards, inputs that must stay as they were.

A launch is given outputs filled with one byte pattern inside a buffer that holds the pattern on
both sides too, and inputs whose neighbourhood is NaN. Afterwards it is said what changed; nothing
is judged here.
"""

from __future__ import annotations

import time
from contextlib import nullcontext
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Literal, Protocol

import torch

from verify import oracle
from verify.guard import Guarded, Mapped, little_memory

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from contextlib import AbstractContextManager

    from torch import Tensor

    from verify.cases import Probe
    from verify.inputs.argument import Argument, Malformed

Form = Literal["bf16", "mxfp8"]
FORMS: tuple[Form, ...] = ("bf16", "mxfp8")

POISONS = (0xFF, 0xA5)
"""0xFF is NaN in BF16, E4M3 and E8M0; 0xA5 a small number in each. What is left unwritten, or
written with one of the two by chance, shows in the other launch."""

Candidate = Any
"""A kernel under test: tensors by position, then keywords, outputs among them; returns nothing."""


class CaseLike(Protocol):
    """What the harness and the comparison ask of a case, whatever the operator."""

    @property
    def id(self) -> str:
        """Names it."""

    @property
    def exact(self) -> bool:
        """Whether y is judged with E = 0."""

    @property
    def golden(self) -> bool:
        """Whether every byte is known beforehand."""

    @property
    def tokens(self) -> int:
        """T."""

    @property
    def probe(self) -> Probe:
        """How it is launched."""


class Given(Protocol):
    """What they ask of an operator's inputs."""

    @property
    def case(self) -> CaseLike:
        """Where the inputs come from."""

    @property
    def rows(self) -> int:
        """T, rows of the output."""

    @property
    def columns(self) -> int:
        """N, columns of the output, a multiple of 32."""

    @property
    def terms(self) -> int:
        """Products in each sum."""

    @property
    def device(self) -> torch.device:
        """Where they lie."""

    @property
    def options(self) -> dict[str, object]:
        """Keyword arguments that are no tensors."""

    def arguments(self) -> tuple[Argument, ...]:
        """The tensors in the order in which the kernel takes them."""

    def reference(self, c: float, *, flushed: bool = False) -> oracle.Reference:
        """The right answer and its bound."""

    def column_name(self, column: int) -> str:
        """An output column in the operator's own words."""

    def slabs(self) -> dict[str, slice]:
        """Ranges of output columns that have a name."""

    def take(self, rows: Tensor) -> Given:
        """The same problem for some of the rows."""

    def variants(self) -> Iterator[Given]:
        """The same but for one thing each: what a kernel may think that it has seen before."""

    def malformed(self) -> Iterator[Malformed]:
        """Calls that must be refused."""


@dataclass(frozen=True)
class Launch:
    """What one call did.

    Attributes:
        form: which outputs it was given.
        poison: the byte that filled them.
        outputs: `out`, or `q` and `scales`, as the call left them.
        overruns: per output, offset in bytes from its start of a guard byte that changed.
        altered: what the call changed beside its outputs: inputs, settings of torch, and outputs
            once it had returned.
        error: the exception, one line; None if there was none.
        starved: it was told that there is no more memory.
        seconds: duration of the call, device included.
    """

    form: Form
    poison: int
    outputs: dict[str, Tensor]
    overruns: dict[str, int]
    altered: tuple[str, ...]
    error: str | None
    seconds: float
    starved: bool = False


class Stage:
    """A kernel's arguments, and its outputs where these are to be reused, at fixed addresses.

    Args:
        inputs: the largest problem to be staged.
        lasting: whether memory is kept from launch to launch and belongs to this stage alone;
            otherwise outputs are fresh each time, and large inputs shared with other stages.
    """

    def __init__(self, inputs: Given, *, lasting: bool = False) -> None:
        self.inputs = inputs
        self.kept: dict[str, Guarded] = {}
        self.returned: list[dict[str, Guarded]] = []
        self.lasting = lasting
        self.buffers: dict[str, Guarded | Mapped] = {}
        for argument in inputs.arguments():
            self.buffers[argument.name] = _staged(argument, shared=not lasting)
        if lasting:
            for form in FORMS:
                self.kept |= _outputs(inputs, form, POISONS[0])

    def load(self, inputs: Given) -> None:
        """Other contents, of as many rows or fewer, in the same memory; the same ones stay."""
        self.inputs = inputs
        for argument in inputs.arguments():
            buffer = self.buffers[argument.name]
            if isinstance(buffer, Guarded) and buffer.source is not argument.buffer:
                buffer.hold(argument.buffer)

    def arguments(self) -> dict[str, Tensor]:
        """What the kernel gets, by name and in order."""
        return {a.name: a.view(self.buffers[a.name].tensor) for a in self.inputs.arguments()}

    def outputs(self, form: Form, poison: int) -> dict[str, Guarded]:
        """Poisoned outputs."""
        if not self.lasting:
            self.returned.append(_outputs(self.inputs, form, poison))
            return self.returned[-1]
        shapes = _shapes(self.inputs, form)
        for name, (shape, _) in shapes.items():
            self.kept[name].carve(shape, poison)
        return {name: self.kept[name] for name in shapes}

    def launch(self, candidate: Candidate, form: Form, poison: int) -> Launch:
        """Call the kernel once and see what it did."""
        arguments, outputs = self.arguments(), self.outputs(form, poison)
        tensors = {name: buffer.tensor for name, buffer in outputs.items()}

        def call() -> None:
            returned = candidate(*arguments.values(), **self.inputs.options, **tensors)
            if returned is not None and all(buffer.untouched() for buffer in outputs.values()):
                names = " and ".join(outputs)
                raise TypeError(
                    f"it returned a {type(returned).__name__} and wrote nothing; "
                    f"a candidate writes into the {names} it is given"
                )

        return self.watch(call, form, poison, outputs)

    def watch(
        self, call: Callable[[], object], form: Form, poison: int, outputs: dict[str, Guarded]
    ) -> Launch:
        """Do what `call` does to these outputs, and see what it did."""
        before = settings()
        began = time.perf_counter()
        with self.memory():
            raised = attempt(call, self.inputs.device)
        seconds = time.perf_counter() - began
        # Copied at once: what is written later, by a thread, was not there for the caller.
        left = {name: buffer.read() for name, buffer in outputs.items()}
        changed = tuple(name for name, value in settings().items() if value != before[name])
        if changed:
            restore(before)
        overruns = {name: buffer.broken() for name, buffer in outputs.items()}
        return Launch(
            form=form,
            poison=poison,
            outputs=left,
            overruns={name: offset for name, offset in overruns.items() if offset is not None},
            altered=(*self.altered(), *changed),
            error=None if raised is None else told(raised),
            seconds=seconds,
            starved=raised is not None and _starved(raised),
        )

    def settled(self, launches: Iterable[Launch]) -> tuple[Launch, ...]:
        """The launches of this stage, with the outputs that changed once their call had returned.

        A thread may still have been writing, or a later call have written to an earlier one's.
        """
        seen = []
        for launch, outputs in zip(launches, self.returned, strict=True):
            late = tuple(
                f"{name} after it had returned"
                for name, buffer in outputs.items()
                if not torch.equal(as_bytes(buffer.read()), as_bytes(launch.outputs[name]))
                or (buffer.broken() is not None and name not in launch.overruns)
            )
            seen.append(replace(launch, altered=(*launch.altered, *late)))
        return tuple(seen)

    def memory(self) -> AbstractContextManager[None]:
        """What a call may take of it: little, on a CPU, beside an input past 2^31 elements."""
        mapped = any(isinstance(buffer, Mapped) for buffer in self.buffers.values())
        return little_memory() if mapped and self.inputs.device.type == "cpu" else nullcontext()

    def altered(self) -> tuple[str, ...]:
        """Inputs that changed; they are restored."""
        return tuple(name for name, buffer in self.buffers.items() if buffer.changed())


def attempt(call: Callable[[], object], device: torch.device) -> BaseException | None:
    """Make a call and wait for it; what it raised, if it did."""
    try:
        call()
        if device.type == "cuda":
            torch.cuda.synchronize(device)
    except (Exception, SystemExit) as raised:  # noqa: BLE001 - whatever it raises is the finding
        return raised
    finally:
        torch.set_flush_denormal(False)  # state that a kernel may leave behind in this thread
    return None


def _starved(raised: BaseException) -> bool:
    """Whether memory ended: torch on a CPU says so in the words of a RuntimeError only."""
    return isinstance(raised, MemoryError | torch.OutOfMemoryError) or (
        isinstance(raised, RuntimeError) and "can't allocate memory" in str(raised)
    )


def told(raised: BaseException) -> str:
    """Its type and message, one line that any terminal and file can take."""
    try:
        message = " ".join(str(raised).split())[:300]
    except Exception:  # noqa: BLE001 - the candidate's class, the candidate's __str__
        message = "(its message raises, too)"
    line = f"{type(raised).__name__}: {message}"
    return "".join(c if c.isprintable() else "\ufffd" for c in line)


_SETTINGS: dict[str, tuple[Callable[[], Any], Callable[[Any], object]]] = {
    "torch's default dtype": (torch.get_default_dtype, torch.set_default_dtype),
    "torch's default device": (torch.get_default_device, torch.set_default_device),
    "torch's grad mode": (torch.is_grad_enabled, torch.set_grad_enabled),
    "torch's number of threads": (torch.get_num_threads, torch.set_num_threads),
    "torch's precision of FP32 products": (
        torch.get_float32_matmul_precision,
        torch.set_float32_matmul_precision,
    ),
    "torch's deterministic mode": (
        torch.get_deterministic_debug_mode,
        torch.set_deterministic_debug_mode,
    ),
    "torch's random numbers": (
        lambda: torch.get_rng_state().numpy().tobytes(),
        lambda state: torch.set_rng_state(torch.frombuffer(bytearray(state), dtype=torch.uint8)),
    ),
}
"""What a call can change for everything that runs after it: how to ask, and how to put back."""


def settings() -> dict[str, Any]:
    """Their values."""
    return {name: ask() for name, (ask, _) in _SETTINGS.items()}


def restore(before: dict[str, Any]) -> None:
    """Put back what differs from them: setting a device, even the same, slows every call."""
    for name, value in settings().items():
        if value != before[name]:
            _SETTINGS[name][1](before[name])


def _staged(argument: Argument, *, shared: bool) -> Guarded | Mapped:
    if argument.mapped:
        return Mapped(argument.buffer, argument.view)
    if shared and argument.owner is not None:
        return _shared(argument.owner, argument)
    return Guarded.holding(argument.buffer, argument.guard)


class _Shared:
    """The staged form of what several cases share; `changed` restores it if a kernel wrote to it.

    Two of each name are kept: cases come family by family.
    """

    def __init__(self) -> None:
        self.kept: dict[str, list[tuple[object, Guarded]]] = {}

    def __call__(self, owner: object, argument: Argument) -> Guarded:
        mine = self.kept.setdefault(argument.name, [])
        for other, buffer in mine:
            if other is owner:
                return buffer
        mine.append((owner, Guarded.holding(argument.buffer, argument.guard)))
        del mine[:-4]
        return mine[-1][1]


_shared = _Shared()


def as_bytes(tensor: Tensor) -> Tensor:
    """The same memory: E4M3 and BF16 values do not compare by their bits."""
    return tensor.view(torch.uint8)


def _shapes(inputs: Given, form: Form) -> dict[str, tuple[tuple[int, ...], torch.dtype]]:
    rows, columns = inputs.rows, inputs.columns
    if form == "bf16":
        return {"out": ((rows, columns), torch.bfloat16)}
    return {
        "q": ((rows, columns), torch.float8_e4m3fn),
        "scales": ((oracle.scale_bytes(rows, columns),), torch.uint8),
    }


_GUARD_ROWS = 128
"""Rows of an output that a kernel with an unmasked tile may reach beyond its end."""


def _outputs(inputs: Given, form: Form, poison: int) -> dict[str, Guarded]:
    return {
        name: Guarded(
            shape,
            dtype,
            poison,
            _GUARD_ROWS * shape[1] * dtype.itemsize if len(shape) == 2 else shape[0],
            inputs.device,
        )
        for name, (shape, dtype) in _shapes(inputs, form).items()
    }
