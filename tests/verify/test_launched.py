import asyncio
import os
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest

from verify import launched
from verify.command import UserError
from verify.launched import Launch, Launched

SCRIPT = Path(__file__).with_name("scripted_server.py")


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def listens(port):
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


def alive(pid):
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return False
    return stat.rpartition(")")[2].split()[0] not in "ZX"


@pytest.fixture
def server(tmp_path):
    """Make a Launched of the scripted server with those words; gives it, its port, its pids."""

    def make(*words, **options):
        port = free_port()
        pids = tmp_path / f"pids-{port}"
        command = [sys.executable, "-S", str(SCRIPT), str(port), f"pids={pids}", *words]
        launch = Launch("pr", command, f"http://127.0.0.1:{port}/v1/models", **options)
        one = Launched(launch, tmp_path / "logs" / f"pr-{port}.log")
        return one, port, lambda: [int(pid) for pid in pids.read_text().split()]

    return make


def run(one, then=lambda: None):
    """Start, do something, stop; an error of the start is raised after the stop."""

    async def go():
        try:
            await one.start()
            return then()
        finally:
            await one.stop()

    return asyncio.run(go())


def test_it_is_ready_after_the_start_and_gone_after_the_stop(server):
    one, port, pids = server("slow=0.3", "child")
    assert run(one, lambda: listens(port) and all(map(alive, pids())))
    assert len(pids()) == 2
    assert not any(map(alive, pids()))
    assert not listens(port)
    assert one.log.read_text() == "starting\n"


def test_it_can_be_started_again(server):
    one, port, pids = server()
    for _ in range(2):
        assert run(one, lambda: listens(port))
    assert len(set(pids())) == 2


def test_one_that_ignores_the_end_is_killed(server, monkeypatch):
    monkeypatch.setattr(launched, "GRACE_S", 0.2)
    one, port, pids = server("stubborn")
    run(one)
    assert not any(map(alive, pids()))
    assert not listens(port)


def test_one_that_ends_early_tells_its_last_words(server):
    one, _, pids = server("dies", "child")
    with pytest.raises(UserError, match=r"arm pr: its server ended by exit code 3 .*: left \(all"):
        run(one)
    assert "no \x1b[31mGPU" in one.log.read_text()
    assert not any(map(alive, pids()))


def test_one_that_is_killed_while_it_loads_is_told(server):
    one, _, pids = server("never")

    async def go():
        starting = asyncio.create_task(one.start())
        while not one.log.exists() or not one.log.read_text():  # noqa: ASYNC110 - another process
            await asyncio.sleep(0.01)
        os.kill(pids()[0], signal.SIGKILL)
        try:
            await starting
        finally:
            await one.stop()

    with pytest.raises(UserError, match="ended by signal SIGKILL before it was ready: starting"):
        asyncio.run(go())


def test_one_that_never_becomes_ready_is_ended(server):
    one, port, pids = server("never", ready_s=0.5)
    with pytest.raises(UserError, match=r"was not ready after 0\.5 s"):
        run(one)
    assert not any(map(alive, pids()))
    assert not listens(port)


def test_a_port_in_use_is_told_before_anything_is_started(server):
    one, port, _ = server()
    with socket.create_server(("127.0.0.1", port)), pytest.raises(UserError) as caught:
        run(one)
    assert f"something listens at 127.0.0.1:{port} already" in str(caught.value)
    assert not one.log.exists()


def test_a_command_that_is_none_is_told(tmp_path):
    one = Launched(Launch("pr", ["/no/such/server"], "http://127.0.0.1:9"), tmp_path / "log")
    with pytest.raises(UserError, match=r"/no/such/server cannot be started .*verify\.toml"):
        run(one)


def test_secrets_are_kept_out_of_its_log(tmp_path):
    secret = b"sk-1234567890"
    code = f"import sys, os; os.write(1, b'a {secret.decode()} b' * 30000); sys.exit(0)"
    launch = Launch(
        "pr", [sys.executable, "-S", "-c", code], "http://127.0.0.1:9/", secrets=[secret]
    )
    one = Launched(launch, tmp_path / "log")
    with pytest.raises(UserError, match="ended by exit code 0"):
        run(one)
    assert secret not in one.log.read_bytes()
    assert one.log.read_bytes().count(b"***") >= 29_000


def test_what_is_cancelled_leaves_nothing(server):
    one, port, pids = server("child")

    async def go():
        async def serve():
            try:
                await one.start()
                up.set()
                await asyncio.sleep(600)
            finally:
                await one.stop()

        up = asyncio.Event()
        task = asyncio.create_task(serve())
        await up.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(go())
    assert not any(map(alive, pids()))
    assert not listens(port)


def test_if_we_are_killed_the_server_goes_too(server, tmp_path):
    one, port, pids = server("child")
    source = (
        "import asyncio\n"
        "from pathlib import Path\n"
        "from verify.launched import Launch, Launched\n"
        "async def main():\n"
        f"    launch = Launch('pr', {list(one.launch.command)!r}, {one.launch.ready!r})\n"
        f"    await Launched(launch, Path({str(tmp_path / 'log')!r})).start()\n"
        "    print('up', flush=True)\n"
        "    await asyncio.sleep(600)\n"
        "asyncio.run(main())\n"
    )
    ours = subprocess.Popen([sys.executable, "-c", source], stdout=subprocess.PIPE)
    assert ours.stdout.readline() == b"up\n"
    ours.kill()
    ours.communicate()
    ends = time.monotonic() + 30
    while any(map(alive, pids())):
        assert time.monotonic() < ends
        time.sleep(0.02)
    assert not listens(port)
