"""Faults of the rotation."""

import torch

from tests.mutants.honest import build, rotate


def _forward(x, cos_sin, positions, head_dim):
    conjugate = cos_sin.clone()
    conjugate[:, 1::2] *= -1
    return rotate(x, conjugate, positions, head_dim)


def _half_split(x, cos_sin, positions, head_dim):
    """Pairs dim i with i + rope_dim / 2, as NeoX does."""
    rope_dim = cos_sin.shape[1]
    heads = x.view(*x.shape[:2], -1, head_dim).clone()
    tail = heads[..., -rope_dim:].unflatten(-1, (2, -1)).mT.flatten(-2)
    heads[..., -rope_dim:] = tail
    turned = rotate(heads.view(x.shape), cos_sin, positions, head_dim).view(heads.shape)
    turned[..., -rope_dim:] = turned[..., -rope_dim:].unflatten(-1, (-1, 2)).mT.flatten(-2)
    return turned.view(x.shape)


def _unrounded(x, cos_sin, positions, head_dim):
    """Multiplies the FP32 rotation without the stop at BF16."""
    rope_dim = cos_sin.shape[1]
    heads = x.float().view(*x.shape[:2], -1, head_dim).clone()
    re, im = heads[..., -rope_dim::2].clone(), heads[..., head_dim - rope_dim + 1 :: 2].clone()
    row = cos_sin[positions.long()][:, None, None]
    heads[..., -rope_dim::2] = re * row[..., 0::2] + im * row[..., 1::2]
    heads[..., head_dim - rope_dim + 1 :: 2] = im * row[..., 0::2] - re * row[..., 1::2]
    return heads.view(x.shape)


none = build(rotate=lambda x, *_: x.float())
forward = build(rotate=_forward)
half_split = build(rotate=_half_split)
unrounded = build(rotate=_unrounded)
bf16_table = build(rotate=lambda x, t, p, d: rotate(x, t.bfloat16().float(), p, d))
next_position = build(rotate=lambda x, t, p, d: rotate(x, t, (p + 1).clamp(max=len(t) - 1), d))
first_position_for_all = build(rotate=lambda x, t, p, d: rotate(x, t, p[:1].expand_as(p), d))
position_in_16_bits = build(rotate=lambda x, t, p, d: rotate(x, t, p.long() & 0xFFFF, d))
last_head_left_out = build(
    rotate=lambda x, t, p, d: torch.cat((rotate(x, t, p, d)[..., :-d], x[..., -d:].float()), dim=2)
)
