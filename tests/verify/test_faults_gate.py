"""The gate: every planted fault is noticed, no honest kernel is, at a size that CI can carry."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from verify.faults.catalogue import CATALOGUE
from verify.faults.honest import VARIANTS

ROOT = Path(__file__).resolve().parents[2]

OPEN = {
    "no_tokens_accepted": "a call with T = 0 under the claim that it is refused",
    "nothing_said_at_no_tokens": "the same, buffers unchanged",
    "tokens_beyond_capacity_dropped": "a call with T = 33, likewise",
    "written_before_refused": "outputs unchanged after a refusal",
    "both_forms_accepted": "a call with both forms, likewise",
    "out_of_other_shape_accepted": "T = 1 and a BF16 output of more rows, likewise",
    "positions_of_other_dtype_accepted": "FP32 positions, likewise",
    "x_in_fp16_accepted": "FP16 activations, likewise",
    "positions_outside_the_table_accepted": "position -1 and position S, likewise",
    "raises_at_nan": "NaN in x",
    "nan_inputs_zeroed": "NaN in x",
    "nan_inputs_cleaned_in_place": "NaN in x, which stays as it was",
    "nan_output_zeroed": "NaN in x, or Inf - Inf",
    "nan_once_nan_ever": "a finite case after one with NaN",
    "output_saturates": "sums that overflow to Inf",
    "overflow_clamped": "sums that overflow to Inf",
    "row_zero_taken_for_identity": "a table whose row 0 is no identity, and position 0",
    "position_through_fp32": "an odd position above 2^24 in a lazily mapped table",
    "table_offset_int32_elements": "a position past 2^31 elements",
    "table_offset_int32_bytes": "a position past 2^31 bytes",
    "table_offset_uint32_bytes": "a position past 2^32 bytes",
    "triton_position_int32": "a position past 2^31 elements",
    "row_offset_int32_elements": "a row of x past 2^31 elements",
    "row_offset_int32_bytes": "a row of x past 2^31 bytes",
    "triton_row_offset_int32": "a row of x past 2^31 elements",
    "two_row_strides_known": "a row of x neither packed nor four times as wide",
    "last_row_missing_at_6": "every T from 1 to 32",
    "rows_from_24_missing_below_31": "every T from 1 to 32",
    "order_depends_on_t": "a row alone against the row in a batch, under the claim",
    "order_depends_on_row": "the same",
    "splits_depend_on_t": "the same",
}
"""Faults that nothing notices yet, and the input or check that would."""


def test_open_names_faults():
    assert OPEN.keys() <= CATALOGUE.keys()


@pytest.mark.slow
@pytest.mark.timeout(1500)
def test_all_faults_are_noticed_and_no_honest_kernel_is(tmp_path):
    path = tmp_path / "scores.json"
    command = [sys.executable, "-m", "verify.faults", "--seeds", "20", "--json", str(path)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    scores = json.loads(path.read_text(encoding="utf-8"))["scores"]
    assert [s["message"] for s in scores if s["kind"] != "fault" and s["checks"]] == []
    assert {s["name"] for s in scores if s["kind"] == "honest"} == set(VARIANTS)
    faults = {s["name"]: s["noticed"] for s in scores if s["kind"] == "fault"}
    assert faults.keys() == CATALOGUE.keys()
    assert {name for name, noticed in faults.items() if not noticed} == OPEN.keys()
    assert done.returncode == (1 if OPEN else 0), done.stderr
