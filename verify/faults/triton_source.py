"""Faults planted in the source of the fused Triton kernel: what a slip of its author would be."""

from __future__ import annotations

import inspect
import linecache
import sys
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, cast

import torch

import kernel
from verify.faults.record import Family, Fault, enter

if TYPE_CHECKING:
    from verify.harness import Candidate

SOURCE = Path(inspect.getfile(kernel)).with_name("fused_triton.py")


def planted(name: str, anchor: str, written: str) -> ModuleType:
    """The fused kernel's module with one place of its source changed.

    Raises:
        ValueError: the anchor does not stand in the source exactly once.
    """
    source = SOURCE.read_text(encoding="utf-8")
    if (found := source.count(anchor)) != 1:
        raise ValueError(f"fault {name}: its anchor stands {found} times in {SOURCE}")
    source = source.replace(anchor, written)
    module = ModuleType(f"planted_{name}")
    module.__file__ = f"<{module.__name__}>"
    # Triton reads the source of its functions back; no file needs to be left behind for that.
    linecache.cache[module.__file__] = (
        len(source),
        None,
        source.splitlines(keepends=True),
        module.__file__,
    )
    sys.modules[module.__name__] = module
    exec(compile(source, module.__file__, "exec"), module.__dict__)  # noqa: S102 - our own source
    return module


@dataclass(frozen=True)
class SourceFault(Fault):
    """A fault of the fused kernel.

    Attributes:
        anchor: text that stands in the kernel's source exactly once.
        written: what stands there instead.
    """

    anchor: str = ""
    written: str = ""

    @property
    def slow(self) -> bool:
        """Interpreted where there is no GPU."""
        return not torch.cuda.is_available()

    def plant(self) -> Candidate:
        """The kernel of the changed source.

        Raises:
            ValueError: the anchor does not stand in the source exactly once.
        """
        return cast("Candidate", planted(self.name, self.anchor, self.written).fused_triton)


for name, sees, description, anchor, written in (
    (
        "triton_forward_rotation",
        "interval",
        "Rotates forward instead of back.",
        "re * cos + im * sin, im * cos - re * sin",
        "re * cos - im * sin, im * cos + re * sin",
    ),
    (
        "triton_first_head_only_rotated",
        "interval",
        "Counts the columns of x on from head to head: only the first has a tail.",
        "[None, :] % HEAD_DIM - (HEAD_DIM - ROPE_DIM)",
        "[None, :] - (HEAD_DIM - ROPE_DIM)",
    ),
    (
        "triton_group_missing_in_x",
        "interval",
        "Leaves the group out of the address of x.",
        "* row_stride + group * K",
        "* row_stride",
    ),
    (
        "triton_group_missing_in_weight",
        "interval",
        "Leaves the group out of the address of the weight.",
        "(group * RANK + in_group[:, None]) * K",
        "(in_group[:, None]) * K",
    ),
    (
        "triton_position_int32",
        "interval",
        "Multiplies positions by the row length in 32 bits.",
        "mask=token < tokens, other=0).to(tl.int64)[:, None]",
        "mask=token < tokens, other=0).to(tl.int32)[:, None]",
    ),
    (
        "triton_row_offset_int32",
        "interval",
        "Multiplies tokens by the row stride in 32 bits.",
        "token[:, None].to(tl.int64) * row_stride",
        "token[:, None] * row_stride.to(tl.int32)",
    ),
    (
        "triton_ties_away",
        "exact",
        "Rounds ties of the BF16 output away from zero.",
        "magnitude + 0x7FFF + ((magnitude >> 16) & 1)",
        "magnitude + 0x8000",
    ),
    (
        "triton_sign_of_zero_lost",
        "codes",
        "Drops the sign of codes that round to zero.",
        "+ steps) | ((bits >> 8) & 0x80)",
        "+ steps) | tl.where(steps > 0, (bits >> 8) & 0x80, 0)",
    ),
    (
        "triton_scale_floored",
        "scales",
        "Rounds the scale down.",
        "tl.maximum((amax + 0x1F >> 7) - 8, 0)",
        "tl.maximum((amax + 0x20 >> 7) - 9, 0)",
    ),
    (
        "triton_scale_of_448_bumped",
        "scales",
        "Gives blocks of exactly 448 * 2^k twice the scale.",
        "(amax + 0x1F >> 7)",
        "(amax + 0x20 >> 7)",
    ),
    (
        "triton_subnormal_codes_one_binade_off",
        "codes",
        "Starts the subnormal codes one binade too low.",
        "0x7F800000, 121 << 23)",
        "0x7F800000, 120 << 23)",
    ),
    (
        "triton_codes_with_two_mantissa_bits",
        "codes",
        "Rounds codes to half their precision.",
        "anchor = binade + (20 << 23)",
        "anchor = binade + (21 << 23)",
    ),
    (
        "triton_padding_one_row_late",
        "unwritten",
        "Zeroes the padding rows from one row late.",
        "mask=(row >= tokens) & in_rank",
        "mask=(row > tokens) & in_rank",
    ),
    (
        "triton_padding_columns_unwritten",
        "unwritten",
        "Leaves the padding columns as they were.",
        "(tile == GROUPS * TILES - 1)",
        "(tile == GROUPS * TILES)",
    ),
    (
        "triton_one_row_too_many",
        "guard",
        "Works on pairs of tokens: with an odd T it writes one row past the end.",
        "stored = (token < tokens)[:, None] & (in_group < RANK)[None, :]",
        "stored = (token < tokens + tokens % 2)[:, None] & (in_group < RANK)[None, :]",
    ),
    (
        "triton_last_columns_unwritten",
        "unwritten",
        "Has the mask of columns end one block early.",
        "stored = (token < tokens)[:, None] & (in_group < RANK)[None, :]",
        "stored = (token < tokens)[:, None] & (in_group < RANK - 32)[None, :]",
    ),
):
    # A negative offset on a CPU is an address that does not exist.
    kills = name in {"triton_position_int32", "triton_row_offset_int32"}
    enter(
        SourceFault(
            name, Family.TRITON, description, sees, kills=kills, anchor=anchor, written=written
        )
    )
