"""The malformed calls of a WO-A kernel: each must raise before it writes."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch

from verify import oracle
from verify.inputs.argument import Malformed

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from torch import Tensor

    Tensors = dict[str, Tensor]
    Changed = tuple[Tensors, Tensors]


def malformed(rows: int, device: torch.device) -> Iterator[Malformed]:
    """One of every kind, made of a right call with T = rows, the kernel's largest."""
    yield Malformed("T = 0", _rows(0))
    yield Malformed(f"T = {rows + 1}", _rows(rows + 1), beyond=True)
    for what, name, change in (
        ("x in FP32", "x", torch.Tensor.float),
        ("x in FP16", "x", torch.Tensor.half),
        ("x in every second column", "x", lambda x: x[..., ::2]),
        ("x of two dimensions", "x", lambda x: x.flatten(1)),
        ("weight in FP16", "weight", torch.Tensor.half),
        ("weight stored by columns", "weight", lambda w: w.mT.contiguous().mT),
        ("weight of one column less", "weight", lambda w: w[..., 1:].contiguous()),
        ("cos_sin of one column less", "cos_sin", lambda c: c[:, 1:].contiguous()),
        ("positions in FP32", "positions", torch.Tensor.float),
        ("one position less", "positions", lambda p: p[1:].clone()),
    ):
        yield Malformed(what, _argument(name, change))
    if device.type == "cpu":  # on a GPU, looking would mean to wait for it
        yield Malformed("position -1", _argument("positions", lambda p: p.clone().fill_(-1)))
        yield Malformed("a position past the table", _past_the_table)
    yield Malformed("both forms of output", _both)
    if rows > 1:
        yield Malformed("outputs of more rows than x", _more_rows)
    yield Malformed("no output", lambda arguments, _: (arguments, {}))
    yield Malformed("an output too short", _outputs(lambda o: o[..., 32:].contiguous()))
    yield Malformed("an output of another dtype", _outputs(lambda o: o.view(torch.int8)))


def _argument(
    name: str, change: Callable[[Tensor], Tensor]
) -> Callable[[Tensors, Tensors], Changed]:
    return lambda arguments, outputs: (arguments | {name: change(arguments[name])}, outputs)


def _outputs(change: Callable[[Tensor], Tensor]) -> Callable[[Tensors, Tensors], Changed]:
    return lambda arguments, outputs: (arguments, {n: change(o) for n, o in outputs.items()})


def _past_the_table(arguments: Tensors, outputs: Tensors) -> Changed:
    beyond = torch.full_like(arguments["positions"], len(arguments["cos_sin"]))
    return arguments | {"positions": beyond}, outputs


def _both(arguments: Tensors, outputs: Tensors) -> Changed:
    """The form at hand, and the other one."""
    rows, columns = len(arguments["x"]), arguments["weight"].shape[0] * arguments["weight"].shape[1]

    def filled(*sizes: int) -> Tensor:
        return torch.full(sizes, 0xFF, dtype=torch.uint8, device=arguments["x"].device)

    other = {
        "out": filled(rows, 2 * columns).view(torch.bfloat16),
        "q": filled(rows, columns).view(torch.float8_e4m3fn),
        "scales": filled(oracle.scale_bytes(rows, columns)),
    }
    return arguments, other | outputs


def _more_rows(arguments: Tensors, outputs: Tensors) -> Changed:
    """One row of x, and outputs of as many as before."""
    few = {name: arguments[name][:1].clone() for name in ("x", "positions")}
    return arguments | few, outputs


def _rows(count: int) -> Callable[[Tensors, Tensors], Changed]:
    """The same call for `count` rows, with outputs that fit."""

    def change(arguments: Tensors, outputs: Tensors) -> Changed:
        def cut(tensor: Tensor) -> Tensor:
            raw = tensor.view(torch.uint8) if tensor.itemsize == 1 else tensor  # no cat of E4M3
            return torch.cat([raw, raw[:1]])[:count].view(tensor.dtype)

        few = {name: cut(arguments[name].contiguous()) for name in ("x", "positions")}
        # Scale bytes come in tiles of 128 rows: with those of one tile there is something to write.
        return arguments | few, {n: o if n == "scales" else cut(o) for n, o in outputs.items()}

    return change
