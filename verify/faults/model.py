"""A CPU model of the fused kernel, cut into named stages that a fault can replace one at a time.

It is written from the contract alone: it shares no code with `kernel/`, whose place it takes, nor
with the oracle that judges it, so that neither can share its mistakes.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch

if TYPE_CHECKING:
    from torch import Tensor

CAPACITY = 32
"""Most tokens of a launch; sums are always made for this many, so that none depends on T."""

KEPT_CLAIMS = frozenset({"batch-invariant", "rejects"})
"""What the model holds and a fault may break."""

BLOCK = 32
TILE_ROWS, TILE_COLUMNS, TILE_BYTES = 128, 4, 512


def unflatten(tensor: Tensor, dim: int, *sizes: int) -> Tensor:
    """`Tensor.unflatten`, which has no types of its own."""
    view: Tensor = tensor.unflatten(dim, sizes)  # type: ignore[no-untyped-call]  # torch's
    return view


@dataclass(frozen=True)
class Call:
    """The arguments of one launch, as the caller gave them."""

    x: Tensor
    weight: Tensor
    cos_sin: Tensor
    positions: Tensor
    head_dim: int
    out: Tensor | None
    q: Tensor | None
    scales: Tensor | None

    @property
    def tokens(self) -> int:
        """T."""
        return self.x.shape[0]

    @property
    def columns(self) -> int:
        """N = G * R."""
        return self.weight.shape[0] * self.weight.shape[1]

    @property
    def heads(self) -> int:
        """Heads of one group."""
        return self.x.shape[2] // self.head_dim

    @property
    def rope_dim(self) -> int:
        """Rotated dimensions of each head, its last ones."""
        return self.cos_sin.shape[1]


class Model:
    """The honest kernel: an instance is a candidate function.

    An instance lives as long as its candidate, so that a fault may keep state from call to call.
    """

    splits: int | None = None
    """Parts into which K is cut, each summed on its own; None: one a head."""

    step: int | None = None
    """Terms added exactly enough by one product before the accumulator sees them; None: a split."""

    call: Call
    total: Tensor  # FP32 [T, N]: the sums before their BF16 stop

    def __init__(self) -> None:
        self.calls = 0
        self.memory: dict[Any, Any] = {}  # for faults: the honest kernel keeps nothing

    def __call__(
        self,
        x: Tensor,
        weight: Tensor,
        cos_sin: Tensor,
        positions: Tensor,
        *,
        head_dim: int = 512,
        out: Tensor | None = None,
        q: Tensor | None = None,
        scales: Tensor | None = None,
    ) -> None:
        """Write BF16 `out`, or codes `q` and swizzled `scales`; shapes as the contract has them."""
        self.call = Call(x, weight, cos_sin, positions, head_dim, out, q, scales)
        self.check()
        self.launch()
        self.calls += 1

    def launch(self) -> None:
        """All stages in order."""
        rotated = self.rotate(self.read_x(), *self.read_table(self.read_positions()))
        products = self.multiply(rotated, self.read_weight())
        self.total = self.add(self.accumulate(products)).flatten(1)
        y = self.round(self.total)
        if self.call.out is not None:
            self.store_y(y)
        if self.call.q is not None:
            self.quantise(y)

    # Reading

    def check(self) -> None:
        """Raise ValueError at what the contract refuses, before anything is written."""
        for rule, holds in self.rules().items():
            if not holds:
                raise ValueError(f"refused: {rule}")

    def rules(self) -> dict[str, bool]:
        """What the contract asks of the arguments, and whether they hold it."""
        call = self.call
        tokens, groups, width = call.x.shape
        rows, columns = -(-tokens // TILE_ROWS) * TILE_ROWS, call.columns
        blocks = -(-columns // (BLOCK * TILE_COLUMNS)) * TILE_COLUMNS
        live = call.positions.numel() and (int(call.positions.min()), int(call.positions.max()))
        return {
            f"1 <= T <= {CAPACITY}": 1 <= tokens <= CAPACITY,
            "x is BF16": call.x.dtype == torch.bfloat16,
            "x has strides (S0, K, 1)": call.x.stride()[1:] == (width, 1)
            and call.x.stride(0) >= groups * width,
            "weight is BF16 and contiguous": call.weight.dtype == torch.bfloat16
            and call.weight.is_contiguous(),
            "weight is [G, R, K]": call.weight.shape[::2] == (groups, width),
            "R is a multiple of 32": call.weight.shape[1] % BLOCK == 0,
            "K is a multiple of head_dim": width % call.head_dim == 0,
            "cos_sin is FP32 and contiguous": call.cos_sin.dtype == torch.float32
            and call.cos_sin.is_contiguous(),
            "rope_dim is even and at most head_dim": call.rope_dim % 2 == 0
            and call.rope_dim <= call.head_dim,
            "positions are int32 or int64 [T]": call.positions.dtype in (torch.int32, torch.int64)
            and call.positions.shape == (tokens,),
            "positions lie in the table": not live
            or (live[0] >= 0 and live[1] < call.cos_sin.shape[0]),
            "either out or q and scales": (call.out is None)
            == (call.q is not None and call.scales is not None)
            and (call.q is None) == (call.scales is None),
            "out is BF16 [T, N]": call.out is None
            or (call.out.dtype == torch.bfloat16 and call.out.shape == (tokens, columns)),
            "q is E4M3FN [T, N]": call.q is None
            or (call.q.dtype == torch.float8_e4m3fn and call.q.shape == (tokens, columns)),
            "scales are bytes of whole tiles": call.scales is None
            or (call.scales.dtype == torch.uint8 and call.scales.numel() == rows * blocks),
        }

    def read_x(self) -> Tensor:
        """BF16 [T, G, K]."""
        return self.call.x.clone(memory_format=torch.contiguous_format)

    def read_weight(self) -> Tensor:
        """BF16 [G, R, K]."""
        return self.call.weight

    def read_positions(self) -> Tensor:
        """INT64 [T]."""
        return self.call.positions.long()

    def read_table(self, positions: Tensor) -> tuple[Tensor, Tensor]:
        """Cosines and sines, FP32 [T, rope_dim / 2] each."""
        rows = self.call.cos_sin[positions]
        return rows[:, 0::2], rows[:, 1::2]

    # The product

    def rotate(self, x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
        """Rotate the last rope_dim of each head back; BF16 values, held in FP32 [T, G, K]."""
        rotated = x.to(torch.float32, copy=True)
        tail = self.tail(rotated)
        re, im = self.pairs(tail.clone())
        self.join(tail, *self.turn(re, im, cos[:, None, None, :], sin[:, None, None, :]))
        return rotated

    def tail(self, x: Tensor) -> Tensor:
        """The rotated slab of every head, a view [T, G, heads, rope_dim]."""
        heads = unflatten(x, 2, self.call.heads, self.call.head_dim)
        return heads[..., self.call.head_dim - self.call.rope_dim :]

    def pairs(self, tail: Tensor) -> tuple[Tensor, Tensor]:
        """Real and imaginary parts: neighbours, not halves."""
        return tail[..., 0::2], tail[..., 1::2]

    def join(self, tail: Tensor, re: Tensor, im: Tensor) -> None:
        """Write the rotated parts back."""
        tail[..., 0::2], tail[..., 1::2] = self.round_rotated(re), self.round_rotated(im)

    def turn(self, re: Tensor, im: Tensor, cos: Tensor, sin: Tensor) -> tuple[Tensor, Tensor]:
        """Multiply by the conjugate, in FP32."""
        return re * cos + im * sin, im * cos - re * sin

    def round_rotated(self, part: Tensor) -> Tensor:
        """FP32 to the nearest even BF16 value, held in FP32."""
        return part.bfloat16().float()

    def parts(self) -> int:
        """How many splits K has."""
        return self.splits or self.call.heads

    def multiply(self, x: Tensor, weight: Tensor) -> Tensor:
        """Products of one step each: FP32 [splits, steps, T, G, R]."""
        tokens, groups, width = x.shape
        step = min(self.step or width, width // self.parts())
        rows = torch.nn.functional.pad(x, (0, 0, 0, 0, 0, CAPACITY - tokens))
        of_group = [
            torch.bmm(
                unflatten(rows[:, group], 1, -1, step).transpose(0, 1),
                unflatten(weight[group].float(), 1, -1, step).permute(1, 2, 0),
            )
            for group in range(groups)
        ]
        return unflatten(torch.stack(of_group, 2)[:, :tokens], 0, self.parts(), -1)

    def accumulate(self, products: Tensor) -> Tensor:
        """Add the steps of each split in order: FP32 [splits, T, G, R]."""
        partial = products[:, 0]
        for step in range(1, products.shape[1]):
            partial = partial + products[:, step]
        return partial

    def add(self, partials: Tensor) -> Tensor:
        """Add the splits in order: FP32 [T, G, R]."""
        total = partials[0]
        for partial in partials[1:]:
            total = total + partial
        return total

    def round(self, total: Tensor) -> Tensor:
        """FP32 [T, N] to BF16, to nearest even."""
        return total.bfloat16()

    def store_y(self, y: Tensor) -> None:
        """Write the BF16 form."""
        assert self.call.out is not None
        self.call.out.copy_(y)

    # The quantiser

    def quantise(self, y: Tensor) -> None:
        """Write the MXFP8 form of BF16 [T, N]."""
        source = self.source(y)
        byte = self.scale(self.amax(unflatten(source, 1, -1, BLOCK)))
        self.store_codes(self.encode(self.scaled(source, byte)))
        values, written = self.frame(byte.to(torch.uint8))
        self.store_scales(values, written, self.offsets(*values.shape))

    def source(self, y: Tensor) -> Tensor:
        """What is quantised: the BF16 values, as FP64 [T, N]."""
        return y.double()

    def amax(self, blocks: Tensor) -> Tensor:
        """Largest magnitude of each block, FP64 [T, B]."""
        return blocks.abs().amax(2)

    def scale(self, amax: Tensor) -> Tensor:
        """Scale bytes, INT64 [T, B]: ceil(log2(amax / 448)) + 127, 0 for a block of zeros."""
        return self.clamp_byte(self.exponent(amax / 448) + 127, amax)

    def exponent(self, ratio: Tensor) -> Tensor:
        """ceil(log2(ratio)), exactly."""
        mantissa, exponent = torch.frexp(ratio)  # mantissa in [1/2, 1)
        return exponent.long() - (mantissa == 0.5).long()

    def clamp_byte(self, byte: Tensor, amax: Tensor) -> Tensor:
        """Keep bytes in [0, 254]; blocks of zeros take 0, blocks with Inf or NaN 254."""
        byte = byte.clamp(0, 254).masked_fill(amax == 0, 0)
        return byte.masked_fill(~amax.isfinite(), 254)

    def scaled(self, source: Tensor, byte: Tensor) -> Tensor:
        """Source * 2^(127 - byte), exact in FP64."""
        factor = torch.ldexp(torch.ones(byte.shape, dtype=torch.float64), 127 - byte)
        return source * factor.repeat_interleave(BLOCK, 1)

    def encode(self, scaled: Tensor) -> Tensor:
        """E4M3FN codes, UINT8 [T, N]: nearest even, saturating at 448; NaN gives NaN."""
        magnitude = scaled.abs().nan_to_num(nan=0, posinf=math.inf).clamp(max=448)
        # 2^binade is at most the magnitude; zero and subnormals count in the steps of 2^-6.
        binade = (torch.frexp(magnitude).exponent - 1).clamp(min=-6)
        binade = binade.masked_fill(magnitude == 0, -6)
        steps = self.nearest(torch.ldexp(magnitude, 3 - binade))
        code = ((binade + 6) * 8 + steps.int()).clamp(max=0x7E)
        code = code.masked_fill(scaled.isnan(), 0x7F)
        return self.sign(code, scaled).to(torch.uint8)

    def nearest(self, steps: Tensor) -> Tensor:
        """Eighths of a binade to whole ones, ties to even."""
        return steps.round()

    def sign(self, code: Tensor, scaled: Tensor) -> Tensor:
        """Put the sign on, also on zeros."""
        return code + 0x80 * scaled.signbit().int()

    def store_codes(self, codes: Tensor) -> None:
        """Write the codes."""
        assert self.call.q is not None
        self.call.q.view(torch.uint8).copy_(codes)

    # The layout of scale bytes

    def frame(self, byte: Tensor) -> tuple[Tensor, Tensor]:
        """The scale matrix padded to whole tiles with zeros, and which of its bytes are written."""
        tokens, blocks = byte.shape
        rows, columns = (
            -(-tokens // TILE_ROWS) * TILE_ROWS,
            -(-blocks // TILE_COLUMNS) * TILE_COLUMNS,
        )
        values = torch.zeros(rows, columns, dtype=torch.uint8)
        values[:tokens, :blocks] = byte
        return values, torch.ones(rows, columns, dtype=torch.bool)

    def offsets(self, rows: int, columns: int) -> Tensor:
        """Byte offset of each entry of the padded scale matrix, INT64 [rows, columns]."""
        row, column = torch.arange(rows)[:, None], torch.arange(columns)
        tile = row // TILE_ROWS * (columns // TILE_COLUMNS) + column // TILE_COLUMNS
        return tile * TILE_BYTES + row % 32 * 16 + row % TILE_ROWS // 32 * 4 + column % 4

    def store_scales(self, values: Tensor, written: Tensor, offsets: Tensor) -> None:
        """Write the scale bytes."""
        assert self.call.scales is not None
        self.call.scales[offsets[written]] = values[written]
