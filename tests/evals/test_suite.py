import collections
import csv
import hashlib
import io
import json
from pathlib import Path

import pytest

from evals.rows import SuiteError
from evals.suite import content_id, fill, load, names, reduce_target

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
    def no_shots(text):
        return text.replace("shots = 2", "shots = 0")

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
        suite.questions(tmp_path / "absent.jsonl", unpinned=True)


def test_unpinned_accepts_another_file_and_says_so(write, tmp_path):
    suite = load(write())
    other = tmp_path / "elsewhere.jsonl"
    other.write_text("".join(json.dumps(row) + "\n" for row in ROWS[:4]))
    found = suite.questions(other, unpinned=True)
    assert not found.pinned
    assert found.sha256 == hashlib.sha256(other.read_bytes()).hexdigest()
    assert len(found.items) == 2
    assert suite.questions().pinned
    assert suite.questions(tmp_path / "test.jsonl", unpinned=True).pinned


def test_any_of_several_pins_will_do(write):
    pin = hashlib.sha256((Path(write()) / "test.jsonl").read_bytes()).hexdigest()
    several = load(write(edit=lambda t: t.replace(f'"{pin}"', f'["0", "{pin}"]')))
    assert several.questions().pinned


def as_csv(rows):
    text = io.StringIO()
    writer = csv.DictWriter(text, rows[0])
    writer.writeheader()
    writer.writerows(rows)
    return text.getvalue().encode("utf-8-sig")


def as_parquet(rows):
    pa = pytest.importorskip("pyarrow")
    from pyarrow import parquet

    buffer = io.BytesIO()
    parquet.write_table(pa.Table.from_pylist(rows), buffer)
    return buffer.getvalue()


@pytest.mark.parametrize(("suffix", "written"), [("csv", as_csv), ("parquet", as_parquet)])
def test_the_same_rows_in_another_form_are_the_same_items(write, tmp_path, suffix, written):
    suite = load(write())
    path = tmp_path / f"rows.{suffix}"
    path.write_bytes(written(ROWS))
    assert suite.questions(path, unpinned=True).items == suite.questions().items


@pytest.mark.parametrize("name", ["rows.csv", "rows.parquet", "rows.jsonl"])
def test_a_file_of_another_form_is_one_line(write, tmp_path, name):
    path = tmp_path / name
    path.write_bytes(b'\xff\x00"a')
    with pytest.raises(SuiteError) as caught:
        load(write()).questions(path, unpinned=True)
    assert name in str(caught.value)
    assert "\n" not in str(caught.value)


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
        ("margin_pt = 2.0", "margin_pt = 2.0\nrepeats = 0", "repeats must be positive"),
        ('target = "answer"', 'target = "answer"\ndistractors = ["b"]', "answer a letter"),
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
        ("18.0", "integer", "18"),
        ("18.50", "decimal", "18.5"),
        ("1,000.50", "decimal", "1000.5"),
        ("b", "letter", "B"),
        ("#### C", "letter", "C"),
    ],
)
def test_targets_are_reduced(target, answer, reduced):
    assert reduce_target(target, answer) == reduced


@pytest.mark.parametrize(
    ("target", "answer"),
    [
        ("4 or 5", "integer"),
        ("18.5", "integer"),
        ("inf", "integer"),
        ("nan", "decimal"),
        ("CD", "letter"),
        ("", "letter"),
    ],
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


SCIENCE = [
    {
        "Record ID": f"rec{i}",
        "Question": f"Which particle is number {i}?",
        "Correct Answer": f"secret{i}",
        "Incorrect Answer 1": f"wrong{i}",
        "Incorrect Answer 2": f"other{i}, or ten",
        "Incorrect Answer 3": f"none of {i}\nnor of more",
        "Subdomain": "",
    }
    for i in range(400)
]


@pytest.fixture
def science(tmp_path):
    """Rows with the columns of GPQA, as the file that the real suite would read."""

    def make(rows=SCIENCE):
        path = tmp_path / "gpqa_diamond.csv"
        path.write_bytes(as_csv(rows))
        return load("gpqa_diamond").questions(path, unpinned=True)

    return make


def letter_of(item):
    """The letter before the right option of a SCIENCE item, read out of its prompt."""
    (line,) = [line for line in item.prompt.splitlines() if line[3:].startswith("secret")]
    return line[0]


def test_options_are_lettered_and_the_right_one_is_the_target(science):
    items = science().items
    for item in items:
        assert item.target == letter_of(item)
        for name in ("Question", "Correct Answer", *(f"Incorrect Answer {n}" for n in (1, 2, 3))):
            assert SCIENCE[item.row][name] in item.prompt
    # uniform over the letters: 100 each, standard deviation 8.7
    counts = collections.Counter(item.target for item in items)
    assert sorted(counts) == list("ABCD")
    assert all(65 < count < 135 for count in counts.values())


def test_the_order_of_options_depends_on_the_question_alone(science):
    whole = {item.id: item.prompt for item in science().items}
    backwards = {item.id: item.prompt for item in science(SCIENCE[:50:-7]).items}
    assert backwards.items() <= whole.items()
    columns = ("Incorrect Answer 1", "Incorrect Answer 3")
    swapped = [row | dict(zip(columns, (row[c] for c in columns[::-1]), strict=True))
               for row in SCIENCE]  # fmt: skip
    assert [i.prompt for i in sorted(science(swapped).items, key=lambda i: i.row)] == [
        i.prompt for i in sorted(science().items, key=lambda i: i.row)
    ]


@pytest.mark.parametrize(
    "change",
    [{"Question": ""}, {"Incorrect Answer 2": "secret7"}, {"Correct Answer": None}],
)
def test_messages_about_a_redacted_suite_hold_none_of_its_text(science, change):
    rows = [*SCIENCE[:7], SCIENCE[7] | change]
    with pytest.raises(SuiteError, match="row 8") as caught:
        science(rows)
    for text in SCIENCE[7].values():
        assert not text or text not in str(caught.value)


def test_real_aime26(shared_data):
    questions = load("aime26").questions(shared_data / "aime26" / "test.jsonl")
    assert questions.pinned
    assert len(questions.items) == 30
    assert all(0 <= int(item.target) <= 999 for item in questions.items)


def test_gsm8k_as_a_chat_scores_every_question(shared_data):
    questions = load("gsm8k_chat").questions(shared_data / "gsm8k" / "test.jsonl")
    assert len(questions.items) == 1319
    shots = load("gsm8k").questions(shared_data / "gsm8k" / "test.jsonl")
    assert {item.id for item in shots.items} < {item.id for item in questions.items}
