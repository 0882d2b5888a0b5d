import json

import pytest

from verify import logs

pa = pytest.importorskip("pyarrow")
pq = pytest.importorskip("pyarrow.parquet")

STAMP = "2026-12-01T05-05-24.548074"


def detail(query="2 + 2?", *, text="4", gold=0, **metric):
    return {
        "doc": {"query": query, "choices": ["4"], "gold_index": gold, "task_name": "gsm8k|0"},
        "metric": metric or {"em": 1},
        "model_response": {"input": query, "text": [text], "output_tokens": [[1, 2, 3]]},
    }


@pytest.fixture
def parquet(tmp_path):
    def write(*rows, name=f"details/m/{STAMP}/details_gsm8k|0_{STAMP}.parquet"):
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        pq.write_table(pa.Table.from_pylist(list(rows)), path)
        return path

    return write


def test_details_pair_by_the_question_not_by_the_row(parquet):
    rows = [detail("one", em=1), detail("two", em=0)]
    base = logs.read(parquet(*rows)).suites["gsm8k|0"]
    pr = logs.read(parquet(*rows[::-1])).suites["gsm8k|0"]
    assert list(base.items) == list(pr.items)[::-1]
    for table in (base, pr):
        assert sorted(table.score) == [0, 1]
    assert base.tokens.tolist() == [3, 3]
    assert base.text == ["4", "4"]


def test_what_it_cannot_tell(parquet):
    assert logs.read(parquet(detail())).unknown == {"truncated", "error"}


def test_several_metrics_are_a_choice_to_make(parquet, refused):
    path = parquet(detail(em=1, f1=0.5))
    refused(path, "metrics em, f1", code=2)
    assert logs.read(path, choice=logs.Choice(metric="f1")).suites["gsm8k|0"].graded


def test_a_question_that_occurs_twice_is_numbered(parquet):
    log = logs.read(parquet(detail(), detail(em=0), detail(gold=1)))
    assert len(log.suites["gsm8k|0"].items) == 3
    assert "1 questions occur more than once" in log.notes[0]


def test_empty_answers_are_noted(parquet):
    assert "1 answers are empty" in logs.read(parquet(detail(text=""))).notes[0]


def test_settings_come_from_the_results(parquet, tmp_path):
    path = parquet(detail())
    results = tmp_path / "results" / "m" / f"results_{STAMP}.json"
    results.parent.mkdir(parents=True)
    config = {"generation_parameters": {"temperature": 0.0}, "base_url": "http://h"}
    general = {"model_name": "m", "lighteval_sha": "abc", "model_config": config}
    results.write_text(json.dumps({"config_general": general}))
    settings = logs.read(path).settings
    assert settings["model"] == "m"
    assert settings["sampling.temperature"] == 0
    assert settings["harness.version"] == "abc"


def test_broken_files_are_refused(parquet, tmp_path, refused):
    path = parquet(detail())
    path.write_bytes(path.read_bytes()[:-20])
    refused(path, "damaged parquet")
    refused(parquet({"a": 1}), "not lighteval's details", code=2)
    refused(parquet(detail(), detail("x", em=float("nan"))), "row 2", "NaN")
    refused(parquet(detail() | {"metric": 3}), "row 1", "metric is 3")
    empty = tmp_path / "empty.parquet"
    schema = pa.Table.from_pylist([detail()]).schema
    pq.write_table(pa.Table.from_pylist([], schema), empty)
    refused(empty, "holds no record")
