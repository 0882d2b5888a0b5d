"""A fault: one named deviation, of a stage of the model or of a kernel's source."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING, Any

from verify.faults.model import Model

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from verify.harness import Candidate


class Family(StrEnum):
    """The part of the kernel that a fault lives in."""

    ROPE = "rope"
    PRODUCT = "product"
    OUTPUT = "output"
    SCALE = "scale"
    CODE = "code"
    LAYOUT = "layout"
    STATE = "state"
    MEMORY = "memory"
    CONTRACT = "contract"
    TRITON = "triton"


def selected(words: Sequence[str], family: str, name: str) -> bool:
    """Whether words select a kernel: by its family's whole name, or by a part of its own.

    A family's name selects that family alone, and no words select all.
    """
    families = {*Family, "honest", "equivalent"}
    return not words or any(word == family if word in families else word in name for word in words)


@dataclass(frozen=True)
class Fault:
    """A deviation that some check must notice.

    Attributes:
        name: unique.
        family: where it lives.
        description: one line, what a user would call the bug.
        sees: the check expected to catch it, a name out of `verify.compare.CHECKS`.
        number: its place in the published list of 91 from which this catalogue grew, if any.
        kills: whether it takes its process down, or never comes back.
    """

    name: str
    family: Family
    description: str
    sees: str
    number: int | None = None
    kills: bool = False

    @property
    def slow(self) -> bool:
        """Whether a launch at the full shape takes seconds."""
        return False

    def plant(self) -> Candidate:
        """A fresh candidate with the fault in it."""
        raise NotImplementedError


@dataclass(frozen=True)
class StageFault(Fault):
    """A fault of the model.

    Attributes:
        stage: the model's method that it replaces.
        replacement: stands in for the method; takes the model and the stage's arguments.
        attributes: class attributes of the model that it needs besides.
    """

    stage: str = ""
    replacement: Callable[..., Any] = Model.launch
    attributes: Mapping[str, Any] = field(default_factory=dict)

    def plant(self) -> Model:
        """A fresh model with one stage replaced.

        Raises:
            ValueError: the model has no such stage.
        """
        if self.stage not in vars(Model):
            raise ValueError(f"fault {self.name}: the model has no stage {self.stage!r}")
        members = {self.stage: self.replacement, **self.attributes}
        faulty: type[Model] = type(self.name, (Model,), members)
        return faulty()


CATALOGUE: dict[str, Fault] = {}


def enter(entry: Fault) -> None:
    """Add to the catalogue.

    Raises:
        ValueError: there is a fault of this name.
    """
    if entry.name in CATALOGUE:
        raise ValueError(f"fault {entry.name} is catalogued twice")
    CATALOGUE[entry.name] = entry


def fault(
    family: Family,
    stage: str,
    sees: str,
    number: int | None = None,
    *,
    kills: bool = False,
    **attributes: Any,
) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Enter the decorated function into the catalogue; its docstring describes the fault."""

    def replaces(replacement: Callable[..., Any]) -> Callable[..., Any]:
        description = (replacement.__doc__ or "").strip()
        enter(
            StageFault(
                name=replacement.__name__,
                family=family,
                description=description,
                sees=sees,
                number=number,
                kills=kills,
                stage=stage,
                replacement=replacement,
                attributes=attributes,
            )
        )
        return replacement

    return replaces
