import pytest

from tests.verify.evals.sums import result

KERNELS = """
from kernel import chain

def unrotated(x, weight, cos_sin, positions, **options):
    chain(x, weight, cos_sin, positions * 0, **options)

def refuses(*args, **options):
    from kernel.contract import ContractError
    raise ContractError("not this one")

def raises(*args, **options):
    raise RuntimeError("bad launch")
"""


@pytest.mark.parametrize(
    ("kernel", "ends"),
    [
        ("kernel:chain", (0, "a loss of 5 points is ruled out")),
        ("mine_kernels:unrotated", (1, "PR is worse than base")),
        ("mine_kernels:refuses", (4, "pr never took the fused path")),
        ("mine_kernels:raises", (4, "RuntimeError: bad launch")),
    ],
)
def test_the_embedded_model_with_a_users_kernel(evals, here, monkeypatch, kernel, ends):
    code, words = ends
    (here / "mine_kernels.py").write_text(KERNELS)
    monkeypatch.syspath_prepend(str(here))
    limit = ["--suite", "mini-gpqa", "--limit", "96"]
    found, out, err = evals(*limit, "--arm", f"pr={kernel}", "--out", "run")
    assert (found, err) == (code, "")
    assert words in out
    manifest = result(here / "run")["manifest"]
    assert manifest["arms"]["base"]["calls"].keys() == {"chain"}
    if code == 0:
        assert manifest["arms"]["pr"]["calls"]["fused"] > 0
