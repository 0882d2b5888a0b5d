"""The read floor: `read.cu`, compiled for the GPU that is here and launched on weights."""

from __future__ import annotations

import ctypes
import functools
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch

from verify.command import UserError

if TYPE_CHECKING:
    from collections.abc import Callable

    from torch import Tensor

SOURCE = Path(__file__).with_name("read.cu")
SLICE, KEPT = 128 * 1024, 1024
"""Bytes that one CTA reads, and bytes of which it keeps one word; as in `read.cu`."""


def reader(*, pdl: bool) -> Callable[[Tensor, Tensor], None]:
    """A function that reads all of a tensor and keeps the first of every 256 words.

    It takes the tensor, contiguous, a multiple of 1024 bytes, and INT32 [bytes / 1024]. With `pdl`
    each launch may start while the one before it ends (programmatic stream serialization).

    Raises:
        UserError: CUDA's compiler library is not installed or this GPU has no bulk copies.
    """
    driver, function = _compiled(torch.cuda.current_device())
    attribute = driver.CUlaunchAttribute()
    attribute.id = driver.CUlaunchAttributeID.CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION
    attribute.value.programmaticStreamSerializationAllowed = 1

    def read(weights: Tensor, kept: Tensor) -> None:
        size = weights.numel() * weights.itemsize
        config = driver.CUlaunchConfig()
        config.gridDimX, config.gridDimY, config.gridDimZ = -(-size // SLICE), 1, 1
        config.blockDimX, config.blockDimY, config.blockDimZ = 128, 1, 1
        config.sharedMemBytes = SLICE
        config.hStream = torch.cuda.current_stream().cuda_stream
        config.attrs, config.numAttrs = ([attribute], 1) if pdl else ([], 0)
        values = (weights.data_ptr(), size, kept.data_ptr())
        types = (ctypes.c_void_p, ctypes.c_uint64, ctypes.c_void_p)
        _done(driver, driver.cuLaunchKernelEx(config, function, (values, types), 0))

    return read


def expected(weights: Tensor) -> Tensor:
    """What a reader keeps of `weights`: INT32 [bytes / 1024]."""
    return weights.view(torch.int32).view(-1)[:: KEPT // 4]


@functools.cache
def _compiled(device: int) -> tuple[Any, Any]:
    """CUDA's driver and the kernel, loaded into the context that torch uses."""
    try:
        from cuda.bindings import driver, nvrtc  # noqa: PLC0415 - not on machines without a GPU
    except ImportError as error:
        raise UserError(
            f"the read floor is compiled here and {error.name} is missing; "
            "install cuda-bindings and nvidia-cuda-nvrtc"
        ) from None
    major, minor = torch.cuda.get_device_capability(device)
    if major < 9:
        raise UserError(f"the read floor needs bulk copies (sm_90 or newer); this is sm_{major}0")
    torch.cuda.current_stream(device).synchronize()  # torch has made its context by now
    binary = compiled(nvrtc, f"sm_{major}{minor}a")
    module = _done(driver, driver.cuModuleLoadData(binary))
    function = _done(driver, driver.cuModuleGetFunction(module, b"read_weights"))
    attribute = driver.CUfunction_attribute.CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES
    _done(driver, driver.cuFuncSetAttribute(function, attribute, SLICE))
    return driver, function


def compiled(nvrtc: Any, architecture: str) -> bytes:
    """Machine code of `read.cu` for `sm_90a` and the like; needs no GPU.

    Raises:
        UserError: it does not compile; the compiler's words follow.
    """
    source, name = SOURCE.read_bytes(), SOURCE.name.encode()
    program = _done(nvrtc, nvrtc.nvrtcCreateProgram(source, name, 0, [], []))
    options = [f"--gpu-architecture={architecture}".encode(), b"--std=c++17"]
    if nvrtc.nvrtcCompileProgram(program, len(options), options)[0].value:
        log = b" " * _done(nvrtc, nvrtc.nvrtcGetProgramLogSize(program))
        _done(nvrtc, nvrtc.nvrtcGetProgramLog(program, log))
        raise UserError(f"{SOURCE} does not compile for {architecture}: {log.decode()}")
    binary = b" " * _done(nvrtc, nvrtc.nvrtcGetCUBINSize(program))
    _done(nvrtc, nvrtc.nvrtcGetCUBIN(program, binary))
    return binary


def _done(library: Any, outcome: tuple[Any, ...]) -> Any:
    """The result of a CUDA call, its status taken off; RuntimeError where it is no success."""
    status, *results = outcome
    if status.value:
        raise RuntimeError(f"{library.__name__} answered {status.name}")
    return results[0] if results else None
