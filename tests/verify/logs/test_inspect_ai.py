import json
import sys

import numpy as np
import pytest

from verify import logs
from verify.logs import inspect_ai

zipfile = pytest.importorskip("backports.zstd.zipfile" if sys.version_info < (3, 14) else "zipfile")


def sample(key, value="C", *, epoch=1, **fields):
    message = {"role": "assistant", "content": "Yes"}
    return {
        "id": key,
        "epoch": epoch,
        "input": [{"id": "random", "role": "user", "content": f"question {key}"}],
        "target": "Yes",
        "output": {
            "choices": [{"message": message, "stop_reason": "stop"}],
            "usage": {"output_tokens": 2},
        },
        "scores": {"match": {"value": value, "answer": "Yes"}},
    } | fields


def header(*ids, epochs=1, **fields):
    run = {
        "task": "popularity",
        "model": "openai/m",
        "dataset": {"name": "popularity", "sample_ids": list(ids)},
        "config": {"epochs": epochs},
        "model_generate_config": {"temperature": 0.0, "max_connections": 10},
    }
    return {"version": 2, "status": "success", "eval": run} | fields


@pytest.fixture(params=["json", "deflate", "zstd", "unfinished"])
def write(request, tmp_path):
    """The same log in each form that inspect_ai writes."""

    def write_log(head, *samples):
        if request.param == "json":
            path = tmp_path / "log.json"
            path.write_text(json.dumps(head | {"samples": list(samples)}, indent=2))
            return path
        path = tmp_path / "log.eval"
        method = zipfile.ZIP_ZSTANDARD if request.param == "zstd" else zipfile.ZIP_DEFLATED
        with zipfile.ZipFile(path, "w", method) as archive:
            for one in samples:
                name = f"samples/{one['id']}_epoch_{one['epoch']}.json"
                archive.writestr(name, json.dumps(one))
            journal = request.param == "unfinished"
            archive.writestr("_journal/start.json" if journal else "header.json", json.dumps(head))
        return path

    return write_log


def scores(table):
    return {
        (item, int(repeat)): score
        for code, item in enumerate(table.items)
        for repeat, score in zip(
            table.repeat[table.item == code], table.score[table.item == code], strict=True
        )
    }


def test_every_form_reads_alike(write):
    log = logs.read(write(header(1, 2), sample(2, "I"), sample(1)))
    table = log.suites["popularity"]
    assert scores(table) == {("1", 0): 1, ("2", 0): 0}
    assert table.tokens.tolist() == [2, 2]
    assert table.truncated.tolist() == [0, 0]
    assert set(table.text) == set(table.answer) == {"Yes"}
    assert log.settings["sampling.temperature"] == 0
    assert log.settings["load.max_connections"] == 10
    assert not log.unknown


def test_the_real_logs(shared_data, refused):
    folder = shared_data / "paired" / "inspect_logs"
    right = {}
    for path in sorted(folder.iterdir()):
        if path.suffix in (".eval", ".json") and "dPiJifoWeEQBrfWsAopzWr" not in path.name:
            log = logs.read(path)
            (table,) = log.suites.values()
            right[path.name[11:19]] = (len(table), float(table.score.sum()))
    assert right == {"15-18-04": (10, 8), "20-28-13": (3, 2), "20-28-26": (3, 3)}
    unscored = next(folder.glob("*dPiJifoWeEQBrfWsAopzWr.eval"))
    refused(unscored, "no sample was scored", "inspect score")


def test_failed_unscored_and_missing_samples_stay_in_the_denominator(write):
    failed = sample("b", error={"message": "server gone"}, scores=None)
    log = logs.read(
        write(header("a", "b", "c", "d"), sample("a"), failed, sample("c", float("nan")))
    )
    table = log.suites["popularity"]
    assert len(table) == 4
    assert np.nansum(table.score) == 1
    by_item = {list(table.items)[table.item[row]]: error for row, error in table.errors.items()}
    assert by_item == {"b": "server gone", "c": "not scored", "d": "not in the log"}
    assert "2 failed and 1 missing samples" in log.notes[0]


def test_epochs_are_repeats(write):
    table = logs.read(
        write(header("a", epochs=2), sample("a", epoch=2, value="I"), sample("a", epoch=1))
    ).suites["popularity"]
    assert scores(table) == {("a", 0): 1, ("a", 1): 0}


@pytest.mark.parametrize(
    ("value", "score"),
    [
        ("C", 1),
        ("I", 0),
        ("P", 0.5),
        ("N", 0),
        (True, 1),
        (0, 0),
        (0.25, 0.25),
        ("0.5", 0.5),
        ("no", 0),
    ],
)
def test_its_values_as_scores(tmp_path, value, score):
    path = tmp_path / "log.json"
    path.write_text(json.dumps(header("a") | {"samples": [sample("a", value)]}))
    assert logs.read(path).suites["popularity"].score.tolist() == [score]


@pytest.mark.parametrize("value", ["Z", 7, -0.5, [1, 0]])
def test_other_values_are_refused(tmp_path, refused, value):
    path = tmp_path / "log.json"
    path.write_text(json.dumps(header("a") | {"samples": [sample("a", value)]}))
    refused(path, "sample 'a'", str(value))


def test_several_scorers_are_a_choice_to_make(tmp_path, refused):
    path = tmp_path / "log.json"
    both = {"match": {"value": "C"}, "judge": {"value": {"style": 0.5, "fact": 1}}}
    path.write_text(json.dumps(header("a") | {"samples": [sample("a", scores=both)]}))
    refused(path, "judge/fact, judge/style, match", "--metric", code=2)
    for name, score in (("match", 1), ("judge/style", 0.5), ("judge/fact", 1)):
        table = logs.read(path, choice=logs.Choice(metric=name)).suites["popularity"]
        assert table.score.tolist() == [score]


@pytest.mark.parametrize(
    ("fields", "truncated"),
    [
        ({"output": {"choices": [{"stop_reason": "max_tokens"}]}}, 1),
        ({"output": {"choices": [{"stop_reason": "model_length"}]}}, 1),
        ({"output": {"choices": [{"stop_reason": "content_filter"}]}}, 0),
        ({"output": {"choices": [{"stop_reason": "unknown"}]}}, -1),
        ({"output": {"choices": []}}, -1),
        ({"limit": {"type": "token", "limit": 5}}, 1),
    ],
)
def test_truncation(tmp_path, fields, truncated):
    path = tmp_path / "log.json"
    path.write_text(json.dumps(header("a") | {"samples": [sample("a", **fields)]}))
    assert logs.read(path).suites["popularity"].truncated.tolist() == [truncated]


def test_ids_of_messages_do_not_enter_the_prompt(tmp_path):
    prompts = []
    for key in ("one", "two"):
        path = tmp_path / f"{key}.json"
        asked = [{"id": key, "role": "user", "content": "2 + 2?"}]
        path.write_text(json.dumps(header("a") | {"samples": [sample("a", input=asked)]}))
        prompts.append(logs.read(path).suites["popularity"].prompt[0])
    assert prompts[0] == prompts[1]


def test_one_sample_twice_is_refused(tmp_path, refused):
    path = tmp_path / "log.json"
    path.write_text(json.dumps(header("a") | {"samples": [sample("a"), sample("a")]}))
    refused(path, "sample 2: item 'a'", "in sample 1")


def test_a_cut_or_damaged_log_is_refused(write, refused):
    path = write(header("a"), sample("a"))
    raw = path.read_bytes()
    for cut in (len(raw) // 3, len(raw) - 30):
        path.write_bytes(raw[:cut])
        refused(path, "copy it again" if path.suffix == ".json" else "damaged zip")
    if path.suffix == ".eval":
        path.write_bytes(raw[:60] + b"\0\0\0\0" + raw[64:])
        refused(path, "damaged zip")


def test_a_zip_of_something_else_is_refused(tmp_path, refused):
    path = tmp_path / "log.eval"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("readme", "no log")
    refused(path, "no log of inspect_ai's")


def test_wrong_types_name_the_sample(tmp_path, refused):
    path = tmp_path / "log.json"
    path.write_text(
        json.dumps(header("a") | {"samples": [sample("b"), sample("a", epoch="first")]})
    )
    refused(path, "log.json/samples[1]", "epoch is 'first'")
    path.write_text(json.dumps(header("a") | {"eval": 3}))
    refused(path, "eval is 3")


def test_zstandard_without_its_library_says_what_to_install(tmp_path, refused, monkeypatch):
    if sys.version_info >= (3, 14):
        pytest.skip("this Python reads zstandard itself")
    path = tmp_path / "log.eval"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_ZSTANDARD) as archive:
        archive.writestr("header.json", json.dumps(header("a")))
    monkeypatch.setitem(sys.modules, "backports.zstd.zipfile", None)
    assert inspect_ai.is_zip(path)
    refused(path, "zstandard", "install kernelproof[evals]", code=2)
