from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.hardware import Registry

ROOT = Path(__file__).resolve().parent.parent
REGISTRY = Registry.read()


def test_every_entry_names_something_and_every_test_file_has_one():
    for entry in REGISTRY.must_run_on:
        assert (ROOT / entry.partition("::")[0]).exists(), entry
    for path in (ROOT / "tests").rglob("test_*.py"):
        assert REGISTRY.of(path.relative_to(ROOT).as_posix()), path


@pytest.mark.parametrize(
    ("test", "where"),
    [
        ("tests/kernel/test_fused_gpu.py::test_x", ["sm90", "sm100"]),
        ("tests/verify/stats/test_exact.py::test_x[1]", ["cpu"]),
        ("tests/verify/test_probes.py::test_x", ["cpu"]),
        (
            "tests/verify/test_probes.py::test_right_kernel_passes_the_probes_of_a_gpu[graph]",
            ["sm90", "sm100"],
        ),
        ("tests/kernel/test_new.py::test_x", []),
        ("tests/verifying.py", []),
    ],
)
def test_longest_entry_decides(test, where):
    assert REGISTRY.of(test) == where


def test_skip_is_wrong_only_where_the_test_must_run_and_no_reason_excuses_it():
    gpu, cpu = "tests/kernel/test_fused_gpu.py::test_x", "tests/test_layers.py::test_x"
    assert not REGISTRY.wrongly_skipped(gpu, "needs a CUDA GPU", {"cpu"})
    assert REGISTRY.wrongly_skipped(gpu, "needs a CUDA GPU", {"cpu", "sm90"})
    assert REGISTRY.wrongly_skipped(cpu, "later", {"cpu"})
    data = "real benchmark files are not beside this checkout (looked in ../shared/data)"
    assert not REGISTRY.wrongly_skipped(cpu, data, {"cpu"})


def pytest_in(path, *words, path_of=ROOT):
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *words, str(path)]
    environment = os.environ | {"PYTHONPATH": f"{ROOT}{os.pathsep}{path_of}"}
    done = subprocess.run(
        command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False
    )
    return done.returncode, done.stdout + done.stderr


def test_undeclared_test_fails_collection(tmp_path):
    path = tmp_path / "test_stray.py"
    path.write_text("def test_nothing():\n    pass\n", encoding="utf-8")
    root = ["-c", str(ROOT / "pyproject.toml"), "--rootdir", str(ROOT), "-p", "conftest"]
    code, said = pytest_in(path, *root)
    assert code == 4
    assert "::test_nothing and 0 more tests do not say where they must run" in said
    assert "tests/hardware.toml" in said


def test_failures_are_repeated_by_one_printed_line(tmp_path):
    path = tmp_path / "test_red.py"
    path.write_text("def test_red():\n    assert 0\n", encoding="utf-8")
    root = ["-c", str(ROOT / "pyproject.toml"), "--rootdir", str(ROOT), "-p", "conftest"]
    (tmp_path / "declares.py").write_text(
        "import conftest\nconftest.REGISTRY.must_run_on[''] = ['cpu']\n"
    )
    code, said = pytest_in(path, *root, "-p", "declares", "--seed=3", path_of=tmp_path)
    assert code == 1
    [line] = [line for line in said.splitlines() if line.startswith("to repeat what failed: ")]
    assert "--seed=3" in line
    assert line.endswith("::test_red")


def test_hardware_that_is_not_here_is_refused_in_one_line():
    code, said = pytest_in("tests/test_layers.py", "--hardware", "sm70")
    assert code == 4
    assert "--hardware sm70: no test is declared for it; choose among" in said
