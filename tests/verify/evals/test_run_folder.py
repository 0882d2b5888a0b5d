import json
import os
import signal
import sqlite3
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from tests.verify.evals.sums import solver
from verify.store import Store

ROOT = Path(__file__).resolve().parents[3]


@pytest.mark.parametrize(
    "content",
    [
        "{",
        "[]",
        '{"verdict": "pass"}',
        json.dumps(
            {"verdict": "pass", "layers": {}, "cases": 1, "executed": 1, "tiers": {}}
            | {"findings": [{"a": 1}], "adequacy": {}, "environment": {}, "seconds": 1}
        ),
    ],
)
def test_a_kernel_json_that_is_none_is_told_before_the_run(evals, suite, servers, here, content):
    (here / "run").mkdir()
    (here / "run" / "kernel.json").write_text(content)
    code, _, err = evals("--suite", suite, *servers(), "--out", "run")
    assert code == 2
    assert "is not a result of verify.kernel" in err
    assert not (here / "run" / "records.sqlite").exists()


def test_a_folder_that_holds_a_run_is_refused(evals, suite, servers):
    words = ["--suite", suite, *servers(wrong={5}), "--out", "run"]
    assert evals(*words)[0] == 0
    code, out, err = evals(*words)
    assert (code, out) == (2, "")
    assert err == "verify.evals: run holds a run already; name another folder with --out\n"


def test_a_folder_with_a_page_of_something_else_is_refused(evals, suite, servers, here):
    (here / "run").mkdir()
    (here / "run" / "report.html").write_text("mine")
    code, _, err = evals("--suite", suite, *servers(), "--out", "run")
    assert code == 2
    assert "name another folder" in err
    assert (here / "run" / "report.html").read_text() == "mine"


@pytest.mark.usefixtures("page")
def test_a_plain_install_ends_in_the_verdict_without_a_page(
    evals, suite, servers, here, monkeypatch
):
    for name in [name for name in sys.modules if name.partition(".")[0] == "reports"]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "altair", None)  # as if it were not installed
    code, out, _ = evals("--suite", suite, *servers(wrong={5}), "--out", "run")
    assert code == 0
    assert "PASS  no report.html in run: it needs altair; install" in out
    assert (here / "run" / "result.json").exists()
    code, _, err = evals("report", "run")
    assert code == 2
    assert "it needs altair" in err


@pytest.mark.usefixtures("page")
def test_the_page_can_be_made_again(evals, suite, servers, here):
    evals("--suite", suite, *servers(wrong={5}), "--out", "run")
    page = (here / "run" / "report.html").read_text()
    (here / "run" / "report.html").unlink()
    code, out, _ = evals("report", "run")
    assert code == 0
    assert "PASS" in out
    assert (here / "run" / "report.html").read_text() == page


def test_a_broken_folder_cannot_be_reported(evals, here):
    assert evals("report", "nowhere")[0] == 2
    (here / "run").mkdir()
    (here / "run" / "result.json").write_text("{")
    code, out, err = evals("report", "run")
    assert (code, out, err.count("\n")) == (2, "", 1)
    assert "result.json" in err


def test_an_interrupted_run_keeps_what_was_answered(suite, servers, fake_server, here):
    reached, release = threading.Event(), threading.Event()

    def behave(body, number):
        if number >= 5:
            reached.set()
            return hang()
        return solver(fake_server.completion)(body, number)

    async def hang():
        import asyncio

        while not release.is_set():  # noqa: ASYNC110 - an event of another thread
            await asyncio.sleep(0.01)
        return fake_server.completion()

    stuck = fake_server(behave)
    words = ["--suite", suite, *servers()[:2], "--arm", f"pr={stuck.url}", "--out", "run"]
    process = subprocess.Popen(
        [sys.executable, "-m", "verify.evals", *words, "--concurrency", "1"],
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        stderr=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        # tests started in the background inherit that Ctrl-C is ignored
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),  # noqa: PLW1509 - see above
    )
    try:
        assert reached.wait(60)
        process.send_signal(signal.SIGINT)
        _, err = process.communicate(timeout=60)
    finally:
        release.set()
        process.kill()
    assert process.returncode == 130
    assert "Traceback" not in err
    assert "answers are kept in run/records.sqlite" in err
    with Store.open(here / "run" / "records.sqlite") as store:
        kept = [record.arm for record in store.records()]
    assert kept.count("pr") == 5
    assert "interrupted" in json.loads((here / "run" / "manifest.json").read_text())
    assert not (here / "run" / "result.json").exists()


def test_a_store_that_cannot_be_written_is_one_line(evals, suite, servers, monkeypatch):
    def refuse(_path):
        raise sqlite3.OperationalError("disk is full")

    monkeypatch.setattr(Store, "open", refuse)
    code, _, err = evals("--suite", suite, *servers(), "--out", "run")
    assert code == 2
    assert err.startswith("verify.evals: run/records.sqlite cannot be written (disk is full)")
    assert err.count("\n") == 1
