"""The CUDA kernel on a GPU: shapes beside the served one, repeats, streams, dependent launches."""

from __future__ import annotations

import ctypes
from dataclasses import replace

import pytest
import torch

from kernel import build, chain, fused_cuda
from kernel.build import ARCHITECTURES, bindings, called

pytestmark = pytest.mark.skipif(
    not torch.cuda.is_available() or torch.cuda.get_device_capability() not in ARCHITECTURES,
    reason="needs a GPU of SM90, SM100 or SM103",
)

SERVED = {"rank": 1024, "heads": 8, "head_dim": 512, "rope_dim": 64, "length": 70_000}


def cuda(call):
    tensors = {n: getattr(call, n).cuda() for n in ("x", "weight", "cos_sin", "positions")}
    return replace(call, **tensors)


@pytest.mark.parametrize(
    "shape",
    [
        {"groups": 4, **SERVED},
        {"groups": 1, **SERVED},
        {"groups": 3, "rank": 32, "heads": 8, "head_dim": 64, "rope_dim": 16},
        {"groups": 2, "rank": 96, "heads": 3, "head_dim": 512, "rope_dim": 128},
        {"groups": 1, "rank": 3040, "heads": 1, "head_dim": 512, "rope_dim": 512},
        {"groups": 5, "rank": 544, "heads": 32, "head_dim": 48, "rope_dim": 12},
    ],
    ids=str,
)
@pytest.mark.parametrize("tokens", [1, 9, 23, 32])
def test_exact_inputs_give_the_bytes_of_the_chain_at_other_shapes(make_call, shape, tokens):
    call = cuda(make_call(tokens=tokens, **shape).with_integers())
    assert torch.equal(call.bf16(fused_cuda), call.bf16(chain))
    for found, expected in zip(call.mxfp8(fused_cuda), call.mxfp8(chain), strict=True):
        assert torch.equal(found, expected)


@pytest.mark.parametrize("groups", [2, 4])
def test_a_row_has_the_same_bits_at_every_t(make_call, groups):
    call = cuda(make_call(tokens=32, groups=groups, **SERVED))
    full = call.bf16(fused_cuda)
    for tokens in range(1, 33):
        part = replace(call, x=call.x[-tokens:], positions=call.positions[-tokens:])
        assert torch.equal(part.bf16(fused_cuda), full[-tokens:])


@pytest.mark.parametrize("tokens", [8, 32])
def test_ten_thousand_repeats_beside_a_noisy_neighbour_with_little_memory(make_call, tokens):
    call = cuda(make_call(tokens=tokens, **SERVED))
    expected = [
        t.view(torch.uint8).clone() for t in (call.bf16(fused_cuda), *call.mxfp8(fused_cuda))
    ]
    out = torch.empty(tokens, call.columns, dtype=torch.bfloat16, device="cuda")
    q = torch.empty(tokens, call.columns, dtype=torch.float8_e4m3fn, device="cuda")
    scales = torch.empty_like(expected[2])
    found = [t.view(torch.uint8) for t in (out, q, scales)]
    wrong = torch.zeros((), dtype=torch.int64, device="cuda")
    free, _ = torch.cuda.mem_get_info()
    hoard = torch.empty(int(free * 0.9), dtype=torch.uint8, device="cuda")
    noise = hoard[: 1 << 31].view(2, -1)
    arguments = (call.x, call.weight, call.cos_sin, call.positions)
    neighbour = torch.cuda.Stream()
    for repeat in range(5_000):
        if repeat % 50 == 0:
            with torch.cuda.stream(neighbour):
                noise[0].copy_(noise[1])
        for tensor in found:
            tensor.fill_(0xA5)
        fused_cuda(*arguments, out=out)
        fused_cuda(*arguments, q=q, scales=scales)
        for tensor, right in zip(found, expected, strict=True):
            wrong += (tensor != right).any()
    assert wrong.item() == 0


PRODUCER = r"""
extern "C" __global__ void produce(const unsigned* from, unsigned* to, int words,
                                   long long clocks) {
  asm volatile("griddepcontrol.wait;" ::: "memory");
  asm volatile("griddepcontrol.launch_dependents;" ::: "memory");
  for (long long start = clock64(); clock64() - start < clocks;) {}
  for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < words; i += gridDim.x * blockDim.x)
    to[i] = from[i];
}
extern "C" __global__ void consume(const unsigned* from, unsigned* to, int words) {
  asm volatile("griddepcontrol.wait;" ::: "memory");
  for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < words; i += gridDim.x * blockDim.x)
    to[i] = from[i];
}
"""


@pytest.fixture(scope="module")
def copy():
    """Copies a tensor as a dependent launch: late, though it lets its dependents start early."""
    driver, nvrtc = bindings("driver"), bindings("nvrtc")
    architecture = ARCHITECTURES[torch.cuda.get_device_capability()]
    options = [f"--gpu-architecture={architecture}"]
    torch.zeros(1, device="cuda")
    library = called(
        driver.cuLibraryLoadData(
            build._compile(nvrtc, PRODUCER.encode(), options), [], [], 0, [], [], 0
        )
    )

    def launch(name, source, target, *numbers):
        values = [ctypes.c_void_p(source.data_ptr()), ctypes.c_void_p(target.data_ptr())]
        values += [ctypes.c_int(source.nbytes // 4), *map(ctypes.c_longlong, numbers)]
        parameters = (ctypes.c_void_p * len(values))(*map(ctypes.addressof, values))
        configuration = driver.CUlaunchConfig()
        configuration.gridDimX = 4
        configuration.blockDimX = 128
        configuration.gridDimY = configuration.gridDimZ = 1
        configuration.blockDimY = configuration.blockDimZ = 1
        configuration.hStream = torch.cuda.current_stream().cuda_stream
        dependent = driver.CUlaunchAttribute()
        dependent.id = (
            driver.CUlaunchAttributeID.CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION
        )
        dependent.value.programmaticStreamSerializationAllowed = 1
        configuration.attrs, configuration.numAttrs = [dependent], 1
        kernel = called(driver.cuLibraryGetKernel(library, name.encode()))
        handle = driver.CUfunction(int(kernel))
        called(driver.cuLaunchKernelEx(configuration, handle, ctypes.addressof(parameters), 0))

    return launch


@pytest.mark.parametrize("graph", [False, True], ids=["stream", "graph"])
@pytest.mark.parametrize("tokens", [1, 8, 32])
def test_a_dependent_launch_reads_what_a_dawdling_producer_writes(make_call, copy, tokens, graph):
    """x and positions are written long after the kernel was let in; its reader waits for it."""
    call = cuda(make_call(tokens=tokens, **SERVED))
    first = cuda(make_call(tokens=tokens, **SERVED).with_integers()).x
    data = [call.x, first]
    expected = [replace(call, x=x).bf16(fused_cuda) for x in data]
    x, positions = torch.full_like(call.x, torch.nan), torch.zeros_like(call.positions)
    out = torch.empty_like(expected[0])
    seen = [[torch.empty_like(out) for _ in range(20)] for _ in data]

    def steps():
        for repeat in range(20):
            for which, source in enumerate(data):
                copy("produce", call.positions, positions, 0)
                copy("produce", source, x, 20_000)
                fused_cuda(x, call.weight, call.cos_sin, positions, out=out, pdl=True)
                copy("consume", out, seen[which][repeat])

    stream = torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        if graph:
            captured = torch.cuda.CUDAGraph()
            with torch.cuda.graph(captured, stream=stream):
                steps()
            captured.replay()
        else:
            steps()
    stream.synchronize()
    for which, right in enumerate(expected):
        assert all(torch.equal(found, right) for found in seen[which])


def test_on_another_stream_and_from_another_thread(make_call):
    import threading

    call = cuda(make_call(tokens=8, **SERVED))
    expected, found = call.bf16(fused_cuda), []
    torch.cuda.synchronize()

    def launch():
        with torch.cuda.stream(torch.cuda.Stream()):
            found.append(call.bf16(fused_cuda))
            torch.cuda.current_stream().synchronize()

    thread = threading.Thread(target=launch)
    thread.start()
    thread.join()
    assert torch.equal(found[0], expected)


def test_a_table_that_is_not_aligned_is_refused(make_call):
    call = cuda(make_call(tokens=2, **SERVED))
    wide = torch.empty(call.cos_sin.numel() + 1, device="cuda")
    call.cos_sin = wide[1:].view_as(call.cos_sin)
    with pytest.raises(build.ContractError, match="cos_sin starts 4 bytes past a multiple of 16"):
        call.bf16(fused_cuda)
