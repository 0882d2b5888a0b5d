"""Faults of where scale bytes go."""

import torch

from tests.mutants.honest import build, place


def _linear(byte, out):
    out.zero_()
    padded = out.view(-1, -(-byte.shape[1] // 4) * 4)
    padded[: byte.shape[0], : byte.shape[1]] = byte.to(torch.uint8)


def _padding_unwritten(byte, out):
    before = out.clone()
    written = torch.zeros_like(out)
    place(torch.ones_like(byte), written)
    place(byte, out)
    out[written == 0] = before[written == 0]


def _padding_to_row_32(byte, out):
    """Pads the rows of the first warp only."""
    before = out.clone().view(-1, 32, 4, 4)
    place(byte, out)
    tiles = out.view(-1, 32, 4, 4)
    tiles[:, :, 1:] = before[:, :, 1:]


def _blocks_swapped(byte, out):
    swapped = byte.clone()
    swapped[:, 0], swapped[:, 1] = byte[:, 1], byte[:, 0]
    place(swapped, out)


linear = build(place=_linear)
padding_unwritten = build(place=_padding_unwritten)
padding_to_row_32 = build(place=_padding_to_row_32)
blocks_swapped = build(place=_blocks_swapped)
