"""verify.toml: what each arm is, and what the program makes of it."""

import json
import os
import threading
from pathlib import Path

import pytest

from tests.verify.evals.sums import kept, result, solver

KEY = "sk-0123456789abcdef"
URL, OTHER = "http://127.0.0.1:9/v1", "http://127.0.0.1:10/v1"
BOTH = f"[arms.base]\nbase_url = '{URL}'\n{{base}}\n[arms.pr]\nbase_url = '{OTHER}'\n{{pr}}\n"


@pytest.mark.parametrize(
    ("of_arms", "message"),
    [
        (("launch = ['a']", ""), "arm base has launch and arm pr has none"),
        (("", "launch = ['a']"), "arm pr has launch and arm base has none"),
        (("launch = 'a'", ""), "Expected `array`"),
        (("headers = {A = '$NO_SUCH_KEY'}", ""), "needs environment variable NO_SUCH_KEY"),
        (("headers = {A = '$'}", ""), "holds a $ that names no variable"),
        (("", "headers = {Authorization = 'Bearer abc'}"), "arm pr: header Authorization holds a"),
        (('headers = {A = "a\\nb"}', ""), "control characters"),
        (("kernel = 'a:b'", ""), "both base_url and kernel"),
        (("ready_s = 0", ""), "give seconds"),
        (("ready_s = nan", ""), "give seconds"),
        (("port = 5", ""), "unknown field `port`"),
        (("commit = 'abc'\nsource = 'ROOT'", ""), "but its source"),
    ],
)
def test_what_does_not_go_together_is_one_line(evals, suite, here, of_arms, message):
    root = str(Path(__file__).resolve().parents[3])
    base, pr = of_arms
    toml = BOTH.format(base=base.replace("ROOT", root), pr=pr)
    (here / "verify.toml").write_text(toml)
    code, out, err = evals("--suite", suite, "--out", "run")
    assert (code, out, err.count("\n")) == (2, "", 1)
    assert message in err
    assert not (here / "run" / "records.sqlite").exists()


@pytest.mark.parametrize(
    ("toml", "message"),
    [
        (f"[arms.base]\nbase_url = ['{URL}', '{URL}']", "same base_url twice"),
        (
            f"[arms.base]\nbase_url = ['{URL}', '{OTHER}']\n[arms.pr]\nbase_url = ['{OTHER}']",
            f"are both {OTHER}",
        ),
        (f"[arms.base]\nbase_url = ['{URL}', '{OTHER}']\nlaunch = ['a']", "starts one server"),
        ("[arms.base]\nlaunch = ['a']", "has launch but no base_url"),
        ("[arms.pr]\nheaders = {A = 'b'}", "has headers but no base_url"),
    ],
)
def test_addresses_that_do_not_go_together_are_one_line(evals, suite, here, toml, message):
    (here / "verify.toml").write_text(toml)
    code, _, err = evals("--suite", suite)
    assert (code, err.count("\n")) == (2, 1)
    assert message in err


@pytest.mark.parametrize(
    "url", [f"http://user:{KEY}@127.0.0.1:9", f"http://127.0.0.1:9/v1?api_key={KEY}"]
)
def test_a_key_in_an_address_is_refused_and_not_repeated(evals, suite, here, url):
    (here / "verify.toml").write_text(f"[arms.base]\nbase_url = '{url}'")
    for words in ([], ["--arm", f"pr={url}"]):
        code, out, err = evals("--suite", suite, *words)
        assert code == 2
        assert "under headers in verify.toml" in err
        assert KEY not in out + err


def test_an_address_on_the_command_line_keeps_what_verify_toml_says(
    evals, suite, fake_server, here
):
    one, other = (fake_server(solver(fake_server.completion)) for _ in range(2))
    (here / "verify.toml").write_text(
        BOTH.format(base="body = {top_k = 1}\ncommit = 'a1'", pr="body = {top_k = 1}")
    )
    arms = ["--arm", f"base={one.url}", "--arm", f"pr={other.url}"]
    code, out, _ = evals("--suite", suite, *arms, "--limit", 9, "--out", "run")
    assert code == 3, out
    assert {request["top_k"] for request in one.requests + other.requests} == {1}
    arms = result(here / "run")["manifest"]["arms"]
    assert arms["base"]["commit"] == "a1"
    assert arms["base"]["base_url"] == one.url


def test_an_undeclared_difference_is_invalid_with_its_name(evals, suite, fake_server, here):
    one, other = (
        fake_server(solver(fake_server.completion), pages={"/version": {"version": version}})
        for version in "12"
    )
    (here / "verify.toml").write_text(
        f"[arms.base]\nbase_url = '{one.url}'\nbody = {{top_k = 1}}\n"
        f"[arms.pr]\nbase_url = '{other.url}'\nbody = {{top_k = 2}}\n"
    )
    words = ["--suite", suite, "--limit", 9]
    code, out, _ = evals(*words, "--out", "run")
    assert code == 4
    assert "base and pr differ in body.top_k: 1 against 2" in out
    assert "base and pr differ in says.version.version: '1' against '2'" in out
    code, _, _ = evals(*words, "--differ", "body", "--out", "again")
    assert code == 4
    code, out, _ = evals(*words, "--differ", "body", "--differ", "says.version", "--out", "told")
    assert code == 3, out
    assert result(here / "told")["manifest"]["declared_to_differ"] == ["body", "says.version"]
    toml = (here / "verify.toml").read_text()
    (here / "verify.toml").write_text(f"differ = ['top_k', 'version']\n{toml}")
    assert evals(*words, "--out", "file")[0] == 3


def test_several_servers_of_an_arm_share_its_questions(evals, suite, fake_server, here):
    many = [fake_server(solver(fake_server.completion)) for _ in range(3)]
    base = fake_server(solver(fake_server.completion))
    urls = json.dumps([server.url for server in many])
    (here / "verify.toml").write_text(
        f"[arms.base]\nbase_url = '{base.url}'\n[arms.pr]\nbase_url = {urls}\n"
    )
    words = ["--suite", suite, "--differ", "servers", "--concurrency", 12]
    code, out, _ = evals(*words, "--out", "run")
    assert code == 0, out
    shares = [len(server.requests) for server in many]
    assert sum(shares) == 118
    assert min(shares) >= 10


def test_every_load_is_a_suite_of_its_own(evals, suite, fake_server, here):
    flying, most = 0, []
    lock = threading.Lock()

    async def answer(body):
        import asyncio

        nonlocal flying
        with lock:
            flying += 1
            most.append(flying)
        await asyncio.sleep(0.001)
        with lock:
            flying -= 1
        return solver(fake_server.completion)(body, 0)

    one = fake_server(lambda body, _: answer(body))
    other = fake_server(solver(fake_server.completion))
    arms = ["--arm", f"base={one.url}", "--arm", f"pr={other.url}"]
    code, out, _ = evals("--suite", suite, *arms, "--concurrency", "1,8", "--out", "run")
    assert code == 0
    found = result(here / "run")
    assert [each["suite"] for each in found["suites"]] == ["sums@1", "sums@8"]
    assert "sums@1 " in out
    assert "sums@8 " in out
    assert max(most[:118]) == 1
    assert 1 < max(most[118:]) <= 8
    assert len(kept(here / "run")) == 4 * 118


@pytest.mark.parametrize("loads", ["0", "4097", "4,4", "4,", "x", ""])
def test_a_load_that_is_none_is_one_line(evals, loads):
    code, _, err = evals("--concurrency", loads)
    assert (code, err.count("\n")) == (2, 1)
    assert "like 4,64" in err


def test_a_required_path_must_be_named_and_seen(evals, suite, fake_server, here):
    counts = iter(range(0, 100, 7))
    pages = {"/metrics": lambda _: f"fused_total {next(counts)}"}
    one = fake_server(solver(fake_server.completion))
    other = fake_server(solver(fake_server.completion), pages=pages)
    words = ["--suite", suite, "--limit", 9, "--require-path", "fused"]
    toml = f"[arms.base]\nbase_url = '{one.url}'\n[arms.pr]\nbase_url = '{other.url}'\n"
    (here / "verify.toml").write_text(toml)
    code, _, err = evals(*words)
    assert code == 2
    assert "does not say where that is seen" in err
    metrics = other.url.replace("/v1", "/metrics")
    (here / "verify.toml").write_text(f"{toml}path = {{fused = '{metrics}'}}\n")
    assert evals(*words, "--out", "seen")[0] == 3
    evidence = result(here / "seen")["manifest"]["arms"]["pr"]["path_evidence"]
    assert evidence["fused"]["count"] == 7
    (here / "verify.toml").write_text(f"{toml}path = {{fused = 'traces/*.json'}}\n")
    code, out, _ = evals(*words, "--out", "missed")
    assert code == 4
    assert "pr was never seen to take path fused (fused: traces/*.json)" in out


def launches(**changes):
    """What `verify.bench trace` leaves in a folder."""
    rank = {"file": "a", "by_path": {"mine": 3}}
    pr = {"chains": 0, "fused": 3, "launches": 9, "ranks": [rank]}
    return {
        "kind": "kernelproof-launches", "version": 1, "verdict": "pass", "reason": "ran in 3 calls",
        "arms": {"base": {**pr, "ranks": []}, "pr": pr}, **changes,
    }  # fmt: skip


@pytest.mark.parametrize(
    ("path", "changes", "message"),
    [
        ("mine", {}, ""),
        ("fused", {}, ""),
        ("other", {}, "never seen to take path other (evidence.json: ran in 3 calls)"),
        ("mine", {"verdict": "fail", "reason": "never ran"}, "(evidence.json: never ran)"),
        ("mine", {"verdict": "inconclusive"}, "never seen to take path mine"),
    ],
)
def test_launches_in_the_folder_show_a_required_path(
    evals, suite, servers, here, *, path, changes, message
):
    (here / "run").mkdir()
    (here / "run" / "evidence.json").write_text(json.dumps(launches(**changes)))
    words = ["--suite", suite, "--limit", 9, "--require-path", path, "--out", "run"]
    code, out, _ = evals(*words, *servers())
    assert code == (4 if message else 3)
    assert message in out
    assert ("never seen" in out) == bool(message)


def test_launches_may_be_shown_after_the_answers(evals, suite, servers, here):
    words = ["--suite", suite, "--limit", 9, "--require-path", "mine", "--out", "run", *servers()]
    (here / "run").mkdir()
    evidence = here / "run" / "evidence.json"
    evidence.write_text(json.dumps(launches(verdict="inconclusive")))
    assert evals(*words)[0] == 4
    answers = kept(here / "run")
    evidence.write_text(json.dumps(launches()))
    assert evals(*words)[0] == 3
    assert kept(here / "run") == answers


@pytest.mark.parametrize(
    "content", ["", "[]", "{}", json.dumps(launches(version=2)), json.dumps(launches(kind="x"))]
)
def test_what_is_no_evidence_is_one_line(evals, suite, servers, here, content):
    (here / "run").mkdir()
    (here / "run" / "evidence.json").write_text(content)
    words = ["--suite", suite, "--limit", 9, "--require-path", "mine", "--out", "run"]
    code, _, err = evals(*words, *servers())
    assert (code, err.count("\n")) == (2, 1)
    assert "is not evidence of verify.bench trace" in err


@pytest.mark.usefixtures("second_opinions")
def test_questions_whose_difference_hangs_on_the_grader_are_listed(evals, suite, fake_server, here):
    pytest.importorskip("math_verify")

    def behave(body, _):
        answer = solver(fake_server.completion)(body, 0)
        if "What is 8 + 8" in body["prompt"]:
            answer["choices"][0]["text"] = "so \\boxed{2^{4}}"  # right, but no plain number
        return answer

    one, other = fake_server(solver(fake_server.completion)), fake_server(behave)
    arms = ["--arm", f"base={one.url}", "--arm", f"pr={other.url}"]
    code, out, err = evals("--suite", suite, *arms, "--out", "run")
    assert code == 0, err
    (hangs,) = {r.item for r in kept(here / "run") if r.rule == "boxed"}
    assert result(here / "run")["extractors"]["sums"] == {
        "by": "math-verify", "pairs": 1, "items": [hangs]
    }  # fmt: skip
    assert (
        f"difference on 1 question depends on who grades (math-verify disagrees on {hangs})" in out
    )


def test_an_unpinned_file_is_told_in_the_manifest(evals, suite, servers, here):
    rows = (here / "sums" / "rows.jsonl").read_text().splitlines()[:60]
    (here / "mine.jsonl").write_text("\n".join(rows))
    words = ["--suite", suite, *servers(wrong={5}), "--data", "./sums=mine.jsonl"]
    code, _, err = evals(*words)
    assert code == 2
    assert "accept this one with --unpinned" in err
    evals(*words, "--unpinned", "--out", "run")
    described = result(here / "run")["manifest"]["suites"]["sums"]
    assert described["items_asked"] == 58
    assert not described["data_pinned"]
    evals("--suite", suite, *servers(wrong={5}), "--out", "pinned")
    assert result(here / "pinned")["manifest"]["suites"]["sums"]["data_pinned"]


@pytest.mark.usefixtures("page")
def test_redaction_is_the_suites_default_and_can_be_asked_for(evals, suite, servers, here):
    toml = here / "sums" / "suite.toml"
    toml.write_text(toml.read_text().replace("[source]", "redact = true\n[source]", 1))
    words = ["--suite", suite, *servers(wrong={5, 7})]
    for name, option, redacted in (("a", [], True), ("b", ["--no-redact"], False)):
        evals(*words, *option, "--out", name)
        assert result(here / name)["manifest"]["suites"]["sums"]["redact"] == redacted
        assert ("What is 7 + 7?" in (here / name / "report.html").read_text()) != redacted


def test_a_suite_has_its_own_number_of_repeats(evals, suite, servers, here):
    toml = here / "sums" / "suite.toml"
    toml.write_text(toml.read_text().replace("[source]", "repeats = 2\n[source]", 1))
    words = ["--suite", suite, *servers(wrong={5}), "--limit", 9]
    for name, option, repeats in (
        ("a", [], 2),
        ("b", ["--repeats", "3"], 3),
        ("c", ["--certificate"], 1),
    ):
        evals(*words, *option, "--out", name)
        assert len(result(here / name)["manifest"]["suites"]["sums"]["orders"]) == repeats


@pytest.mark.usefixtures("page")
def test_keys_stand_nowhere(evals, suite, here, monkeypatch):
    import sys

    from tests.verify.test_launched import SCRIPT, free_port

    monkeypatch.setenv("PR_KEY", KEY)
    seen = []
    toml = ""
    for name, header in (("base", "Bearer $PR_KEY"), ("pr", "Bearer ${PR_KEY}")):
        port = free_port()
        command = [sys.executable, "-S", str(SCRIPT), str(port), "echo", "info=5"]
        toml += (
            f"[arms.{name}]\nbase_url = 'http://127.0.0.1:{port}'\n"
            f"headers = {{Authorization = '{header}'}}\nlaunch = {json.dumps(command)}\n"
        )
    (here / "verify.toml").write_text(toml)
    watching, over = threading.Event(), threading.Event()

    def watch():
        while not over.wait(0.02):
            for process in Path("/proc").glob("[0-9]*/cmdline"):
                try:
                    words = process.read_bytes()
                except OSError:
                    continue
                watching.set()
                if KEY.encode() in words:
                    seen.append(words)

    watcher = threading.Thread(target=watch)
    watcher.start()
    try:
        code, out, err = evals("--suite", suite, "--limit", 30, "--out", "run")
    finally:
        over.set()
        watcher.join()
    assert code == 4  # a third of the questions is refused, in words that hold the key
    assert watching.is_set()
    assert not seen
    assert KEY not in out + err
    files = [path for path in here.rglob("*") if path.is_file()]
    assert {"records.sqlite", "manifest.json", "result.json", "report.html"} <= {
        path.name for path in files
    }
    for path in files:
        assert KEY.encode() not in path.read_bytes(), path
    texts = [r.text or r.error for r in kept(here / "run")]
    assert sum("***" in text for text in texts) == len(texts)
    logs = list((here / "run").glob("*-server-*.log"))
    assert len(logs) == 2
    assert all(
        "asked with Bearer ***" in log.read_text() or "asked with ***" in log.read_text()
        for log in logs
    )
    assert os.environ["PR_KEY"] == KEY
