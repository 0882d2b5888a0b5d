import pytest

from verify import logs

RIGHT = {
    "6b_finetuning": 286,
    "6b_verification": 515,
    "175b_finetuning": 458,
    "175b_verification": 742,
}


@pytest.mark.parametrize(("model", "right"), RIGHT.items())
def test_each_model_of_openai_has_its_published_count(shared_data, model, right):
    path = shared_data / "paired" / "openai_gsm8k_model_solutions" / "example_model_solutions.jsonl"
    log = logs.read(f"{path}::{model}")
    table = log.suites["gsm8k"]
    assert len(table.items) == len(table) == 1319
    assert table.score.sum() == right
    assert log.unknown == {"truncated", "completion_tokens", "error"}
    assert log.settings == {"model": model}


def test_several_models_are_a_choice_to_make(shared_data, refused):
    path = shared_data / "paired" / "openai_gsm8k_model_solutions" / "example_model_solutions.jsonl"
    refused(path, *RIGHT, "FILE::ARM", code=2)
    refused(f"{path}::gpt", "no arm 'gpt'", code=2)


def test_a_bad_solution_is_named(lines, refused):
    good = {"question": "q", "ground_truth": "4", "m": {"is_correct": True, "solution": "4"}}
    bad = good | {"question": "r", "m": {"is_correct": "yes", "solution": "4"}}
    refused(lines("log", good, bad), "line 2", "is_correct is 'yes'")
    refused(
        lines("log", good, {"question": "r", "ground_truth": "4"}), "line 2", "Expected `object`"
    )


def test_reflexion_run_twice(shared_data):
    folder = shared_data / "paired" / "reflexion"
    runs = [logs.read(path) for path in sorted(folder.glob("*.jsonl"))]
    tables = [run.suites["mbpp"] for run in runs]
    assert [table.score.sum() for table in tables] == [320, 318]
    assert list(tables[0].items) == list(tables[1].items)
    assert (tables[0].prompt == tables[1].prompt).all()
    both = logs.read_arm(sorted(folder.glob("*.jsonl"))).suites["mbpp"]
    assert len(both.items) == 397
    assert both.repeat.tolist() == [0] * 397 + [1] * 397
    assert both.run.tolist() == [0] * 397 + [1] * 397
