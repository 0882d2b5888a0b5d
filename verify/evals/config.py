"""verify.toml and `--arm`: what each arm is, and the server arms made of that."""

from __future__ import annotations

import os
import string
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urljoin

import msgspec

from verify.arms import normalised
from verify.command import UserError
from verify.keys import SHORTEST, secrets, unkeepable
from verify.limits import Limits
from verify.snapshot import commit_of

if TYPE_CHECKING:
    from collections.abc import Mapping

    from evals.suite import Spec
    from verify.client import Client
    from verify.servers import ServerArm

CONFIG = "verify.toml"


class ArmSpec(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """`[arms.NAME]`: a server by its `base_url`, or the embedded model with a `kernel` or none.

    Attributes:
        base_url: the address of the server, or of each of several alike.
        model: the name to ask for.
        kernel: `module:function` behind WO-A of the embedded model.
        headers: sent with every request; `$NAME` is an environment variable, for keys.
        body: parameters of every question, beside and over those of the suite.
        limits: how long and how often the server is asked before a failure stands.
        stream: whether answers are asked for token by token, so that `limits.gap_s` holds.
        commit: what the server was built from.
        source: the folder that it was built from; nobody may change it during a run.
        launch: the command that starts the server, anew for every repeat.
        ready: the address, or its path, that answers with status 200 once the server is ready.
        ready_s: seconds that this may take.
        env: environment variables of `launch`.
        path: by name, where the arm shows that it took a path: see `verify.evidence`.
    """

    base_url: str | tuple[str, ...] = ()
    model: str | None = None
    kernel: str | None = None
    headers: dict[str, str] = {}
    body: dict[str, Any] = {}
    limits: Limits = Limits()
    stream: bool = False
    commit: str | None = None
    source: str | None = None
    launch: tuple[str, ...] = ()
    ready: str | None = None
    ready_s: float = 1800.0
    env: dict[str, str] = {}
    path: dict[str, str] = {}

    @property
    def urls(self) -> tuple[str, ...]:
        """Addresses in one form; none of the embedded model."""
        given = (self.base_url,) if isinstance(self.base_url, str) else self.base_url
        return tuple(map(normalised, given))


class SuiteSpec(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """`[suites.NAME]`: the folder of a suite, and a local file of its rows."""

    path: str | None = None
    data: str | None = None


class Config(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """verify.toml; `differ` names settings in which the arms may differ."""

    arms: dict[str, ArmSpec] = {}
    suites: dict[str, SuiteSpec] = {}
    margins: dict[str, float] = {}
    differ: tuple[str, ...] = ()


DEFAULT_ARMS = {"base": ArmSpec(), "pr": ArmSpec(kernel="kernel:fused_triton")}
OF_SERVERS = (
    "model",
    "headers",
    "body",
    "stream",
    "commit",
    "source",
    "launch",
    "ready",
    "env",
    "path",
)


def read(path: Path) -> Config:
    """The file, or nothing where there is none.

    Raises:
        UserError: it says what it must not.
    """
    try:
        return msgspec.toml.decode(path.read_bytes(), type=Config)
    except FileNotFoundError:
        return Config()
    except OSError as error:
        raise UserError(f"{path} cannot be read ({error.strerror})") from None
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise UserError(f"{path}: {error}") from None


def arm_specs(
    names: tuple[str, str], given: tuple[str, ...], config: Config
) -> tuple[ArmSpec, ArmSpec]:
    """What base and PR are, by verify.toml and over it by `--arm NAME=URL|module:function`.

    Raises:
        UserError: one is not known, or they do not go together.
    """
    known = {**DEFAULT_ARMS, **config.arms}
    seen = set()
    for word in given:
        name, equals, target = word.partition("=")
        if not equals or not target:
            raise UserError(f"--arm is {word!r}; write NAME=URL or NAME=module:function")
        if name not in names:
            raise UserError(f"--arm {name}=...: {name!r} is not one of --arms {','.join(names)}")
        if name in seen:
            raise UserError(f"--arm {name} is given twice")
        seen.add(name)
        known[name] = _given(word, target, known.get(name, ArmSpec()))
    for name in names:
        if name not in known:
            raise UserError(
                f"arm {name!r} is not known; add --arm {name}=URL or {name}=module:function, or "
                f"[arms.{name}] in {CONFIG}"
            )
        _check(name, known[name])
    base, pr = known[names[0]], known[names[1]]
    _check_together(names, base, pr)
    return base, pr


def _given(word: str, target: str, known: ArmSpec) -> ArmSpec:
    if "://" in target:  # another address of what verify.toml describes
        return msgspec.structs.replace(known, base_url=normalised(target), kernel=None, launch=())
    module, colon, function = target.partition(":")
    if not (colon and all(part.isidentifier() for part in (*module.split("."), function))):
        raise UserError(f"--arm {word}: {target!r} is neither a URL nor module:function")
    return ArmSpec(kernel=target)


def _check(name: str, spec: ArmSpec) -> None:
    """What the types of one arm cannot say."""
    urls = spec.urls
    if urls and spec.kernel is not None:
        raise UserError(f"{CONFIG}: arm {name} has both base_url and kernel; keep one")
    if len(set(urls)) < len(urls):
        raise UserError(f"{CONFIG}: arm {name} has the same base_url twice; remove one")
    for field in OF_SERVERS if not urls else ():
        if getattr(spec, field):
            raise UserError(f"{CONFIG}: arm {name} has {field} but no base_url; add it")
    if spec.launch and len(urls) > 1:
        raise UserError(
            f"{CONFIG}: arm {name} has launch, which starts one server, and {len(urls)} "
            "addresses; keep one base_url, or start the servers yourself"
        )
    if not 0 < spec.ready_s <= 86400:
        raise UserError(
            f"{CONFIG}: arm {name}: ready_s is {spec.ready_s:g}; give seconds, to a day"
        )
    head = commit_of(Path(spec.source)) if spec.commit and spec.source else None
    if head and not head.startswith(str(spec.commit)):
        raise UserError(
            f"{CONFIG}: arm {name} is commit {spec.commit}, but its source {spec.source} "
            f"stands at {head[:12]}; check out the one, or correct the other"
        )


def _check_together(names: tuple[str, str], base: ArmSpec, pr: ArmSpec) -> None:
    if bool(base.urls) != bool(pr.urls):
        raise UserError(
            f"{names[0]} and {names[1]} are an embedded model and a server, which answer different "
            "suites; name two servers, or two kernels"
        )
    if bool(base.launch) != bool(pr.launch):
        one, other = names if base.launch else names[::-1]
        raise UserError(
            f"{CONFIG}: arm {one} has launch and arm {other} has none; they would not have the "
            "machine to themselves alike: give it to both, or to neither"
        )
    for url in sorted(set(base.urls) & set(pr.urls)) if not base.launch else ():
        raise UserError(
            f"arms {names[0]} and {names[1]} are both {url}: one server cannot be compared "
            "with itself; start the other one on a port of its own"
        )


def server_arm(
    name: str,
    spec: ArmSpec,
    folder: Path,
    *,
    model: str | None,
    concurrency: int,
    longest: Mapping[str, tuple[Spec, str]],
    kind: type[Client] | None = None,
) -> ServerArm:
    """The arm of a server, not started; a server that is launched logs into `folder`.

    `kind` is what asks it, if not a plain client.

    Raises:
        UserError: what talks to servers is not installed, or a key is not in the environment.
    """
    try:
        from verify.client import Client  # noqa: PLC0415 - needs an optional extra
        from verify.launched import Launch  # noqa: PLC0415 - likewise
        from verify.servers import ServerArm  # noqa: PLC0415 - likewise
        from verify.site import Site  # noqa: PLC0415 - likewise
    except ModuleNotFoundError as error:
        raise UserError(
            f"servers need {error.name}; install kernelproof with its extra: evals"
        ) from None
    headers = _headers(name, spec)
    ready = urljoin(spec.urls[0], spec.ready) if spec.ready else f"{spec.urls[0]}/models"
    launch = (
        Launch(name, spec.launch, ready, spec.ready_s, spec.env, headers, secrets(headers))
        if spec.launch
        else None
    )
    site = Site(
        name,
        spec.urls,
        headers=headers,
        logs=folder,
        launch=launch,
        path=spec.path,
        source=Path(spec.source) if spec.source else None,
        commit=spec.commit,
        longest=longest,
    )
    return ServerArm(
        name,
        spec.urls,
        model=spec.model or model,
        concurrency=concurrency,
        headers=headers,
        body=spec.body,
        limits=spec.limits,
        stream=spec.stream,
        site=site,
        kind=kind or Client,
    )


def _headers(arm: str, spec: ArmSpec) -> dict[str, str]:
    """What is sent with every request, keys among it that can be kept out of what is written."""
    headers = {header: _filled(arm, header, value) for header, value in spec.headers.items()}
    for header in unkeepable(headers):
        raise UserError(
            f"{CONFIG}: arm {arm}: header {header} holds a key that could not be told from words "
            f"or numbers of an answer; use one of at least {SHORTEST} characters, a number of 8"
        )
    return headers


def _filled(arm: str, header: str, value: str) -> str:
    """A header's value with environment variables in their places."""
    try:
        filled = string.Template(value).substitute(os.environ)
    except KeyError as error:
        raise UserError(
            f"{CONFIG}: arm {arm}: header {header} needs environment variable {error.args[0]}, "
            "which is not set; export it"
        ) from None
    except ValueError:
        raise UserError(
            f"{CONFIG}: arm {arm}: header {header} holds a $ that names no variable; write $NAME, "
            "or $$ for a dollar"
        ) from None
    if not filled.isprintable():
        raise UserError(f"{CONFIG}: arm {arm}: header {header} would hold control characters")
    return filled
