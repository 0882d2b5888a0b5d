"""Plants a fault into the source of the fused Triton kernel and loads it as a module."""

import importlib.util
import sys
import tempfile
from pathlib import Path

SOURCE = Path(__file__).resolve().parents[2] / "kernel" / "fused_triton.py"


def plant(name: str, anchor: str, replacement: str):
    """The module `name`: the fused kernel with `anchor` replaced.

    Raises:
        ValueError: the anchor does not stand in the source exactly once.
    """
    source = SOURCE.read_text(encoding="utf-8")
    found = source.count(anchor)
    if found != 1:
        raise ValueError(f"{name}: the anchor stands {found} times in {SOURCE}; it must stand once")
    # A real file, which Triton reads the source of its functions from.
    folder = Path(tempfile.mkdtemp(prefix=f"{name}-"))
    path = folder / f"{name}.py"
    path.write_text(source.replace(anchor, replacement), encoding="utf-8")
    spec = importlib.util.spec_from_file_location(name, path)
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module
