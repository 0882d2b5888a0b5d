import json

import numpy as np
import pytest

from verify import logs


@pytest.fixture
def table(tmp_path):
    def write(text, name="log.csv", encoding="utf-8"):
        path = tmp_path / name
        path.write_bytes(text.encode(encoding))
        return path

    return write


def test_every_column_of_the_published_form(table):
    path = table(
        "question_id,arm,repeat,correct,finish_reason,tokens,prompt_sha,comment\n"
        "q1,base,0,1,stop,12,ab,ignored\n"
        'q1,base,1,0,length,99,ab,"with, comma"\n'
        "q2,base,0,,error,,cd,\n"
    )
    log = logs.read(path)
    found = log.suites["unnamed"]
    assert list(found.items) == ["q1", "q2"]
    assert found.repeat.tolist() == [0, 1, 0]
    assert found.truncated.tolist() == [0, 1, 0]
    assert found.tokens.tolist() == [12, 99, -1]
    assert found.prompt.tolist() == [hash("ab"), hash("ab"), hash("cd")]
    assert np.isnan(found.score).tolist() == [False, False, True]
    assert log.unknown == {"target_sha256"}


@pytest.mark.parametrize(
    "text",
    [
        "item;correct\na;true\n",
        "\ufeffitem\tcorrect\r\na\tTrue\r\n",
        "prompt_id,score\na,1.0\n",
        'item,correct\n"a",C\n\n',
    ],
)
def test_dialects(table, text):
    found = logs.read(table(text)).suites["unnamed"]
    assert (list(found.items), found.score.tolist()) == (["a"], [1])


def test_arms_and_suites_in_one_file(table, refused):
    path = table("suite,model,item,correct\nx,m,a,1\nx,n,a,0\ny,m,a,0\n")
    refused(path, "arms m, n", code=2)
    log = logs.read(f"{path}::m")
    assert {suite: t.score.tolist() for suite, t in log.suites.items()} == {"x": [1], "y": [0]}


def test_answers_may_span_lines(table, refused):
    path = table('item,correct,text\na,1,"one\ntwo"\nb,maybe,x\n')
    refused(path, "line 4", "'maybe'")


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("item,correct\na,1\nb\n", ["line 3", "1 values under 2 columns"]),
        ("item,correct\na,1\n,1\n", ["line 3", "item is empty"]),
        ("item,correct\na,nan\n", ["line 2", "NaN"]),
        ("item,correct\na,2\n", ["line 2", "outside 0 to 1"]),
        ("item,correct\na,\n", ["line 2", "no error says why"]),
        ("item,correct,repeat\na,1,-1\n", ["line 2", "repeat is '-1'"]),
        ("item,correct,repeat\na,1,x\n", ["line 2", "repeat is 'x'"]),
        ("item,correct,truncated\na,1,maybe\n", ["line 2", "truncated is 'maybe'"]),
        ("item,correct\na,1\na,1\n", ["line 3", "item 'a'"]),
        ('item,correct,text\na,1,"cut off', ["line 2", "is no CSV"]),
        ("item,correct\n", ["holds no record"]),
    ],
)
def test_bad_rows_are_named(table, refused, text, words):
    refused(table(text), *words)


def test_other_encodings_are_refused(table, refused):
    refused(table("item,correct\né,1\n", encoding="latin-1"), "no UTF-8")


def test_other_tables_are_no_log(table, refused):
    refused(table("name,age\nx,3\n"), "no log", code=2)


def test_the_live_arms_as_csv_and_as_records_read_alike(shared_data, tmp_path):
    """Twelve numeric settings of one model: logs of arrays, written as a user would."""
    arms = sorted((shared_data / "paired" / "live_smollm_gsm8k_5shot").glob("arm_*.json"))
    assert len(arms) == 12
    for arm in arms:
        raw = json.loads(arm.read_text())
        answers = list(zip(raw["ok"], raw["fin"], strict=True))
        csv, own = tmp_path / f"{arm.stem}.csv", tmp_path / f"{arm.stem}.jsonl"
        csv.write_text(
            "item,correct,finish_reason\n"
            + "".join(f"gsm8k-{i},{ok},{fin}\n" for i, (ok, fin) in enumerate(answers))
        )
        own.write_text(
            "".join(
                json.dumps({"item": f"gsm8k-{i}", "correct": ok, "truncated": fin == "length"})
                + "\n"
                for i, (ok, fin) in enumerate(answers)
            )
        )
        one, other = (logs.read(path).suites["unnamed"] for path in (csv, own))
        assert list(one.items) == list(other.items)
        assert len(one) == 60
        for name in ("score", "truncated", "repeat"):
            assert (getattr(one, name) == getattr(other, name)).all()
        assert one.score.sum() == sum(raw["ok"])
