"""One tensor argument of a kernel, and how it lies in memory."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

    from torch import Tensor


def _whole(buffer: Tensor) -> Tensor:
    return buffer


@dataclass(frozen=True)
class Argument:
    """A tensor argument.

    Attributes:
        name: as users call it.
        buffer: what lies in memory, of which the kernel may get a part.
        view: that part, of a buffer of any number of rows.
        guard: bytes of NaN or -1 before and after.
        owner: shared between cases; what is staged of it may be kept.
        mapped: the buffer is too large to be copied and guarded.
    """

    name: str
    buffer: Tensor
    view: Callable[[Tensor], Tensor] = _whole
    guard: int = 4096
    owner: object | None = None
    mapped: bool = False


@dataclass(frozen=True)
class Malformed:
    """A call that must be refused.

    Attributes:
        what: is wrong with it.
        change: makes it of right arguments and outputs, by name.
        beyond: nothing is wrong but that T is larger than the kernel says it takes.
    """

    what: str
    change: Callable[
        [dict[str, Tensor], dict[str, Tensor]], tuple[dict[str, Tensor], dict[str, Tensor]]
    ]
    beyond: bool = False
