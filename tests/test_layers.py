"""The floors of the design: a module imports only from the floors below its own."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent

# Lowest first; modules on one floor may import each other. A package stands for all it holds but
# what is named itself.
FLOORS = [
    {"kernel"},
    {"evals"},
    {"verify.formats", "verify.contracts"},
    {"verify.oracle"},
    {"verify.spec", "verify.families"},
    {"verify.case", "verify.cases", "verify.inputs"},
    {"verify.guard", "verify.launch"},
    {"verify.harness"},
    {"verify.findings", "verify.describe", "verify.checks", "verify.compare"},
    {"verify.verdict", "verify.command", "verify.files", "verify.pool", "verify.session"},
    {"verify.tally", "verify.show", "verify.job"},
    {"verify.faults"},
    {"verify.stats"},
    {"verify.store"},
    {"verify.logs"},
    {
        "verify.arms",
        "verify.client",
        "verify.cluster",
        "verify.cluster_arm",
        "verify.differences",
        "verify.embedded",
        "verify.keys",
        "verify.limits",
        "verify.evidence",
        "verify.launched",
        "verify.looks",
        "verify.pairs",
        "verify.probe",
        "verify.servers",
        "verify.site",
        "verify.snapshot",
    },
    {
        "verify.answers",
        "verify.conclusion",
        "verify.manifest",
        "verify.resume",
        "verify.runner",
        "verify.task",
    },
    {"verify.likelihood"},
    {"reports"},
    {
        "verify.kernel",
        "verify.evals",
        "verify.bench",
        "verify.faults.program",
        "verify.faults.matrix",
        "verify.faults.__main__",
    },
    {"verify.__main__"},
]
OURS = ("kernel", "evals", "verify", "reports")
# Layers 1 and 2 judge kernel/ and must share no code with it.
INDEPENDENT = (
    "formats",
    "contracts",
    "oracle",
    "spec",
    "families",
    "case",
    "cases",
    "inputs",
    "guard",
    "launch",
    "harness",
    "findings",
    "describe",
    "checks",
    "compare",
)


def floor_of(module: str) -> int:
    holds = {
        name: floor
        for floor, members in enumerate(FLOORS)
        for name in members
        if module == name or module.startswith(name + ".")
    }
    return holds[max(holds, key=len)] if holds else -1


def imports(path: Path) -> set[str]:
    """Every module of ours that `path` imports, at its top or inside a function."""
    found = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: relative import; write the whole name"
            found |= {node.module} | {f"{node.module}.{alias.name}" for alias in node.names}
    return {name for name in found if name.split(".")[0] in OURS}


def modules() -> list[tuple[str, Path]]:
    paths = [p for package in OURS for p in (ROOT / package).rglob("*.py")]
    return [(".".join(p.relative_to(ROOT).with_suffix("").parts), p) for p in sorted(paths)]


@pytest.mark.parametrize(("module", "path"), modules(), ids=lambda v: v if type(v) is str else "")
def test_imports_point_down(module, path):
    here = module.removesuffix(".__init__")
    here_floor = floor_of(here)
    assert here_floor >= 0 or here == "verify", f"{here} stands on no floor; add it to FLOORS"
    for imported in imports(path):
        if floor_of(imported) < 0:
            continue  # a bare package, or a name inside a module already checked
        assert floor_of(imported) <= here_floor, f"{here} imports {imported}, which lies above it"


def test_layers_one_and_two_share_no_code_with_the_kernel():
    for name in INDEPENDENT:
        for path in [ROOT / "verify" / f"{name}.py", *(ROOT / "verify" / name).rglob("*.py")]:
            if path.exists():
                borrowed = [i for i in imports(path) if i.split(".")[0] == "kernel"]
                assert not borrowed, f"{path} imports {borrowed}"


def test_an_upward_import_is_noticed(tmp_path):
    source = tmp_path / "formats.py"
    source.write_text("def f():\n    from verify.compare import judge\n    return judge\n")
    assert max(map(floor_of, imports(source))) > floor_of("verify.formats")
