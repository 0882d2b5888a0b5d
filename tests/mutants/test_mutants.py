"""Every mutant fails for its own reason; every right kernel passes, whatever its order of sums."""

from __future__ import annotations

import dataclasses
import functools

import pytest
import torch

from verify import cases, compare, harness, inputs, session
from verify.faults.triton_source import planted

SPEC = cases.reduced(cases.KernelSpec())
# One of each family, and of reuse for what changes between launches; the costlier probes are for
# verify.faults. Not those past 2^31, of which some mutants copy all: gigabytes a worker.
CASES = [
    case
    for case in cases.grid(SPEC, "quick")
    if case.draw == 0 and case.probe in {"forms", "reuse"} and not case.mapped
]

# The check that must notice each, and the layers that may: a fault of the quantiser leaves the
# BF16 output alone, and one of the rotation leaves every byte right for the output it has.
MUTANTS = {
    "rotation:none": ("interval", {1}),
    "rotation:forward": ("interval", {1}),
    "rotation:half_split": ("exact", {1}),
    "rotation:unrounded": ("interval", {1}),
    "rotation:bf16_table": ("interval", {1}),
    "rotation:next_position": ("exact", {1, 2}),
    "rotation:first_position_for_all": ("exact", {1}),
    "rotation:position_in_16_bits": ("interval", {1}),
    "rotation:last_head_left_out": ("exact", {1}),
    "product:bf16_accumulation": ("exact", {1, 2}),
    "product:bf16_partials": ("exact", {1, 2}),
    "product:fp16_partials": ("exact", {1, 2}),
    "product:last_terms_lost": ("exact", {1, 2}),
    "product:first_split_doubled": ("exact", {1, 2}),
    "product:groups_swapped": ("exact", {1, 2}),
    "product:gain": ("exact", {1, 2}),
    "product:truncated": ("exact", {1, 2}),
    "product:flushed_operands": ("exact", {1, 2}),
    "product:flushed_output": ("exact", {1, 2}),
    "product:one_step_off": ("exact", {1, 2}),
    "quantiser:floor_scale": ("scales", {2}),
    "quantiser:bump_at_powers": ("scales", {2}),
    "quantiser:amax_floor": ("scales", {2}),
    "quantiser:scale_one_for_zero_blocks": ("scales", {2}),
    "quantiser:last_lane_left_out": ("scales", {2}),
    "quantiser:subnormals_flushed": ("codes", {2}),
    "quantiser:truncated_codes": ("codes", {2}),
    "quantiser:zero_without_sign": ("codes", {2}),
    "layout:linear": ("scales", {2}),
    "layout:padding_unwritten": ("padding", {2}),
    "layout:padding_to_row_32": ("padding", {2}),
    "layout:blocks_swapped": ("scales", {2}),
    "memory:one_row_past_the_end": ("guard", {1}),
    "memory:byte_before_the_scales": ("guard", {2}),
    "memory:writes_back_to_x": ("inputs", {1, 2}),
    "memory:last_row_unwritten": ("unwritten", {1, 2}),
    "memory:changes_from_call_to_call": ("repeat", {1, 2}),
    "memory:ignores_the_offset": ("exact", {1, 2}),
    "memory:raises": ("error", {1, 2}),
    "fused_wrong_sign:fused_triton": ("interval", {1}),
    "fused_floor_scale:fused_triton": ("scales", {2}),
}
HONEST = [
    "plain",
    "splits_8",
    "backwards",
    "fp64",
    "rows",
    "contracted",
    "library_bf16",
    "flushing",
]


@functools.cache
def given(case: cases.Case) -> inputs.Inputs:
    return inputs.make(case)


def findings(path: str, spec: cases.KernelSpec = SPEC) -> list[compare.Finding]:
    torch.set_num_threads(1)
    candidate = session.load(f"tests.mutants.{path}")
    found = []
    for case in CASES:
        outcome = harness.run(candidate, given(case))
        found += compare.judge(given(case), outcome, spec).findings
    return found


@pytest.mark.parametrize("path", MUTANTS)
def test_mutant_fails_for_its_own_reason(path):
    check, layers = MUTANTS[path]
    found = findings(path)
    assert check in {finding.check for finding in found}
    assert {finding.layer for finding in found} == layers


@pytest.mark.parametrize("name", HONEST)
def test_right_kernel_passes_in_any_order_of_sums(name):
    assert findings(f"honest:{name}") == []


def test_claim_of_ftz_allows_what_is_flushed_in_places():
    claims = dataclasses.replace(SPEC, claims=frozenset({"ftz"}))
    assert findings("product:flushed_output", claims) == []
    assert findings("honest:plain", claims) == []
    assert {f.check for f in findings("quantiser:subnormals_flushed", claims)} >= {"codes"}


def test_fault_that_does_not_apply_is_an_error():
    with pytest.raises(ValueError, match="stands 0 times"):
        planted("nowhere", "no such line in the kernel", "")
