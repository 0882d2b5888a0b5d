"""The read floor: `read.cu`, compiled for the GPU that is here and launched on weights."""

from __future__ import annotations

import ctypes
import functools
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch

from verify.bench import nvrtc
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
        nvrtc.done(driver.cuLaunchKernelEx(config, function, (values, types), 0))

    return read


def expected(weights: Tensor) -> Tensor:
    """What a reader keeps of `weights`: INT32 [bytes / 1024]."""
    return weights.view(torch.int32).view(-1)[:: KEPT // 4]


@functools.cache
def _compiled(device: int) -> tuple[Any, Any]:
    """CUDA's driver and the kernel, loaded into the context that torch uses."""
    major, minor = torch.cuda.get_device_capability(device)
    if major < 9:
        raise UserError(f"the read floor needs bulk copies (sm_90 or newer); this is sm_{major}0")
    torch.cuda.current_stream(device).synchronize()  # torch has made its context by now
    driver, binary = nvrtc.driver(), nvrtc.compiled(SOURCE, f"sm_{major}{minor}a")
    module = nvrtc.done(driver.cuModuleLoadData(binary))
    function = nvrtc.done(driver.cuModuleGetFunction(module, b"read_weights"))
    attribute = driver.CUfunction_attribute.CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES
    nvrtc.done(driver.cuFuncSetAttribute(function, attribute, SLICE))
    return driver, function
