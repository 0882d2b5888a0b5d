"""The unfused chain against independent arithmetic."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch

from kernel import chain
from kernel.chain import inverse_rope, wo_a


def _rotated_in_numpy(call):
    """FP32 products and sums of each pair, one rounding to BF16 by numpy's own integers."""
    tokens = call.x.shape[0]
    rope_dim = call.cos_sin.shape[1]
    x = call.x.float().numpy().reshape(tokens, -1, call.head_dim).copy()
    row = call.cos_sin.numpy()[call.positions.numpy()][:, None, :]
    cos, sin = row[..., 0::2], row[..., 1::2]
    tail = x[..., -rope_dim:]
    re, im = tail[..., 0::2].copy(), tail[..., 1::2].copy()
    tail[..., 0::2], tail[..., 1::2] = re * cos + im * sin, im * cos - re * sin
    bits = x.view(np.uint32).astype(np.uint64)
    bits = (bits + 0x7FFF + (bits >> np.uint64(16) & 1)) >> np.uint64(16)
    return torch.from_numpy(bits.astype(np.uint16).view(np.int16)).view(torch.bfloat16)


@pytest.mark.parametrize("rope_dim", [2, 16, 64])
def test_rotation_is_fp32_without_fma_rounded_once_exact(make_call, rope_dim):
    call = make_call(tokens=64, rope_dim=rope_dim)
    rotated = inverse_rope(call.x, call.cos_sin, call.positions, call.head_dim)
    expected = _rotated_in_numpy(call).view_as(rotated)
    assert torch.equal(rotated.view(torch.int16), expected.view(torch.int16))


def test_inverse_undoes_the_rotation(make_call):
    call = make_call()
    pairs = torch.view_as_complex(call.x.float().view(5, 2, 4, 32, 2))
    turns = torch.view_as_complex(call.cos_sin[call.positions].view(5, 8, 2))
    pairs[..., -8:] *= turns[:, None, None]
    turned = torch.view_as_real(pairs).flatten(2).bfloat16()
    back = inverse_rope(turned, call.cos_sin, call.positions, call.head_dim)
    assert (back.float() - call.x.float()).abs().max() < 0.05
    assert (turned.float() - call.x.float()).abs().max() > 1


def test_projection_of_integers_exact(make_call):
    call = make_call(tokens=40).with_integers()
    expected = torch.einsum("tgk,grk->tgr", call.x.double(), call.weight.double()).flatten(1)
    assert torch.equal(wo_a(call.x, call.weight).double(), expected)


def test_projection_accumulates_in_fp32_and_rounds_once(make_call):
    call = make_call(tokens=40, heads=16)
    exact = torch.einsum("tgk,grk->tgr", call.x.double(), call.weight.double()).flatten(1)
    size = torch.einsum("tgk,grk->tgr", call.x.double().abs(), call.weight.double().abs())
    bound = call.x.shape[2] * 2.0**-24 * size.flatten(1)  # any order of FP32 sums
    y = wo_a(call.x, call.weight)
    assert (y >= (exact - bound).bfloat16()).all()
    assert (y <= (exact + bound).bfloat16()).all()


def test_forms_agree_and_inputs_stay(make_call, quantised):
    call = make_call(tokens=40)
    before = [t.clone() for t in (call.x, call.weight, call.cos_sin, call.positions)]
    y = call.bf16(chain)
    for found, expected in zip(call.mxfp8(chain), quantised(y), strict=True):
        assert torch.equal(found, expected)
    after = call.x, call.weight, call.cos_sin, call.positions
    assert all(torch.equal(a, b) for a, b in zip(before, after, strict=True))


@pytest.mark.parametrize("tokens", [1, 32, 33, 129, 300])
def test_any_number_of_tokens(make_call, tokens):
    call = make_call(tokens=tokens).with_integers()
    y = call.bf16(chain)
    alone = replace(call, x=call.x[-1:], positions=call.positions[-1:]).bf16(chain)
    assert torch.equal(y[-1:], alone)
    assert call.mxfp8(chain)[1].numel() == -(-tokens // 128) * 512


def test_padded_rows_and_other_heads_do_not_matter(make_call):
    call = make_call()
    wide = torch.full((6, 4, 256), torch.nan, dtype=torch.bfloat16)
    wide[:5, 1:3] = call.x
    padded = replace(call, x=wide[:5, 1:3])
    assert torch.equal(call.bf16(chain), padded.bf16(chain))


def test_a_position_outside_the_table_turns_to_nan(make_call):
    call = make_call(tokens=2)
    call.positions = torch.tensor([3, 512])
    rotated = inverse_rope(call.x, call.cos_sin, call.positions, call.head_dim)
    assert not rotated[0].isnan().any()
    assert rotated[1].view(2, 4, 64)[..., -16:].isnan().all()
