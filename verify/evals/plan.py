"""From the command line and verify.toml to a plan: which arms, which suites, which margins."""

from __future__ import annotations

import math
import random
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from evals.rows import SuiteError
from evals.suite import load
from verify import evidence
from verify.arms import EmbeddedArm
from verify.cluster import Cluster
from verify.cluster_arm import ClusterArm
from verify.command import UserError
from verify.evals.config import CONFIG, SuiteSpec, arm_specs, read, server_arm
from verify.task import Rules, Task

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from evals.suite import Questions, Spec, Suite
    from verify.arms import Arm
    from verify.evals.config import ArmSpec, Config

EMBEDDED_SUITES = ("mini-gsm8k", "mini-aime", "mini-gpqa")


@dataclass(frozen=True)
class Options:
    """What the command line says."""

    arms: str
    arm: tuple[str, ...]
    suite: tuple[str, ...] = ()
    data: tuple[str, ...] = ()
    limit: int | None = None
    full: bool = False
    margin: tuple[str, ...] = ()
    unpinned: bool = False
    redact: bool | None = None
    model: str | None = None
    concurrency: tuple[int, ...] = (1,)
    repeats: int | None = None
    differ: tuple[str, ...] = ()
    require_path: tuple[str, ...] = ()
    no_early_stop: bool = False
    certificate: bool = False
    seed: int = 0
    extend_capped: int | None = None
    executor: str = "local"

    @property
    def rules(self) -> Rules:
        """How the run is conducted.

        Raises:
            UserError: a certificate of repeats.
        """
        if self.certificate and (self.repeats or 1) > 1:
            raise UserError(
                "--certificate judges one answer a question, in the order asked; leave out "
                "--repeats, or --certificate"
            )
        return Rules(not self.no_early_stop, self.certificate, self.seed, self.extend_capped)


@dataclass(frozen=True)
class Plan:
    """What will be run: the names of base and PR, how each is reached, and what they are asked."""

    names: tuple[str, str]
    specs: tuple[ArmSpec, ArmSpec]
    tasks: tuple[Task, ...]
    rules: Rules
    model: str | None
    concurrency: int
    differ: tuple[str, ...]
    """Settings in which the arms may differ."""
    require_path: tuple[str, ...]
    """Paths that the PR arm must be seen to take."""
    executor: str
    """Where embedded models run: `local`, this machine, or `ray`, a cluster."""

    def arms(self, folder: Path) -> tuple[Arm, Arm]:
        """Both arms, not started; what their processes print goes into `folder`."""
        base, pr = self.specs
        if not base.urls:
            return self._embedded(folder)
        return self._server(0, base, folder), self._server(1, pr, folder)

    def unseen(self, folder: Path, seen: Mapping[str, Any]) -> list[str]:
        """Of the paths that PR must take, why nothing shows them: no count, and no launches.

        `seen` is the `path_evidence` of PR's settings.

        Raises:
            UserError: the folder's evidence.json is something else.
        """
        launches = evidence.launches(folder)
        places = {**self.specs[1].path, **({evidence.FILE: launches.reason} if launches else {})}
        looked = "; ".join(f"{name}: {place}" for name, place in places.items())
        return [
            f"{self.names[1]} was never seen to take path {name} ({looked or 'nothing tells'})"
            for name in self.require_path
            if not (name in seen and seen[name]["count"]) and not (launches and launches.show(name))
        ]

    def check_paths(self, folder: Path) -> None:
        """See that something can tell of the paths that PR must take.

        Raises:
            UserError: nothing can.
        """
        launches = evidence.launches(folder)
        for name in self.require_path:
            if name not in self.specs[1].path and launches is None:
                raise UserError(
                    f"--require-path {name}: arm {self.names[1]} does not say where that is seen; "
                    f"add {name} under [arms.{self.names[1]}.path] in {CONFIG}, or first write "
                    f"{folder / evidence.FILE} by python -m verify.bench trace"
                )

    def _embedded(self, folder: Path) -> tuple[Arm, Arm]:
        start: Callable[[str, str | None, Path], Arm] = EmbeddedArm
        if self.executor == "ray":
            start = partial(ClusterArm, cluster=Cluster())
        (base, of_base), (pr, of_pr) = zip(self.names, self.specs, strict=True)
        return (
            start(base, of_base.kernel, folder / f"{base}.log"),
            start(pr, of_pr.kernel, folder / f"{pr}.log"),
        )

    def _server(self, place: int, spec: ArmSpec, folder: Path) -> Arm:
        name = self.names[place]
        return server_arm(
            name,
            spec,
            folder,
            model=self.model,
            concurrency=self.concurrency,
            longest=_longest(self.tasks),
        )


def _longest(tasks: tuple[Task, ...]) -> dict[str, tuple[Spec, str]]:
    """The longest prompt of each suite, which is what a server's limits are tried with."""
    return {
        task.suite.spec.name: (task.suite.spec, max((i.prompt for i in task.items), key=len))
        for task in tasks
    }


def make(options: Options) -> Plan:
    """Everything decided and every suite read, before anything is started.

    Raises:
        UserError: options or verify.toml do not fit together.
    """
    rules = options.rules
    config = read(Path(CONFIG))
    names = arm_names(options.arms)
    specs = arm_specs(names, options.arm, config)
    embedded = not specs[0].urls
    if options.executor == "ray" and not embedded:
        raise UserError(
            "--executor ray runs embedded models on a cluster, and both arms are servers; leave it "
            "out: a server's base_url in verify.toml may be a list of many"
        )
    wanted = options.suite or (EMBEDDED_SUITES if embedded else ())
    if not wanted:
        raise UserError("servers have no default suite; add --suite gsm8k")
    tasks = _tasks(wanted, options, config)
    for task in tasks:
        kind = "embedded" if embedded else "server"
        if task.suite.spec.answered_by != kind:
            remedy = "--arm NAME=URL for both arms" if kind == "embedded" else "two kernels"
            raise UserError(
                f"suite {task.name} is answered by arms of kind {task.suite.spec.answered_by}, "
                f"not {kind}; give {remedy}"
            )
    if options.model is not None and embedded:
        raise UserError("--model names the model of a server, and both arms are embedded")
    if len(options.concurrency) > 1 and embedded:
        raise UserError("--concurrency is of servers, and both arms are embedded")
    return Plan(
        names,
        specs,
        tasks,
        rules,
        options.model,
        options.concurrency[0],
        (*config.differ, *options.differ),
        options.require_path,
        options.executor,
    )


def arm_names(arms: str) -> tuple[str, str]:
    """The two names in --arms.

    Raises:
        UserError: it is not two different names.
    """
    names = [name.strip() for name in arms.split(",")]
    if len(names) != 2 or names[0] == names[1] or not all(map(_is_name, names)):
        raise UserError(
            f"--arms is {arms!r}; name two different arms, base first, like --arms base,pr"
        )
    return names[0], names[1]


def _is_name(name: str) -> bool:
    return bool(name) and name.replace("-", "").replace("_", "").isalnum()


def _tasks(wanted: tuple[str, ...], options: Options, config: Config) -> tuple[Task, ...]:
    if options.full and options.limit is not None:
        raise UserError("--full asks everything and --limit does not; give one of them")
    data = dict(_pair("--data", word, "SUITE=PATH") for word in options.data)
    everywhere, margins = given_margins(options.margin)
    tasks: list[Task] = []
    for name in wanted:
        spec = config.suites.get(name, SuiteSpec())
        file = data.pop(name, spec.data)
        suite, questions = _loaded(spec.path or name, file, options)
        own = suite.spec.name
        if own in {task.suite.spec.name for task in tasks}:
            raise UserError(f"suite {own} is given twice")
        items = questions.items[: _size(options, suite.spec.items, len(questions.items))]
        margin, margin_from = suite.spec.margin_pt, "the suite"
        if own in config.margins:
            margin, margin_from = _in_range(config.margins[own], CONFIG), CONFIG
        if everywhere is not None or own in margins:
            margin, margin_from = margins.pop(own, everywhere or 0.0), "--margin"
        _enough(options.extend_capped, suite)
        repeats = options.repeats or (1 if options.certificate else suite.spec.repeats)
        orders = tuple(
            _order(len(items), f"{options.seed}:{own}:{repeat}") for repeat in range(repeats)
        )
        several = len(options.concurrency) > 1
        tasks += [
            Task(
                suite,
                questions,
                items,
                margin,
                margin_from,
                orders,
                load=load if several else None,
            )
            for load in options.concurrency
        ]
    for option, rest in (("--data", data), ("--margin", margins)):
        for name in rest:
            raise UserError(
                f"{option} {name}: no such suite in this run; it has "
                f"{', '.join(dict.fromkeys(task.suite.spec.name for task in tasks))}"
            )
    return tuple(tasks)


def _loaded(name: str, file: str | None, options: Options) -> tuple[Suite, Questions]:
    try:
        suite = load(name)
        if options.redact is not None:
            spec = msgspec.structs.replace(suite.spec, redact=options.redact)
            suite = replace(suite, spec=spec)
        data = Path(file) if file else None
        return suite, suite.questions(data, unpinned=options.unpinned)
    except SuiteError as error:
        raise UserError(str(error)) from None


def _enough(tokens: int | None, suite: Suite) -> None:
    limit = suite.spec.sampling.max_tokens
    if tokens is not None and tokens <= limit:
        raise UserError(
            f"--extend-capped {tokens} is no more than the {limit} tokens that suite "
            f"{suite.spec.name} allows anyway"
        )


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
