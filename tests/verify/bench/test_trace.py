from __future__ import annotations

import gzip
import json
import random

import pytest
from click.testing import CliRunner

from tests.verify.bench import traces
from tests.verify.bench.traces import CHAIN, FUSED, GEMM, QUANT, ROPE
from verify.bench import census, chrome, command, paths
from verify.command import UserError

KERNELS = paths.read()


def count(tmp_path, events, name="rank.json", kernels=KERNELS):
    return census.read(traces.write(tmp_path / name, events), kernels)


@pytest.mark.parametrize("name", ["rank0.json", "rank0.trace.json.gz"])
def test_calls_of_both_paths_are_counted(name, tmp_path):
    found = count(tmp_path, traces.server(steps=3, layers=5, fused=4), name)
    assert (found.fused, found.chains) == (12, 3)
    assert (found.fused_launches, found.chain_launches) == (12, 9)
    assert found.launches == 3 * (4 * 4 + 6)
    assert found.rows == {24: 12}
    assert found.by_path == {"fused SGLang": 12, "chain SGLang": 3}


def test_order_in_the_file_does_not_matter(tmp_path):
    events = traces.server(steps=2, layers=4, fused=1)
    shuffled = random.Random(1).sample(events, len(events))
    one, other = count(tmp_path, events, "a.json"), count(tmp_path, shuffled, "b.json")
    assert (one.fused, one.chains, one.rows) == (other.fused, other.chains, other.rows)


@pytest.mark.parametrize(
    ("names", "chains"),
    [
        (CHAIN, 1),
        (CHAIN * 3, 3),
        ((ROPE, ROPE, GEMM, QUANT), 1),
        ((ROPE, GEMM, "splitKreduce_kernel<32, 16>", QUANT), 1),
        ((ROPE, GEMM), 0),
        ((GEMM, QUANT), 0),
        ((ROPE, QUANT, GEMM), 0),
        ((ROPE, "elementwise", GEMM, QUANT), 0),
        ((traces.FORWARD_ROPE, GEMM, QUANT), 0),
        (("splitKreduce_kernel", GEMM, QUANT), 0),
    ],
)
def test_a_chain_is_its_launches_one_after_the_other(names, chains, tmp_path):
    found = count(tmp_path, traces.launches(names))
    assert found.chains == chains
    # what stands between is a launch of the call
    extra = sum("splitK" in name for name in names)
    assert found.chain_launches == chains * 3 + extra * chains


def test_streams_and_devices_are_apart(tmp_path):
    halves = [*traces.launches(CHAIN[:2]), *traces.launches(CHAIN[2:], 2.0, stream=8)]
    assert count(tmp_path, halves).chains == 0
    beside = [*traces.launches(CHAIN), *traces.launches(["elementwise"] * 3, 0.2, stream=8)]
    assert count(tmp_path, beside).chains == 1
    ranks = [*traces.launches(CHAIN), *traces.launches(CHAIN, 0.5, device=1)]
    assert count(tmp_path, ranks).chains == 2


def test_t_comes_from_the_innermost_annotation_of_the_same_device(tmp_path):
    events = [
        *traces.launches([FUSED] * 6),
        traces.note("execute_context_2(9)_generation_3(7)", -1, 3.5),  # 16 rows: launches 0 to 2
        traces.note("T=8", 0.9, 0.5),  # around launch 1
        traces.note("T=5", 3.5, 1, device=1),
        traces.note("T=6", 3.5, 1, cat="user_annotation"),  # of the CPU: when it was asked for
        traces.note("prefill", 4.5, 1),
    ]
    found = count(tmp_path, events)
    assert found.rows == {8: 1, 16: 2}
    assert found.rows_unknown == 3


def test_an_array_of_events_is_a_trace_too(tmp_path):
    path = tmp_path / "array.json"
    path.write_text("\n" + json.dumps(list(traces.launches(CHAIN))))
    assert census.read(path, KERNELS).chains == 1


MALFORMED = {
    "empty": b"",
    "text": b"hello",
    "cut": json.dumps(traces.document(traces.server(2, 2))).encode()[:-40],
    "gzip cut": gzip.compress(json.dumps(traces.document(traces.server(2, 2))).encode())[:-30],
    "gzip spoilt": gzip.compress(b"{" + b"x" * 999)[:14] + b"\0" * 40,
    "no events": b'{"schemaVersion": 1}',
    "events are words": b'{"traceEvents": ["a"]}',
    "nothing in it": b'{"traceEvents": []}',
    "no time": b'{"traceEvents": [{"ph": "X", "cat": "kernel", "name": "k"}]}',
    "time is a word": b'{"traceEvents": [{"ph":"X","cat":"kernel","name":"k","ts":"1"}]}',
    "no name": b'{"traceEvents": [{"ph": "X", "cat": "kernel", "ts": 1}]}',
    "NaN": b'{"traceEvents": [{"ph": "X", "cat": "kernel", "name": "k", "ts": NaN}]}',
    "number without end": b'{"traceEvents": [{"ts": ' + b"1" * 9999 + b"}]}",
    "more than an object": b'{"traceEvents": [{}] "more"}',
    "key without value": b'{"traceEvents"}',
    "deep": b'{"traceEvents": ' + b"[" * 100_000,
}


@pytest.mark.parametrize("content", MALFORMED.values(), ids=MALFORMED)
def test_malformed_traces_are_one_line(content, tmp_path):
    path = tmp_path / "bad.json"
    path.write_bytes(content)
    with pytest.raises(UserError, match=r"bad\.json") as error:
        census.read(path, KERNELS)
    assert error.value.exit_code == 2
    assert "\n" not in str(error.value)


def test_a_missing_file_is_one_line(tmp_path):
    with pytest.raises(UserError, match="No such file"):
        census.read(tmp_path / "none.json", KERNELS)


def test_kernels_of_ones_own(tmp_path):
    own = tmp_path / "kernels.toml"
    own.write_text(
        "rows = ['bs=(\\d+)']\n[[path]]\nkind = 'fused'\nname = 'mine'\nlaunches = ['mine']\n"
        "[[path]]\nkind = 'chain'\nname = 'theirs'\nlaunches = ['one', 'two']\n"
    )
    events = [*traces.launches(["mine", "one", "two"]), traces.note("step[bs=4]", -1, 9)]
    found = count(tmp_path, events, kernels=paths.read(own))
    assert found.by_path == {"fused mine": 1, "chain theirs": 1}
    assert found.rows == {4: 1}


@pytest.mark.parametrize(
    "text",
    [
        "[[path]]\nkind = 'other'\nname = 'x'\nlaunches = ['a']\n",
        "[[path]]\nkind = 'fused'\nname = 'x'\nlaunches = []\n",
        "[[path]]\nkind = 'fused'\nname = 'x'\nlaunches = ['(']\n",
        "[[path]]\nkind = 'fused'\nname = 'x'\nlaunches = ['a']\nunknown = 1\n",
        "path = 3\n",
        "[[[",
    ],
)
def test_kernels_that_are_malformed_are_one_line(text, tmp_path):
    own = tmp_path / "kernels.toml"
    own.write_text(text)
    with pytest.raises(UserError, match=r"--kernels .*kernels\.toml") as error:
        paths.read(own)
    assert "\n" not in str(error.value)


def run(*words):
    return CliRunner().invoke(command, ["trace", *map(str, words)], standalone_mode=False)


def ranks(tmp_path, arm, count=2, **options):
    return [
        traces.write(tmp_path / f"{arm}-TP-{n}.trace.json.gz", traces.server(**options))
        for n in range(count)
    ]


def test_the_sources_figures(tmp_path):
    """SGLang #39957: in 20 steps of 43 layers 40 took the fused kernel, on each of the ranks."""
    base, pr = ranks(tmp_path, "base", 1), ranks(tmp_path, "pr", 1, fused=40)
    found = run("--base", *base, "--pr", *pr, "--out", tmp_path)
    assert found.return_value == "pass"
    assert "800 chains replaced, 1,600 launches fewer, 60 chains kept" in found.output
    assert "T=24: 800" in found.output
    made = json.loads((tmp_path / "evidence.json").read_text())
    assert (made["kind"], made["version"]) == ("kernelproof-launches", 1)
    assert (made["replaced"], made["launches_fewer"], made["kept"]) == (800, 1600, 60)
    assert made["rows"] == {"24": 800}
    assert made["arms"]["pr"]["ranks"][0]["file"] == pr[0].name


def test_every_rank_must_show_it(tmp_path):
    base = ranks(tmp_path, "base", 2, steps=2)
    pr = [*ranks(tmp_path, "pr", 1, steps=2, fused=9), base[1]]
    found = run("--base", *base, "--pr", *pr)
    assert found.return_value == "fail"
    assert "PR never took the fused path in base-TP-1.trace.json.gz" in found.output


@pytest.mark.parametrize(
    ("base", "pr", "verdict", "says"),
    [
        ({}, {}, "fail", "PR never took the fused path"),
        ({"fused": 1}, {"fused": 9}, "invalid", "base took the fused path too"),
        ({"layers": 0}, {"fused": 9}, "invalid", "no chain is recognised in base"),
        ({}, {"fused": 9, "steps": 3}, "inconclusive", "PR has 129 calls and base 86"),
    ],
)
def test_other_verdicts(base, pr, verdict, says, tmp_path):
    events = {"steps": 2} | base
    one = traces.write(
        tmp_path / "base.json", [*traces.server(**events), *traces.launches(["x"], 1e6)]
    )
    other = traces.write(tmp_path / "pr.json", traces.server(**({"steps": 2} | pr)))
    found = run("--base", one, "--pr", other)
    assert found.return_value == verdict
    assert says in found.output


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["--base", "a", "b", "--pr", "c"], "--base names 2 files and --pr 1"),
        (["--pr", "c"], "--base names 0 files"),
        (["--base", "a", "--pr", "b", "--arm", "pr=x:y"], "--arm is of the embedded model"),
        (["--arm", "other=x:y"], "--arm 'other=x:y'"),
        (["--arm", "pr"], "--arm 'pr'"),
    ],
)
def test_wrong_words_are_one_line(words, says):
    assert says in str(run(*words).exception)


def test_the_embedded_model_takes_the_fused_path_in_each_decode_step(monkeypatch, tmp_path):
    """On a CPU calls are counted, by layer and step; launches cannot be seen."""
    import torch

    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    found = run("--steps", "1", "--arm", "pr=kernel:chain", "--json", tmp_path / "e.json")
    assert found.return_value == "pass"
    made = json.loads((tmp_path / "e.json").read_text())
    layers, steps = 3, 1
    assert (made["replaced"], made["kept"]) == (layers * steps, layers)  # kept: the prompts
    assert made["launches_fewer"] is None
    assert made["rows"] == {"32": 3}
    assert "launches cannot be seen here" in found.output


@pytest.mark.parametrize("chunk", [1, 2, 3, 7, 64])
def test_events_are_the_same_wherever_the_text_is_cut(chunk, tmp_path, monkeypatch):
    """Against the standard parser, numbers, escapes and signs split by a chunk's end."""
    document = traces.document(
        [*traces.server(1, 2), {"name": 'a "b" \\ \u2192 ]}', "ts": -12.5e3}]
    )
    document |= {"deviceProperties": [], "nothing": {}, "displayTimeUnit": "ms", "version": 123}
    path = tmp_path / "trace.json"
    path.write_text(json.dumps(document, indent=1))
    monkeypatch.setattr(chrome, "_CHUNK", chunk)
    assert list(chrome.events(path)) == document["traceEvents"]


def test_names_that_are_no_text_do_not_end_a_trace(tmp_path):
    path = tmp_path / "trace.json"
    path.write_bytes(b'{"traceEvents": [{"ph": "X", "cat": "kernel", "name": "\xff", "ts": 1}]}')
    assert census.read(path, KERNELS).launches == 1
