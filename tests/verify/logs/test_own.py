import json

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from verify import logs
from verify.command import UserError
from verify.logs import own
from verify.logs.table import Builder

HASH = "ab" * 32


def record(item="a", correct=True, **fields):  # noqa: FBT002 - a record's own field
    return {"item": item, "correct": correct} | fields


def test_every_field_of_a_record_is_kept(lines):
    first = record(
        "q1",
        suite="gsm8k",
        repeat=3,
        truncated=True,
        prompt_sha256=HASH,
        target_sha256=HASH[::-1],
        completion_tokens=7,
        text="so 4",
        answer="4",
        rule="last number",
        arm="base",
        unheard_of={"is": "ignored"},
    )
    second = record("q2", None, suite="gsm8k", error="timed out", arm="base")
    log = logs.read(lines("log", first, second))
    table = log.suites["gsm8k"]
    assert list(table.items) == ["q1", "q2"]
    assert table.repeat.tolist() == [3, 0]
    assert table.score[0] == 1
    assert np.isnan(table.score[1])
    assert table.errors == {1: "timed out"}
    assert table.truncated.tolist() == [1, -1]
    assert table.tokens.tolist() == [7, -1]
    assert table.prompt.tolist() == [hash(HASH), 0]
    assert table.target.tolist() == [hash(HASH[::-1]), 0]
    assert (table.text, table.answer, table.rule) == (
        ["so 4", None],
        ["4", None],
        ["last number", None],
    )
    assert log.unknown == frozenset()


def test_what_no_record_carries_is_unknown(lines):
    log = logs.read(lines("log", record("a"), record("b", correct=False)))
    assert log.unknown == {"truncated", "completion_tokens", "prompt_sha256", "target_sha256"}
    assert log.suites["unnamed"].text is None


def test_partial_credit_is_a_score(lines):
    table = logs.read(lines("log", record("a", 0.25), record("b", 1), record("c", 0))).suites[
        "unnamed"
    ]
    assert table.score.tolist() == [0.25, 1, 0]
    assert table.graded


def test_scores_of_right_and_wrong_are_not_graded(lines):
    assert not logs.read(lines("log", record("a"), record("b", 0))).suites["unnamed"].graded


def test_a_failed_request_never_counts_as_an_answer(lines):
    rows = [record("a", correct=False, error="HTTP 500"), record("b", error="")]
    log = logs.read(lines("log", *rows))
    table = log.suites["unnamed"]
    assert np.isnan(table.score[0])
    assert table.score[1] == 1  # an empty error is none
    assert "1 failed requests carried a score" in log.notes[0]


def test_blank_lines_byte_order_mark_and_windows_endings_change_nothing(lines):
    path = lines(
        "log", b'\xef\xbb\xbf{"item": "a", "correct": true}\r\n', b"\r\n", b"  ", record("b")
    )
    table = logs.read(path).suites["unnamed"]
    assert list(table.items) == ["a", "b"]
    assert table.line.tolist() == [1, 4]


def test_a_missing_last_newline_is_no_fault(tmp_path):
    path = tmp_path / "log"
    path.write_bytes(b'{"item": "a", "correct": true}')
    assert len(logs.read(path).suites["unnamed"]) == 1


def test_suites_are_told_apart_and_one_can_be_chosen(lines, refused):
    path = lines("log", record("a", suite="x"), record("a", suite="y"), record("b", suite="x"))
    assert {s: list(t.items) for s, t in logs.read(path).suites.items()} == {
        "x": ["a", "b"],
        "y": ["a"],
    }
    assert list(logs.read(path, suite="y").suites) == ["y"]
    refused(path, "'z'", "it holds x, y", suite="z", code=2)


def test_a_suite_can_be_named_where_records_name_none(lines):
    assert list(logs.read(lines("log", record()), suite="mine").suites) == ["mine"]


def test_one_arm_of_several_is_chosen_by_name(lines, refused):
    path = lines("log", record("a", arm="base"), record("a", correct=False, arm="pr"))
    assert logs.read(f"{path}::pr").suites["unnamed"].score.tolist() == [0]
    refused(path, "holds the arms base, pr", "FILE::ARM", code=2)
    refused(f"{path}::other", "no arm 'other'", "base, pr", code=2)


def test_records_with_and_without_an_arm_are_mixed(lines, refused):
    refused(lines("log", record("a", arm="base"), record("b")), "some records name no arm", code=2)


def test_an_arm_cannot_be_chosen_where_none_is_named(lines, refused):
    refused(f"{lines('log', record())}::base", "name no arm", code=2)


def test_repeats_are_numbered_and_one_twice_is_refused(lines, refused):
    rows = [record("a", repeat=0), record("a", repeat=1), record("b"), record("a", repeat=1)]
    assert len(logs.read(lines("log", *rows[:3])).suites["unnamed"]) == 3
    refused(lines("log", *rows), "line 4", "item 'a'", "repeat 1", "line 2")


def test_numbers_and_texts_name_the_same_item(lines, refused):
    refused(lines("log", record(7), record("7")), "line 2", "item '7'")


@pytest.mark.parametrize(
    ("bad", "words"),
    [
        ({"item": "a"}, ["missing required field `correct`"]),
        ({"correct": True}, ["missing required field `item`"]),
        (record(""), ["item is ''"]),
        (record(1.5), ["item is 1.5"]),
        (record("z", "C"), ["correct is 'C'", "write true, false"]),
        (record("z", 1.5), ["correct is 1.5", "<= 1"]),
        (record("z", -1), ["correct is -1"]),
        (record("z", None), ["correct is null for item 'z'", "no error says why"]),
        (record("z", truncated="no"), ["truncated is 'no'"]),
        (record("z", repeat=-1), ["repeat is -1"]),
        (record("z", repeat="1"), ["repeat is '1'"]),
        (record("z", completion_tokens=2**40), ["completion_tokens is 1099511627776"]),
        (record("z", error=500), ["error is 500"]),
        (record("z", prompt_sha256="x" * 65), ["prompt_sha256 is 'xxx"]),
        ([1, 2], ["got `array`", "one object a line"]),
        (b'{"item": "z", "correct": NaN}', ["NaN is not JSON"]),
        (b'{"item": "z", "correct": true', ["not JSON"]),
        (b'{"item": "z", "correct": true}{"item": "y", "correct": true}', ["not JSON"]),
        (b'{"item": "\xff", "correct": true}', ["not JSON"]),
        (b"\x00\x01\x02", ["not JSON"]),
    ],
)
def test_a_bad_line_is_named_with_its_value(lines, refused, bad, words):
    refused(lines("log", record("a"), record("b"), bad, record("c")), "line 3", *words)


def test_a_file_cut_inside_a_record_says_so(tmp_path, refused):
    path = tmp_path / "log"
    path.write_bytes(b'{"item": "a", "correct": true}\n{"item": "b", "corr')
    refused(path, "line 2", "the file ends inside this record")


rows = st.fixed_dictionaries(
    {"item": st.integers(0, 10**6), "correct": st.sampled_from([True, False, 0.5])},
    optional={
        "suite": st.sampled_from(["x", "y"]),
        "truncated": st.sampled_from([None, True, False]),
        "completion_tokens": st.none() | st.integers(0, 2**31 - 1),
        "text": st.text(max_size=20),
        "error": st.sampled_from([None, "broken"]),
    },
)


@settings(max_examples=60, deadline=None)
@given(
    rows=st.lists(rows, min_size=1, max_size=40, unique_by=lambda r: r["item"]),
    chunk=st.integers(1, 300),
    blank=st.integers(0, 2),
)
def test_chunks_end_where_they_like(tmp_path_factory, rows, chunk, blank):
    """Read in pieces of any size, a log is what the standard library finds in it."""
    path = tmp_path_factory.mktemp("log") / "log"
    path.write_text(
        "\n".join([""] * blank) + ("\n" * (blank + 1)).join(json.dumps(r) for r in rows),
        encoding="utf-8",
    )
    builder = Builder(path)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(own, "CHUNK", chunk)
        own.read(path, builder, logs.Choice())
    tables = builder.finish()
    assert sum(map(len, tables.values())) == len(rows)
    found = {}
    for suite, table in tables.items():
        names = list(table.items)
        for row in range(len(table)):
            score = None if row in table.errors else table.score[row]
            assert np.isnan(table.score[row]) == (row in table.errors)
            truncated, tokens = table.truncated[row], table.tokens[row]
            text = table.text[row] if table.text else None
            found[table.line[row]] = (suite, names[table.item[row]], score, truncated, tokens, text)
    for number, row in enumerate(rows):
        line = max(blank, 1) + number * (blank + 1)
        assert found[line] == (
            row.get("suite", "unnamed"),
            str(row["item"]),
            None if row.get("error") else float(row["correct"]),
            {None: -1, True: 1, False: 0}[row.get("truncated")],
            -1 if row.get("completion_tokens") is None else row["completion_tokens"],
            row.get("text"),
        )


def test_a_wrong_value_on_a_line_that_is_no_json_further_on(lines, refused):
    path = lines("log", record("a"), b'{"item": "b", "correct": "yes", "truncated"}')
    refused(path, "line 2", "correct is wrong in")


# Lines that are read, and lines that are not; most stand in a log of good ones.
GOOD = st.one_of(
    st.builds(
        record,
        st.text(min_size=1, max_size=3) | st.integers(0, 20),
        st.sampled_from([True, False, 0.5]),
        repeat=st.integers(0, 2),
    ).map(json.dumps).map(str.encode),
    st.sampled_from([b"", b"  ", b"\x0b", '{"item": "語", "correct": true}'.encode()]),
)  # fmt: skip
BAD = st.sampled_from([
    b'{"item": "z", "correct": NaN}', b'{"item": "z", "correct": true', b"\x00", b"\xff",
    b'{"item": "z", "correct": true}{"item": "y", "correct": true}', b"[]", b"null",
    b'{"item": "\xff", "correct": true}', b'{"item": "\\ud800", "correct": true}',
    b'{"item": "z", "correct": 1e400}', b'{"item": "z", "correct": null}',
    b'{"item": "z", "correct": true, "repeat": 1' + b"0" * 400 + b"}",
    b'{"item": "z", "correct": true, "suite": "a\\u0000"}', b'{"correct": true, "item": ""}',
])  # fmt: skip


def outcome(path, chunk):
    """All that is read from a log in pieces of `chunk` bytes, or the line that refuses it."""
    builder = Builder(path)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(own, "CHUNK", chunk)
        try:
            own.read(path, builder, logs.Choice())
            (table,) = builder.finish().values()
        except UserError as error:
            return str(error)
    arrays = (table.item, table.repeat, table.score, table.tokens, table.line, table.prompt)
    return list(table.items), [array.tolist() for array in arrays]


@st.composite
def flawed(draw):
    """A log with duplicates and blank lines, at most one line that is wrong, perhaps cut."""
    lines = draw(st.lists(GOOD, max_size=20))
    if draw(st.booleans()):
        lines.insert(draw(st.integers(0, len(lines))), draw(BAD))
    end = draw(st.sampled_from([b"\n", b"\r\n"]))
    whole = b"".join(line + end for line in lines)
    start = draw(st.sampled_from([b"", own.BOM]))
    return start + whole[: len(whole) - draw(st.sampled_from([0, 0, 1, 2, 9]))]


@settings(deadline=None)
@given(log=flawed())
def test_many_lines_at_once_are_what_one_by_one_they_are(tmp_path_factory, log):
    path = tmp_path_factory.mktemp("log") / "log"
    path.write_bytes(log)
    assert outcome(path, 1 << 17) == outcome(path, 1)


def test_the_first_of_several_bad_lines_is_named(lines, refused):
    path = lines("log", record("a"), record("b", None), b"{")
    refused(path, "line 2", "correct is null")
