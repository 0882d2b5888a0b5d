import json

import pytest

from verify import logs

STAMP = "2026-12-01T05-05-24.548074"


def sample(doc_id=0, *, answer_filter="strict", doc="d0", **metrics):
    metrics = metrics or {"exact_match": 1.0}
    return {
        "doc_id": doc_id,
        "doc_hash": doc,
        "prompt_hash": "p" + doc,
        "target_hash": "t" + doc,
        "filter": answer_filter,
        "metrics": list(metrics),
        "resps": [["The answer is 4."]],
        "filtered_resps": ["4"],
        **metrics,
    }


def test_the_live_logs_of_two_arms_pair_by_content(shared_data):
    folder = shared_data / "paired" / "lm_eval_live"
    choice = logs.Choice(filter="flexible-extract")
    base, pr = (logs.read(folder / arm, choice=choice) for arm in ("f16", "q41"))
    a, b = base.suites["gsm8k_local"], pr.suites["gsm8k_local"]
    assert len(a) == len(b) == 12
    assert set(a.items) == set(b.items)
    assert dict(zip(a.items, a.prompt.tolist(), strict=True)) == dict(
        zip(b.items, b.prompt.tolist(), strict=True)
    )
    assert base.unknown == {"truncated", "completion_tokens", "error"}
    assert base.settings["harness.version"] == "0.4.13"
    assert base.settings["sampling.max_gen_toks"] == 160
    assert base.settings["prompt.shots"] == 5
    assert base.settings["server"] != pr.settings["server"]
    assert logs.differences(base, pr) == []
    assert a.text[0].startswith(" She makes 16 x 3")


def test_one_row_a_filter_is_a_choice_to_make(lines, refused):
    rows = [
        sample(0, answer_filter="strict", exact_match=0.0),
        sample(0, answer_filter="flexible", exact_match=1.0),
    ]
    path = lines("samples.jsonl", *rows)
    refused(path, "filters flexible, strict", "--filter", code=2)
    refused(path, "no filter 'loose'", choice=logs.Choice(filter="loose"), code=2)
    for name, score in (("strict", 0), ("flexible", 1)):
        table = logs.read(path, choice=logs.Choice(filter=name)).suites["samples"]
        assert table.score.tolist() == [score]


def test_several_metrics_are_a_choice_to_make(lines, refused):
    path = lines("samples.jsonl", sample(acc=1.0, acc_norm=0.0))
    refused(path, "metrics acc, acc_norm", "--metric", code=2)
    table = logs.read(path, choice=logs.Choice(metric="acc_norm")).suites["samples"]
    assert table.score.tolist() == [0]
    assert table.rule == ["strict, acc_norm"]


def test_the_suite_is_the_task_and_the_settings_come_from_beside(lines):
    path = lines(f"samples_my_task_{STAMP}.jsonl", sample())
    results = {
        "model_name": "m",
        "lm_eval_version": "0.4.13",
        "configs": {"my_task": {"generation_kwargs": {"temperature": 0.0}, "num_fewshot": 5}},
        "config": {"gen_kwargs": {"temperature": 0.7}},
    }
    path.with_name(f"results_{STAMP}.json").write_text(json.dumps(results))
    log = logs.read(path)
    assert list(log.suites) == ["my_task"]
    assert log.settings["sampling.temperature"] == 0.7  # what was asked for overrides the task
    assert log.settings["prompt.shots"] == 5


def test_a_document_that_the_benchmark_repeats_is_numbered_by_its_place_there(lines):
    one, other = sample(3), sample(9, exact_match=0.0)
    forth = logs.read(lines("a.jsonl", one, other)).suites["a"]
    back = logs.read(lines("b.jsonl", other, one)).suites["b"]
    for table in (forth, back):
        scores = {name: table.score[table.item == code][0] for code, name in enumerate(table.items)}
        assert scores == {"d0": 1, "d0#2": 0}


def test_the_same_document_twice_is_refused(lines, refused):
    refused(lines("s.jsonl", sample(1), sample(1)), "line 2", "item 'd0'", "line 1")


@pytest.mark.parametrize(
    ("row", "words"),
    [
        (sample(exact_match=float("nan")), ["exact_match: score is NaN"]),
        (sample(exact_match=2.5), ["2.5 is outside 0 to 1"]),
        (sample(exact_match=[1]), ["[1] (list) is no number"]),
        (sample() | {"doc_hash": 5}, ["doc_hash is 5"]),
        (sample() | {"metrics": "exact_match"}, ["metrics is 'exact_match'"]),
        ({k: v for k, v in sample().items() if k != "filter"}, ["missing required field `filter`"]),
        (b"{cut", ["not JSON"]),
        (b"[]", ["[] is no JSON object"]),
    ],
)
def test_a_bad_line_is_named(lines, refused, row, words):
    refused(lines("s.jsonl", sample(5, doc="other"), row), "line 2", *words)


def test_a_cut_file_says_so(tmp_path, refused):
    path = tmp_path / "s.jsonl"
    path.write_text(json.dumps(sample()) + "\n" + json.dumps(sample(1, doc="d1"))[:40])
    refused(path, "line 2", "the file ends inside this record")


def test_averages_are_not_a_log(shared_data, refused):
    path = next((shared_data / "paired" / "lm_eval_live").rglob("results_*.json"))
    refused(path, "averages", "samples_*.jsonl", code=2)
