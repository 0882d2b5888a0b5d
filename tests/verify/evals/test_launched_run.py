import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.verify.evals.sums import kept, result
from tests.verify.test_launched import SCRIPT, alive, free_port, listens

ROOT = Path(__file__).resolve().parents[3]


@pytest.fixture
def launched(here):
    """Write a verify.toml that launches both arms; gives ports and a function of their ids."""

    def write(base=(), pr=(), more="", pr_more="", differ=()):
        ports = free_port(), free_port()
        toml = f"differ = {json.dumps(list(differ))}\n{more}\n"
        for name, port, words in zip(("base", "pr"), ports, (base, pr), strict=True):
            command = [sys.executable, "-S", str(SCRIPT), str(port), "pids=pids", *words]
            toml += (
                f"[arms.{name}]\nbase_url = 'http://127.0.0.1:{port}'\n"
                f"launch = {json.dumps(command)}\n{pr_more if name == 'pr' else ''}\n"
            )
        (here / "verify.toml").write_text(toml)

        def ids():
            file = here / "pids"
            return [int(pid) for pid in file.read_text().split()] if file.exists() else []

        return ports, ids

    return write


def test_each_repeat_has_servers_of_its_own_in_abba_order(evals, suite, launched, here):
    ports, ids = launched()
    code, out, err = evals("--suite", suite, "--repeats", 3, "--limit", 9, "--out", "run")
    assert (code, err) == (3, ""), out
    found = result(here / "run")
    assert len(ids()) == len(set(ids())) == 6
    assert not any(map(alive, ids()))
    assert not any(map(listens, ports))
    turns = list(dict.fromkeys((record.repeat, record.arm) for record in kept(here / "run")))
    assert turns == [(0, "base"), (0, "pr"), (1, "pr"), (1, "base"), (2, "base"), (2, "pr")]
    (sums,) = found["suites"]
    assert sums["starts"]["base"] == sums["starts"]["pr"] == 3
    for arm in ("base", "pr"):
        settings = found["manifest"]["arms"][arm]
        assert settings["launch"][2] == str(SCRIPT)
        assert settings["starts"] == 3
        logs = sorted((here / "run").glob(f"{arm}-server-*.log"))
        assert [log.read_text() for log in logs] == ["starting\n"] * 3


def test_the_launched_servers_may_share_a_port(evals, suite, launched, here):
    ports, _ = launched()
    toml = (here / "verify.toml").read_text().replace(str(ports[1]), str(ports[0]))
    (here / "verify.toml").write_text(toml)
    code, out, _ = evals("--suite", suite, "--limit", 9, "--out", "run")
    assert code == 3, out
    assert result(here / "run")["suites"][0]["items"] == 9


def test_what_was_cut_off_is_asked_again_of_a_server_started_for_it(evals, suite, launched, here):
    _, ids = launched(base=["cut=3"], pr=["cut=3"])
    code, _, err = evals("--suite", suite, "--extend-capped", 20, "--out", "run")
    assert code == 0, err
    assert len(ids()) == 4
    assert len(result(here / "run")["manifest"]["extended"]["sums"]) == 39
    assert not any(map(alive, ids()))


def test_a_run_that_goes_on_counts_what_its_earlier_processes_saw(evals, suite, launched, here):
    """PR is not started again: all that it took was taken before."""
    more = "path = {fused = 'http://127.0.0.1:PORT/metrics'}"
    ports, ids = launched(pr=["counter=fused"], pr_more=more, differ=["launch"])
    script = here / "server.py"
    toml = (here / "verify.toml").read_text().replace(str(SCRIPT), str(script), 1)
    (here / "verify.toml").write_text(toml.replace("PORT", str(ports[1])))
    source = SCRIPT.read_text()
    script.write_text(source.replace('if "echo" in WORDS and number', "if number"))
    words = ["--suite", suite, "--limit", 9, "--require-path", "fused", "--out", "run"]
    code, out, _ = evals(*words)
    assert code == 4
    assert "base never answered" in out
    assert "never seen" not in out
    script.write_text(source)
    code, out, _ = evals(*words)
    assert code == 3, out
    assert len(ids()) == 3
    told = result(here / "run")["manifest"]["arms"]["pr"]["path_evidence"]
    assert told["fused"]["count"] == 9


@pytest.mark.parametrize(
    "case",
    [
        (["dies"], "", "arm pr: its server ended by exit code 3"),
        (["never"], "ready_s = 0.5", "arm pr: its server was not ready after 0.5 s"),
    ],
)
def test_a_server_that_does_not_start_is_one_line(evals, suite, launched, case):
    pr, more, message = case
    ports, ids = launched(pr=pr, pr_more=more)
    code, _, err = evals("--suite", suite, "--limit", 9, "--out", "run")
    assert (code, err.count("\n")) == (2, 1)
    assert message in err
    assert not any(map(alive, ids()))
    assert not any(map(listens, ports))


@pytest.mark.parametrize("by", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupted_run_leaves_no_server(suite, launched, here, by):
    ports, ids = launched(base=["child"], pr=["hangs=asked"])
    os.mkfifo(here / "asked")
    words = ["--suite", suite, "--concurrency", "1", "--out", "run"]
    process = subprocess.Popen(
        [sys.executable, "-m", "verify.evals", *words],
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        stderr=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        # tests started in the background inherit that Ctrl-C is ignored
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),  # noqa: PLW1509 - see above
    )
    try:
        with (here / "asked").open() as asked:  # opened by the server of pr once it is asked
            assert asked.read(7) == "hanging"  # it may be asked more than once
        process.send_signal(by)
        _, err = process.communicate(timeout=60)
    finally:
        process.kill()
    assert process.returncode == 130, err
    assert "Traceback" not in err
    assert len(ids()) == 3
    assert not any(map(alive, ids()))
    assert not any(map(listens, ports))
