"""A suite of sums, models that add, and what a run of them left behind."""

from __future__ import annotations

import hashlib
import json

from verify.store import Store

ROWS = [{"question": f"What is {i} + {i}?", "answer": f"#### {2 * i}"} for i in range(120)]
TOML = """
name = "sums"
title = "Sums"
licence = "MIT"
answered_by = "server"
answer = "integer"
floor = 0.05
margin_pt = 5.0
[source]
file = "rows.jsonl"
sha256 = "SHA"
[fields]
question = "question"
target = "answer"
[prompt]
style = "completion"
shots = 2
shot_template = "Question: {question}\\nAnswer: {target}\\n"
template = "{shots}Question: {question}\\nAnswer:"
[sampling]
max_tokens = 9
stop = ["Question:"]
"""


def write_suite(folder, rows=ROWS, edit=lambda toml: toml):
    """Make it a suite's folder; `edit` changes suite.toml."""
    folder.mkdir()
    content = "".join(json.dumps(row) + "\n" for row in rows).encode()
    (folder / "rows.jsonl").write_bytes(content)
    (folder / "suite.toml").write_text(
        edit(TOML).replace("SHA", hashlib.sha256(content).hexdigest())
    )


def number_of(prompt):
    """The number that a prompt asks to double."""
    return int(prompt.rpartition(" + ")[2].partition("?")[0])


def solver(completion, wrong=(), cut=()):
    """A model that adds rightly but for the given numbers."""

    def behave(body, _):
        n = number_of(body["prompt"])
        text = f" so #### {2 * n + (n in wrong)}\n"
        return completion(text=text, finish_reason="length" if n in cut else "stop")

    return behave


def result(folder):
    """What a run found."""
    return json.loads((folder / "result.json").read_text())


def kept(folder):
    """The records of a run."""
    with Store.open(folder / "records.sqlite") as store:
        return list(store.records())
