"""The program plants, judges, counts and says so in its exit code."""

from __future__ import annotations

import json

import pytest
from click.testing import CliRunner

from verify import cases
from verify.cases import KernelSpec
from verify.command import UserError
from verify.faults import program
from verify.faults.catalogue import CATALOGUE
from verify.faults.equivalent import EQUIVALENTS
from verify.faults.score import Score, Task, asked, batches, score, score_all
from verify.verdict import Verdict

SMALL = cases.reduced(KernelSpec())


def task(name, kind="fault", **rest):
    return Task(kind, name, "ours", SMALL, "quick", 0, **rest)


def alone(task):
    [result] = score((task,))
    return result


def invoke(*arguments):
    result = CliRunner().invoke(program.command, list(arguments), standalone_mode=False)
    if result.exception is not None:
        raise result.exception
    return result.return_value, result.output


@pytest.mark.parametrize(
    "name",
    [
        "forward_rotation", "accumulator_in_bf16", "output_ties_away", "scale_floored",
        "code_ties_away", "linear_layout", "padding_unwritten", "row_after_y_written",
        "rotated_in_place", "raises_always",
    ],
)  # fmt: skip
def test_fault_is_noticed_by_the_check_that_ought_to(name):
    result = alone(task(name))
    assert CATALOGUE[name].sees in result.checks
    assert result.noticed


def test_stops_at_the_first_detection_unless_exhaustive(monkeypatch):
    few = asked(task("raises_always"))[:3]
    monkeypatch.setattr("verify.faults.score.asked", lambda _: few)
    first, all_of_them = alone(task("raises_always")), alone(task("raises_always", exhaustive=True))
    assert (first.cases, all_of_them.cases) == (1, 3)
    assert first.case == all_of_them.case == few[0].id


def test_one_case_of_each_family_and_probe_comes_first_and_the_full_shape_last():
    order = asked(Task("fault", "", "ours", KernelSpec(), "quick", 0))
    shapes = [case.rank == 1024 for case in order]
    assert shapes == sorted(shapes)
    assert order[-1].k == 4096
    small = order[: shapes.index(True)]
    draws = [case.draw for case in small]
    assert draws == sorted(draws)
    of_draw_0 = [case for case in small if case.draw == 0]
    assert {case.probe for case in of_draw_0} == {case.probe for case in order}


def test_honest_kernels_are_asked_every_table_and_pattern_of_positions_within_nine_seeds():
    for name, family in cases.FAMILIES.items():
        launches = [
            case
            for seed in range(9)
            for case in asked(Task("honest", "", "ours", SMALL, "quick", seed))
            if case.family == name
        ]
        assert {case.tokens for case in launches} == {32}
        wanted = {(table, where) for table in family.tables for where in family.positions}
        assert {(case.table, case.positions) for case in launches} == wanted


def test_candidates_side_by_side_are_judged_as_if_alone():
    names = ["x_cached_by_shape", "position_int16", "carry_lost", "row_31_missing"]
    beside = score(tuple(task(name) for name in names))
    for name, result in zip(names, beside, strict=True):
        by_itself = alone(task(name))
        assert (result.checks, result.case, result.message, result.cases) == (
            by_itself.checks, by_itself.case, by_itself.message, by_itself.cases,
        )  # fmt: skip


def test_what_is_judged_side_by_side_is_asked_the_same():
    tasks = list(program.planned((), "ours", "quick", range(2), exhaustive=False))
    together = list(batches(tasks))
    assert sorted(str(task) for batch in together for task in batch) == sorted(map(str, tasks))
    for batch in together:
        assert len(batch) == 1 or not any(task.kills for task in batch)
        if len({task.spec for task in batch}) > 1:
            assert len({tuple(case.id for case in asked(task)) for task in batch}) == 1


def test_a_lost_process_takes_none_with_it(monkeypatch):
    monkeypatch.setattr("verify.faults.score.batches", lambda tasks: [tuple(tasks)])
    aborted, beside = score_all([task("aborts"), task("nothing_written")], 1)
    assert (aborted.task.name, aborted.checks, aborted.cases) == ("aborts", ("error",), 0)
    assert beside.noticed
    assert beside.cases


def test_a_lost_process_is_noticed_only_where_it_is_the_fault():
    tasks = [task("aborts"), task("exits_in_silence"), task("nothing_written")]
    assert all(result.noticed for result in score_all(tasks, 2))
    survivor = Score(task("nothing_written"), ("error",), None, "", 0, 0.0, answered=False)
    assert not survivor.noticed
    assert not survivor.quiet


def test_command_passes_when_all_is_noticed_and_nothing_else(tmp_path):
    path = tmp_path / "scores.json"
    verdict, output = invoke(
        "--only", "cos_sin_swapped", "--only", "splits_added_backwards", "--workers", "1",
        "--json", str(path),
    )  # fmt: skip
    assert verdict is Verdict.PASS
    assert "1 of 1 faults noticed; 0 false alarms over 1 kernels" in output
    scores = {entry["name"]: entry for entry in json.loads(path.read_text())["scores"]}
    assert scores["cos_sin_swapped"]["noticed"]
    assert scores["cos_sin_swapped"]["case"]
    assert scores["splits_added_backwards"]["reason"]
    assert list(tmp_path.iterdir()) == [path]


def results(monkeypatch, *made):
    monkeypatch.setattr(program, "score_all", lambda *_: iter(made))
    monkeypatch.setattr(program, "planned", lambda *_, **__: [score.task for score in made])


def quiet(name, kind):
    return Score(task(name, kind), (), None, "", 54, 1.0)


def test_a_missed_fault_fails(monkeypatch):
    results(monkeypatch, quiet("forward_rotation", "fault"), quiet("1 split", "honest"))
    verdict, output = invoke()
    assert verdict is Verdict.FAIL
    assert "missed forward_rotation (no. 1): Rotates forward instead of back (interval)" in output


@pytest.mark.parametrize(
    ("kind", "name"), [("honest", "1 split"), ("equivalent", "reciprocal_of_448")]
)
def test_a_false_alarm_fails(monkeypatch, kind, name):
    alarm = Score(task(name, kind), ("interval",), "case", "out: wrong", 3, 1.0)
    results(monkeypatch, alarm)
    verdict, output = invoke()
    assert verdict is Verdict.FAIL
    assert f"false alarm {name}: out: wrong" in output


def test_an_honest_kernel_that_nobody_answered_for_fails(monkeypatch):
    gone = Score(task("1 split", "honest"), ("error",), None, "killed", 0, 0.0, answered=False)
    results(monkeypatch, gone)
    assert invoke()[0] is Verdict.FAIL


def test_an_unknown_name_is_wrong_use():
    with pytest.raises(UserError, match="nonsense names no fault"):
        invoke("--only", "nonsense")


def test_json_that_cannot_be_written_is_wrong_use(tmp_path, monkeypatch):
    results(monkeypatch, quiet("1 split", "honest"))
    (tmp_path / "file").write_text("")
    with pytest.raises(UserError, match="cannot be written"):
        invoke("--json", str(tmp_path / "file" / "scores.json"))


def test_plan_holds_every_entry_and_seed():
    tasks = list(program.planned((), "ours", "quick", range(5, 8), exhaustive=False))
    kinds = {
        kind: [t for t in tasks if t.kind == kind] for kind in ("fault", "equivalent", "honest")
    }
    assert {t.name for t in kinds["fault"]} == set(CATALOGUE)
    assert {t.name for t in kinds["equivalent"]} == set(EQUIVALENTS)
    assert sorted(t.seed for t in kinds["honest"] if t.name == "kernel:fused_triton") == [5, 6, 7]
    assert {t.spec.k for t in kinds["honest"] if t.name == "1 split"} == {4096, SMALL.k}
    assert {t.spec.k for t in kinds["honest"] if t.name == "kernel:fused_triton"} == {SMALL.k}
    assert {t.seed for t in kinds["honest"] if t.probes} == {5}
