"""GPQA Diamond from a user's own file: asked, graded, and its text nowhere but in the store."""

import csv
import hashlib
import re

import pytest
from aiohttp import web

from tests.verify.evals.sums import kept, result

COLUMNS = ("Question", "Correct Answer", *(f"Incorrect Answer {n}" for n in (1, 2, 3)))
ROWS = [
    dict(
        zip(
            COLUMNS,
            [f"Zebra question {i}?", *(f"zebra {kind} {i}" for kind in "RXYZ")],
            strict=True,
        )
    )
    for i in range(40)
]


@pytest.fixture
def rows(here):
    """A file with the columns of the real one."""
    with (here / "gpqa_diamond.csv").open("w", newline="") as file:
        writer = csv.DictWriter(file, [*COLUMNS, "Subdomain"])
        writer.writeheader()
        writer.writerows(ROWS)
    return "gpqa_diamond=gpqa_diamond.csv"


def right_letter(prompt):
    return re.search(r"^([A-D])\) zebra R", prompt, re.MULTILINE)[1]


def model(completion, wrong=(), refused=()):
    """Answers rightly but for the given questions, and always repeats the question."""

    def behave(body, _):
        prompt = body["messages"][0]["content"]
        number = int(re.search(r"question (\d+)", prompt)[1])
        if number in refused:
            return web.Response(status=400, text=f"too long: {prompt}")
        letter = "E" if number in wrong else right_letter(prompt)
        text = f"{prompt}\nIt must be zebra. Answer: {letter}"
        return completion(
            choices=[{"index": 0, "message": {"content": text}, "finish_reason": "stop"}]
        )

    return behave


@pytest.mark.usefixtures("page")
def test_it_is_asked_graded_and_not_repeated(evals, rows, fake_server, here):
    base = fake_server(model(fake_server.completion, wrong={3, 4}))
    pr = fake_server(model(fake_server.completion, wrong={4, 5}, refused={6}))
    words = ["--suite", "gpqa_diamond", "--data", rows, "--unpinned", "--repeats", 1]
    arms = ["--arm", f"base={base.url}", "--arm", f"pr={pr.url}"]
    code, out, err = evals(*words, *arms, "--out", "run")
    assert code == 4, err  # one was refused
    (suite,) = result(here / "run")["suites"]
    assert (suite["lost"], suite["gained"], suite["neither"], suite["items"]) == (1, 1, 1, 39)
    by_item = {record.item: record for record in kept(here / "run") if record.arm == "base"}
    assert {record.rule for record in by_item.values()} == {"answer-is"}
    letters = {record.answer for record in by_item.values()}
    assert letters == set("ABCDE")
    evals("export", "run", "--jsonl", "out.jsonl")
    files = [path for path in here.rglob("*") if path.is_file()]
    names = {path.name for path in files}
    assert {"report.html", "comment.md", "junit.xml", "manifest.json", "out.jsonl"} <= names
    for path in files:
        if path.name not in {"gpqa_diamond.csv", "records.sqlite"}:
            assert b"ebra" not in path.read_bytes(), path.name
    assert "ebra" not in out + err


def test_both_arms_are_shown_the_same_order_of_options(evals, rows, fake_server, here):
    servers = [fake_server(model(fake_server.completion)) for _ in range(2)]
    words = ["--suite", "gpqa_diamond", "--data", rows, "--unpinned", "--limit", 9]
    arms = [
        f"--arm={name}={server.url}" for name, server in zip(("base", "pr"), servers, strict=True)
    ]
    evals(*words, *arms, "--out", "run")
    asked = [{r["messages"][0]["content"] for r in server.requests} for server in servers]
    assert asked[0] == asked[1]
    assert all(len(prompts) == 9 for prompts in asked)  # five times each, in the same words
    assert all(len(server.requests) == 45 for server in servers)
    described = result(here / "run")["manifest"]["suites"]["gpqa_diamond"]
    content = (here / "gpqa_diamond.csv").read_bytes()
    assert described["data_sha256"] == hashlib.sha256(content).hexdigest()
    assert described["redact"]


def test_the_pinned_file_is_asked_for(evals, rows):
    arms = ["--arm", "base=http://127.0.0.1:9", "--arm", "pr=http://127.0.0.1:10"]
    code, _, err = evals("--suite", "gpqa_diamond", "--data", rows, *arms)
    assert (code, err.count("\n")) == (2, 1)
    assert "is pinned to 41d1213cd7a4" in err
