"""The embedded model in a process of its own: one JSON line in a job, JSON lines out its answers.

A process of its own, because the two arms should use two cores, and because a kernel under test
may take its process with it.
"""

from __future__ import annotations

import hashlib
import inspect
import os
import queue
import threading
import time
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

import msgspec

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    import torch

    from kernel.dispatch import Decision, Dispatcher


BATCH = 192
"""Most questions that are answered together; no built-in suite asks more by default."""


def batches(prompts: Sequence[str]) -> list[list[int]]:
    """Indices of the questions that are answered together, the longest first.

    A text may depend on what is answered beside it, for a kernel's rounding may depend on T. So
    batches depend on the set of questions alone, not on its order or on who answers it.
    """
    order = sorted(range(len(prompts)), key=lambda index: (-len(prompts[index]), prompts[index]))
    size = -(-len(order) // -(-len(order) // BATCH)) if order else 1
    return [order[start : start + size] for start in range(0, len(order), size)]


class Setup(msgspec.Struct):
    """First line in: the arm's name and its kernel, `module:function`; None is the chain."""

    arm: str
    kernel: str | None


class Job(msgspec.Struct):
    """Further lines in: prompts to answer."""

    prompts: list[str]
    max_tokens: int


class Ready(msgspec.Struct, tag=True):
    """The model is loaded."""

    device: str
    max_rows: int
    weights_sha256: str
    kernel_sha256: str | None
    """Of the file that the kernel stands in; None of the chain, or where there is none."""


class Alive(msgspec.Struct, tag=True):
    """WO-A returned; said about once a second, so that silence means a call that hangs."""


class Answered(msgspec.Struct, tag=True):
    """One prompt is answered."""

    index: int
    text: str
    tokens: int
    truncated: bool


class Done(msgspec.Struct, tag=True):
    """All prompts of a job are answered; calls of WO-A so far, by path and T, and by reason."""

    counts: list[tuple[str, int, int]]
    reasons: dict[str, int]

    @property
    def fused(self) -> int:
        """Calls that took the fused path."""
        return sum(calls for path, _, calls in self.counts if path == "fused")


def together(done: Iterable[Done]) -> Done:
    """The calls of several processes."""
    counts: Counter[tuple[str, int]] = Counter()
    reasons: Counter[str] = Counter()
    for each in done:
        counts.update({(path, rows): calls for path, rows, calls in each.counts})
        reasons.update(each.reasons)
    return Done([(*key, calls) for key, calls in sorted(counts.items())], dict(reasons))


class Broken(msgspec.Struct, tag=True):
    """Nothing more will come; why, in one line."""

    message: str


Message = Ready | Alive | Answered | Done | Broken


def serve(lines: Iterable[bytes], out: BinaryIO) -> None:
    """Answer jobs until there are no more; the first line is the Setup."""

    def send(message: Message) -> None:
        out.write(msgspec.json.encode(message) + b"\n")
        out.flush()

    remaining = iter(lines)
    setup = msgspec.json.decode(next(remaining), type=Setup)
    try:
        _answer_all(setup, remaining, send)
    except BrokenPipeError:
        return  # the run has ended without us
    except Exception as error:  # noqa: BLE001 - a kernel under test may raise anything
        named = str(error) if type(error).__name__ == "UserError" else _one_line(error)
        send(Broken(named.replace("--candidate ", f"--arm {setup.arm}=", 1)))


def _answer_all(setup: Setup, lines: Iterable[bytes], send: Callable[[Message], None]) -> None:
    import torch  # noqa: PLC0415 - a second of import, which the parent need not wait for

    from evals.mini import model  # noqa: PLC0415 - likewise
    from evals.mini.engine import Engine  # noqa: PLC0415 - likewise
    from kernel.dispatch import Dispatcher  # noqa: PLC0415 - likewise
    from verify.session import load  # noqa: PLC0415 - likewise

    torch.set_num_threads(1)
    device = "cuda" if torch.cuda.is_available() else "cpu"
    kernel = load(setup.kernel) if setup.kernel else None
    dispatcher = Dispatcher(kernel, enabled=True) if kernel else Dispatcher()
    engine = Engine(_telling(dispatcher, send), device=device)
    weights = hashlib.sha256(model.WEIGHTS.read_bytes()).hexdigest()
    send(Ready(device, engine.max_rows, weights, _source_sha256(kernel)))
    for line in lines:
        job = msgspec.json.decode(line, type=Job)
        for index, found in engine.generate(job.prompts, max_tokens=job.max_tokens):
            send(Answered(index, found.text, found.tokens, found.truncated))
        counts = [(path, rows, calls) for (path, rows), calls in sorted(dispatcher.counts.items())]
        send(Done(counts, dict(dispatcher.reasons)))


def _source_sha256(kernel: Callable[..., object] | None) -> str | None:
    try:
        file = inspect.getsourcefile(inspect.unwrap(kernel)) if kernel else None
        return hashlib.sha256(Path(file).read_bytes()).hexdigest() if file else None
    except (TypeError, ValueError, OSError):  # no function of Python's, or made by one
        return None


def _telling(dispatcher: Dispatcher, send: Callable[[Message], None]) -> Callable[..., Decision]:
    """The dispatcher, saying that it is alive."""
    said = time.monotonic()

    def call(*tensors: torch.Tensor, **options: Any) -> Decision:
        nonlocal said
        decision = dispatcher(*tensors, **options)
        if time.monotonic() - said > 1:
            said = time.monotonic()
            send(Alive())
        return decision

    return call


def _one_line(error: Exception) -> str:
    return " ".join(f"{type(error).__name__}: {error}".split())[:500]


def _received(pipe: BinaryIO) -> Iterator[bytes]:
    """Lines as they come; once their sender is gone, so is this process, whatever it is doing."""
    waiting: queue.SimpleQueue[bytes] = queue.SimpleQueue()

    def read() -> None:
        for line in pipe:
            waiting.put(line)
        os._exit(1)

    threading.Thread(target=read, daemon=True).start()
    while True:
        yield waiting.get()


def main() -> None:
    """Serve this process's own pipes; a kernel reads nothing and prints to standard error."""
    lines = os.fdopen(os.dup(0), "rb")
    out = os.fdopen(os.dup(1), "wb")
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    os.dup2(2, 1)
    serve(_received(lines), out)
