"""The fused kernel in CUDA: one launch on SM90, SM100 and SM103, the weights read once."""

from __future__ import annotations

import ctypes
import functools
from dataclasses import dataclass, replace
from typing import Any

import torch

from kernel import build, contract
from kernel.build import (
    ARCHITECTURES,
    MAX_TOKENS,
    SHARED_LIMIT,
    SLICES,
    Plan,
    Shape,
    bindings,
    called,
)
from kernel.contract import ContractError

PROVEN = frozenset({(9, 0)})
"""Compute capabilities on which the kernel has run; for the others it only compiles so far."""


class _Arguments(ctypes.Structure):
    """`Arguments` of the source."""

    _fields_ = (
        ("x", ctypes.c_void_p),
        ("weight", ctypes.c_void_p),
        ("cos_sin", ctypes.c_void_p),
        ("positions", ctypes.c_void_p),
        ("out", ctypes.c_void_p),
        ("q", ctypes.c_void_p),
        ("scales", ctypes.c_void_p),
        ("row_stride", ctypes.c_longlong),
        ("table_rows", ctypes.c_longlong),
        ("tokens", ctypes.c_int),
        ("wide_positions", ctypes.c_int),
        ("blocks_each", ctypes.c_int),
        ("blocks_left", ctypes.c_int),
    )


@dataclass(frozen=True, eq=False)
class _Kernel:
    """A plan's kernel on one device."""

    plan: Plan
    handle: Any
    shared_bytes: int
    groups: int
    clusters: int
    """Of each group."""


def fused_cuda(
    x: torch.Tensor,
    weight: torch.Tensor,
    cos_sin: torch.Tensor,
    positions: torch.Tensor,
    *,
    head_dim: int = 512,
    out: torch.Tensor | None = None,
    q: torch.Tensor | None = None,
    scales: torch.Tensor | None = None,
    pdl: bool = False,
) -> None:
    """Rotate back, project and write BF16 or MXFP8 for T from 1 to 32; arguments as `chain`.

    One launch on the current stream: no allocation, no synchronisation. The first call of a shape
    builds it, so that one has to precede a graph's capture. A position outside the table gives a
    row of NaN. `pdl` allows programmatic dependent launch: the weights, which the preceding kernel
    must then not write, are asked for before that kernel has finished; all else is read after.

    Raises:
        ContractError: an argument breaks the contract, or there is no kernel for the device or the
            shape; nothing has been written.
    """
    problem = contract.check(
        x,
        weight,
        cos_sin,
        positions,
        head_dim=head_dim,
        out=out,
        q=q,
        scales=scales,
        max_tokens=MAX_TOKENS,
    )
    shape = Shape(problem.groups, problem.rank, problem.k, head_dim, problem.rope_dim)
    require(x.device, shape)
    if cos_sin.data_ptr() % contract.ALIGNMENT != 0:
        raise ContractError(
            f"cos_sin starts {cos_sin.data_ptr() % contract.ALIGNMENT} bytes past a multiple of "
            f"{contract.ALIGNMENT}; fused_cuda reads its rows in such steps"
        )
    with torch.cuda.device(x.device):
        kernel = _kernels(x.device.index, shape)[-(-problem.tokens // 8) - 1]
        stream = torch.cuda.current_stream().cuda_stream
        pointers = (
            None if tensor is None else tensor.data_ptr()
            for tensor in (x, weight, cos_sin, positions, out, q, scales)
        )
        arguments = _Arguments(
            *pointers,
            x.stride(0),
            cos_sin.shape[0],
            problem.tokens,
            positions.dtype == torch.int64,
            *divmod(problem.rank // 32, kernel.clusters),
        )
        _launch(kernel, arguments, stream, pdl=pdl)


def require(device: torch.device, shape: Shape) -> None:
    """Say that there is a kernel for this device and shape.

    Raises:
        ContractError: there is none, with the reason.
    """
    if device.type != "cuda":
        raise ContractError(f"x is on {device}; fused_cuda needs a CUDA GPU")
    capability = torch.cuda.get_device_capability(device)
    if capability not in ARCHITECTURES:
        known = ", ".join(f"{major}.{minor}" for major, minor in ARCHITECTURES)
        raise ContractError(
            f"x is on a GPU of compute capability {capability[0]}.{capability[1]}; "
            f"fused_cuda is written for {known}"
        )
    if shape.rope_dim % 4 != 0:
        raise ContractError(
            f"cos_sin has rope_dim = {shape.rope_dim}; fused_cuda takes multiples of 4"
        )
    if shape.k % (SLICES * 32) != 0:
        raise ContractError(
            f"x has K = {shape.k}; fused_cuda takes multiples of {SLICES * 32} ({SLICES} slices)"
        )
    needed = max(plan.shared_bytes(shape) for plan in build.plans(shape))
    if needed > SHARED_LIMIT:
        raise ContractError(
            f"x has K = {shape.k}, for which fused_cuda needs {needed} bytes of shared memory; "
            f"there are {SHARED_LIMIT}"
        )


@functools.cache
def _kernels(device: int, shape: Shape) -> tuple[_Kernel, ...]:
    """The kernels of all plans, on the device that is current."""
    driver = _driver()
    capability = torch.cuda.get_device_capability(device)
    code = build.machine_code(ARCHITECTURES[capability], shape)
    library = called(driver.cuLibraryLoadData(code, [], [], 0, [], [], 0))
    return tuple(_kernel(driver, library, device, plan, shape) for plan in build.plans(shape))


def _kernel(driver: Any, library: Any, device: int, plan: Plan, shape: Shape) -> _Kernel:
    handle = called(driver.cuLibraryGetKernel(library, f"wo_a_{plan.tokens}".encode()))
    limit = driver.CUfunction_attribute.CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES
    shared = plan.shared_bytes(shape)
    called(driver.cuKernelSetAttribute(limit, shared, handle, driver.CUdevice(device)))
    function = driver.CUfunction(int(handle))
    one = _Kernel(plan, function, shared, shape.groups, clusters=1)
    resident = called(driver.cuOccupancyMaxActiveClusters(function, _configuration(one, 0, False)))
    blocks = shape.rank // 32
    clusters = max(min(resident // shape.groups, blocks), -(-blocks // plan.blocks))
    return replace(one, clusters=clusters)


def _launch(kernel: _Kernel, arguments: _Arguments, stream: int, *, pdl: bool) -> None:
    parameters = (ctypes.c_void_p * 1)(ctypes.addressof(arguments))
    configuration = _configuration(kernel, stream, pdl)
    called(
        _driver().cuLaunchKernelEx(configuration, kernel.handle, ctypes.addressof(parameters), 0)
    )


@functools.lru_cache(maxsize=256)
def _configuration(kernel: _Kernel, stream: int, pdl: bool) -> Any:  # noqa: FBT001 - lru_cache
    driver = _driver()
    names = driver.CUlaunchAttributeID
    configuration = driver.CUlaunchConfig()
    configuration.gridDimX = kernel.clusters * kernel.plan.cluster
    configuration.gridDimY = kernel.groups
    configuration.gridDimZ = 1
    configuration.blockDimX = kernel.plan.threads
    configuration.blockDimY = configuration.blockDimZ = 1
    configuration.sharedMemBytes = kernel.shared_bytes
    configuration.hStream = stream
    cluster = driver.CUlaunchAttribute()
    cluster.id = names.CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION
    cluster.value.clusterDim.x = kernel.plan.cluster
    cluster.value.clusterDim.y = cluster.value.clusterDim.z = 1
    dependent = driver.CUlaunchAttribute()
    dependent.id = names.CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION
    dependent.value.programmaticStreamSerializationAllowed = 1
    configuration.attrs = [cluster, dependent] if pdl else [cluster]
    configuration.numAttrs = len(configuration.attrs)
    return configuration


@functools.cache
def _driver() -> Any:
    return bindings("driver")
