"""From the CUDA source to machine code: what is compiled for a shape, by NVRTC, and kept on disk.

NVRTC through cuda-python's bindings, because torch's CUDA wheels already bring both: a serving
machine needs neither nvcc nor a host compiler.
"""

from __future__ import annotations

import hashlib
import importlib
import os
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from kernel.contract import ContractError

SOURCE = Path(__file__).with_name("csrc") / "wo_a.cu"

ARCHITECTURES = {(9, 0): "sm_90a", (10, 0): "sm_100a", (10, 3): "sm_103a"}
"""By compute capability."""

SLICES = 16
"""Parts of K that are summed apart, for every shape and T."""

SHARED_LIMIT = 227 * 1024
"""Bytes of shared memory that a thread block may have, on each of them."""

_BLOCK_ROWS = 32


@dataclass(frozen=True)
class Shape:
    """What machine code is made for."""

    groups: int
    rank: int
    k: int
    head_dim: int
    rope_dim: int


@dataclass(frozen=True)
class Plan:
    """How one launch of up to `tokens` tokens is laid out; it does not change a bit of the result.

    Attributes:
        tokens: most tokens, a multiple of 8.
        cluster: thread blocks that share rows of the weight, a power of two up to 8.
        blocks: 32-row blocks of the weight that a cluster takes at most.
        tiles: 16-row tiles of a warp, 1 or 2.
        fetchers: warps that only fetch x and the table, 0 or 1.
        depth: steps of 32 columns of weights that a warp has in flight.
    """

    tokens: int
    cluster: int
    blocks: int
    tiles: int
    fetchers: int
    depth: int

    @property
    def threads(self) -> int:
        """Of a thread block: a warp for each slice of a tile, and the fetchers."""
        return (SLICES // self.cluster * self.blocks * 2 // self.tiles + self.fetchers) * 32

    def shared_bytes(self, shape: Shape) -> int:
        """Dynamic shared memory of a thread block; the source asserts it."""
        slices = SLICES // self.cluster
        row = shape.k // self.cluster * 2
        x = self.tokens * (row + (64 if row % 128 == 0 else 0))
        turns = self.tokens * shape.rope_dim * 4
        sums = self.blocks * slices * self.tokens * (_BLOCK_ROWS + 4) * 4
        inbox = self.blocks * -(-self.tokens // self.cluster) * self.cluster * _BLOCK_ROWS * 4
        return -(-(x + turns + sums + inbox + 24) // 128) * 128


_PLANS = (
    Plan(8, 2, 1, 1, 1, 6),
    Plan(16, 8, 5, 1, 0, 4),
    Plan(24, 8, 5, 1, 0, 4),
    Plan(32, 8, 5, 1, 0, 3),
)
_WIDE_PLANS = (
    Plan(8, 2, 2, 2, 0, 4),
    *(Plan(tokens, 2, 2, 2, 0, 3) for tokens in (16, 24, 32)),
)

MAX_TOKENS = _PLANS[-1].tokens


def plans(shape: Shape) -> tuple[Plan, ...]:
    """Those of a shape, by number of tokens.

    What fits on 132 multiprocessors at once is shared out so; more is cut into 64-row tiles.
    """
    return _PLANS if shape.groups * shape.rank <= 2048 else _WIDE_PLANS


def source(shape: Shape) -> str:
    """CUDA C++ that needs nothing else to compile: the sizes, then the file."""
    sizes = {
        "GROUPS": shape.groups,
        "RANK": shape.rank,
        "K": shape.k,
        "HEAD_DIM": shape.head_dim,
        "ROPE_DIM": shape.rope_dim,
    }
    lines = [f"constexpr int {name} = {value};" for name, value in sizes.items()]
    for plan in plans(shape):
        given = (plan.cluster, plan.blocks, plan.tiles, plan.fetchers, plan.depth)
        numbers = ", ".join(map(str, (*given, plan.shared_bytes(shape))))
        lines.append(f"#define PLAN_{plan.tokens} {numbers}")
    return "\n".join([*lines, f'#line 1 "{SOURCE.name}"', SOURCE.read_text(encoding="utf-8")])


def machine_code(architecture: str, shape: Shape) -> bytes:
    """Cubin of every plan for the shape, from the disk where it was built before.

    Processes that build the same at once each write a file aside and rename it.

    Raises:
        ContractError: cuda-bindings or NVRTC is missing.
        RuntimeError: NVRTC refuses the source; with its log.
    """
    nvrtc = bindings("nvrtc")
    text = source(shape).encode()
    options = [f"--gpu-architecture={architecture}", "--std=c++17"]
    version = ".".join(map(str, called(nvrtc.nvrtcVersion())))
    key = hashlib.sha256("\0".join([version, *options]).encode() + text).hexdigest()
    cached = _cache_folder() / f"{key}.cubin"
    try:
        return cached.read_bytes()
    except OSError:
        built = _compile(nvrtc, text, options)
    try:
        cached.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.NamedTemporaryFile(dir=cached.parent, delete=False) as aside:
            aside.write(built)
        Path(aside.name).replace(cached)
    except OSError:
        pass  # a folder that cannot be written costs a build in each process, nothing more
    return built


def bindings(name: str) -> Any:
    """A module of cuda-bindings, `driver` or `nvrtc`.

    Raises:
        ContractError: it, or the library that it binds, is missing.
    """
    try:
        module = importlib.import_module(f"cuda.bindings.{name}")
        called((module.nvrtcVersion if name == "nvrtc" else module.cuDriverGetVersion)())
    except (ImportError, RuntimeError) as error:
        raise ContractError(
            f"fused_cuda needs cuda-bindings with {name}, which is missing here ({error}); "
            "pip install cuda-bindings nvidia-cuda-nvrtc"
        ) from error
    return module


def called(answer: tuple[Any, ...]) -> Any:
    """What a call of cuda-bindings returned beside its status.

    Raises:
        RuntimeError: the status is not success.
    """
    status, *values = answer
    if status.value != 0:
        raise RuntimeError(f"CUDA: {status.name}")
    return values[0] if len(values) == 1 else tuple(values)


def _compile(nvrtc: Any, text: bytes, options: list[str]) -> bytes:
    program = called(nvrtc.nvrtcCreateProgram(text, SOURCE.name.encode(), 0, [], []))
    encoded = [option.encode() for option in options]
    (status,) = nvrtc.nvrtcCompileProgram(program, len(encoded), encoded)
    if status.value != 0:
        log = b" " * called(nvrtc.nvrtcGetProgramLogSize(program))
        called(nvrtc.nvrtcGetProgramLog(program, log))
        raise RuntimeError(f"{SOURCE.name}: {status.name}\n{log.decode().strip()}")
    cubin: bytes = b" " * called(nvrtc.nvrtcGetCUBINSize(program))
    called(nvrtc.nvrtcGetCUBIN(program, cubin))
    called(nvrtc.nvrtcDestroyProgram(program))
    return cubin


def _cache_folder() -> Path:
    base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(base) / "kernelproof"
