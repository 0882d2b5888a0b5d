"""`compare` on logs that other people's harnesses wrote."""

import shutil


def test_the_four_models_of_openai(shared_data, compared):
    file = next((shared_data / "paired" / "openai_gsm8k_model_solutions").glob("*.jsonl"))
    right = {"6b_finetuning": 286, "6b_verification": 515, "175b_finetuning": 458,
             "175b_verification": 742}  # fmt: skip
    names = list(right)
    for base, pr in [(a, b) for a in names for b in names if a != b]:
        code, _, found = compared(f"{file}::{base}", f"{file}::{pr}")
        (suite,) = found["suites"]
        assert suite["items"] == 1319
        assert suite["both"] + suite["lost"] == right[base]
        assert suite["both"] + suite["gained"] == right[pr]
        assert code == (0 if right[pr] > right[base] else 1)


def test_the_same_configuration_twice(shared_data, compared, evals):
    one, other = sorted((shared_data / "paired" / "reflexion").glob("*.jsonl"))
    code, _, found = compared(one, other, "--margin", 3)
    (suite,) = found["suites"]
    assert (code, suite["items"], suite["lost"] + suite["gained"]) == (0, 397, 6)
    assert "exact unconditional" in suite["interval_method"]
    code, out, _ = evals("aa", one, other)
    assert code == 0
    assert "1.51" in out  # 6 of 397 questions


def test_evalscope(shared_data, compared, here):
    """As evalscope lays its files out; rows are in completion order, another in each arm."""
    source = shared_data / "paired" / "evalscope_viz"
    for file in source.glob("*__*__*.jsonl"):
        model, kind, name = file.name.split("__")
        if name == "gsm8k_main.jsonl":
            place = here / model / kind / "model" / name
            place.parent.mkdir(parents=True)
            shutil.copy(file, place)
    code, out, found = compared(here / "qwen-plus", here / "qwen3-max")
    assert code in (0, 3)
    assert found["suites"][0]["items"] == 10
    assert "method: exact unconditional" in out


def test_reviews_that_lie_in_the_working_folder(shared_data, compared, here):
    for model in ("qwen-plus", "qwen3-max"):
        source = shared_data / "paired" / "evalscope_viz" / f"{model}__reviews__gsm8k_main.jsonl"
        shutil.copy(source, here / f"{model}.jsonl")
    code, out, found = compared("qwen-plus.jsonl", "qwen3-max.jsonl", "--margin", 30)
    assert code in (0, 3)
    assert found["suites"][0]["items"] == 10
    assert "base calls the suite qwen-plus, PR qwen3-max" in out


def test_lm_eval(shared_data, compared, refused):
    arms = [shared_data / "paired" / "lm_eval_live" / name for name in ("q41", "f16")]
    refused(arms, "flexible-extract, strict-match", "--filter", code=2)
    code, out, found = compared(*arms, "--filter", "strict-match")
    assert code == 3
    assert "such a suite can see nothing" in out
    assert "not known whether answers were truncated (base and pr)" in out
    assert found["suites"][0]["items"] == 12


def test_sgl_eval(shared_data, compared, refused, here):
    gsm8k, aime = (shared_data / "paired" / "sgl_eval_live" / name for name in ("gsm8k", "aime26"))
    refused([gsm8k, aime], "cannot be compared: they differ in sampling", code=4)
    again = shutil.copytree(gsm8k, here / "again")
    code, _, found = compared(gsm8k, again)
    (suite,) = found["suites"]
    assert code == 3
    assert suite["repeats"] == {"base": 2, "pr": 2}
    assert suite["truncated"] == {"base": 10, "pr": 10}


def test_inspect(shared_data, compared, refused, here):
    logs = sorted((shared_data / "paired" / "inspect_logs").glob("*.eval"))
    refused([*logs, "--margin", 5], "no sample was scored", code=4)
    logs = sorted((shared_data / "paired" / "inspect_logs").glob("*popularity.json"))
    copy = shutil.copy(logs[0], here / "copy.json")
    code, _, found = compared(logs[0], copy, "--margin", 5)
    assert code in (0, 3)
    assert found["suites"][0]["items"] > 0
