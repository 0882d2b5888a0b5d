"""Every log with any value replaced, cut anywhere, or damaged anywhere is read or refused.

Refused means one line that names the file, exit code 2 or 4, and nothing written.
"""

from __future__ import annotations

import copy
import io
import json
import random
import zipfile
from pathlib import Path

import pytest

from verify import logs
from verify.command import UserError
from verify.logs import inspect_ai as reader
from verify.pairs import scores
from verify.store import FILE_NAME, Record, Store

STAMP = "2026-12-01T05-05-24.548074"
ODD = [None, True, -1, 2**31, 10**400, 1.5, float("nan"), float("inf"), "", "\ud800", "x" * 70, [],
       [None], [[1]], {}, {"a": 1}, {"value": {}}]  # fmt: skip
CHOICE = logs.Choice(filter="strict")


def own():
    fields = {"suite": "s", "truncated": False, "error": None, "completion_tokens": 3}
    hashes = {"prompt_sha256": "a" * 64, "target_sha256": "b" * 64}
    return {
        "log.jsonl": [
            {"item": f"q{n}", "repeat": r, "correct": n != r} | fields | hashes
            for n in range(2)
            for r in range(2)
        ]
    }


def lm_eval():
    rows = [
        {"doc_id": n, "doc_hash": f"d{n}", "prompt_hash": f"p{n}", "target_hash": f"t{n}",
         "filter": "strict", "metrics": ["exact_match"], "resps": [["4"]], "filtered_resps": ["4"],
         "exact_match": 1.0}
        for n in range(2)
    ]  # fmt: skip
    results = {
        "config": {"model_args": {"base_url": "u"}, "gen_kwargs": {}, "fewshot_seed": 1},
        "configs": {"task": {"generation_kwargs": {"temperature": 0.0}, "num_fewshot": 5}},
        "versions": {"task": 3},
        "model_name": "m",
    }
    return {f"samples_task_{STAMP}.jsonl": rows, f"results_{STAMP}.json": results}


def sgl_eval():
    row = {"id": "q", "problem": "2 + 2?", "expected_answer": "4", "generation": "4",
           "finish_reason": "stop", "symbolic_correct": True, "num_generated_tokens": 3,
           "predicted_answer": "4", "generation_start_time": 1.0,
           "generation_end_time": 2.0}  # fmt: skip
    metrics = {"name": "s", "model": "m", "gen": {"temperature": 0.0, "system_message": "Hi."},
               "prompt": {"yaml": "x"}, "partial": True, "completed_samples": 2}  # fmt: skip
    again = row | {"generation_start_time": 3.0}
    return {"output-rs0.jsonl": [row], "output-rs1.jsonl": [again], "metrics.json": metrics}


def inspect_ai():
    samples = [
        {"id": n, "epoch": 1, "input": [{"role": "user", "content": "q"}], "target": "4",
         "output": {"choices": [{"message": {"content": "4"}, "stop_reason": "stop"}],
                    "usage": {"output_tokens": 3}},
         "scores": {"match": {"value": "C", "answer": "4"}}, "error": None, "limit": None}
        for n in range(2)
    ]  # fmt: skip
    run = {"task": "s", "model": "m", "dataset": {"name": "s", "sample_ids": [0, 1]},
           "config": {"epochs": 1}, "model_generate_config": {"temperature": 0.0},
           "packages": {}}  # fmt: skip
    plan = {"steps": [{"solver": "generate", "params": {}}], "config": {"max_tokens": 9}}
    return {"log.json": {"status": "success", "eval": run, "plan": plan, "samples": samples}}


def evalscope():
    reviews = [
        {"index": n, "target": "4", "messages": [{"role": "user", "content": "q"}],
         "sample_score": {"group_id": n, "generation_index": 0, "score": {
             "value": {"acc": 1.0}, "status": "success", "main_score_name": "acc"}}}
        for n in range(2)
    ]  # fmt: skip
    output = {"choices": [{"stop_reason": "stop"}], "usage": {"output_tokens": 3}, "error": None}
    predictions = [{"index": n, "model": "m", "model_output": output} for n in range(2)]
    config = {"model": "m", "generation_config": {"temperature": 0.0}, "dataset_args": {"s": {}}}
    return {
        "reviews/m/s.jsonl": reviews,
        "predictions/m/s.jsonl": predictions,
        "configs/task_config.yaml": config,  # JSON is YAML
    }


def run():
    asked = {"margin_pt": 1.0, "floor": 0.05, "sampling": {"temperature": 0.0}, "items": ["a"],
             "orders": [[0]]}  # fmt: skip
    rules = {"early_stop": True, "certify": False}
    arms = {"pr": {"kind": "server", "model": "m", "base_url": "u"}}
    return {"manifest.json": {"suites": {"s": asked}, "rules": rules, "arms": arms}}


FORMATS = [own, lm_eval, sgl_eval, inspect_ai, evalscope, run]


def text(content, name):
    if name.endswith(".jsonl"):
        return "".join(json.dumps(row) + "\n" for row in content)
    return json.dumps(content)


@pytest.fixture(params=FORMATS, ids=lambda form: form.__name__)
def form(request, tmp_path):
    """A log of that format in a folder, its content, and how it is named."""
    content = request.param()
    for name, part in content.items():
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text(part, name))
    if request.param is not run:
        return content, str(tmp_path)
    with Store.open(tmp_path / FILE_NAME) as store:
        store.add(Record(arm="pr", suite="s", item="a", correct=True))
    return content, f"{tmp_path}::pr"


def read(source):
    """Read a log and pair it with itself, or have it refused in one line."""
    folder = Path(source.partition("::")[0])
    before = sorted(folder.rglob("*"))
    refusal = None
    try:
        log = logs.read(source, choice=CHOICE)
        logs.differences(log, log)
        json.dumps(log.settings, allow_nan=False)
        for name, table in log.suites.items():
            scores(name, logs.pair(table, table), margin=0.01, floor=0.05)
    except UserError as error:
        refusal = error
    assert refusal is None or refusal.exit_code in (2, 4)
    assert "\n" not in str(refusal)
    assert len(str(refusal).replace(str(folder), "").encode()) < 800
    assert sorted(folder.rglob("*")) == before


def places(value, path=()):
    """The paths to every value inside `value`."""
    yield path
    if isinstance(value, (dict, list)):
        inside = value.items() if isinstance(value, dict) else enumerate(value)
        for key, inner in inside:
            yield from places(inner, (*path, key))


def replaced(value, path, new):
    """`value` with another at `path`."""
    if not path:
        return new
    changed = copy.deepcopy(value)
    place = changed
    for key in path[:-1]:
        place = place[key]
    place[path[-1]] = new
    return changed


def without(value, path):
    """`value` with nothing at `path`."""
    changed = copy.deepcopy(value)
    place = changed
    for key in path[:-1]:
        place = place[key]
    del place[path[-1]]
    return changed


def test_any_value_may_be_another_or_missing(form):
    content, source = form
    logs.read(source, choice=CHOICE)  # as it is, it can be read
    for name, part in content.items():
        file = Path(source.partition("::")[0]) / name
        for path in list(places(part)):
            if 1 in path:  # of lines or samples alike, the first stands for all
                continue
            if not path and name.endswith(".jsonl"):  # the lines are no value
                continue
            for new in ODD:
                file.write_text(text(replaced(part, path, new), name))
                read(source)
            if path:
                file.write_text(text(without(part, path), name))
                read(source)
        file.write_text(text(part, name))


def test_a_file_may_be_cut_or_damaged_anywhere(form):
    source = form[1]
    rng = random.Random(1)
    for file in sorted(Path(source.partition("::")[0]).rglob("*")):
        if not file.is_file():
            continue
        whole = file.read_bytes()
        for cut in range(0, len(whole), max(1, len(whole) // 12)):
            file.write_bytes(whole[:cut])
            read(source)
            for middle in (b"\xff", b"}\n{", bytes([rng.randrange(256)])):
                file.write_bytes(whole[:cut] + middle + whole[cut + 1 :])
                read(source)
        for other in (b"\xef\xbb\xbf" + whole, whole + whole, whole.decode().encode("utf-16")
                      if file.suffix != ".sqlite" else b""):  # fmt: skip
            file.write_bytes(other)
            read(source)
        file.write_bytes(whole)


def test_a_zip_may_be_cut_or_damaged_anywhere(tmp_path):
    log = inspect_ai()["log.json"]
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as archive:
        for sample in log.pop("samples"):
            archive.writestr(f"samples/{sample['id']}_epoch_1.json", json.dumps(sample))
        archive.writestr("header.json", json.dumps(log))
    whole, path = packed.getvalue(), tmp_path / "log.eval"
    path.write_bytes(whole)
    assert len(logs.read(path).suites["s"]) == 2
    for cut in range(4, len(whole), 7):
        path.write_bytes(whole[:cut])
        read(str(path))
        path.write_bytes(whole[:cut] + bytes([whole[cut] ^ 255]) + whole[cut + 1 :])
        read(str(path))


def test_a_parquet_file_may_be_cut_or_damaged_anywhere(tmp_path):
    pa, pq = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    doc = {"query": "2 + 2?", "choices": ["4"], "gold_index": 0, "task_name": "s"}
    response = {"input": "2 + 2?", "text": ["4"], "output_tokens": [[1]]}
    row = {"doc": doc, "metric": {"em": 1.0}, "model_response": response}
    path = tmp_path / "log.parquet"
    pq.write_table(pa.Table.from_pylist([row]), path)
    whole = path.read_bytes()
    assert len(logs.read(path).suites["s"]) == 1
    for cut in range(4, len(whole), 29):
        for damaged in (whole[:cut], whole[:cut] + bytes([whole[cut] ^ 255]) + whole[cut + 1 :]):
            path.write_bytes(damaged)
            read(str(path))


def test_a_bomb_is_not_unpacked(tmp_path, refused, monkeypatch):
    path = tmp_path / "log.eval"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("header.json", bytes(5_000_000))
    monkeypatch.setattr(reader, "_LARGEST", 10**6)
    refused(path, "header.json", "unpacks to 5 MB", code=4)


@pytest.mark.parametrize("epochs", [10**9, 0, -1, "2", 1.5])
def test_a_run_is_not_filled_up_to_absurd_sizes(tmp_path, refused, epochs):
    log = inspect_ai()["log.json"]
    log["eval"]["config"]["epochs"] = epochs
    path = tmp_path / "log.json"
    path.write_text(json.dumps(log))
    refused(path, "epochs", code=4)


CELLS = ["", "x", "NaN", "inf", "-1", "1e400", "9" * 300, '"', "C", "\0", "2147483648", "1.5"]


def test_any_cell_of_a_table_may_be_another(tmp_path):
    columns = ["suite", "item", "repeat", "correct", "truncated", "finish_reason", "error",
               "completion_tokens", "prompt_sha256"]  # fmt: skip
    row = ["s", "q", "0", "1", "false", "stop", "", "3", "aa"]
    path = tmp_path / "log.csv"
    for place in range(len(columns)):
        for cell in CELLS:
            changed = [*row[:place], cell, *row[place + 1 :]]
            for lines in ([columns, row, changed], [changed, row], [columns, changed]):
                path.write_text("".join(",".join(line) + "\n" for line in lines))
                read(str(path))


def test_whatever_is_no_log_is_refused(tmp_path, refused):
    refused(tmp_path, "holds no log", code=2)
    path = tmp_path / "log"
    deep = b'{"item": ' + b"[" * 5000 + b"]" * 5000 + b"}\n"
    for content in (b"", b"\n", b"{}", b"[]", b"null", b"\x00" * 50, b"\xff\xfe\x00", b"{" * 5000,
                    b"[" * 100_000, deep, b"," * 200_000, b'{"item": "a"}', b"item\n"):  # fmt: skip
        path.write_bytes(content)
        with pytest.raises(UserError):
            logs.read(path)
        read(str(path))
