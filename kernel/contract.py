"""What a WO-A kernel may be given: every argument checked before anything is written."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import torch

from kernel.mxfp8 import BLOCK, scale_bytes

ALIGNMENT = 16
"""Bytes to which rows of x and weight are aligned: the width of one vector or TMA access."""


class ContractError(ValueError):
    """An argument outside the contract: one line naming argument, value and rule."""


class Candidate(Protocol):
    """A WO-A kernel: what everything that takes one calls."""

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
        """Write `out`, or `q` and `scales`; arguments as `kernel.chain.chain`."""


@dataclass(frozen=True)
class Problem:
    """The sizes of one checked call."""

    tokens: int
    groups: int
    rank: int
    k: int
    head_dim: int
    rope_dim: int


def check(
    x: torch.Tensor,
    weight: torch.Tensor,
    cos_sin: torch.Tensor,
    positions: torch.Tensor,
    *,
    head_dim: int,
    out: torch.Tensor | None,
    q: torch.Tensor | None,
    scales: torch.Tensor | None,
    max_tokens: int | None = None,
) -> Problem:
    """Return the sizes of a call that keeps the contract.

    Shapes, dtypes and strides: see `kernel.chain.chain`. Positions are compared with the table on
    the CPU only: on a GPU that would wait for the device, and the kernels instead read nothing
    outside the table and give NaN for such a row.

    Raises:
        ContractError: the first violation found.
    """
    inputs = {"x": x, "weight": weight, "cos_sin": cos_sin, "positions": positions}
    outputs = _outputs(out, q, scales)
    for name, tensor in (inputs | outputs).items():
        _require(
            isinstance(tensor, torch.Tensor),
            f"{name} is {type(tensor).__name__}; it must be a torch.Tensor",
        )
    _check_devices(inputs | outputs)
    problem = _check_inputs(x, weight, cos_sin, positions, head_dim=head_dim, max_tokens=max_tokens)
    _check_outputs(outputs, problem)
    _check_overlap(inputs, outputs)
    if positions.device.type == "cpu":
        _check_positions(positions, cos_sin.shape[0])
    return problem


def _require(holds: bool, message: str) -> None:  # noqa: FBT001 - reads as a sentence
    if not holds:
        raise ContractError(message)


def _outputs(
    out: torch.Tensor | None, q: torch.Tensor | None, scales: torch.Tensor | None
) -> dict[str, torch.Tensor]:
    given = {
        name: tensor
        for name, tensor in (("out", out), ("q", q), ("scales", scales))
        if tensor is not None
    }
    _require(
        set(given) in ({"out"}, {"q", "scales"}),
        f"outputs given are {', '.join(given) or 'none'}; give either out, or q and scales",
    )
    return given


def _check_devices(tensors: dict[str, torch.Tensor]) -> None:
    device = tensors["x"].device
    _require(device.type in ("cpu", "cuda"), f"x is on {device}; it must be on cpu or cuda")
    for name, tensor in tensors.items():
        _require(
            tensor.device == device,
            f"{name} is on {tensor.device} and x on {device}; all must be on one device",
        )


def _check_inputs(
    x: torch.Tensor,
    weight: torch.Tensor,
    cos_sin: torch.Tensor,
    positions: torch.Tensor,
    *,
    head_dim: int,
    max_tokens: int | None,
) -> Problem:
    _check_dtype("x", x, torch.bfloat16)
    _check_dtype("weight", weight, torch.bfloat16)
    _check_dtype("cos_sin", cos_sin, torch.float32)
    _check_dtype("positions", positions, torch.int32, torch.int64)

    _require(x.dim() == 3, f"x has shape {_shape(x)}; it must be [T, G, K]")
    tokens, groups, k = x.shape
    _require(tokens >= 1, "x has T = 0 rows; it must have at least 1")
    _require(
        max_tokens is None or tokens <= max_tokens,
        f"x has T = {tokens} rows; this kernel takes at most {max_tokens}",
    )
    _require(groups >= 1, "x has G = 0 groups; it must have at least 1")
    _require(
        isinstance(head_dim, int)
        and head_dim >= 2
        and head_dim % 2 == 0
        and k >= 1
        and k % head_dim == 0,
        f"head_dim is {head_dim} and x has K = {k}; head_dim must be even and K a multiple of it",
    )
    _require(
        weight.dim() == 3 and weight.shape[0] == groups and weight.shape[2] == k,
        f"weight has shape {_shape(weight)}; it must be [G, R, K] with G = {groups}, K = {k} of x",
    )
    rank = weight.shape[1]
    _require(
        rank >= 1 and rank % BLOCK == 0,
        f"weight has R = {rank} rows a group; R must be a positive multiple of {BLOCK}",
    )
    _require(
        cos_sin.dim() == 2 and cos_sin.shape[0] >= 1,
        f"cos_sin has shape {_shape(cos_sin)}; it must be [S, rope_dim] with S at least 1",
    )
    rope_dim = cos_sin.shape[1]
    _require(
        2 <= rope_dim <= head_dim and rope_dim % 2 == 0,
        f"cos_sin has rope_dim = {rope_dim}; it must be even, from 2 to head_dim = {head_dim}",
    )
    _require(
        tuple(positions.shape) == (tokens,),
        f"positions has shape {_shape(positions)}; it must be [T] with T = {tokens} of x",
    )

    _check_x_strides(x)
    for name, tensor in (("weight", weight), ("cos_sin", cos_sin), ("positions", positions)):
        _check_contiguous(name, tensor)
    _check_alignment(x, weight)
    return Problem(tokens, groups, rank, k, head_dim, rope_dim)


def _check_x_strides(x: torch.Tensor) -> None:
    tokens, groups, k = x.shape
    row, group, element = x.stride()
    # a dimension of size 1 is never stepped along, so its stride says nothing
    _require(
        (element == 1 or k == 1)
        and (group == k or groups == 1)
        and (row >= groups * k or tokens == 1),
        f"x has strides {x.stride()}; they must be (S0, {k}, 1) with S0 at least {groups * k}",
    )


def _check_alignment(x: torch.Tensor, weight: torch.Tensor) -> None:
    row_bytes = {"x": x.stride(0) * 2 if x.shape[0] > 1 else 0, "weight": 0}
    for name, tensor in (("x", x), ("weight", weight)):
        _require(
            tensor.data_ptr() % ALIGNMENT == 0,
            f"{name} starts {tensor.data_ptr() % ALIGNMENT} bytes past a multiple of {ALIGNMENT}; "
            f"its address must be a multiple of {ALIGNMENT} bytes",
        )
        _require(
            row_bytes[name] % ALIGNMENT == 0 and tensor.shape[2] * 2 % ALIGNMENT == 0,
            f"{name} has strides {tensor.stride()} in BF16 elements; "
            f"each row and group must be a multiple of {ALIGNMENT} bytes",
        )


def _check_outputs(outputs: dict[str, torch.Tensor], problem: Problem) -> None:
    columns = problem.groups * problem.rank
    dtypes = {"out": torch.bfloat16, "q": torch.float8_e4m3fn, "scales": torch.uint8}
    for name, tensor in outputs.items():
        _check_dtype(name, tensor, dtypes[name])
        if name == "scales":
            expected: tuple[int, ...] = (scale_bytes(problem.tokens, columns),)
            meaning = "flat, rows padded to 128 and block columns to 4"
        else:
            expected, meaning = (problem.tokens, columns), "[T, G*R]"
        _require(
            tuple(tensor.shape) == expected,
            f"{name} has shape {_shape(tensor)}; it must be {list(expected)}: {meaning}",
        )
        _check_contiguous(name, tensor)


def _check_overlap(inputs: dict[str, torch.Tensor], outputs: dict[str, torch.Tensor]) -> None:
    spans = {name: _span(tensor) for name, tensor in (inputs | outputs).items()}
    for output in outputs:
        for other, (begin, end) in spans.items():
            _require(
                other == output or end <= spans[output][0] or spans[output][1] <= begin,
                f"{output} overlaps {other} in memory; an output needs memory of its own",
            )


def _span(tensor: torch.Tensor) -> tuple[int, int]:
    """First byte and one past the last byte that a non-empty tensor may touch."""
    last = sum(
        (size - 1) * stride for size, stride in zip(tensor.shape, tensor.stride(), strict=True)
    )
    return tensor.data_ptr(), tensor.data_ptr() + (last + 1) * tensor.element_size()


def _check_positions(positions: torch.Tensor, length: int) -> None:
    low, high = (int(bound) for bound in positions.aminmax())
    _require(
        low >= 0 and high < length,
        f"positions holds {low if low < 0 else high}; the table cos_sin has rows 0 to {length - 1}",
    )


def _check_dtype(name: str, tensor: torch.Tensor, *allowed: torch.dtype) -> None:
    names = " or ".join(str(dtype) for dtype in allowed)
    _require(tensor.dtype in allowed, f"{name} has dtype {tensor.dtype}; it must be {names}")


def _check_contiguous(name: str, tensor: torch.Tensor) -> None:
    _require(
        tensor.is_contiguous(),
        f"{name} has shape {_shape(tensor)} and strides {tensor.stride()}; it must be contiguous",
    )


def _shape(tensor: torch.Tensor) -> list[int]:
    return list(tensor.shape)
