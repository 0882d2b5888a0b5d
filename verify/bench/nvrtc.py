"""CUDA sources of this folder to machine code by NVRTC, which torch's CUDA wheels bring along."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from verify.command import UserError

if TYPE_CHECKING:
    from pathlib import Path


def driver() -> Any:
    """CUDA's driver as cuda-bindings wraps it."""
    return _bindings("driver")


def compiled(source: Path, architecture: str) -> bytes:
    """Machine code of a source for `sm_90a` and the like; needs no GPU.

    Raises:
        UserError: NVRTC is missing, or refuses the source.
    """
    nvrtc = _bindings("nvrtc")
    program = done(nvrtc.nvrtcCreateProgram(source.read_bytes(), source.name.encode(), 0, [], []))
    options = [f"--gpu-architecture={architecture}".encode(), b"--std=c++17"]
    (status,) = nvrtc.nvrtcCompileProgram(program, len(options), options)
    if status.value:
        log = b" " * done(nvrtc.nvrtcGetProgramLogSize(program))
        done(nvrtc.nvrtcGetProgramLog(program, log))
        raise UserError(f"{source} does not compile for {architecture}: {log.decode()}")
    binary: bytes = b" " * done(nvrtc.nvrtcGetCUBINSize(program))
    done(nvrtc.nvrtcGetCUBIN(program, binary))
    done(nvrtc.nvrtcDestroyProgram(program))
    return binary


def done(outcome: tuple[Any, ...]) -> Any:
    """The result of a CUDA call, its status taken off; RuntimeError where it is no success."""
    status, *results = outcome
    if status.value:
        raise RuntimeError(f"CUDA answered {status.name}")
    return results[0] if results else None


def _bindings(name: str) -> Any:
    try:
        return import_module(f"cuda.bindings.{name}")
    except ImportError as error:
        raise UserError(
            f"a CUDA source is compiled here and {error.name} is missing; "
            "install cuda-bindings and nvidia-cuda-nvrtc"
        ) from None
