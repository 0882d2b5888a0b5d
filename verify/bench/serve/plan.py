"""From the command line and verify.toml to what will be measured."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from verify.bench.serve.method import Method
from verify.command import UserError
from verify.evals.config import CONFIG, arm_specs, read, server_arm
from verify.evals.plan import arm_names

if TYPE_CHECKING:
    from verify.client import Client
    from verify.evals.config import ArmSpec
    from verify.servers import ServerArm


_LONGEST = 1 << 24  # bytes of a prompt: beyond any context


@dataclass(frozen=True)
class Options:
    """What the command line says."""

    arms: str
    arm: tuple[str, ...]
    order: str | None
    model: str | None
    input_len: int
    output_len: int
    prompt: Path | None
    concurrency: tuple[int, ...]
    warm_ups: int
    requests: int
    differ: tuple[str, ...]
    seed: int

    @property
    def method(self) -> Method:
        """What is asked.

        Raises:
            UserError: requests that do not go out in full waves, or a prompt that cannot be read.
        """
        for load in self.concurrency:
            if self.requests % load:
                raise UserError(
                    f"--requests {self.requests} is no multiple of --concurrency {load}: requests "
                    "go out together, and the last would be fewer; give "
                    f"{self.requests // load * load + load}"
                )
        return Method(
            self.input_len,
            self.output_len,
            _text(self.prompt) if self.prompt else None,
            self.warm_ups,
            self.requests,
            self.concurrency,
            self.seed,
        )


@dataclass(frozen=True)
class Plan:
    """What will be measured.

    Attributes:
        names: of base and PR.
        specs: how each is reached, or started.
        order: the arms in the order of their starts.
        method: what is asked.
        model: to ask for, if it is named.
        differ: settings in which the arms may differ.
    """

    names: tuple[str, str]
    specs: tuple[ArmSpec, ArmSpec]
    order: tuple[str, ...]
    method: Method
    model: str | None
    differ: tuple[str, ...]

    @property
    def fresh(self) -> bool:
        """Whether every start is a server of its own."""
        return bool(self.specs[0].launch)

    def arms(self, folder: Path, kind: type[Client]) -> dict[str, ServerArm]:
        """Both arms by name, not started; what their servers print goes into `folder`."""
        return {
            name: server_arm(
                name,
                spec,
                folder,
                model=self.model,
                concurrency=max(self.method.loads),
                longest={},
                kind=kind,
            )
            for name, spec in zip(self.names, self.specs, strict=True)
        }


def make(options: Options) -> Plan:
    """Everything decided before anything is started.

    Raises:
        UserError: options or verify.toml do not fit together.
    """
    config = read(Path(CONFIG))
    names = arm_names(options.arms)
    specs = arm_specs(names, options.arm, config)
    for name, spec in zip(names, specs, strict=True):
        if len(spec.urls) != 1:
            said = f"{len(spec.urls)} servers" if spec.urls else "an embedded model"
            raise UserError(
                f"arm {name} is {said}, and the speed of one server is measured; give --arm "
                f"{name}=URL, or [arms.{name}] with one base_url in {CONFIG}"
            )
    return Plan(
        names,
        specs,
        _order(options.order, names, fresh=bool(specs[0].launch)),
        options.method,
        options.model,
        (*config.differ, *options.differ),
    )


def _order(given: str | None, names: tuple[str, str], *, fresh: bool) -> tuple[str, ...]:
    """The arms in turn: what drifts, drifts for both where they alternate as base, PR, PR, base."""
    base, pr = names
    if given is None:
        return (base, pr, pr, base) if fresh else (base, pr)
    order = tuple(word.strip() for word in given.split(","))
    if set(order) != set(names):
        raise UserError(f"--order is {given!r}; name {base} and {pr}, each as often as it starts")
    if not fresh and len(order) > 2:
        raise UserError(
            f"--order {given}: servers that stay up have one start each; write their launch into "
            f"{CONFIG}, or leave --order out"
        )
    return order


def _text(path: Path) -> str:
    try:
        with path.open("rb") as file:
            text = file.read(_LONGEST).decode()
    except (OSError, UnicodeDecodeError) as error:
        raise UserError(f"--prompt {path} cannot be read ({error}); name a text file") from None
    if not text.strip():
        raise UserError(f"--prompt {path} is empty; write a prompt into it")
    return text
