"""Faults of the sums and of their rounding."""

import functools

import torch

from tests.mutants.honest import build, project


def _bf16_accumulation(x, weight):
    """Rounds the running sum to BF16 after every 16 terms."""
    total = torch.zeros(())
    for a, b in zip(x.split(16, 2), weight.split(16, 2), strict=True):
        total = (total + project(a, b)).bfloat16().float()
    return total


def _rounded_partials(dtype, x, weight):
    """Keeps the partial sums of 8 splits in `dtype`."""
    parts = zip(x.chunk(8, 2), weight.chunk(8, 2), strict=True)
    return sum(project(a, b).to(dtype).float() for a, b in parts)


def _last_terms_lost(x, weight):
    return project(x[..., :-16], weight[..., :-16])


def _first_split_doubled(x, weight):
    width = x.shape[2] // 8
    return project(x, weight) + project(x[..., :width], weight[..., :width])


def _groups_swapped(x, weight):
    return project(x, weight.flip(0))


def _truncated(y):
    return (y.view(torch.int32) & ~0xFFFF).view(torch.float32).bfloat16()


def _one_step_off(y):
    """A single element, one BF16 step too large."""
    rounded = y.bfloat16()
    rounded.view(torch.int16)[-1, 7] += 1
    return rounded


def _flushed_operands(x, weight):
    """Takes subnormal operands for zero, though not subnormal results."""
    return project(torch.where(x.abs() < 2.0**-126, 0.0, x), weight)


def _flushed_output(y):
    """Takes subnormal results for zero, though not subnormal operands."""
    return torch.where(y.abs() < 2.0**-126, torch.zeros_like(y), y).bfloat16()


bf16_accumulation = build(project=_bf16_accumulation)
bf16_partials = build(project=functools.partial(_rounded_partials, torch.bfloat16))
fp16_partials = build(project=functools.partial(_rounded_partials, torch.float16))
last_terms_lost = build(project=_last_terms_lost)
first_split_doubled = build(project=_first_split_doubled)
groups_swapped = build(project=_groups_swapped)
gain = build(project=lambda x, w: project(x, w) * 1.005)
truncated = build(cast=_truncated)
flushed_operands = build(project=_flushed_operands)
flushed_output = build(cast=_flushed_output)
one_step_off = build(cast=_one_step_off)
