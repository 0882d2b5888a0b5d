from __future__ import annotations

import pytest
import torch

from tests.mutants import honest, memory
from verify import cases, harness, inputs
from verify.cases import KernelSpec
from verify.guard import Guarded

SPEC = KernelSpec(2, 32, 128, head_dim=64, rope_dim=16)


def made(layout=0, tokens=5, index="int64", family="normal"):
    case = cases.place(
        SPEC,
        layout=layout,
        family=family,
        tokens=tokens,
        table="plain",
        positions="short",
        index=index,
    )
    return inputs.make(case)


@pytest.mark.parametrize("layout", range(5))
@pytest.mark.parametrize("index", ["int32", "int64"])
def test_kernel_is_given_what_the_case_says_and_nothing_else_is_a_number(layout, index):
    given = made(layout, index=index)
    seen = {}

    def spy(x, weight, cos_sin, positions, *, head_dim, **outputs):
        seen.update(x=x, weight=weight, cos_sin=cos_sin, positions=positions, head_dim=head_dim)
        seen.setdefault("forms", []).append(sorted(outputs))

    harness.run(spy, given)
    x = seen["x"]
    wide = 4 * 64 * (4 if layout else 1)
    assert x.stride() == (wide, 128, 1)
    assert torch.equal(x, given.x)
    assert torch.equal(seen["weight"], given.weight.bf16)
    assert seen["weight"].is_contiguous()
    assert torch.equal(seen["cos_sin"], given.table.cos_sin)
    assert torch.equal(seen["positions"], given.positions)
    assert seen["positions"].dtype == getattr(torch, index)
    assert seen["head_dim"] == 64
    assert seen["forms"] == [["out"]] * 2 + [["q", "scales"]] * 2
    # Everything in reach of x but x itself is NaN: a row before, a row after, the heads beside.
    start = x.storage_offset() - (layout - 1 if layout else 0) * 256 - wide
    around = torch.as_strided(x, (7, wide), (wide, 1), start)
    assert around.isnan().sum() == around.numel() - x.numel()


def test_outputs_are_filled_and_surrounded_by_each_poison():
    given = made()
    filled = []

    def look(*_, head_dim, **outputs):
        for name, output in outputs.items():
            filled.extend((name, byte) for byte in output.view(torch.uint8).unique().tolist())
        assert head_dim == 64

    harness.run(look, given)
    assert filled == [
        ("out", 0xFF),
        ("out", 0xA5),
        ("q", 0xFF),
        ("scales", 0xFF),
        ("q", 0xA5),
        ("scales", 0xA5),
    ]


@pytest.mark.parametrize("offset", [-4096, -1, 0, 511])
def test_every_guard_byte_is_watched(offset):
    buffer = Guarded((3, 64), torch.bfloat16, 0xFF, 100, torch.device("cpu"))
    assert buffer.broken() is None
    assert buffer.tensor.data_ptr() % 64 == 0
    buffer.tensor.fill_(1.0)
    assert buffer.broken() is None
    place = offset if offset < 0 else buffer.tensor.nbytes + offset
    buffer.raw[buffer.guard + place] = 0
    assert buffer.broken() == place


def test_overruns_are_seen_in_the_output_they_belong_to():
    given = made()
    outcome = harness.run(memory.one_row_past_the_end, given)
    assert [set(a.overruns) for a in outcome.launches] == [{"out"}, {"out"}, set(), set()]
    assert outcome.launches[0].overruns["out"] == 5 * 64 * 2
    outcome = harness.run(memory.byte_before_the_scales, given)
    assert outcome.launches[3].overruns == {"scales": -1}


@pytest.mark.parametrize("name", ["x", "weight", "cos_sin", "positions"])
def test_altered_inputs_are_named_and_put_back(name):
    given = made(layout=2)

    def vandal(x, weight, cos_sin, positions, **_):
        {"x": x, "weight": weight, "cos_sin": cos_sin, "positions": positions}[name].flatten()
        target = {"x": x, "weight": weight, "cos_sin": cos_sin, "positions": positions}[name]
        target[(0,) * target.ndim] += 1

    outcome = harness.run(vandal, given)
    assert [launch.altered for launch in outcome.launches] == [(name,)] * 4
    assert all(launch.altered == () for launch in harness.run(honest.plain, given).launches)


def test_a_write_beside_x_is_an_altered_input():
    given = made(layout=2)

    def vandal(x, *_, **__):
        torch.as_strided(x, (1,), (1,), x.storage_offset() - 1)[0] = 0

    assert harness.run(vandal, given).launches[0].altered == ("x",)


def test_an_error_is_told_whatever_its_message_is():
    class UntoldError(Exception):
        def __str__(self):
            raise ValueError

    def raises(error):
        def fn(*_, **__):
            raise error

        (first, *_) = harness.run(fn, made()).launches
        return first.error

    assert raises(UntoldError()) == "UntoldError: (its message raises, too)"
    assert raises(RuntimeError("a \udce9 \x1b[31m b")) == "RuntimeError: a \ufffd \ufffd[31m b"


@pytest.mark.parametrize(
    ("name", "change", "ask"),
    [
        ("default dtype", lambda: torch.set_default_dtype(torch.float64), torch.get_default_dtype),
        ("default device", lambda: torch.set_default_device("meta"), torch.get_default_device),
        ("grad mode", lambda: torch.set_grad_enabled(False), torch.is_grad_enabled),
        (
            "number of threads",
            lambda: torch.set_num_threads(torch.get_num_threads() + 1),
            torch.get_num_threads,
        ),
        (
            "precision of FP32 products",
            lambda: torch.set_float32_matmul_precision("high"),
            torch.get_float32_matmul_precision,
        ),
        (
            "deterministic mode",
            lambda: torch.use_deterministic_algorithms(True),
            torch.are_deterministic_algorithms_enabled,
        ),
        ("random numbers", lambda: torch.rand(1), lambda: bytes(torch.get_rng_state())),
    ],
)
def test_settings_of_torch_are_an_altered_input_and_put_back(name, change, ask):
    def leaves(*args, **kwargs):
        honest.plain(*args, **kwargs)
        change()

    given, before = made(), ask()
    assert {launch.altered for launch in harness.run(leaves, given).launches} == {
        (f"torch's {name}",)
    }
    assert ask() == before


def test_an_output_bound_to_other_memory_is_not_written():
    def rebinds(*arguments, **rest):
        outputs = {n: t for n, t in rest.items() if torch.is_tensor(t)}
        fresh = {name: torch.empty_like(tensor) for name, tensor in outputs.items()}
        honest.plain(*arguments, **rest | fresh)
        for name, tensor in outputs.items():
            tensor.data = fresh[name]

    for launch in harness.run(rebinds, made()).launches:
        for tensor in launch.outputs.values():
            assert (tensor.view(torch.uint8) == launch.poison).all()


@pytest.mark.parametrize("place", ["inside", "beside"])
def test_what_is_written_after_a_call_returned_is_found(place):
    """By the next call here; by a thread it would be the same."""
    before = []

    def scribbles(*arguments, out=None, **rest):
        for old in before:
            end = old.storage_offset() + old.numel()
            torch.as_strided(old, (1,), (1,), end - (place == "inside"))[0] = 1
        before[:] = [] if out is None else [out]
        honest.plain(*arguments, out=out, **rest)

    altered = [launch.altered for launch in harness.run(scribbles, made()).launches]
    assert altered == [("out after it had returned",)] * 2 + [()] * 2


@pytest.mark.parametrize("error", [ValueError("two\nlines"), SystemExit(3), AssertionError()])
def test_an_exception_ends_its_launch_only(error):
    given = made()

    def fussy(*arguments, out=None, **rest):
        if out is not None:
            raise error
        honest.plain(*arguments, **rest)

    outcome = harness.run(fussy, given)
    assert [launch.error is None for launch in outcome.launches] == [False, False, True, True]
    assert outcome.launches[0].error.startswith(type(error).__name__)
    assert "\n" not in outcome.launches[0].error
    assert outcome.of("bf16") == []
    assert len(outcome.of("mxfp8")) == 2


def test_interrupting_the_run_is_no_finding():
    def interrupted(*_, **__):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        harness.run(interrupted, made())


@pytest.mark.parametrize("answer", [torch.zeros(1), (1, 2)])
def test_kernel_that_returns_its_result_is_told_to_write_it(answer):
    outcome = harness.run(lambda *_, **__: answer, made())
    kinds = {launch.error for launch in outcome.launches}
    start = f"TypeError: it returned a {type(answer).__name__} and wrote nothing; "
    assert {error.removeprefix(start) for error in kinds} == {
        "a candidate writes into the out it is given",
        "a candidate writes into the q and scales it is given",
    }


def test_what_a_kernel_returns_beside_what_it_writes_is_its_own_affair():
    def both(*arguments, **outputs):
        honest.plain(*arguments, **outputs)
        return outputs

    assert [launch.error for launch in harness.run(both, made()).launches] == [None] * 4
