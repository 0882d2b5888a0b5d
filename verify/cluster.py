"""A Ray cluster, ours or another's: its places, and the actor that holds one arm's model there."""

from __future__ import annotations

import asyncio
import importlib
import logging
import os
import platform
import secrets
import signal
import socket
import sys
import tempfile
from contextlib import suppress
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from verify import embedded
from verify.arms import Completion, EmbeddedArm, Failure, one_line
from verify.command import UserError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from evals.suite import Spec

_ROOM_S = 300  # that a shared cluster has to make room
_HEAD_S = 10  # that the head of a cluster has to take a connection
_OBJECTS = 80 << 20  # bytes; texts are small


@dataclass(frozen=True)
class Started:
    """A model is loaded, there, beside what may change its texts."""

    ready: embedded.Ready
    torch: str
    processor: str

    def other(self, started: Started) -> list[str]:
        """In what another differs."""
        ours, theirs = (
            {**msgspec.structs.asdict(one.ready), "torch": one.torch, "processor": one.processor}
            for one in (self, started)
        )
        return [
            f"{name}: {ours[name]} against {theirs[name]}"
            for name in ours
            if ours[name] != theirs[name]
        ]


@dataclass(frozen=True)
class Batch:
    """Answers to a batch, as the local executor has them, and what was printed meanwhile."""

    answers: list[tuple[int, Completion | Failure]]
    done: embedded.Done
    broken: embedded.Broken | None
    printed: bytes
    node: str
    """Ray's name of the machine."""


class Place:
    """An actor: one arm's model at one place of the cluster, in the process that it has locally.

    Args:
        arm: the name of the arm.
        kernel: `module:function`, or None for the chain alone.
        folder: the working folder of the run; left alone where this machine has none such.
    """

    def __init__(self, arm: str, kernel: str | None, folder: str) -> None:
        if Path(folder).is_dir():
            os.chdir(folder)
        self._log = tempfile.TemporaryFile()  # noqa: SIM115 - ends with the actor, and is nowhere
        self._arm = EmbeddedArm(arm, kernel, Path(f"/dev/fd/{self._log.fileno()}"))
        self._loop = asyncio.Runner(loop_factory=asyncio.new_event_loop)

    def start(self) -> Started | embedded.Broken:
        """Load the model."""
        try:
            self._loop.run(self._arm.start())
        except UserError as error:
            return embedded.Broken(str(error))
        assert self._arm.ready is not None
        return Started(self._arm.ready, metadata.version("torch"), _processor())

    def answer(self, spec: Spec, prompts: Sequence[str]) -> Batch:
        """Answer one batch."""

        async def all_answers() -> list[tuple[int, Completion | Failure]]:
            return [each async for each in self._arm.answers(spec, prompts, ())]

        answers = self._loop.run(all_answers())
        node = _ray().get_runtime_context().get_node_id()
        return Batch(answers, self._arm.done, self._arm.broken, self._log.read(), node)


def _ray() -> Any:
    """An optional extra."""
    return importlib.import_module("ray")


def _processor() -> str:
    with suppress(OSError):
        for line in Path("/proc/cpuinfo").read_text("utf-8", "replace").splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    return platform.machine()


class Cluster:
    """The cluster at RAY_ADDRESS, or one of our own on this machine; shared by the arms of a run.

    Each of its places holds one actor of every arm: what one machine does to an arm, it does to
    the other.
    """

    def __init__(self) -> None:
        self.places = 0
        """Free processors, or free GPUs where the cluster has any, when the first arm joined."""
        self.address = os.environ.get("RAY_ADDRESS", "local")
        self._unit: dict[str, float] = {}
        self._users: set[str] = set()
        self._opening = asyncio.Lock()
        self._group: Any = None
        self._files: tempfile.TemporaryDirectory[str] | None = None

    async def join(self, arm: str) -> None:
        """Let an arm use it.

        Raises:
            UserError: Ray is not installed, or there is no such cluster, or no room in it.
        """
        async with self._opening:
            self._users.add(arm)
            if self._group is None:
                _connect(self.address, self._own_files)
                await self._reserve()

    async def _reserve(self) -> None:
        ray = _ray()
        free = ray.available_resources()
        self._unit = {"CPU": 1.0, **({"GPU": 1.0} if ray.cluster_resources().get("GPU") else {})}
        self.places = int(min(free.get(kind, 0.0) for kind in self._unit))
        if not self.places:
            raise UserError(
                f"the Ray cluster {self.address} has no free {' and '.join(self._unit)}; wait "
                "until it has, or name another by RAY_ADDRESS"
            )
        self._group = ray.util.placement_group([self._unit] * self.places, strategy="SPREAD")
        for _ in range(_ROOM_S):
            if self._group.wait(1):
                return
            await asyncio.sleep(0)
        raise UserError(
            f"the Ray cluster {self.address} did not give {self.places} places that were free "
            f"within {_ROOM_S} s; try again once it is less used"
        )

    def actor(self, place: int, *words: object) -> Any:
        """A handle of a new `Place` there."""
        strategies = importlib.import_module("ray.util.scheduling_strategies")
        there = strategies.PlacementGroupSchedulingStrategy(
            self._group, placement_group_bundle_index=place
        )
        half = {f"num_{kind.lower()}s": amount / 2 for kind, amount in self._unit.items()}
        return _ray().remote(Place).options(scheduling_strategy=there, **half).remote(*words)

    @staticmethod
    def end(actor: Any) -> None:
        """Kill an actor."""
        with suppress(Exception):  # it is dead, or its cluster is
            _ray().kill(actor)

    def leave(self, arm: str) -> None:
        """Let go of it; with its last arm, a cluster of our own ends."""
        if arm not in self._users:
            return
        self._users.remove(arm)
        if self._users or not (ray := sys.modules.get("ray")):
            return
        if self._group is not None:
            with suppress(Exception):  # a cluster that is gone holds nothing
                ray.util.remove_placement_group(self._group)
            self._group = None
        ray.shutdown()
        if self._files is not None:
            self._files.cleanup()

    def _own_files(self) -> str:
        # paths of sockets are short, and TMPDIR may not be
        self._files = tempfile.TemporaryDirectory(
            prefix="ray-",
            dir="/tmp",
            ignore_cleanup_errors=True,
        )
        return self._files.name


def _connect(address: str, folder: Callable[[], str]) -> None:
    """To the cluster at that address, or to a new one on this machine, which is ours alone."""
    # before its import: no words to its makers, no port but on loopback, no stranger's tasks
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    own: dict[str, Any] = {}
    if address == "local":
        os.environ.setdefault("RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER", "0")
        os.environ.setdefault("RAY_AUTH_MODE", "token")
        os.environ.setdefault("RAY_AUTH_TOKEN", secrets.token_hex(32))
        own = {
            "include_dashboard": False,
            "object_store_memory": _OBJECTS,
            "_temp_dir": folder(),
        }
    if address.startswith("ray://"):
        raise UserError(
            f"RAY_ADDRESS is {address}, and a run must be on a machine of the cluster itself; "
            "start it there, or with `ray job submit`"
        )
    try:
        ray = _ray()
    except ModuleNotFoundError as error:
        raise UserError(
            f"--executor ray needs {error.name}; install kernelproof with its extra: ray"
        ) from None
    # it tells of dead nodes by pages of their logs on standard output; we do, in one line
    ray._private.worker.print_to_stdstream = lambda *_, **__: None  # noqa: SLF001 - no option does
    ended = signal.getsignal(signal.SIGTERM)
    try:
        _reach(address)
        ray.init(address=address, log_to_driver=False, logging_level=logging.ERROR, **own)
    except Exception as error:  # noqa: BLE001 - it fails in as many ways as it has layers
        why = one_line(str(error))[:160]
        raise UserError(
            f"Ray cannot be started here ({why}); use --executor local"
            if own
            else f"no Ray cluster at {address} ({why}); correct RAY_ADDRESS, or unset it for a "
            "cluster on this machine"
        ) from None
    finally:
        signal.signal(signal.SIGTERM, ended)  # Ray's would not clean up


def _reach(address: str) -> None:
    """Raise OSError where nobody listens at host:port; Ray would try for minutes."""
    host, _, port = address.rpartition(":")
    if host and port.isdecimal():
        socket.create_connection((host.strip("[]"), int(port)), _HEAD_S).close()


class Lost(Exception):  # noqa: N818 - said of an actor
    """Nothing will come of a call."""


async def told(call: Any) -> Any:
    """What an actor's call returns; raises Lost if the actor or its machine is no more."""
    try:
        return await call
    except _ray().exceptions.RayError as error:
        raise Lost(one_line(str(error))[:160]) from None
