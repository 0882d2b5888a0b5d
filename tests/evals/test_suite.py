import hashlib
import json

import pytest

from evals.suite import SuiteError, content_id, fill, load, names, reduce_target

ROWS = [{"question": f"What is {i} + 1?", "answer": f"{i} + 1\n#### {i + 1}"} for i in range(6)]
TOML = """
name = "mine"
title = "A user's own suite"
licence = "MIT"
answered_by = "server"
answer = "integer"
floor = 0.05
margin_pt = 2.0

[source]
file = "test.jsonl"
sha256 = "SHA"

[fields]
question = "question"
target = "answer"

[prompt]
style = "completion"
shots = 2
shot_template = "Q: {question}\\nA: {target}\\n"
template = "{shots}Q: {question}\\nA:"

[sampling]
max_tokens = 10
"""


@pytest.fixture
def write(tmp_path):
    """A suite's folder; `edit` changes suite.toml."""

    def make(rows=ROWS, edit=lambda toml: toml):
        content = "".join(json.dumps(row) + "\n" for row in rows).encode()
        (tmp_path / "test.jsonl").write_bytes(content)
        toml = TOML.replace("SHA", hashlib.sha256(content).hexdigest())
        (tmp_path / "suite.toml").write_text(edit(toml))
        return str(tmp_path)

    return make


def test_items_are_ordered_by_content_and_shots_are_not_scored(write):
    questions = load(write()).questions()
    assert [shot.row for shot in questions.shots] == [0, 1]
    assert sorted(item.row for item in questions.items) == [2, 3, 4, 5]
    ids = [item.id for item in questions.items]
    assert ids == sorted(ids)
    assert not {shot.id for shot in questions.shots} & set(ids)
    item = next(item for item in questions.items if item.row == 4)
    assert item.target == "5"
    assert item.prompt == (
        "Q: What is 0 + 1?\nA: 0 + 1\n#### 1\nQ: What is 1 + 1?\nA: 1 + 1\n#### 2\n"
        "Q: What is 4 + 1?\nA:"
    )
    assert item.prompt_sha256 == hashlib.sha256(item.prompt.encode()).hexdigest()


def test_order_of_rows_does_not_choose_the_items(write):
    no_shots = lambda t: t.replace("shots = 2", "shots = 0")  # noqa: E731
    one = load(write(edit=no_shots)).questions()
    other = load(write(rows=ROWS[::-1], edit=no_shots)).questions()
    assert [(i.id, i.prompt) for i in one.items] == [(i.id, i.prompt) for i in other.items]


def test_braces_in_questions_stay(write):
    rows = [*ROWS, {"question": "{shots} {question} {x}", "answer": "#### 3"}]
    (item,) = [i for i in load(write(rows)).questions().items if i.row == 6]
    assert item.prompt.endswith("Q: {shots} {question} {x}\nA:")
    assert fill("{a}{b}", a="{b}", b="1") == "{b}1"


def test_another_file_must_have_the_pinned_hash(write, tmp_path):
    suite = load(write())
    same = tmp_path / "elsewhere.jsonl"
    same.write_bytes((tmp_path / "test.jsonl").read_bytes())
    assert suite.questions(same).items == suite.questions().items
    same.write_text(json.dumps(ROWS[0]))
    with pytest.raises(SuiteError, match="is pinned to"):
        suite.questions(same)
    with pytest.raises(SuiteError, match="cannot be read"):
        suite.questions(tmp_path / "absent.jsonl")


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("margin_pt = 2.0", "margin_pt = 200.0", "margin_pt must lie"),
        ("margin_pt = 2.0", "margin = 2.0", "unknown field `margin`"),
        ("margin_pt = 2.0", "margin_pt = 'two'", "Expected `float`"),
        ("margin_pt = 2.0\n", "", "missing required field `margin_pt`"),
        ('"integer"', '"essay"', "Invalid enum value"),
        ('file = "test.jsonl"', "", "either file or hub"),
        ('file = "test.jsonl"', 'hub = "a/b"', "must pin"),
        ("Q: {question}\\nA:", "Q:", "must hold {question}"),
        ("{shots}Q", "Q", "needs a shot_template"),
        ("shots = 2", "shots = -1", "must not be negative"),
        ("max_tokens = 10", "max_tokens = 0", "must be positive"),
        ('name = "mine"', 'name = "../mine"', "must be letters"),
        ("floor = 0.05", "floor = 1.0", "floor must lie"),
        ("[source]", "[source", "suite.toml"),
        ("margin_pt = 2.0", "margin_pt = 2.0\nitems = 0", "items must be positive"),
    ],
)
def test_a_wrong_suite_is_one_line(write, old, new, message):
    with pytest.raises(SuiteError, match=message.replace("{", r"\{")) as caught:
        load(write(edit=lambda toml: toml.replace(old, new)))
    assert "\n" not in str(caught.value)
    assert "suite.toml" in str(caught.value)


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        (ROWS[:2], "nothing is left to score"),
        ([*ROWS, ROWS[4]], "rows 5 and 7 are the same question"),
        ([*ROWS, ROWS[0]], "rows 1 and 7 are the same question"),
        (
            [*ROWS, {"question": "?", "answer": "many"}],
            "row 7: the target 'many' ends in no number",
        ),
        ([*ROWS, {"question": "?"}], "row 7 has None under 'answer'"),
        ([*ROWS, {"question": 1.5, "answer": "1"}], "row 7 has 1.5 under 'question'"),
        ([*ROWS, [1]], "line 7 is not a JSON object"),
    ],
)
def test_wrong_rows_are_one_line(write, rows, message):
    with pytest.raises(SuiteError, match=message):
        load(write(rows)).questions()


def test_unknown_suites_are_answered_with_the_known_ones(tmp_path):
    with pytest.raises(SuiteError, match=r"choose one of .*gsm8k"):
        load("gsm9k")
    with pytest.raises(SuiteError, match="no suite"):
        load(str(tmp_path))


@pytest.mark.parametrize(
    ("target", "answer", "reduced"),
    [
        ("so 3\n#### 1,000", "integer", "1000"),
        ("#### -0", "integer", "0"),
        ("007", "integer", "7"),
        ("18.50", "integer", "18.5"),
        ("b", "letter", "B"),
        ("#### C", "letter", "C"),
    ],
)
def test_targets_are_reduced(target, answer, reduced):
    assert reduce_target(target, answer) == reduced


@pytest.mark.parametrize(
    ("target", "answer"),
    [("4 or 5", "integer"), ("inf", "integer"), ("CD", "letter"), ("", "letter")],
)
def test_targets_that_are_no_answer_are_refused(target, answer):
    with pytest.raises(ValueError, match="target"):
        reduce_target(target, answer)


@pytest.mark.parametrize("name", names())
def test_built_in_suites_can_be_read(name):
    suite = load(name)
    assert suite.spec.name == name
    if suite.spec.source.file:
        questions = suite.questions()
        assert len(questions.items) >= (suite.spec.items or 1)
        assert questions.sha256 == suite.spec.source.sha256


def test_real_gsm8k(shared_data):
    suite = load("gsm8k")
    questions = suite.questions(shared_data / "gsm8k" / "test.jsonl")
    assert len(questions.items) == 1314
    assert [shot.row for shot in questions.shots] == [0, 1, 2, 3, 4]
    rows = [json.loads(r) for r in (shared_data / "gsm8k" / "test.jsonl").open(encoding="utf-8")]
    for item in questions.items:
        assert item.id == content_id(rows[item.row]["question"], rows[item.row]["answer"])
        assert rows[item.row]["answer"].rpartition("#### ")[2].replace(",", "") == item.target
        assert item.prompt.count("Question:") == 6
        assert item.prompt.endswith(f"Question: {rows[item.row]['question']}\nAnswer:")


def test_the_right_solutions_of_real_gsm8k_are_graded_right(shared_data):
    from evals.grading import grade

    path = shared_data / "gsm8k" / "test.jsonl"
    answers = {i: json.loads(r)["answer"] for i, r in enumerate(path.open(encoding="utf-8"))}
    for item in load("gsm8k").questions(path).items:
        found = grade(f" {answers[item.row]}", item.target, "integer", truncated=False)
        assert (found.correct, found.rule) == (True, "hashes")


def test_a_hub_out_of_reach_is_one_line(monkeypatch):
    datasets = pytest.importorskip("datasets")

    def unreachable(*_, **__):
        raise ConnectionError("Couldn't reach 'openai/gsm8k'\non the Hub")

    monkeypatch.setattr(datasets, "load_dataset", unreachable)
    with pytest.raises(SuiteError, match=r"could not be loaded from the hub .*--data") as caught:
        load("gsm8k").questions()
    assert "\n" not in str(caught.value)


def test_rows_from_the_hub_make_the_same_items_as_the_file(monkeypatch, shared_data):
    datasets = pytest.importorskip("datasets")
    path = shared_data / "gsm8k" / "test.jsonl"
    asked = {}

    def from_file(name, config, **options):
        asked.update(name=name, config=config, **options)
        return [json.loads(line) for line in path.open(encoding="utf-8")]

    monkeypatch.setattr(datasets, "load_dataset", from_file)
    suite = load("gsm8k")
    hub, local = suite.questions(), suite.questions(path)
    assert (hub.items, hub.shots, hub.sha256) == (local.items, local.shots, local.sha256)
    assert asked["revision"] == suite.spec.source.revision
