import json
import shutil

import numpy as np
import pytest

from verify import logs

SETS = ["gsm8k_main", "ifeval_default", "iquiz_EQ", "iquiz_IQ"]
MODELS = ["qwen-plus", "qwen3-max"]


@pytest.fixture
def runs(shared_data, tmp_path):
    """evalscope's own examples, laid out as evalscope lays out a run."""
    found = {}
    for model in MODELS:
        root = found[model] = tmp_path / model
        for kind in ("predictions", "reviews"):
            (root / kind / model).mkdir(parents=True)
            for name in SETS:
                source = shared_data / "paired" / "evalscope_viz" / f"{model}__{kind}__{name}.jsonl"
                shutil.copy(source, root / kind / model / f"{name}.jsonl")
    return found


def review(index, value=1.0, **fields):
    score = {"value": {"acc": value}, "extracted_prediction": "4", "prediction": "so 4"}
    sample = {"score": score | fields.pop("score", {}), "group_id": index} | fields.pop(
        "sample", {}
    )
    messages = [
        {"role": "user", "content": f"question {index}"},
        {"role": "assistant", "content": "4"},
    ]
    return {"index": index, "target": "4", "messages": messages, "sample_score": sample} | fields


def prediction(index, reason="stop", **output):
    choices = [{"stop_reason": reason, "message": {}}]
    return {
        "index": index,
        "model_output": {"choices": choices, "usage": {"output_tokens": 5}} | output,
    }


def test_a_run_folder_holds_its_suites(runs):
    log = logs.read(runs["qwen-plus"])
    assert sorted(log.suites) == SETS
    assert [len(log.suites[s]) for s in SETS] == [10] * 4
    assert not log.unknown


def test_arms_written_in_different_orders_pair_by_index(runs):
    base, pr = (
        logs.read(runs[m] / "reviews" / m / "gsm8k_main.jsonl").suites["gsm8k_main"] for m in MODELS
    )
    assert list(base.items) != list(pr.items)  # completion order
    prompts = [
        {item: t.prompt[t.item == code][0] for code, item in enumerate(t.items)} for t in (base, pr)
    ]
    assert prompts[0] == prompts[1]
    assert (base.prompt != pr.prompt).any()  # by line they would not match


def test_predictions_tell_of_tokens_and_truncation(lines):
    lines("run/predictions/m/x.jsonl", prediction(1), prediction(0, "max_tokens"))
    table = logs.read(lines("run/reviews/m/x.jsonl", review(1), review(0))).suites["x"]
    assert table.truncated.tolist() == [0, 1]
    assert table.tokens.tolist() == [5, 5]


def test_without_predictions_truncation_is_unknown(lines):
    log = logs.read(lines("run/reviews/m/x.jsonl", review(0)))
    assert log.unknown == {"truncated", "completion_tokens"}
    assert "no predictions" in log.notes[0]


def test_what_evalscope_leaves_out_is_unanswered(lines):
    lines(
        "run/predictions/m/x.jsonl",
        *(prediction(i) for i in range(3)),
        prediction(3, error="HTTP 500"),
        prediction(4),
    )
    unscored = {"value": {}, "status": "transport_error"}
    rows = [
        review(0),
        review(1, score=unscored),
        review(2, score={"status": "parse_error"}),
        review(3),
    ]
    log = logs.read(lines("run/reviews/m/x.jsonl", *rows))
    table = log.suites["x"]
    assert np.isnan(table.score).tolist() == [False, True, True, True, True]
    assert table.errors[3] == "HTTP 500"
    assert table.errors[4] == "answered, not reviewed"


def test_a_score_that_lacks_the_metric_is_unanswered(lines):
    path = lines("run/reviews/m/x.jsonl", review(0), review(1, score={"value": {}}))
    assert np.isnan(logs.read(path).suites["x"].score).tolist() == [False, True]


def test_samples_of_one_group_are_repeats(lines):
    rows = [review(i, sample={"group_id": i // 2}) for i in (3, 0, 2, 1)]
    table = logs.read(lines("run/reviews/m/x.jsonl", *rows)).suites["x"]
    assert list(zip(table.item, table.repeat, strict=True)) == [(0, 1), (1, 0), (0, 0), (1, 1)]
    recorded = [review(7, sample={"group_id": 1, "generation_index": 2})]
    assert logs.read(lines("run/reviews/m/y.jsonl", *recorded)).suites["y"].repeat.tolist() == [2]


def test_the_score_is_the_main_one_the_only_one_or_a_choice(lines, refused):
    several = {"value": {"strict": 0.0, "loose": 1.0}}
    path = lines("run/reviews/m/x.jsonl", review(0, score=several))
    refused(path, "metrics loose, strict", "--metric", code=2)
    assert logs.read(path, choice=logs.Choice(metric="loose")).suites["x"].score.tolist() == [1]
    main = several | {"main_score_name": "strict"}
    path = lines("run/reviews/m/y.jsonl", review(0, score=main))
    assert logs.read(path).suites["y"].score.tolist() == [0]


def test_settings_come_from_the_run(lines):
    path = lines("run/reviews/m/gsm8k_main.jsonl", review(0))
    configs = path.parents[2] / "configs"
    configs.mkdir()
    (configs / "task_config.yaml").write_text(
        "model: m\napi_url: http://h/v1\ngeneration_config: {temperature: 0.0, max_tokens: 512}\n"
        "dataset_args: {gsm8k: {few_shot_num: 4}, other: {few_shot_num: 0}}\n"
    )
    settings = logs.read(path).settings
    assert settings["sampling.max_tokens"] == 512
    assert settings["task.gsm8k.few_shot_num"] == 4
    assert "task.other.few_shot_num" not in settings
    (configs / "task_config.yaml").write_text("a: [")
    with pytest.raises(logs.UserError, match=r"task_config.yaml: is no YAML"):
        logs.read(path)


def test_a_doubled_or_broken_review_is_refused(lines, refused):
    refused(
        lines("r/reviews/m/x.jsonl", review(0), review(1), review(0)), "line 3", "index 0", "line 1"
    )
    refused(lines("r/reviews/m/x.jsonl", review(0, float("nan"))), "line 1", "NaN")
    refused(lines("r/reviews/m/x.jsonl", review(0), review("1")), "line 2", "index is '1'")
    bad = review(0) | {"sample_score": 3}
    refused(lines("r/reviews/m/x.jsonl", bad), "line 1", "sample_score is 3")


def test_predictions_alone_are_no_log(runs, refused):
    refused(runs["qwen-plus"] / "predictions" / "qwen-plus" / "iquiz_EQ.jsonl", "reviews", code=2)


def test_ids_of_messages_do_not_enter_the_prompt(lines):
    def prompt(name, key):
        row = json.loads(json.dumps(review(0)))
        row["messages"][0]["id"] = key
        return logs.read(lines(f"r/reviews/m/{name}.jsonl", row)).suites[name].prompt[0]

    assert prompt("a", "one") == prompt("b", "two")
