import json

import numpy as np

from verify import logs


def output(key, *, start=0.0, **fields):
    return {
        "id": key,
        "problem": f"problem {key}",
        "expected_answer": "4",
        "generation": "\\boxed{4}",
        "predicted_answer": "4",
        "finish_reason": "stop",
        "num_generated_tokens": 9,
        "generation_start_time": start,
        "generation_end_time": start + 1,
        "symbolic_correct": True,
    } | fields


def metrics(path, **fields):
    content = {"name": "gsm8k", "aggregate": {}, "n_repeats": 2, "model": "m"} | fields
    (path.parent / "metrics.json").write_text(json.dumps(content))
    return path.parent


def test_the_live_folders_hold_two_repeats_each(shared_data):
    folder = shared_data / "paired" / "sgl_eval_live"
    table = logs.read(folder / "gsm8k").suites["gsm8k"]
    assert len(table) == 20
    assert len(table.items) == 10
    assert np.bincount(table.repeat).tolist() == [10, 10]
    assert table.truncated.sum() == 10  # metrics.json: truncated_rate 0.5
    assert table.tokens.sum() == 4172  # metrics.json: total_completion_tokens
    both = logs.read(folder)
    assert {suite: len(t) for suite, t in both.suites.items()} == {"aime26": 10, "gsm8k": 20}
    assert both.settings["sampling.max_tokens (aime26)"] == 96
    assert both.settings["sampling.temperature"] == 0
    assert not both.unknown


def test_one_repeat_can_be_read_alone(shared_data):
    path = shared_data / "paired" / "sgl_eval_live" / "gsm8k" / "output-rs1.jsonl"
    log = logs.read(path)
    assert log.suites["gsm8k"].repeat.tolist() == [0] * 10
    assert log.settings["harness.version"] == "0.1.3"


def test_completion_order_does_not_matter(lines):
    rows = [output("q1", start=1.0), output("q2", start=2.0, symbolic_correct=False)]
    for name, order in (("a", rows), ("b", rows[::-1])):
        path = lines(f"{name}/output-rs0.jsonl", *order)
        table = logs.read(path.parent).suites["sgl-eval"]
        assert {k: table.score[table.item == c][0] for c, k in enumerate(table.items)} == {
            "q1": 1,
            "q2": 0,
        }


def test_a_failed_request_is_unanswered_not_wrong(lines):
    row = output("q1", finish_reason="error", generation="", symbolic_correct=False)
    log = logs.read(metrics(lines("r/output-rs0.jsonl", row)))
    assert np.isnan(log.suites["gsm8k"].score[0])
    assert "1 failed requests" in log.notes[0]


def test_a_repeat_copied_from_another_is_dropped(lines):
    first = [output("q1", start=5.0), output("q2", start=6.0)]
    padded = [output("q1", start=9.0), output("q2", start=6.0)]
    path = lines("r/output-rs0.jsonl", *first)
    lines("r/output-rs1.jsonl", *padded)
    log = logs.read(metrics(path, partial=True, completed_samples=3))
    table = log.suites["gsm8k"]
    assert sorted(zip(table.item.tolist(), table.repeat.tolist(), strict=True)) == [
        (0, 0),
        (0, 1),
        (1, 0),
    ]
    assert any("1 answers copied" in note for note in log.notes)
    assert any("stopped after 3 answers" in note for note in log.notes)


def test_repeats_are_numbered_as_numbers(lines):
    """output-rs10 comes after output-rs2."""
    for repeat in range(11):
        row = output("q1", start=float(repeat), symbolic_correct=repeat == 10)
        path = lines(f"r/output-rs{repeat}.jsonl", row)
    table = logs.read(path.parent).suites["sgl-eval"]
    assert table.score[table.repeat == 10].tolist() == [1]


def test_the_prompt_is_part_of_the_question(lines):
    def prompt_of(folder, **fields):
        log = logs.read(metrics(lines(f"{folder}/output-rs0.jsonl", output("q1")), **fields))
        return log.suites["gsm8k"].prompt[0]

    plain = prompt_of("a")
    assert plain == prompt_of("b")
    assert plain != prompt_of("c", gen={"system_message": "Be brief."})
    assert plain != prompt_of("d", prompt={"yaml": "user: '{problem}'"})


def test_one_id_twice_in_a_repeat_is_refused(lines, refused):
    path = lines("r/output-rs0.jsonl", output("q1"), output("q1", start=3.0))
    refused(path.parent, "output-rs0.jsonl, line 2", "'q1'", "line 1")


def test_wrong_types_are_named(lines, refused):
    refused(
        lines("output-rs0.jsonl", output("a"), output("q", symbolic_correct="yes")),
        "line 2",
        "'yes'",
    )
    refused(lines("output-rs0.jsonl", output("q", symbolic_correct=None)), "line 1", "None")
    refused(lines("output-rs0.jsonl", output("q", finish_reason=3)), "line 1", "finish_reason is 3")


def test_partial_credit_of_its_long_context_suites(lines):
    row = {k: v for k, v in output("q").items() if k != "symbolic_correct"} | {"is_correct": 0.5}
    assert logs.read(lines("output-rs0.jsonl", row)).suites["sgl-eval"].graded


def test_a_run_without_metrics_was_not_finished(lines):
    assert "not finished" in logs.read(lines("r/output-rs0.jsonl", output("q")).parent).notes[0]


def test_averages_alone_point_to_the_folder(shared_data, refused):
    path = shared_data / "paired" / "sgl_eval_live" / "gsm8k" / "metrics.json"
    refused(path, "give the folder", code=2)


def test_a_count_that_no_machine_holds_is_refused(lines, refused):
    path = lines("output-rs0.jsonl", output("q1"), output("q2", num_generated_tokens=10**20))
    refused(path, "line 2", "tokens is 100000000000000000000", code=4)
