from __future__ import annotations

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from reports import text

ANY = st.text(st.characters(codec=None), max_size=60)  # lone surrogates and NUL included


@given(ANY)
@example("\x00\x1b[31m\u202e\u200b\ud800\x7f\x85\u2028")
def test_visible_text_can_be_written_and_hides_nothing(given_text):
    shown = text.visible(given_text)
    shown.encode("utf-8")
    assert all(char.isprintable() or char.isspace() for char in shown)
    assert not {"\x00", "\x1b", "\r", "\x7f", "\u202e", "\u2066", "\u200b"} & set(shown)


@pytest.mark.parametrize(
    ("char", "sign"),
    [
        ("\x00", "\u27e8U+0000\u27e9"),
        ("\x1b", "\u27e8U+001B\u27e9"),
        ("\r", "\u27e8U+000D\u27e9"),
        ("\x7f", "\u27e8U+007F\u27e9"),
        ("\u202e", "\u27e8U+202E\u27e9"),
        ("\ud83d", "\u27e8U+D83D\u27e9"),
    ],
)
def test_hidden_characters_have_signs(char, sign):
    assert text.visible(f"a{char}b") == f"a{sign}b"
    assert f">{sign}</span>b" in text.marked(f"a{char}b")


@given(st.text(st.characters(categories=["L", "N", "P", "S", "Zs"])))
def test_what_can_be_seen_stays_as_it_is(seen):
    assert text.visible(seen + "\n\t") == seen + "\n\t"


@given(ANY)
def test_marked_text_is_escaped(given_text):
    assert "<" not in str(text.marked(given_text)).replace("<span", "").replace("</span", "")


@given(ANY, ANY, ANY)
def test_split_loses_nothing(shared, first, second):
    parted = text.split(shared + first, shared + second)
    for side, whole in enumerate((shared + first, shared + second)):
        assert parted.shared + parted.tokens[side] + parted.rests[side] == whole
    assert parted.tokens[0] != parted.tokens[1] or shared + first == shared + second


@pytest.mark.parametrize(
    ("first", "second", "shared", "tokens"),
    [
        ("The sum is 125.", "The sum is 129.", "The sum is", (" 125", " 129")),
        ("12 apples", "125 apples", "", ("12", "125")),
        ("yes", "yes, but", "yes", ("", ",")),
        ("", "x", "", ("", "x")),
        ("same", "same", "same", ("", "")),
    ],
)
def test_split_at_the_first_differing_token(first, second, shared, tokens):
    parted = text.split(first, second)
    assert (parted.shared, parted.tokens) == (shared, tokens)


def test_a_token_without_end_is_cut():
    parted = text.split("a" * 1_000_000, "b" * 1_000_000)
    assert [len(token) for token in parted.tokens] == [text.TOKEN_LIMIT] * 2
    assert len(parted.rests[0]) == 1_000_000 - text.TOKEN_LIMIT


def test_excerpts_count_what_they_leave_out():
    assert text.head("abcdef", 4) == text.Excerpt("abcd", 2)
    assert text.tail("abcdef", 4) == text.Excerpt("cdef", 2)
    assert text.tail("abc", 4) == text.head("abc", 4) == text.Excerpt("abc", 0)


def test_anchors_are_plain_and_distinct():
    names = [("a", "b"), ("ab", ""), ("", "ab"), ("\ud800", '" onclick="')]
    anchors = [text.anchor("question", *name) for name in names]
    assert len(set(anchors)) == len(names)
    assert all(anchor.replace("-", "").isalnum() for anchor in anchors)
