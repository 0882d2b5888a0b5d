"""What runs under compute-sanitizer: a candidate on a few inputs, or a planted fault.

Inputs are made, and outputs judged, on the CPU, so that on the GPU nothing runs but what is looked
at. Called by `sanitize` as a process of its own: `python -m verify.bench.sanitized JOB`.
"""

from __future__ import annotations

import ctypes
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from verify.bench import nvrtc
from verify.spec import KernelSpec

if TYPE_CHECKING:
    from torch import Tensor

PROBE = Path(__file__).with_name("probe.cu")
PROBES = {
    "memcheck": ("copies", 512, True),
    "initcheck": ("copies", 1024, False),
    "racecheck": ("hurries", 1024, True),
    "synccheck": ("diverges", 1024, True),
}
"""For each tool the kernel with its fault, bytes that it is given, and whether they are written."""

CONTROL = ("copies", 1024, True)
"""As the probes, and right."""


class Job(msgspec.Struct, tag=True):
    """A candidate on N(0, 1) inputs: for each T once into BF16 and once into MXFP8."""

    candidate: str
    shape: tuple[int, int, int]
    head_dim: int
    rope_dim: int
    tokens: list[int]


class Probe(msgspec.Struct, tag=True):
    """The fault planted for a tool."""

    tool: str


class Control(msgspec.Struct, tag=True):
    """A bulk copy without a fault."""


def main(word: str) -> None:
    """Do one job; exit 3 with a line where the candidate refuses or is wrong."""
    job = msgspec.json.decode(word, type=Job | Probe | Control)
    if isinstance(job, Probe):
        plant(*PROBES[job.tool])
    elif isinstance(job, Control):
        plant(*CONTROL)
    else:
        launch(job)


def launch(job: Job) -> None:
    """The candidate, each T in both forms, judged as before it is timed."""
    import torch  # noqa: PLC0415 - the probes do without, and start the sooner

    from verify import session  # noqa: PLC0415 - likewise
    from verify.bench import work  # noqa: PLC0415 - likewise

    spec = KernelSpec(*job.shape, job.head_dim, job.rope_dim)
    call, device = session.load(job.candidate), torch.device("cuda")
    buffers = work.weights(spec, 1, 0, torch.device("cpu"))

    def there(*tensors: Tensor, head_dim: int, **outputs: Tensor) -> None:
        # empty, never written: what the kernel leaves out then shows in initcheck
        made = {name: torch.empty_like(out, device=device) for name, out in outputs.items()}
        call(*(tensor.to(device) for tensor in tensors), head_dim=head_dim, **made)
        torch.cuda.synchronize()
        for name, out in outputs.items():
            out.copy_(made[name])

    for tokens in job.tokens:
        try:
            work.judged(there, work.given(spec, buffers, tokens, 0), buffers[0])
        except work.RefusedError as error:
            print(f"T={tokens}: {error}", file=sys.stderr)  # noqa: T201 - our parent reads it
            sys.exit(3)


def plant(name: str, size: int, written: bool) -> None:  # noqa: FBT001 - a row of PROBES
    """Launch a kernel of the probes' source on so many bytes, written or not."""
    driver = nvrtc.driver()
    nvrtc.done(driver.cuInit(0))
    device = nvrtc.done(driver.cuDeviceGet(0))
    nvrtc.done(driver.cuCtxSetCurrent(nvrtc.done(driver.cuDevicePrimaryCtxRetain(device))))
    ask = driver.CUdevice_attribute
    major = nvrtc.done(
        driver.cuDeviceGetAttribute(ask.CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, device)
    )
    minor = nvrtc.done(
        driver.cuDeviceGetAttribute(ask.CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR, device)
    )
    module = nvrtc.done(driver.cuModuleLoadData(nvrtc.compiled(PROBE, f"sm_{major}{minor}a")))
    function = nvrtc.done(driver.cuModuleGetFunction(module, name.encode()))
    source, target = (nvrtc.done(driver.cuMemAlloc(bytes_)) for bytes_ in (size, 1024))
    if written:
        nvrtc.done(driver.cuMemcpyHtoD(source, bytes(size), size))
    arguments: Any = ((int(source), int(target)), (ctypes.c_void_p, ctypes.c_void_p))
    nvrtc.done(driver.cuLaunchKernel(function, 1, 1, 1, 128, 1, 1, 0, 0, arguments, 0))
    driver.cuCtxSynchronize()  # may fail: that is the fault


if __name__ == "__main__":
    main(sys.argv[1])
