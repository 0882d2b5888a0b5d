import json

import pytest

from tests.verify.evals.sums import kept, number_of, result, solver

pytest.importorskip("datasets")
parquet = pytest.importorskip("pyarrow.parquet")


@pytest.fixture
def run(evals, suite, fake_server, here):
    """A run of few questions, of which some failed and one answer is hostile."""
    from aiohttp import web

    def behave(body, _):
        number = number_of(body["prompt"])
        if number % 5 == 0:
            return web.Response(status=400, text=f"cannot read {body['prompt']!r}")
        answer = solver(fake_server.completion)(body, 0)
        answer["choices"][0]["text"] += '=cmd()\x1b[31m\u2028</script>",\n'
        return answer

    one, other = (fake_server(behave) for _ in range(2))
    arms = ["--arm", f"base={one.url}", "--arm", f"pr={other.url}"]

    def make(*options):
        code, _, err = evals("--suite", suite, *arms, "--limit", 20, *options, "--out", "run")
        assert code in {3, 4}, err
        return here / "run"

    return make


def lines(path):
    return [json.loads(line) for line in path.read_text(encoding="utf-8").split("\n") if line]


def test_every_answer_is_a_row_with_its_question(evals, run, here):
    folder = run()
    code, out, err = evals("export", "run", "--parquet", "a/b.parquet", "--jsonl", "c.jsonl")
    assert (code, err) == (0, "")
    assert out == "40 answers in a/b.parquet\n40 answers in c.jsonl\n"
    records = kept(folder)
    rows = lines(here / "c.jsonl")
    table = parquet.read_table(here / "a" / "b.parquet").to_pylist()
    for row, same in zip(rows, table, strict=True):
        assert row.pop("seconds") == pytest.approx(same.pop("seconds"))
        assert row == same
    assert len(rows) == len(records) == 40
    for row, record in zip(rows, records, strict=True):
        for name in set(record.__struct_fields__) - {"seconds"}:
            assert row[name] == getattr(record, name)
        if record.error is None:
            assert row["target"] == str(2 * number_of(row["prompt"]))
    text = (here / "c.jsonl").read_text(encoding="utf-8")
    assert "\x1b" not in text
    assert len(text.splitlines()) == 40
    assert not list(here.rglob("*.part"))


def test_the_schema_does_not_depend_on_the_answers(evals, run, here):
    run("--limit", 1)
    evals("export", "run", "--parquet", "few.parquet")
    schema = parquet.read_schema(here / "few.parquet")
    assert {str(kind) for kind in schema.types} == {"string", "int64", "bool", "double"}
    assert str(schema.field("truncated").type) == "bool"
    assert str(schema.field("reasoning").type) == "string"


def test_texts_of_a_redacted_suite_are_left_empty(evals, run, here):
    run("--redact")
    assert result(here / "run")["manifest"]["suites"]["sums"]["redact"]
    evals("export", "run", "--jsonl", "out.jsonl")
    content = (here / "out.jsonl").read_text(encoding="utf-8")
    assert "What is" not in content
    assert "####" not in content
    rows = lines(here / "out.jsonl")
    assert {row["error"] for row in rows} == {None, "http_400"}
    assert {row["rule"] for row in rows} == {None, "hashes"}
    assert all(
        row["prompt"] is row["text"] is row["answer"] is row["target"] is None for row in rows
    )


def test_wrong_use_is_one_line(evals, run, here):
    run()
    for words, message in (
        (["run"], "name one"),
        (["nowhere", "--jsonl", "x"], "holds no records.sqlite"),
        (["run", "--jsonl", "/proc/none/x"], "cannot be written"),
    ):
        code, out, err = evals("export", *words)
        assert (code, out, err.count("\n")) == (2, "", 1)
        assert message in err
    (here / "run" / "manifest.json").write_text("{}")
    code, _, err = evals("export", "run", "--jsonl", "x")
    assert code == 2
    assert "does not say which texts may be spread" in err
    assert not (here / "x").exists()
    (here / "bad").mkdir()
    (here / "bad" / "records.sqlite").write_text("no database, but long enough to be looked at")
    (here / "bad" / "manifest.json").write_text('{"suites": {}}')
    code, _, err = evals("export", "bad", "--jsonl", "x")
    assert code == 2
    assert "is no store of a run" in err
