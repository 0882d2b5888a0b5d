"""From the command line and verify.toml to a plan: which arms, which suites, which margins."""

from __future__ import annotations

import math
import random
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from evals.rows import SuiteError
from evals.suite import load
from verify.arms import EmbeddedArm, normalised
from verify.command import UserError
from verify.runner import Rules, Task

if TYPE_CHECKING:
    from verify.arms import Arm

CONFIG = "verify.toml"
EMBEDDED_SUITES = ("mini-gsm8k", "mini-aime", "mini-gpqa")


@dataclass(frozen=True)
class Options:
    """What the command line says."""

    arms: str
    arm: tuple[str, ...]
    suite: tuple[str, ...]
    data: tuple[str, ...]
    limit: int | None
    full: bool
    margin: tuple[str, ...]
    model: str | None
    concurrency: int
    repeats: int
    no_early_stop: bool
    certificate: bool
    seed: int
    extend_capped: int | None

    @property
    def rules(self) -> Rules:
        """How the run is conducted.

        Raises:
            UserError: a certificate of repeats.
        """
        if self.certificate and self.repeats > 1:
            raise UserError(
                "--certificate judges one answer a question, in the order asked; leave out "
                "--repeats, or --certificate"
            )
        return Rules(
            self.repeats, not self.no_early_stop, self.certificate, self.seed, self.extend_capped
        )


class ArmSpec(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """`[arms.NAME]`: a server by its `base_url`, or the embedded model with a `kernel` or none."""

    base_url: str | None = None
    model: str | None = None
    kernel: str | None = None


class SuiteSpec(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """`[suites.NAME]`: the folder of a suite, and a local file of its rows."""

    path: str | None = None
    data: str | None = None


class Config(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """verify.toml."""

    arms: dict[str, ArmSpec] = {}
    suites: dict[str, SuiteSpec] = {}
    margins: dict[str, float] = {}


DEFAULT_ARMS = {"base": ArmSpec(), "pr": ArmSpec(kernel="kernel:fused_triton")}


@dataclass(frozen=True)
class Plan:
    """What will be run: the names of base and PR, how each is reached, and what they are asked."""

    names: tuple[str, str]
    specs: tuple[ArmSpec, ArmSpec]
    tasks: tuple[Task, ...]
    rules: Rules
    model: str | None
    concurrency: int

    def arms(self, folder: Path) -> tuple[Arm, Arm]:
        """Both arms, not started; what their processes print goes into `folder`."""
        base, pr = (
            self._arm(name, spec, folder) for name, spec in zip(self.names, self.specs, strict=True)
        )
        return base, pr

    def _arm(self, name: str, spec: ArmSpec, folder: Path) -> Arm:
        if spec.base_url is None:
            return EmbeddedArm(name, spec.kernel, folder / f"{name}.log")
        try:
            from verify.servers import ServerArm  # noqa: PLC0415 - needs an optional extra
        except ModuleNotFoundError as error:
            raise UserError(
                f"servers need {error.name}; install kernelproof with its extra: evals"
            ) from None
        return ServerArm(
            name,
            normalised(spec.base_url),
            model=spec.model or self.model,
            concurrency=self.concurrency,
        )


def make(options: Options) -> Plan:
    """Everything decided and every suite read, before anything is started.

    Raises:
        UserError: options or verify.toml do not fit together.
    """
    rules = options.rules
    config = _config(Path(CONFIG))
    names = _names(options.arms)
    specs = _specs(names, options.arm, config)
    embedded = [spec.base_url is None for spec in specs]
    if any(embedded) and not all(embedded):
        raise UserError(
            f"{names[0]} and {names[1]} are an embedded model and a server, which answer different "
            "suites; name two servers, or two kernels"
        )
    wanted = options.suite or (EMBEDDED_SUITES if embedded[0] else ())
    if not wanted:
        raise UserError("servers have no default suite; add --suite gsm8k")
    tasks = _tasks(wanted, options, config)
    for task in tasks:
        kind = "embedded" if embedded[0] else "server"
        if task.suite.spec.answered_by != kind:
            remedy = "--arm NAME=URL for both arms" if kind == "embedded" else "two kernels"
            raise UserError(
                f"suite {task.name} is answered by arms of kind {task.suite.spec.answered_by}, "
                f"not {kind}; give {remedy}"
            )
    if options.model is not None and embedded[0]:
        raise UserError("--model names the model of a server, and both arms are embedded")
    return Plan(names, specs, tasks, rules, options.model, options.concurrency)


def _config(path: Path) -> Config:
    try:
        return msgspec.toml.decode(path.read_bytes(), type=Config)
    except FileNotFoundError:
        return Config()
    except OSError as error:
        raise UserError(f"{path} cannot be read ({error.strerror})") from None
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise UserError(f"{path}: {error}") from None


def _names(arms: str) -> tuple[str, str]:
    names = [name.strip() for name in arms.split(",")]
    if len(names) != 2 or names[0] == names[1] or not all(map(_is_name, names)):
        raise UserError(
            f"--arms is {arms!r}; name two different arms, base first, like --arms base,pr"
        )
    return names[0], names[1]


def _is_name(name: str) -> bool:
    return bool(name) and name.replace("-", "").replace("_", "").isalnum()


def _specs(
    names: tuple[str, str], given: tuple[str, ...], config: Config
) -> tuple[ArmSpec, ArmSpec]:
    known = {**DEFAULT_ARMS, **config.arms}
    seen = set()
    for word in given:
        name, equals, target = word.partition("=")
        if not equals or not target:
            raise UserError(f"--arm is {word!r}; write NAME=URL or NAME=module:function")
        if name not in names:
            raise UserError(f"--arm {word}: {name!r} is not one of --arms {','.join(names)}")
        if name in seen:
            raise UserError(f"--arm {name} is given twice")
        seen.add(name)
        known[name] = _arm_spec(word, target)
    for name in names:
        if name not in known:
            raise UserError(
                f"arm {name!r} is not known; add --arm {name}=URL or {name}=module:function, or "
                f"[arms.{name}] in {CONFIG}"
            )
        spec = known[name]
        if spec.base_url is not None and spec.kernel is not None:
            raise UserError(f"{CONFIG}: arm {name} has both base_url and kernel; keep one")
    base, pr = known[names[0]], known[names[1]]
    urls = [normalised(spec.base_url) for spec in (base, pr) if spec.base_url is not None]
    if len(urls) == 2 and urls[0] == urls[1]:
        raise UserError(
            f"arms {names[0]} and {names[1]} are both {urls[0]}: one server cannot be compared "
            "with itself; start the other one on a port of its own"
        )
    return base, pr


def _arm_spec(word: str, target: str) -> ArmSpec:
    if "://" in target:
        return ArmSpec(base_url=normalised(target))
    module, colon, function = target.partition(":")
    if not (colon and all(part.isidentifier() for part in (*module.split("."), function))):
        raise UserError(f"--arm {word}: {target!r} is neither a URL nor module:function")
    return ArmSpec(kernel=target)


def _tasks(wanted: tuple[str, ...], options: Options, config: Config) -> tuple[Task, ...]:
    if options.full and options.limit is not None:
        raise UserError("--full asks everything and --limit does not; give one of them")
    data = dict(_pair("--data", word, "SUITE=PATH") for word in options.data)
    everywhere, margins = given_margins(options.margin)
    tasks: list[Task] = []
    for name in wanted:
        spec = config.suites.get(name, SuiteSpec())
        file = data.pop(name, spec.data)
        try:
            suite = load(spec.path or name)
            questions = suite.questions(Path(file) if file else None)
        except SuiteError as error:
            raise UserError(str(error)) from None
        own = suite.spec.name
        if own in {task.name for task in tasks}:
            raise UserError(f"suite {own} is given twice")
        items = questions.items[: _size(options, suite.spec.items, len(questions.items))]
        margin, margin_from = suite.spec.margin_pt, "the suite"
        if own in config.margins:
            margin, margin_from = _in_range(config.margins[own], CONFIG), CONFIG
        if everywhere is not None or own in margins:
            margin, margin_from = margins.pop(own, everywhere or 0.0), "--margin"
        limit = suite.spec.sampling.max_tokens
        if options.extend_capped is not None and options.extend_capped <= limit:
            raise UserError(
                f"--extend-capped {options.extend_capped} is no more than the {limit} tokens that "
                f"suite {own} allows anyway"
            )
        orders = tuple(
            _order(len(items), f"{options.seed}:{own}:{repeat}")
            for repeat in range(options.repeats)
        )
        tasks.append(
            Task(suite, questions, items, margin, margin_from, orders, sampling_seed=options.seed)
        )
    for option, rest in (("--data", data), ("--margin", margins)):
        for name in rest:
            raise UserError(
                f"{option} {name}: no such suite in this run; it has "
                f"{', '.join(task.name for task in tasks)}"
            )
    return tuple(tasks)


def _order(size: int, seed: str) -> tuple[int, ...]:
    """The same for the same seed, suite and repeat, on any machine."""
    order = list(range(size))
    random.Random(seed).shuffle(order)  # noqa: S311 - an order, not a secret
    return tuple(order)


def _size(options: Options, default: int | None, available: int) -> int:
    if options.full:
        return available
    return options.limit or default or available


def given_margins(words: tuple[str, ...]) -> tuple[float | None, dict[str, float]]:
    """The margin of every suite, if given, and margins of single ones, in points."""
    everywhere, margins = None, {}
    for word in words:
        if "=" in word:
            name, value = _pair("--margin", word, "SUITE=POINTS")
            margins[name] = _points(value)
        else:
            everywhere = _points(word)
    return everywhere, margins


def _points(text: str) -> float:
    try:
        return _in_range(float(text), "--margin")
    except ValueError:
        raise UserError(
            f"--margin {text!r} is not a number; give percentage points, like 1.5"
        ) from None


def _in_range(points: float, where: str) -> float:
    if not (math.isfinite(points) and 0 < points < 100):
        raise UserError(f"{where}: a margin of {points} points does not lie between 0 and 100")
    return points


def _pair(option: str, word: str, form: str) -> tuple[str, str]:
    name, equals, value = word.partition("=")
    if not (name and equals and value):
        raise UserError(f"{option} is {word!r}; write {form}")
    return name, value
