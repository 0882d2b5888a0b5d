"""The CUDA source compiles cleanly for every architecture, and is built once a machine."""

from __future__ import annotations

import re
import shutil
import subprocess
import threading
from types import SimpleNamespace

import pytest

from kernel import build
from kernel.build import ARCHITECTURES, Shape, plans
from kernel.contract import ContractError

SERVED = Shape(groups=2, rank=1024, k=4096, head_dim=512, rope_dim=64)


@pytest.mark.parametrize(
    ("architecture", "groups"), [(name, 2) for name in ARCHITECTURES.values()] + [("sm_90a", 4)]
)
def test_no_spills_no_stack_and_code_for_every_plan(
    architecture, groups, tmp_path, record_property
):
    shape = Shape(groups, 1024, 4096, 512, 64)
    if shutil.which("nvcc") is None:
        pytest.skip("nvcc is not installed")
    source, cubin = tmp_path / "wo_a.cu", tmp_path / "wo_a.cubin"
    source.write_text(build.source(shape))
    virtual = architecture.replace("sm_", "compute_")
    command = ["nvcc", "-std=c++17", "-cubin", "-gencode", f"arch={virtual},code={architecture}"]
    built = subprocess.run(
        [*command, "-Xptxas", "-v", "-o", cubin, source],
        capture_output=True,
        text=True,
        check=False,
    )
    assert built.returncode == 0, built.stderr
    assert cubin.stat().st_size > 0
    report = resources(built.stderr, architecture)
    assert report.keys() == {f"wo_a_{plan.tokens}" for plan in plans(shape)}
    for name, used in report.items():
        record_property(f"{architecture} {name}", used)
        assert used == {**used, "stack": 0, "spilled": 0, "reloaded": 0}, name
    for plan in plans(shape):
        assert plan.threads * report[f"wo_a_{plan.tokens}"]["registers"] <= 65536


def resources(log: str, architecture: str) -> dict[str, dict[str, int]]:
    """What ptxas says that each kernel uses."""
    found = re.findall(
        rf"Compiling entry function '(\w+)' for '{architecture}'.*?"
        r"(\d+) bytes stack frame, (\d+) bytes spill stores, (\d+) bytes spill loads.*?"
        r"Used (\d+) registers",
        log,
        flags=re.DOTALL,
    )
    names = ("stack", "spilled", "reloaded", "registers")
    return {name: dict(zip(names, map(int, numbers), strict=True)) for name, *numbers in found}


def test_the_gate_sees_a_spill():
    log = (
        "ptxas info    : Compiling entry function 'wo_a_8' for 'sm_90a'\n"
        "    16 bytes stack frame, 12 bytes spill stores, 36 bytes spill loads\n"
        "ptxas info    : Used 96 registers, used 16 barriers\n"
    )
    expected = {"stack": 16, "spilled": 12, "reloaded": 36, "registers": 96}
    assert resources(log, "sm_90a") == {"wo_a_8": expected}
    assert resources(log, "sm_100a") == {}


@pytest.mark.parametrize("groups", [2, 4])
def test_every_plan_of_the_served_shapes_fits_into_shared_memory(groups):
    shape = Shape(groups, 1024, 4096, 512, 64)
    assert max(plan.shared_bytes(shape) for plan in plans(shape)) <= build.SHARED_LIMIT


@pytest.fixture
def compiled(monkeypatch, tmp_path):
    """A stand-in for NVRTC that notes what it was asked for."""
    calls = []

    def compile_(_nvrtc, text, options):
        calls.append((text, tuple(options)))
        return b"code" * 1000

    version = [(0, 13, 0)]
    nvrtc = SimpleNamespace(nvrtcVersion=lambda: (SimpleNamespace(value=0), *version[0][1:]))
    monkeypatch.setattr(build, "_compile", compile_)
    monkeypatch.setattr(build, "bindings", lambda _name: nvrtc)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return SimpleNamespace(calls=calls, version=version, folder=tmp_path / "cache" / "kernelproof")


def test_built_once_for_each_architecture_shape_source_and_compiler(
    compiled, monkeypatch, tmp_path
):
    def build_all():
        for architecture in ARCHITECTURES.values():
            for groups in (2, 4):
                build.machine_code(architecture, Shape(groups, 1024, 4096, 512, 64))

    build_all()
    build_all()
    assert len(compiled.calls) == len(list(compiled.folder.iterdir())) == 6
    compiled.version[0] = (0, 13, 1)
    build_all()
    assert len(compiled.calls) == 12
    other = tmp_path / "other.cu"
    other.write_text("// another source")
    monkeypatch.setattr(build, "SOURCE", other)
    build_all()
    assert len(compiled.calls) == 18


def test_builders_at_once_leave_one_whole_file(compiled):
    gate = threading.Barrier(8)
    codes = []

    def one():
        gate.wait()
        codes.append(build.machine_code("sm_90a", SERVED))

    threads = [threading.Thread(target=one) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert set(codes) == {b"code" * 1000}
    assert [path.read_bytes() for path in compiled.folder.iterdir()] == [b"code" * 1000]


def test_a_cache_that_cannot_be_written_costs_only_time(compiled, monkeypatch, tmp_path):
    (tmp_path / "file").touch()
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "file"))
    assert build.machine_code("sm_90a", SERVED) == b"code" * 1000
    assert len(compiled.calls) == 1


def test_a_machine_without_cuda_python_is_told_what_to_install(monkeypatch):
    def missing(name):
        raise ImportError(f"No module named {name!r}")

    monkeypatch.setattr(build.importlib, "import_module", missing)
    with pytest.raises(ContractError, match="pip install cuda-bindings") as refusal:
        build.machine_code("sm_90a", SERVED)
    assert "\n" not in str(refusal.value)
