"""Each way of launching shows what the others cannot."""

from __future__ import annotations

import dataclasses

import pytest
import torch

from tests.mutants import honest
from verify import cases, compare, harness, inputs, session
from verify.spec import KernelSpec

CLAIMS = frozenset({"rejects", "batch-invariant"})
SPEC = KernelSpec(2, 32, 256, head_dim=64, rope_dim=16, max_tokens=20, claims=CLAIMS)


def case_of(probe, family="normal", positions="long", layout=1, spec=SPEC):
    table = cases.FAMILIES[family].tables[0]
    return cases.place(
        spec,
        layout=layout,
        family=family,
        tokens=spec.max_tokens,
        probe=probe,
        table=table,
        positions=positions,
        index="int32",
    )


def checks(kernel, probe, spec=SPEC, **axes):
    given = inputs.make(case_of(probe, spec=spec, **axes))
    judgement = compare.judge(given, harness.run(kernel, given), spec)
    return {finding.check for finding in judgement.findings}


def kernel(before=None, after=None, right=honest.plain):
    """A right kernel that does something before or after."""

    def fn(x, weight, cos_sin, positions, **rest):
        if before:
            before(x, weight, cos_sin, positions, **rest)
        right(x, weight, cos_sin, positions, **rest)
        if after:
            after(rest)

    return fn


def strict(x, weight, cos_sin, positions, *, head_dim, **outputs):
    """Refuses what the contract refuses."""
    rows, columns = len(x), weight.shape[0] * weight.shape[1]
    right = (
        1 <= rows <= SPEC.max_tokens
        and x.dtype == weight.dtype == torch.bfloat16
        and x.dim() == 3
        and x.shape[2] == weight.shape[2]
        and x.shape[2] % head_dim == 0
        and weight.is_contiguous()
        and cos_sin.shape[1] % 2 == 0
        and not positions.is_floating_point()
        and len(positions) == rows
        and 0 <= int(positions.min()) <= int(positions.max()) < len(cos_sin)
        and sorted(outputs) in (["out"], ["q", "scales"])
        and all(
            o.shape == (rows, columns) and o.dtype in (torch.bfloat16, torch.float8_e4m3fn)
            for name, o in outputs.items()
            if name != "scales"
        )
    )
    if not right:
        raise ValueError("refused")


row_by_row = honest.rows
STRICT = kernel(strict, right=row_by_row)


@pytest.mark.parametrize(
    ("probe", "axes"),
    [
        ("forms", {"positions": "huge"}),
        ("forms", {"layout": cases.FAR}),
        ("forms", {"layout": 5}),
        ("reuse", {}),
        ("reuse", {"family": "cancellation"}),
        ("reuse", {"family": "wide_integers"}),
        ("reuse", {"family": "golden_spread", "positions": "zero"}),
        ("every", {"family": "wide_integers"}),
        ("every", {"family": "rotated"}),
        ("refuse", {}),
    ],
)
def test_right_kernel_passes_every_probe(probe, axes):
    assert checks(STRICT, probe, **axes) == set()


NAMES = ("x", "weight", "cos_sin", "positions")


def test_one_allocation_serves_other_sizes_and_contents_one_at_a_time():
    seen, places = [], set()

    def spy(*arguments, **_):
        places.add(tuple(argument.data_ptr() for argument in arguments))
        seen.append([argument.clone() for argument in arguments])

    given = inputs.make(case_of("reuse"))
    outcome = harness.run(kernel(spy), given)
    seen = seen[::2]  # one of two forms
    assert [len(x) for x, *_ in seen] == [20, 20, 4, 17, 1, 16, *[20] * 7]
    assert len(places) == 1
    changed = [
        tuple(
            n for n, one, two in zip(NAMES, seen[0], now, strict=True) if not torch.equal(one, two)
        )
        for now in seen[6:]
    ]
    assert changed == [("weight",), ("positions",), ("cos_sin",), ("x",), ("x",), ("x",), ()]
    assert [bool(x.isnan().any()) for x, *_ in seen] == [*[False] * 10, True, False, False]
    assert [int(x.isinf().flatten(1).any(1).sum()) for x, *_ in seen] == [*[0] * 11, 1, 0]
    assert len(seen[9][0].unique(dim=0)) == 1
    first, *_, last = outcome.steps
    assert last.inputs is first.inputs
    assert {a.poison for a in first.launches}.isdisjoint({a.poison for a in last.launches})


@pytest.mark.parametrize("forgotten", NAMES)
def test_a_result_that_is_kept_whatever_one_argument_holds_is_found(forgotten):
    """Nothing that is looked up by what the other three hold can pass."""
    kept = {}

    def looked_up(*arguments, head_dim, **outputs):
        shapes = [(name, tensor.shape) for name, tensor in outputs.items()]
        contents = [
            tensor.contiguous().view(torch.uint8).numpy().tobytes()
            for name, tensor in zip(NAMES, arguments, strict=True)
            if name != forgotten
        ]
        key = (*contents, *shapes)
        if key not in kept:
            honest.plain(*arguments, head_dim=head_dim, **outputs)
            kept[key] = {name: tensor.clone() for name, tensor in outputs.items()}
        for name, tensor in outputs.items():
            tensor.copy_(kept[key][name])

    assert checks(looked_up, "forms") == set()
    assert "interval" in checks(looked_up, "reuse")


@pytest.mark.parametrize("name", ["x", "weight", "cos_sin", "positions"])
def test_what_is_kept_from_an_earlier_launch_by_address_and_shape_is_found(name):
    kept = {}

    def stale(*arguments, **outputs):
        named = dict(zip(("x", "weight", "cos_sin", "positions"), arguments, strict=True))
        mine = named[name]
        named[name] = kept.setdefault((mine.data_ptr(), mine.shape), mine.clone())
        honest.plain(*named.values(), **outputs)

    assert checks(stale, "forms") == set()
    assert "interval" in checks(stale, "reuse")


def test_every_t_is_asked_on_one_allocation():
    sizes, first_rows = [], set()

    def spy(x, *_, **__):
        sizes.append(len(x))
        first_rows.add(x[0, 0, :4].view(torch.int64).item())

    harness.run(kernel(spy), inputs.make(case_of("every", "wide_integers", spec=SPEC)))
    assert sizes[::2] == sizes[1::2] == list(range(20, 0, -1))
    assert len(first_rows) == 20


@pytest.mark.parametrize("tokens", [1, 11, 19])
def test_what_is_wrong_for_one_t_only_is_found(tokens):
    def partials_in_bf16(x, weight):
        if len(x) != tokens:
            return honest.project(x, weight)
        parts = zip(x.chunk(2, -1), weight.chunk(2, -1), strict=True)
        return sum(honest.project(a, b).bfloat16().float() for a, b in parts)

    fn = honest.build(project=partials_in_bf16)
    assert "exact" in checks(fn, "every", family="wide_integers")


def test_row_that_depends_on_its_batch_is_found_under_the_claim():
    def two_ways(x, weight):
        split = 1 if len(x) > 16 else 4
        return honest.project_split(split, x, weight)

    fn = honest.build(project=two_ways)
    assert "batch" in checks(fn, "reuse", family="cancellation")
    unclaimed = dataclasses.replace(SPEC, claims=frozenset())
    assert checks(fn, "reuse", spec=unclaimed, family="cancellation") == set()


@pytest.mark.parametrize("how", ["accepts", "writes"])
def test_call_that_is_not_refused_is_found(how):
    def writes_first(x, weight, cos_sin, positions, **outputs):
        for output in filter(torch.is_tensor, outputs.values()):
            output.view(torch.uint8).view(-1)[:1] = 0
        strict(x, weight, cos_sin, positions, **outputs)

    fn = {"accepts": lambda *_, **__: None, "writes": kernel(writes_first)}[how]
    given = inputs.make(case_of("refuse"))
    findings = compare.judge(given, harness.run(fn, given), SPEC).findings
    assert {(f.layer, f.check) for f in findings} == {(1, "rejects"), (2, "rejects")}
    told = "did not raise" if how == "accepts" else "wrote to"
    assert all(told in finding.message for finding in findings)


def test_kernel_of_any_t_need_not_refuse_a_larger_one():
    def unbounded(x, weight, cos_sin, positions, **rest):
        if 0 < len(x) == len(positions) and len(x) > SPEC.max_tokens:
            return
        STRICT(x, weight, cos_sin, positions, **rest)

    assert checks(unbounded, "refuse") == {"rejects"}
    claims = dataclasses.replace(SPEC, claims=CLAIMS | {"unbounded"})
    assert checks(unbounded, "refuse", spec=claims) == set()


def test_counting_in_32_bits_is_found():
    def wrapped(x, weight, cos_sin, positions, **rest):
        elements = positions.long() * cos_sin.shape[1]
        honest.plain(x, weight, cos_sin, positions * (elements < 2**31), **rest)

    assert checks(wrapped, "forms") == set()
    assert "interval" in checks(wrapped, "forms", positions="huge")

    def wrapped_rows(x, *rest, **outputs):
        far = torch.arange(len(x)) * x.stride(0) >= 2**31
        honest.plain(torch.where(far[:, None, None], x[0], x), *rest, **outputs)

    assert checks(wrapped_rows, "forms") == set()
    assert "interval" in checks(wrapped_rows, "forms", layout=cases.FAR)


def test_case_that_memory_does_not_allow_says_nothing(monkeypatch):
    def doubles(x, weight, cos_sin, positions, **rest):
        honest.plain(x, weight, cos_sin * 1.0, positions, **rest)

    monkeypatch.setattr(session, "load", lambda _: doubles)
    far, near = case_of("forms", positions="huge"), case_of("forms")
    worker = session.Session("", SPEC, 0, torch.device("cpu"))
    assert worker.judge(far).starved, "8 GiB more are not to be had"
    assert worker.judge(near).findings == ()


@pytest.mark.parametrize(
    ("error", "starved"),
    [
        (RuntimeError("DefaultCPUAllocator: can't allocate memory: you tried to allocate 8 GB"), 1),
        (MemoryError("Unable to allocate 16.0 GiB for an array"), 1),  # numpy's derives from it
        (torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 8.00 GiB"), 1),
        (RuntimeError("CUDA error: an illegal memory access was encountered"), 0),
        (ValueError("cos_sin is not contiguous in memory"), 0),
    ],
)
def test_only_the_end_of_memory_says_nothing(error, starved, monkeypatch):
    def raises(*_, **__):
        raise error

    monkeypatch.setattr(session, "load", lambda _: raises)
    worker = session.Session("", SPEC, 0, torch.device("cpu"))
    judged = worker.judge(case_of("forms", positions="huge"))
    assert judged.starved == starved
    assert {finding.check for finding in judged.findings} == ({"error"} if not starved else set())
    near = worker.judge(case_of("forms"))
    assert {finding.check for finding in near.findings} == {"error"}


@pytest.mark.parametrize("probe", sorted(cases.ON_CUDA))
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
def test_right_kernel_passes_the_probes_of_a_gpu(probe):
    import kernel as ours

    device = torch.device("cuda")
    for fn in (ours.fused_triton, ours.chain):
        spec = dataclasses.replace(KernelSpec(), claims=frozenset())
        for family in ("normal", "golden_spread"):
            positions = "zero" if family == "golden_spread" else "long"
            case = case_of(probe, family, positions, spec=spec)
            given = inputs.make(case, device=device)
            assert compare.judge(given, harness.run(fn, given), spec).findings == ()
