"""The catalogue is large, named, described, applies; equivalents are proved over their domain."""

from __future__ import annotations

import ast
import dataclasses
import linecache
from collections import Counter
from pathlib import Path

import pytest
import torch

import kernel
from verify.compare import CHECKS
from verify.faults.catalogue import CATALOGUE, FAMILIES
from verify.faults.equivalent import EQUIVALENTS
from verify.faults.model import BLOCK, Model
from verify.faults.record import Family, StageFault, fault
from verify.faults.triton_source import SOURCE, SourceFault

COMING = {"batch", "rejects"}
"""Checks that faults ask for beside those of verify.compare."""

NOT_A_FAULT_HERE = {90}
"""Of the published list: the contract refuses a weight that is not contiguous."""


def every_bf16():
    """All finite values in order of their bits, with either sign and alone in their block."""
    bits = torch.arange(0x10000).to(torch.int16).view(torch.bfloat16)
    values = bits[bits.isfinite()].view(-1, BLOCK)
    lone = torch.zeros(0x7F80, BLOCK, dtype=torch.bfloat16)
    lone[:, 5] = torch.arange(0x7F80, dtype=torch.int16).view(torch.bfloat16)
    return torch.cat([values, values.flip(1), -values, lone])


def quantised(model, y):
    """Codes and scale bytes of BF16 [T, N], without layout."""
    source = model.source(y)
    byte = model.scale(model.amax(source.view(len(y), -1, BLOCK)))
    return model.encode(model.scaled(source, byte)), byte


def test_size_and_families():
    by_family = Counter(entry.family for entry in CATALOGUE.values())
    assert len(CATALOGUE) >= 110
    assert set(by_family) == set(Family)
    assert min(by_family.values()) >= 10


def test_published_list_is_covered():
    equivalents = {entry.fault.number for entry in EQUIVALENTS.values()}
    numbers = [entry.number for entry in CATALOGUE.values() if entry.number]
    assert set(range(1, 92)) - set(numbers) - equivalents == NOT_A_FAULT_HERE
    assert len(numbers) == len(set(numbers))


@pytest.mark.parametrize("entry", CATALOGUE.values(), ids=CATALOGUE)
def test_entry_is_whole(entry):
    assert entry.description.endswith(".")
    assert "\n" not in entry.description
    assert entry.sees in CHECKS.keys() | COMING


STAGES = {name: entry for name, entry in CATALOGUE.items() if isinstance(entry, StageFault)}
SOURCES = {name: entry for name, entry in CATALOGUE.items() if isinstance(entry, SourceFault)}


@pytest.mark.parametrize("entry", STAGES.values(), ids=STAGES)
def test_stage_is_replaced(entry):
    planted = type(entry.plant())
    assert planted is not type(entry.plant())  # state never leaks from one plant to the next
    assert getattr(planted, entry.stage) is entry.replacement
    assert getattr(Model, entry.stage) is not entry.replacement


@pytest.mark.parametrize("entry", SOURCES.values(), ids=SOURCES)
def test_source_is_changed_in_one_place(entry):
    planted = entry.plant()
    changed = "".join(linecache.getlines(planted.__globals__["__file__"]))
    assert changed == SOURCE.read_text(encoding="utf-8").replace(entry.anchor, entry.written)
    assert entry.anchor != entry.written
    assert planted is not kernel.fused_triton


def test_a_dead_anchor_is_refused():
    dead = dataclasses.replace(next(iter(SOURCES.values())), anchor="no such text")
    with pytest.raises(ValueError, match="stands 0 times"):
        dead.plant()
    doubled = dataclasses.replace(dead, anchor="tl.load(")
    with pytest.raises(ValueError, match=r"stands \d+ times"):
        doubled.plant()


def test_a_fault_is_a_few_lines():
    for module in FAMILIES:
        for node in ast.parse(Path(module.__file__).read_text(encoding="utf-8")).body:
            if isinstance(node, ast.FunctionDef) and node.decorator_list:
                assert node.end_lineno - node.lineno < 16, node.name


def test_a_stage_that_the_model_lacks_is_refused():
    entry = dataclasses.replace(next(iter(STAGES.values())), stage="polish")
    with pytest.raises(ValueError, match="no stage 'polish'"):
        entry.plant()


def test_a_name_is_entered_once():
    with pytest.raises(ValueError, match="twice"):
        fault(Family.ROPE, "turn", "interval")(CATALOGUE["forward_rotation"].replacement)


QUANTISERS = [
    entry.fault
    for entry in EQUIVALENTS.values()
    if entry.fault.family in (Family.SCALE, Family.CODE)
]


@pytest.mark.parametrize("entry", QUANTISERS, ids=lambda entry: entry.name)
def test_equivalent_quantisers_agree_on_every_bf16_exact(entry):
    y = every_bf16()
    for ours, theirs in zip(quantised(entry.plant(), y), quantised(Model(), y), strict=True):
        assert torch.equal(ours, theirs)


@pytest.mark.parametrize(
    "name", ["reciprocal_one_ulp_large", "scale_always_bumped", "code_ties_away"]
)
def test_neighbours_of_the_equivalents_differ(name):
    y = every_bf16()
    pairs = zip(quantised(CATALOGUE[name].plant(), y), quantised(Model(), y), strict=True)
    assert any(not torch.equal(ours, theirs) for ours, theirs in pairs)


@pytest.mark.parametrize("entry", EQUIVALENTS.values(), ids=EQUIVALENTS)
def test_an_equivalent_has_a_reason(entry):
    assert len(entry.reason.split()) > 4
    assert entry.fault.description.endswith(".")
    entry.fault.plant()
