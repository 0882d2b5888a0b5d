"""Embedded arms on a Ray cluster of two nodes, which lose actors and nodes on the way."""

import asyncio
import os
import secrets
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
import uuid
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest

from evals.suite import load
from tests.verify.evals.sums import kept, result
from verify import cluster, embedded
from verify.arms import Completion, EmbeddedArm, Failure
from verify.cluster import Cluster
from verify.cluster_arm import ATTEMPTS, ClusterArm
from verify.command import UserError

ROOT = Path(__file__).resolve().parents[2]
# Ray reads these once, when it is imported, which any test of this file may do first
os.environ |= {
    "RAY_USAGE_STATS_ENABLED": "0",
    "RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER": "0",
    "RAY_AUTH_MODE": "token",
    "RAY_AUTH_TOKEN": secrets.token_hex(16),
}
KERNELS = """
import os, time
from kernel import chain

def hangs(*args, **options):
    with open("asked", "w") as asked:
        asked.write("hanging")
    time.sleep(600)

def hangs_on_a_node(*args, **options):
    if os.path.exists("doomed-" + os.environ.get("RAY_RAYLET_PID", "")):
        hangs()
    print("computing")
    chain(*args, **options)
"""


@pytest.fixture
def here(tmp_path, monkeypatch):
    (tmp_path / "mine_kernels.py").write_text(KERNELS)
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    return tmp_path


@pytest.fixture(scope="module")
def two_nodes():
    """A cluster on loopback, of two nodes with one processor each."""
    pytest.importorskip("ray")
    folder = tempfile.mkdtemp(prefix="ray-", dir="/tmp")  # paths of sockets are short
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("RAY_TMPDIR", folder)
        from ray.cluster_utils import Cluster as Nodes

        node = {"num_cpus": 1, "object_store_memory": 80 << 20, "node_ip_address": "127.0.0.1"}
        nodes = Nodes(initialize_head=True, head_node_args={**node, "include_dashboard": False})
        try:
            nodes.add_node(**node)
            patch.setenv("RAY_ADDRESS", nodes.address)
            nodes.one_more = lambda: nodes.add_node(**node)
            yield nodes
        finally:
            nodes.shutdown()
            shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture(scope="module")
def spec():
    return load("mini-gpqa").spec


@pytest.fixture(scope="module")
def prompts():
    return [item.prompt for item in load("mini-gpqa").questions().items[:40]]


async def collect(arm, spec, prompts, beside=None):
    found = []
    try:
        await arm.start()
        meanwhile = asyncio.ensure_future(beside() if beside else asyncio.sleep(0))
        found = [each async for each in arm.answers(spec, prompts, ())]
        await meanwhile
    finally:
        await arm.close()
    assert sorted(index for index, _ in found) == list(range(len(prompts))), "each once"
    return dict(found)


def ask(arm, *about, **options):
    return asyncio.run(collect(arm, *about, **options))


def texts(answers):
    return {index: (a.text, a.tokens, a.truncated) for index, a in answers.items()}


@pytest.mark.parametrize("size", [0, 1, 191, 192, 193, 384, 385, 1319])
def test_batches_hold_every_question_once_whatever_the_order(size):
    prompts = [f"{'word ' * (i * i % 17)}{i}" for i in range(size)]
    found = embedded.batches(prompts)
    assert sorted(index for batch in found for index in batch) == list(range(size))
    assert all(0 < len(batch) <= embedded.BATCH for batch in found)
    assert len(found) == -(-size // embedded.BATCH)
    backwards = prompts[::-1]
    of_sets = [{prompts[index] for index in batch} for batch in found]
    assert of_sets == [{backwards[i] for i in batch} for batch in embedded.batches(backwards)]


def test_no_built_in_suite_is_split_by_default():
    for name in ("mini-gsm8k", "mini-aime", "mini-gpqa"):
        assert load(name).spec.items <= embedded.BATCH


def test_local_answers_of_several_batches_are_all_there(here, spec, prompts, monkeypatch):
    monkeypatch.setattr(embedded, "BATCH", 5)
    arm = EmbeddedArm("pr", "mine_kernels:hangs_on_a_node", here / "log")
    found = ask(arm, spec, prompts[:12])
    assert all(isinstance(answer, Completion) for answer in found.values())
    assert arm.problems(spec.name) == []


def test_without_ray_one_line_names_the_extra(here, monkeypatch):
    monkeypatch.setitem(sys.modules, "ray", None)
    arm = ClusterArm("pr", None, here / "log", Cluster())
    with pytest.raises(UserError, match=r"--executor ray needs ray; install .* its extra: ray$"):
        ask(arm, None, [])


def test_an_address_outside_the_cluster_is_one_line(here, monkeypatch):
    monkeypatch.setenv("RAY_ADDRESS", "ray://127.0.0.1:10001")
    with pytest.raises(UserError, match="ray job submit"):
        ask(ClusterArm("pr", None, here / "log", Cluster()), None, [])


class Pool:
    """Stands for a cluster: actors that answer at once, but for what `behave` says of a call."""

    address = "nowhere"

    def __init__(self, places, behave=lambda _: None, started=lambda _: STARTED):
        self.places = places
        self.calls = self.lost = 0
        self.ended = []
        self._behave, self._started = behave, started

    async def join(self, _):
        pass

    def leave(self, _):
        pass

    def end(self, actor):
        self.ended.append(actor)

    def actor(self, place, *_):
        async def start():
            return self._started(place)

        async def answer(_, prompts):
            self.calls += 1
            self.lost += len(prompts)
            broken = self._behave(self.calls - 1)
            self.lost -= len(prompts)
            done = embedded.Done([("fused", 1, self.calls)], {})
            answers = [(i, Completion(f"to {p}", False, 1)) for i, p in enumerate(prompts)]
            return cluster.Batch(answers, done, broken, b"", f"node {place}")

        return SimpleNamespace(
            start=SimpleNamespace(remote=start), answer=SimpleNamespace(remote=answer)
        )


STARTED = cluster.Started(embedded.Ready("cpu", 32, "w", None), "2.0", "p")


def dies(*calls):
    def behave(call):
        if call in calls:
            from ray.exceptions import ActorDiedError

            raise ActorDiedError

    return behave


@pytest.mark.parametrize("places", [1, 2, 3, 5])
@pytest.mark.parametrize("deaths", range(32))
def test_whatever_is_lost_every_question_is_answered_or_recorded_once(
    here, spec, monkeypatch, places, deaths
):
    pytest.importorskip("ray")
    monkeypatch.setattr(embedded, "BATCH", 3)
    doomed = [call for call in range(5) if deaths >> call & 1]
    pool = Pool(places, dies(*doomed))
    prompts = [f"question {i}" for i in range(11)]
    found = ask(ClusterArm("pr", "k:k", here / "log", pool), spec, prompts)
    for index, answer in found.items():
        if isinstance(answer, Completion):
            assert answer.text == f"to {prompts[index]}"
            assert len(answer.tries) < ATTEMPTS
        else:
            assert answer.kind == "cluster"
            gone = len(doomed) >= places
            assert gone or len(answer.tries) + 1 == ATTEMPTS
    attempts = [
        failure.message
        for answer in found.values()
        for failure in (*answer.tries, answer)
        if isinstance(failure, Failure)
    ]
    assert sum("was lost" in message for message in attempts) == pool.lost
    assert len(pool.ended) == places, "the dead are ended too"


def test_a_batch_is_not_asked_for_ever(here, spec):
    pytest.importorskip("ray")
    pool = Pool(9, dies(*range(9)))
    found = ask(ClusterArm("pr", "k:k", here / "log", pool), spec, ["a", "b"])
    assert pool.calls == ATTEMPTS
    assert {(a.kind, len(a.tries)) for a in found.values()} == {("cluster", ATTEMPTS - 1)}


def test_a_kernel_that_breaks_ends_the_arm_everywhere(here, spec, monkeypatch):
    monkeypatch.setattr(embedded, "BATCH", 2)
    pool = Pool(2, lambda call: embedded.Broken("bad launch") if call == 1 else None)
    arm = ClusterArm("pr", "k:k", here / "log", pool)
    found = ask(arm, spec, [f"question {i}" for i in range(12)])
    unanswered = [a for a in found.values() if isinstance(a, Failure)]
    assert pool.calls == 2
    assert {(a.kind, a.message) for a in unanswered} == {("arm", "bad launch")}
    assert len(unanswered) == 8
    assert arm.problems(spec.name) == []


@pytest.mark.parametrize(
    ("started", "message"),
    [
        (lambda place: [STARTED, embedded.Broken("--arm pr=k:k: none")][place], "--arm pr=k:k"),
        (
            lambda place: replace(STARTED, torch=f"2.{place}"),
            r"not alike.* \(torch: 2.0 against 2.1\)",
        ),
        (lambda place: dies(1)(place) or STARTED, "cannot be started on the Ray cluster"),
    ],
)
def test_a_pool_that_does_not_start_is_one_line(here, spec, started, message):
    pytest.importorskip("ray")
    with pytest.raises(UserError, match=message):
        ask(ClusterArm("pr", "k:k", here / "log", Pool(2, started=started)), spec, ["a"])


@pytest.mark.slow
def test_the_batch_of_a_node_that_dies_is_asked_elsewhere(
    two_nodes, here, spec, prompts, monkeypatch
):
    monkeypatch.setattr(embedded, "BATCH", 10)
    doomed = two_nodes.one_more()
    (raylet,) = doomed.all_processes["raylet"]
    (here / f"doomed-{raylet.process.pid}").touch()
    os.mkfifo(here / "asked")

    async def kill():
        assert await asyncio.to_thread((here / "asked").read_text) == "hanging"
        two_nodes.remove_node(doomed, allow_graceful=False)

    arm = ClusterArm("pr", "mine_kernels:hangs_on_a_node", here / "log", Cluster())
    found = ask(arm, spec, prompts, beside=kill)
    assert texts(found) == texts(ask(EmbeddedArm("pr", None, here / "log"), spec, prompts))
    tries = [tuple(failure.kind for failure in answer.tries) for answer in found.values()]
    assert sorted(tries) == [()] * 30 + [("cluster",)] * 10
    assert len(arm.settings()["executor"]["lost"]) == 1


@pytest.mark.slow
@pytest.mark.usefixtures("two_nodes")
def test_a_run_is_the_same_on_either_executor_and_both_nodes_work(here, monkeypatch):
    from click.testing import CliRunner

    from verify.evals import command

    monkeypatch.setattr(embedded, "BATCH", 8)
    at_sigterm = signal.getsignal(signal.SIGTERM)
    stores = []
    for executor in ("ray", "local"):
        words = ["--executor", executor, "--suite", "mini-gpqa", "--limit", "24"]
        words += ["--arm", "pr=mine_kernels:hangs_on_a_node", "--out", executor]
        ended = CliRunner().invoke(command, words, standalone_mode=False)
        assert ended.exception is None, ended.output
        records = kept(here / executor)
        stores.append(sorted((r.arm, r.item, r.repeat, r.text, r.correct) for r in records))
    assert stores[0] == stores[1]
    assert len(stores[0]) == 48
    assert signal.getsignal(signal.SIGTERM) == at_sigterm
    ray, local = (result(here / executor) for executor in ("ray", "local"))
    assert ray["suites"] == local["suites"]
    for name in ("base", "pr"):
        settings = ray["manifest"]["arms"][name]
        told = settings.pop("executor")
        assert settings == local["manifest"]["arms"][name]
        assert len(told["answered_at"]) == told["places"] == 2
        assert sum(told["answered_at"].values()) == 24
        assert told["lost"] == []
    assert "computing" in (here / "ray" / "pr.log").read_text()


@pytest.mark.slow
def test_an_interrupted_run_ends_its_own_cluster(here):
    pytest.importorskip("ray")
    os.mkfifo(here / "asked")
    mark = f"KERNELPROOF_TEST={uuid.uuid4()}"
    name, _, value = mark.partition("=")
    environment = {key: found for key, found in os.environ.items() if not key.startswith("RAY_")}
    words = ["--executor", "ray", "--suite", "mini-gpqa", "--limit", "9", "--out", "run"]
    process = subprocess.Popen(
        [sys.executable, "-m", "verify.evals", *words, "--arm", "pr=mine_kernels:hangs"],
        env={**environment, "PYTHONPATH": str(ROOT), name: value},
        stderr=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        # tests started in the background inherit that Ctrl-C is ignored
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),  # noqa: PLW1509 - see above
    )
    try:
        with (here / "asked").open() as asked:
            assert asked.read(7) == "hanging"
        assert len(marked(mark)) > 5
        process.send_signal(signal.SIGINT)
        _, err = process.communicate(timeout=120)
    finally:
        process.kill()
    assert process.returncode == 130, err
    assert "answers are kept in run/records.sqlite" in err
    assert "Traceback" not in err
    ends = time.monotonic() + 60
    while left := marked(mark):  # they are told to end, and collected by others
        assert time.monotonic() < ends, left
        time.sleep(0.05)


def marked(mark):
    """Processes that have this in their environment, and live."""
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            if mark.encode() in (folder / "environ").read_bytes():
                found.append((folder / "cmdline").read_bytes()[:80])
        except OSError:
            continue
    return found


def test_a_port_where_nobody_listens_is_told_at_once(monkeypatch):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
    monkeypatch.setenv("RAY_ADDRESS", f"127.0.0.1:{port}")
    started = []
    monkeypatch.setattr("ray.init", lambda **words: started.append(words))
    with pytest.raises(UserError, match=rf"no Ray cluster at 127.0.0.1:{port} \(.*refused"):
        asyncio.run(Cluster().join("pr"))
    assert not started
