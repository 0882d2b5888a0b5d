"""Faults that touch memory they should not, fail to write, keep state, or fall over."""

import os

import torch

from tests.mutants.honest import plain


def one_row_past_the_end(x, weight, cos_sin, positions, *, out=None, **rest):
    plain(x, weight, cos_sin, positions, out=out, **rest)
    if out is not None:
        rows, columns = out.shape
        torch.as_strided(out, (rows + 1, columns), (columns, 1))[rows] = 0


def byte_before_the_scales(x, weight, cos_sin, positions, *, scales=None, **rest):
    plain(x, weight, cos_sin, positions, scales=scales, **rest)
    if scales is not None:
        torch.as_strided(scales, (1,), (1,), scales.storage_offset() - 1)[0] = 0


def writes_back_to_x(x, weight, cos_sin, positions, **rest):
    plain(x, weight, cos_sin, positions, **rest)
    x *= 2


def last_row_unwritten(x, weight, cos_sin, positions, *, out=None, **rest):
    if out is None:
        plain(x, weight, cos_sin, positions, **rest)
    else:
        full = torch.empty_like(out)
        plain(x, weight, cos_sin, positions, out=full, **rest)
        out[:-1] = full[:-1]


_calls = iter(range(10**9))


def changes_from_call_to_call(x, weight, cos_sin, positions, *, out=None, **rest):
    plain(x, weight, cos_sin, positions, out=out, **rest)
    if out is not None and next(_calls) % 2:
        out[0, 0] = -out[0, 0] - 1


def wrong_after_a_hundred_calls(x, weight, cos_sin, positions, *, out=None, **rest):
    plain(x, weight, cos_sin, positions, out=out, **rest)
    if next(_calls) > 100 and out is not None:
        out[-1] = -out[-1] - 1


def interrupts(*_, **__):
    raise KeyboardInterrupt


def ignores_the_offset(x, weight, cos_sin, positions, **rest):
    """Reads from the start of the row that x is a slice of."""
    columns = x.shape[1] * x.shape[2]
    start = x.storage_offset() - x.storage_offset() % columns
    start -= start // columns % (x.stride(0) // columns or 1) * columns
    plain(torch.as_strided(x, x.shape, x.stride(), start), weight, cos_sin, positions, **rest)


def raises(x, weight, cos_sin, positions, **rest):
    if len(x) == 17:
        raise RuntimeError("no variant for 17 rows")
    plain(x, weight, cos_sin, positions, **rest)


def dies_on_tiny_weights(x, weight, cos_sin, positions, **rest):
    if weight.max() < 2.0**-60 and len(x) < 5:
        os._exit(9)
    plain(x, weight, cos_sin, positions, **rest)
