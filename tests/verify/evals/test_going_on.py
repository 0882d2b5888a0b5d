"""A run that is interrupted anywhere goes on to the result that it would have had."""

import json
import multiprocessing
import os
import random
import shlex
import signal
import sqlite3
import sys
import threading
from collections import Counter
from pathlib import Path

import pytest
from aiohttp import web

from tests.verify.evals.sums import kept, number_of, result, solver
from verify.command import run
from verify.evals import command
from verify.evals.going_on import only_here
from verify.store import Store


@pytest.fixture
def halved(evals, suite, fake_server):
    """A run of which the server of PR refused every question of an odd number, and its words."""
    refusing = [True]
    asked = {"base": Counter(), "pr": Counter()}

    def behaving(arm, wrong):
        def behave(body, number):
            n = number_of(body["prompt"])
            asked[arm][n] += 1
            if arm == "pr" and n % 2 and refusing[0]:
                return web.Response(status=422, text="not now")
            return solver(fake_server.completion, wrong=wrong)(body, number)

        return fake_server(behave)

    arms = [f"base={behaving('base', {5}).url}", f"pr={behaving('pr', {5, 7}).url}"]
    words = ["--suite", suite, "--arm", arms[0], "--arm", arms[1], "--out", "run"]
    code, _, err = evals(*words)
    assert code == 4
    assert "59 questions have no answer; go on with: python -m verify.evals --suite ./sums" in err
    refusing[0] = False
    return words, asked, err


def test_what_was_never_answered_is_asked_again_and_nothing_else(evals, halved, here):
    words, asked, err = halved
    before = {arm: Counter(counts) for arm, counts in asked.items()}
    told = shlex.split(err.partition("go on with: ")[2].splitlines()[0])
    assert told[3:] == [str(word) for word in words]
    code, _, err = evals(*told[3:])
    assert (code, err) == (0, "")
    assert asked["base"] == before["base"]
    assert asked["pr"] - before["pr"] == dict.fromkeys(range(3, 120, 2), 1)
    (found,) = result(here / "run")["suites"]
    assert (found["items"], found["lost"], found["gained"]) == (118, 1, 0)
    assert len(kept(here / "run")) == 236
    with Store.open(here / "run" / "records.sqlite") as store:
        tries = Counter((record.arm, record.error is None) for record in store.attempts())
    assert tries == {("base", True): 118, ("pr", True): 118, ("pr", False): 59}


def test_a_run_that_came_to_its_end_is_not_gone_on_with(evals, halved):
    words, _, _ = halved
    assert evals(*words)[0] == 0
    code, _, err = evals(*words)
    assert (code, err) == (
        2,
        "verify.evals: run holds a run already; name another folder with --out\n",
    )


@pytest.mark.parametrize(
    ("more", "named"),
    [
        (["--seed", "1"], "the seed was 0, and is 1"),
        (["--margin", "3"], "margin of sums was 5.0, and is 3.0"),
        (["--limit", "9"], "number of items of sums was 118, and is 9"),
        (["--repeats", "2"], "number of repeats of sums was 1, and is 2"),
        (["--no-early-stop"], "early stop was True, and is False"),
        (["--model", "tiny", "--concurrency", "9"], "concurrency of arm base was 4, and is 9"),
    ],
)
def test_what_differs_is_refused_by_name(evals, halved, here, more, named):
    words, asked, _ = halved
    before = {arm: Counter(counts) for arm, counts in asked.items()}
    held = {name: (here / "run" / name).read_bytes() for name in ("manifest.json", "result.json")}
    code, _, err = evals(*words, *more)
    assert (code, err.count("\n")) == (2, 1)
    assert f"cannot go on: {named}; ask as before, or name another folder with --out" in err
    assert asked == before
    assert held == {name: (here / "run" / name).read_bytes() for name in held}


def test_two_processes_are_not_at_one_run(evals, halved, here):
    words, _, _ = halved
    with only_here(here / "run"):
        code, _, err = evals(*words)
    assert (code, err.count("\n")) == (2, 1)
    assert "another process is at the run in run" in err
    assert evals(*words)[0] == 0


def test_report_of_an_interrupted_run_says_how_to_go_on(evals, halved, here):
    words, _, _ = halved
    (here / "run" / "result.json").unlink()
    code, _, err = evals("report", "run")
    assert (code, err.count("\n")) == (2, 1)
    assert "run holds an interrupted run with 177 answers; go on with: python -m" in err
    assert shlex.join(map(str, words)) in err
    (here / "run" / "manifest.json").unlink()
    assert "go on with: the command that began it, with --out run" in evals("report", "run")[2]


def test_the_embedded_model_starts_again(evals, here):
    (here / "run").mkdir()
    Store.open(here / "run" / "records.sqlite").close()
    (here / "run" / "manifest.json").write_text('{"go_on_with": null}')
    code, _, err = evals("--suite", "mini-gpqa", "--out", "run")
    assert (code, err.count("\n")) == (2, 1)
    assert "run holds a run already; name another folder with --out" in err
    assert "0 answers; go on with: its command in another folder" in evals("report", "run")[2]


def one_process(folder, words):
    """The program in a process of its own, which the test may kill."""
    os.chdir(folder)
    with Path("stderr").open("w") as errors:
        os.dup2(errors.fileno(), 2)
    sys.argv = ["verify.evals", *words]
    run(command, "verify.evals")


@pytest.mark.slow
def test_a_run_killed_thirty_times_comes_to_the_same_result(evals, suite, fake_server, here):
    dice = random.Random(5)
    running, moments = [], []
    asked = Counter()
    lock = threading.Lock()
    # starts that have imported everything already: the test is of what comes after
    starts = multiprocessing.get_context("forkserver")
    starts.set_forkserver_preload(["verify.evals", "verify.servers", "verify.launched"])

    def behaving(arm, wrong):
        def behave(body, number):
            with lock:
                asked[arm, number_of(body["prompt"])] += 1
                if [asked.total()] == moments:
                    # before, while or after the answer is taken in
                    threading.Timer(dice.choice([0, 0.001, 0.005]), running[-1].kill).start()
            return solver(fake_server.completion, wrong=wrong)(body, number)

        return fake_server(behave)

    arms = [f"base={behaving('base', {5}).url}", f"pr={behaving('pr', {5, 7}).url}"]
    words = ["--suite", suite, "--arm", arms[0], "--arm", arms[1], "--no-early-stop"]
    words += ["--concurrency", "2"]
    killed = 0
    while not (here / "run" / "result.json").exists():
        moments[:] = [asked.total() + dice.randint(1, 11)] if killed < 30 else []
        running.append(starts.Process(target=one_process, args=(here, [*words, "--out", "run"])))
        running[-1].start()
        running[-1].join(60)
        assert running[-1].exitcode in {0, -signal.SIGKILL}, (here / "stderr").read_text()
        killed += running[-1].exitcode == -signal.SIGKILL
        records = kept(here / "run")
        assert len({(r.arm, r.item) for r in records}) == len(records)
    assert killed == 30
    assert asked.total() <= 236 + 4 * killed, "no more was lost than was in flight"
    with Store.open(here / "run" / "records.sqlite") as store:
        assert Counter((r.arm, r.item) for r in store.attempts()).total() == 236

    assert evals(*words, "--out", "undisturbed")[0] == 0
    again, undisturbed = result(here / "run"), result(here / "undisturbed")
    assert again["suites"] == undisturbed["suites"]
    columns = "arm, suite, item, repeat, correct, text, answer, rule, attempt"
    texts = [
        sqlite3.connect(here / name / "records.sqlite")
        .execute(f"SELECT {columns} FROM record ORDER BY arm, item")
        .fetchall()
        for name in ("run", "undisturbed")
    ]
    assert texts[0] == texts[1]
    assert json.loads((here / "run" / "manifest.json").read_text())["go_on_with"]
