from __future__ import annotations

import re
from itertools import product

import pytest

from verify import cases
from verify.cases import Arithmetic, Case, KernelSpec, grid

SPEC = KernelSpec()


@pytest.mark.parametrize("budget", ["quick", "standard", "full"])
def test_ids_name_every_case_and_read_back(budget):
    all_cases = grid(SPEC, budget)
    assert len({case.id for case in all_cases}) == len(all_cases)
    assert [Case.parse(case.id) for case in all_cases] == all_cases
    assert grid(SPEC, budget) == all_cases


def test_quick_asks_every_value_of_every_axis_and_every_pair_of_the_small_ones():
    quick = grid(SPEC, "quick")
    assert {case.tokens for case in quick} == set(range(1, 33))
    assert {case.family for case in quick} == set(cases.FAMILIES)
    seen = {(case.first, case.index) for case in quick if case.buffer == 4 * 8192}
    assert seen == set(product((0, 8192, 16384, 24576), ("int32", "int64")))
    assert {(case.buffer, case.first) for case in quick} >= {(8192, 0), (8200, 8)}
    for name in ("normal", "rotated", "integers"):
        mine = [case for case in quick if case.family == name]
        pairs = {(case.table, case.positions) for case in mine}
        every = set(product(cases.FAMILIES[name].tables, cases.FAMILIES[name].positions))
        assert len(pairs & every) >= 5
        assert {table for table, _ in pairs} == set(cases.FAMILIES[name].tables)
        assert {where for _, where in pairs} >= set(cases.FAMILIES[name].positions)


@pytest.mark.parametrize("still", [False, True])
@pytest.mark.parametrize("plan", ["whole", "reduced"])
def test_every_t_layout_and_index_is_asked_with_rotation_and_with_known_bytes(still, plan):
    mine = [
        case for case in grid(SPEC, "quick", plan) if cases.FAMILIES[case.family].still == still
    ]
    forms = [case for case in mine if case.probe == "forms"]
    assert {case.tokens for case in forms} == set(range(1, 33))
    layouts = {(case.buffer // (case.groups * case.k), case.first > 0) for case in forms}
    assert layouts >= {(1, False), (1, True), (4, False), (4, True)}
    assert {case.index for case in forms} == {"int32", "int64"}


@pytest.mark.parametrize(
    ("spec", "plan", "draws"),
    [
        (SPEC, "whole", 16),  # 32,640 maxima in launches of 2,048 blocks
        (SPEC, "reduced", 6),
        (KernelSpec(max_tokens=256), "whole", 6),
        (KernelSpec(max_tokens=1), "whole", 6),  # 510 launches would be too many
    ],
)
def test_quick_goes_through_every_block_maximum_where_16_launches_hold_them(spec, plan, draws):
    mine = [case for case in grid(spec, "quick", plan) if case.family == "golden_amax"]
    assert sorted(case.draw for case in mine) == list(range(draws))


def test_every_family_and_every_probe_is_asked():
    spec = KernelSpec(claims=frozenset({"rejects"}))
    here, on_cuda = grid(spec, "quick"), grid(spec, "quick", cuda=True)
    assert {case.probe for case in here} == {"forms", "reuse", "every", "refuse"}
    assert {case.probe for case in on_cuda} == set(cases.PROBES)
    assert "refuse" not in {case.probe for case in grid(SPEC, "full")}
    far = [case for case in here if case.buffer * (case.tokens - 1) > 2**31]
    assert far
    huge = {case.family for case in here if case.positions == "huge"}
    assert huge == {name for name, family in cases.FAMILIES.items() if family.far}


def test_max_tokens_bounds_the_grid_and_is_asked():
    for most in (1, 6, 16, 32, 40):
        tokens = {case.tokens for case in grid(KernelSpec(max_tokens=most), "quick")}
        assert max(tokens) == most
        assert tokens == set(cases.tokens_of(KernelSpec(max_tokens=most)))


def test_slow_kernels_are_asked_a_few_cases_at_their_shape_and_the_rest_reduced():
    reduced = grid(SPEC, "quick", "reduced")
    assert len(reduced) == len(grid(SPEC, "quick")) - 10  # all block maxima
    whole = [case for case in reduced if case.rank == SPEC.rank]
    assert {case.family for case in whole} == {"normal", "wide_integers", "golden_sweep"}
    assert {(case.rank, case.k) for case in reduced} == {(1024, 4096), (96, 1024), (96, 2048)}


def test_kernels_of_one_slow_shape_are_asked_each_family_there():
    few = grid(SPEC, "quick", "few")
    assert {case.family for case in few} == set(cases.FAMILIES)
    assert {case.rank for case in few} == {SPEC.rank}


def test_families_that_need_still_dims_are_left_out_where_all_are_rotated():
    spec = KernelSpec(1, 32, 128, head_dim=64, rope_dim=64)
    assert "residual" not in {case.family for case in grid(spec, "quick")}


@pytest.mark.parametrize(
    ("arithmetic", "k", "c"),
    [
        (Arithmetic(16, 8, "truncate"), 4096, 343.0),  # 32 steps of 10.5 and 7 additions
        (Arithmetic(16, 1, "truncate"), 4096, 2688.0),
        (Arithmetic(1), 4096, 4096.0),
        (Arithmetic(1, 8), 4096, 519.0),
        (Arithmetic(64, 1), 4096, 127.0),
        (Arithmetic(16, 8, "truncate"), 100, 17.5),
    ],
)
def test_roundings_of_a_declared_arithmetic(arithmetic, k, c):
    assert arithmetic.roundings(k) == c
    assert KernelSpec(arithmetic=arithmetic).roundings(k) == c
    assert KernelSpec(arithmetic=arithmetic).tier == "declared"


def test_calibrated_bound_covers_the_worst_honest_error_measured():
    assert SPEC.tier == "calibrated"
    assert SPEC.roundings(4096) > 378.8  # cuBLAS in FP32 on an H200
    assert SPEC.roundings(8192) == 2 * SPEC.roundings(4096)
    assert SPEC.roundings(64) == 64.0


@pytest.mark.parametrize(
    ("sizes", "words"),
    [
        ({"rank": 100}, "rank is 100; it must be a multiple of 32"),
        ({"k": 1000}, "k is 1000; it must be a multiple of head_dim = 512"),
        ({"rope_dim": 63}, "rope_dim is 63"),
        ({"rope_dim": 1024}, "at most head_dim = 512"),
        ({"max_tokens": 0}, "max_tokens is 0"),
        ({"groups": 0}, "groups is 0"),
        ({"claims": frozenset({"fast"})}, "no claim fast; choose among nondeterministic"),
    ],
)
def test_bad_sizes_are_told_in_one_line(sizes, words):
    with pytest.raises(ValueError, match=words):
        KernelSpec(**sizes)


@pytest.mark.parametrize(
    ("step", "splits", "rounding"), [(0, 1, "nearest"), (1, 0, "nearest"), (1, 1, "up")]
)
def test_bad_arithmetic_is_refused(step, splits, rounding):
    with pytest.raises(ValueError, match="must be"):
        Arithmetic(step, splits, rounding)


GOOD = grid(SPEC, "quick")[0].id


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        ("normal", "a case id reads family="),
        (GOOD.replace("family=normal", "family=abnormal"), "no family 'abnormal'"),
        (GOOD.replace("table=plain", "table=quarter"), "table is 'quarter'"),
        (GOOD.replace("tokens=", "tokens=x"), "; it must be a number"),
        (re.sub("first=.*-", "first=30000-", GOOD), "must lie inside a buffer of"),
        (GOOD.replace("rank=1024", "rank=1000"), "rank is 1000"),
        (GOOD + "-more=1", "a case id reads family="),
    ],
)
def test_bad_ids_are_told_in_one_line(wrong, words):
    assert wrong != GOOD
    with pytest.raises(ValueError, match=words):
        Case.parse(wrong)
