"""A fault: one named deviation of the model, planted by replacing one of its stages."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING, Any

from verify.faults.model import Model

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping


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


@dataclass(frozen=True)
class Fault:
    """A deviation that some check must notice.

    Attributes:
        name: unique, as the replacement function is called.
        family: where it lives.
        description: one line, what a user would call the bug.
        stage: the model's method that it replaces.
        sees: the check expected to catch it (names of `verify.faults.checks`).
        replacement: stands in for the method; takes the model and the stage's arguments.
        attributes: class attributes of the model that it needs besides.
        kills: whether it takes its process down, or never comes back.
        number: its place in the published list of 91 from which this catalogue grew, if any.
    """

    name: str
    family: Family
    description: str
    stage: str
    sees: str
    replacement: Callable[..., Any]
    attributes: Mapping[str, Any] = field(default_factory=dict)
    number: int | None = None
    kills: bool = False

    def plant(self) -> Model:
        """A fresh candidate with the fault in it."""
        if self.stage not in vars(Model):
            raise ValueError(f"fault {self.name}: the model has no stage {self.stage!r}")
        members = {self.stage: self.replacement, **self.attributes}
        faulty: type[Model] = type(self.name, (Model,), members)
        return faulty()


CATALOGUE: dict[str, Fault] = {}


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

    def enter(replacement: Callable[..., Any]) -> Callable[..., Any]:
        name = replacement.__name__
        if name in CATALOGUE:
            raise ValueError(f"fault {name} is catalogued twice")
        description = (replacement.__doc__ or "").strip()
        CATALOGUE[name] = Fault(
            name, family, description, stage, sees, replacement, attributes, number, kills
        )
        return replacement

    return enter
