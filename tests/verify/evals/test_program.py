import json
import os
import signal
import sqlite3
import subprocess
import sys
import threading
from pathlib import Path

import pytest
from aiohttp import web

from verify.store import Store

ROOT = Path(__file__).resolve().parents[3]
ROWS = [{"question": f"What is {i} + {i}?", "answer": f"#### {2 * i}"} for i in range(120)]


@pytest.fixture
def suite(here):
    """A user's own suite of sums, answered by servers."""
    import hashlib

    folder = here / "sums"
    folder.mkdir()
    content = "".join(json.dumps(row) + "\n" for row in ROWS).encode()
    (folder / "rows.jsonl").write_bytes(content)
    (folder / "suite.toml").write_text(
        f"""
name = "sums"
title = "Sums"
licence = "MIT"
answered_by = "server"
answer = "integer"
floor = 0.05
margin_pt = 5.0
[source]
file = "rows.jsonl"
sha256 = "{hashlib.sha256(content).hexdigest()}"
[fields]
question = "question"
target = "answer"
[prompt]
style = "completion"
shots = 2
shot_template = "Question: {{question}}\\nAnswer: {{target}}\\n"
template = "{{shots}}Question: {{question}}\\nAnswer:"
[sampling]
max_tokens = 9
stop = ["Question:"]
"""
    )
    return "./sums"


def number_of(prompt):
    return int(prompt.rpartition(" + ")[2].partition("?")[0])


def solver(completion, wrong=(), cut=()):
    """A model that adds rightly but for the given numbers."""

    def behave(body, _):
        n = number_of(body["prompt"])
        text = f" so #### {2 * n + (n in wrong)}\n"
        return completion(text=text, finish_reason="length" if n in cut else "stop")

    return behave


@pytest.fixture
def servers(fake_server):
    """Two servers that add, as arguments of the program; `wrong` and `cut` are of the second."""

    def start(**faults):
        base = fake_server(solver(fake_server.completion, wrong={5}))
        pr = fake_server(solver(fake_server.completion, **faults))
        return ["--arm", f"base={base.url}", "--arm", f"pr={pr.url}"]

    return start


def result(folder):
    return json.loads((folder / "result.json").read_text())


def test_a_run_against_two_servers(evals, suite, servers, here):
    code, out, err = evals("--suite", suite, *servers(wrong={5, 7}), "--out", "run", "--json", "r")
    assert (code, err) == (0, "")
    assert "PASS" in out
    assert "report.html" in out
    found = result(here / "run")
    assert json.loads((here / "r").read_text()) == found
    assert found["verdict"] == "pass"
    (sums,) = found["suites"]
    assert (sums["items"], sums["lost"], sums["gained"], sums["neither"]) == (118, 1, 0, 1)
    manifest = json.loads((here / "run" / "manifest.json").read_text())
    assert manifest == found["manifest"]
    assert list(manifest["arms"]) == ["base", "pr"]
    described = manifest["suites"]["sums"]
    assert [shot["row"] for shot in described["shots"]] == [1, 2]
    assert "not scored" in described["shots_note"]
    assert (described["margin_pt"], described["margin_from"]) == (5, "the suite")
    assert len(described["items"]) == 118
    assert described["sampling"] == {"temperature": 0, "max_tokens": 9, "stop": ["Question:"]}
    assert {"python", "torch", "triton", "kernelproof"} <= set(manifest["versions"])
    with Store.open(here / "run" / "records.sqlite") as store:
        records = list(store.records())
        assert [item.item for item in store.items("sums")] == described["items"]
    assert len(records) == 236
    assert {record.rule for record in records} == {"hashes"}


def test_the_worked_examples_are_not_asked(evals, suite, fake_server):
    asked = set()

    def behave(body, _):
        asked.add(number_of(body["prompt"]))
        return fake_server.completion()

    one, other = fake_server(behave), fake_server(behave)
    evals("--suite", suite, "--arm", f"base={one.url}", "--arm", f"pr={other.url}", "--out", "run")
    assert asked == set(range(2, 120))


def test_limit_takes_the_same_first_items_for_both_arms(evals, suite, servers, here):
    code, _, _ = evals("--suite", suite, *servers(), "--limit", 7, "--out", "a")
    assert code == 3
    evals("--suite", suite, *servers(), "--limit", 9, "--out", "b")
    few, more = (result(here / name)["manifest"]["suites"]["sums"]["items"] for name in "ab")
    assert len(few) == 7
    assert more[:7] == few


def test_a_worse_arm_fails(evals, suite, servers):
    code, out, _ = evals("--suite", suite, *servers(wrong=set(range(0, 120, 3))), "--out", "run")
    assert code == 1
    assert "FAIL" in out
    assert "PR is worse than base" in out


def kept(folder):
    with Store.open(folder / "records.sqlite") as store:
        return list(store.records())


def test_a_broken_arm_stops_the_run_early(evals, suite, servers, here):
    words = ["--suite", suite, *servers(wrong=set(range(120)))]
    code, out, _ = evals(*words, "--out", "run")
    assert code == 1
    assert "PR is worse than base by more than 5 points: e-value" in out
    assert "where the run stopped" in out
    (sums,) = result(here / "run")["suites"]
    looks = sums["sequential"]
    assert looks["stopped"]
    assert looks["harm"] >= 20
    assert sums["interval_method"].startswith("betting")
    assert sums["interval_pt"] == looks["confidence_sequence_pt"]
    assert sums["noninferiority"]["p"] is sums["mcnemar"] is sums["detectable_pt"] is None
    # a kernel that breaks the model stops after some 15 questions and what was in flight
    assert sum(record.arm == "pr" for record in kept(here / "run")) < 30
    code, out, _ = evals(*words, "--no-early-stop", "--out", "all")
    assert code == 1
    assert len(kept(here / "all")) == 236
    (sums,) = result(here / "all")["suites"]
    assert not sums["sequential"]["stopped"]
    assert sums["noninferiority"]["p"] > 0.9


def test_a_loss_within_the_margin_never_stops_a_run(evals, suite, servers, here):
    wrong = set(range(2, 120, 40))  # 3 of 118
    evals("--suite", suite, *servers(wrong=wrong), "--margin", "5", "--out", "run")
    assert len(kept(here / "run")) == 236


def test_repeats_are_asked_in_orders_of_their_own(evals, suite, fake_server, here):
    asked = []

    def behave(body, _):
        asked.append(number_of(body["prompt"]))
        return solver(fake_server.completion)(body, 0)

    one, other = fake_server(behave), fake_server(solver(fake_server.completion))
    arms = ["--arm", f"base={one.url}", "--arm", f"pr={other.url}"]
    words = ["--suite", suite, *arms, "--concurrency", 1, "--repeats", 2]
    code, out, _ = evals(*words, "--out", "run")
    assert code == 0
    assert "one server start an arm, so shifts of starts not controlled" in out
    found = result(here / "run")
    (sums,) = found["suites"]
    assert sums["repeats"] == {"base": 2, "pr": 2}
    assert sums["interval_method"] == "Gaffke bound on item means"
    assert sums["starts"] == {"base": 1, "pr": 1, "controlled": False}
    assert sums["noise"]["flips_between"] == 0
    described = found["manifest"]["suites"]["sums"]
    assert len(described["orders"]) == 2
    assert described["orders"][0] != described["orders"][1]
    assert sorted(described["orders"][0]) == list(range(118))
    assert found["manifest"]["rules"] == {
        "repeats": 2, "early_stop": True, "certify": False, "seed": 0, "extend_capped": None
    }  # fmt: skip
    assert described["detectable_pt"]["if no answer flips"] == pytest.approx(3.08, abs=0.01)
    by_item = {item: n for n, item in enumerate(described["items"])}
    numbers = {
        by_item[r.item]: None for r in kept(here / "run") if r.arm == "base" and not r.repeat
    }
    assert list(numbers) == described["orders"][0]
    first, second = asked[:118], asked[118:]
    assert first != second
    assert sorted(first) == sorted(second)


def test_the_seed_gives_the_order(evals, suite, servers, here):
    orders = []
    for number, seed in enumerate((0, 0, 7)):
        evals("--suite", suite, *servers(), "--seed", seed, "--out", f"run{number}")
        orders.append(result(here / f"run{number}")["manifest"]["suites"]["sums"]["orders"])
    assert orders[0] == orders[1]
    assert orders[0] != orders[2]


def test_a_certificate_may_end_a_run_as_a_pass(evals, suite, servers, here):
    words = ["--suite", suite, *servers(wrong={5}), "--certificate"]
    code, out, _ = evals(*words, "--margin", "12", "--out", "run")
    assert code == 0
    assert "ruled out by the certificate" in out
    (sums,) = result(here / "run")["suites"]
    assert sums["sequential"]["certificate"] >= 40
    assert sums["sequential"]["stopped"]
    assert len(kept(here / "run")) < 236
    code, out, _ = evals(*words, "--margin", "2", "--out", "other")
    assert code == 3
    assert "the certificate reached e-value" in out


def test_what_either_arm_left_unfinished_is_asked_again_of_both(evals, suite, fake_server, here):
    limits = {"base": [], "pr": []}

    def server(arm, cut):
        def behave(body, _):
            number, limit = number_of(body["prompt"]), body["max_tokens"]
            limits[arm].append((number, limit))
            unfinished = {number} if number in cut and limit == 9 else ()
            return solver(fake_server.completion, cut=unfinished)(body, 0)

        return f"{arm}={fake_server(behave).url}"

    arms = ["--arm", server("base", {10, 11}), "--arm", server("pr", set(range(11, 30)))]
    words = ["--suite", suite, *arms]
    assert evals(*words, "--out", "short")[0] == 3
    for seen in limits.values():
        seen.clear()
    assert evals(*words, "--extend-capped", 50, "--out", "run")[0] == 0
    (sums,) = result(here / "run")["suites"]
    assert sums["truncated"] == {"base": 0, "pr": 0}
    for seen in limits.values():
        assert len(seen) == 118 + 20
        assert {number for number, limit in seen if limit == 50} == set(range(10, 30))
    assert len(kept(here / "run")) == 236
    assert len(result(here / "run")["manifest"]["extended"]["sums"]) == 20


def test_a_smaller_margin_is_inconclusive(evals, suite, servers):
    for margin in ("1", "sums=1"):
        code, out, _ = evals(
            "--suite", suite, *servers(), "--margin", margin, "--out", f"m{margin}"
        )
        assert code == 3
        assert "a loss of 1 point is not ruled out" in out


def test_truncated_answers_are_counted_against_it(evals, suite, servers):
    code, out, _ = evals("--suite", suite, *servers(cut=set(range(10, 30))), "--out", "run")
    assert code == 3
    assert "20 truncated answers (0 of base, 20 of PR)" in out


def test_a_request_never_answered_makes_it_invalid(evals, suite, servers, fake_server, here):
    def behave(body, _):
        if number_of(body["prompt"]) == 9:
            return web.Response(status=400, text="no nines")
        return solver(fake_server.completion)(body, 0)

    broken = fake_server(behave)
    words = servers()
    code, out, _ = evals("--suite", suite, *words[:2], "--arm", f"pr={broken.url}", "--out", "run")
    assert code == 4
    assert "pr never answered 1 of 118 items: 1 http_400" in out
    (sums,) = result(here / "run")["suites"]
    assert sums["items"] == 117  # nobody was graded wrong for it
    with Store.open(here / "run" / "records.sqlite") as store:
        (failed,) = [record for record in store.records() if record.error]
    assert failed.correct is None
    assert failed.error == "http_400: no nines"


def test_layers_one_and_two_in_the_folder_count_too(evals, suite, servers, here):
    (here / "run").mkdir()
    finding = {
        "case": "T=1",
        "check": "scales",
        "layer": 2,
        "message": "3 bytes differ",
        "first_bad": None,
        "replay": "python -m verify.kernel --case T=1",
    }
    kernel = {
        "verdict": "fail",
        "layers": {"1": "pass", "2": "fail"},
        "cases": 3,
        "executed": 3,
        "findings": [finding],
        "tiers": {},
        "adequacy": {},
        "environment": {},
        "seconds": 1.0,
    }
    (here / "run" / "kernel.json").write_text(json.dumps(kernel))
    code, out, _ = evals("--suite", suite, *servers(wrong={5}), "--out", "run")
    assert code == 1
    found = result(here / "run")
    assert (found["verdict"], found["kernel"]["verdict"]) == ("fail", "fail")
    assert found["suites"][0]["verdict"] == "pass"
    lines = out.splitlines()
    assert "layer 1  pass  0 of 3 cases wrong" in lines
    assert "layer 2  fail  1 of 3 cases wrong" in lines


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


URL, OTHER = "http://127.0.0.1:9/v1", "http://127.0.0.1:10/v1"


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--arms", "base"], "name two different arms"),
        (["--arms", "base,base"], "name two different arms"),
        (["--arms", "a,b,c"], "name two different arms"),
        (["--arms", "base,../x"], "name two different arms"),
        (["--arms", "base,new"], "arm 'new' is not known"),
        (["--arm", "base"], "write NAME=URL or NAME=module:function"),
        (["--arm", "other=a:b"], "is not one of --arms base,pr"),
        (["--arm", "pr=a:b", "--arm", "pr=a:c"], "given twice"),
        (["--arm", "pr=nonsense"], "neither a URL nor module:function"),
        (["--arm", "pr=127.0.0.1:8000"], "neither a URL nor module:function"),
        (["--arm", "pr=ftp://a"], "no http address"),
        (["--arm", f"base={URL}"], "an embedded model and a server"),
        (["--arm", f"base={URL}", "--arm", f"pr={URL}"], "cannot be compared with itself"),
        (["--arm", "base=http://localhost:9", "--arm", f"pr={URL}"], "compared with itself"),
        (["--arm", f"base={URL}", "--arm", f"pr={OTHER}"], "no default suite; add --suite gsm8k"),
        (["--arm", f"base={URL}", "--arm", f"pr={OTHER}", "--suite", "mini-aime"], "kind embedded"),
        (["--suite", "gsm9k"], "choose one of"),
        (["--suite", "mini-aime", "--suite", "mini-aime"], "given twice"),
        (["--data", "x"], "write SUITE=PATH"),
        (["--data", "mini-aime=/nowhere"], "cannot be read"),
        (["--data", "x=/dev/null"], "no such suite in this run"),
        (["--data", "mini-aime=/dev/null"], "is pinned to"),
        (["--margin", "wide"], "is not a number"),
        (["--margin", "nan"], "does not lie between"),
        (["--margin", "0"], "does not lie between"),
        (["--margin", "x=2"], "no such suite in this run"),
        (["--limit", "0"], "--limit"),
        (["--limit", "x"], "--limit"),
        (["--limit", "3", "--full"], "give one of them"),
        (["--concurrency", "0"], "--concurrency"),
        (["--repeats", "0"], "--repeats"),
        (["--seed", "x"], "--seed"),
        (["--extend-capped", "64"], "no more than the 64 tokens"),
        (["--certificate", "--repeats", "2"], "judges one answer a question"),
        (["--model", "x"], "both arms are embedded"),
        (["--out", "/proc/nowhere"], "cannot be made"),
        (["--arm", "pr=nowhere:f"], "nowhere:f"),
        (["--nonsense"], "No such option"),
        (["--margin", "2", "compare", "a", "b"], "write compare first"),
        (["nonsense"], "No such command"),
    ],
)
def test_wrong_use_is_one_line(evals, here, words, message):
    code, out, err = evals(*words)
    assert (code, out) == (2, "")
    assert message in err
    assert err.count("\n") == 1
    assert not any((here / "runs").glob("*")) if (here / "runs").exists() else True


def test_servers_that_are_not_there_leave_nothing_behind(evals, suite, here):
    code, _, err = evals(
        "--suite", suite, "--arm", f"base={URL}", "--arm", f"pr={OTHER}", "--out", "run"
    )
    assert code == 2
    assert "no server answers at http://127.0.0.1" in err
    assert err.count("\n") == 1
    assert not (here / "run").exists()


@pytest.mark.parametrize(
    ("toml", "message"),
    [
        ("[arms", "verify.toml"),
        ("[arm.base]", "unknown field `arm`"),
        ("[arms.base]\nurl = 'x'", "unknown field `url`"),
        ("[arms.base]\nbase_url = 'http://a'\nkernel = 'a:b'", "both base_url and kernel"),
        ("[margins]\nmini-aime = 'x'", "Expected `float`"),
        ("[margins]\nmini-aime = 200.0", "does not lie between"),
    ],
)
def test_a_wrong_verify_toml_is_one_line(evals, here, toml, message):
    (here / "verify.toml").write_text(toml)
    code, out, err = evals("--suite", "mini-aime")
    assert (code, out, err.count("\n")) == (2, "", 1)
    assert message in err


def test_verify_toml_defines_arms_suites_and_margins(evals, suite, fake_server, here):
    one, other = (fake_server(solver(fake_server.completion)) for _ in range(2))
    (here / "verify.toml").write_text(
        f"""
[arms.old]
base_url = "{one.url}"
[arms.new]
base_url = "{other.url}"
model = "tiny"
[suites.adding]
path = "{suite}"
[margins]
sums = 4.0
"""
    )
    code, _, err = evals("--arms", "old,new", "--suite", "adding", "--out", "run")
    assert (code, err) == (0, "")
    manifest = result(here / "run")["manifest"]
    assert list(manifest["arms"]) == ["old", "new"]
    assert manifest["suites"]["sums"]["margin_pt"] == 4
    assert manifest["suites"]["sums"]["margin_from"] == "verify.toml"


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


KERNELS = """
from kernel import chain

def unrotated(x, weight, cos_sin, positions, **options):
    chain(x, weight, cos_sin, positions * 0, **options)

def refuses(*args, **options):
    from kernel.contract import ContractError
    raise ContractError("not this one")

def raises(*args, **options):
    raise RuntimeError("bad launch")
"""


@pytest.mark.parametrize(
    ("kernel", "ends"),
    [
        ("kernel:chain", (0, "a loss of 5 points is ruled out")),
        ("mine_kernels:unrotated", (1, "PR is worse than base")),
        ("mine_kernels:refuses", (4, "pr never took the fused path")),
        ("mine_kernels:raises", (4, "RuntimeError: bad launch")),
    ],
)
def test_the_embedded_model_with_a_users_kernel(evals, here, monkeypatch, kernel, ends):
    code, words = ends
    (here / "mine_kernels.py").write_text(KERNELS)
    monkeypatch.syspath_prepend(str(here))
    limit = ["--suite", "mini-gpqa", "--limit", "96"]
    found, out, err = evals(*limit, "--arm", f"pr={kernel}", "--out", "run")
    assert (found, err) == (code, "")
    assert words in out
    manifest = result(here / "run")["manifest"]
    assert manifest["arms"]["base"]["calls"].keys() == {"chain"}
    if code == 0:
        assert manifest["arms"]["pr"]["calls"]["fused"] > 0


def test_a_store_that_cannot_be_written_is_one_line(evals, suite, servers, monkeypatch):
    def refuse(_path):
        raise sqlite3.OperationalError("disk is full")

    monkeypatch.setattr(Store, "open", refuse)
    code, _, err = evals("--suite", suite, *servers(), "--out", "run")
    assert code == 2
    assert err.startswith("verify.evals: run/records.sqlite cannot be written (disk is full)")
    assert err.count("\n") == 1
