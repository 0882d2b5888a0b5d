"""The comment for a pull request: short, complete, and deaf to what a model wrote."""

from __future__ import annotations

import re
import string

import pytest
from msgspec.structs import replace

from reports import render
from reports.comment import LIMIT, quoted

HOSTILE = (
    "</code></details><script>x</script> | @torvalds fixes #1 ![a](http://e.vil) www.e.vil **b** "
    "`c` \x1b[31m \u202e \x00 <!-- --> ``` \\| &lt; ~~d~~\n\n# head\n- [ ] task"
)


@pytest.fixture
def comment_of(write_run):
    def write(**contents):
        folder = write_run(**contents)
        render(folder)
        return (folder / "comment.md").read_text(encoding="utf-8")

    return write


def test_verdicts_differences_and_disagreements(comment_of, make_suite, make_kernel, records):
    said = comment_of(kernel=make_kernel(), suites=[make_suite()], kept=records())
    assert said.startswith("### kernelproof: \u2713 Passes. Nothing wrong was found.\n")
    assert "| mini-gsm8k | \u2713 pass | 90.1\u00a0% | 89.6\u00a0% | 3 / 2 | " in said
    assert said.count("\n| lost | <code>q017") == 3
    assert said.count("\n| gained | <code>q017") == 2
    assert said.count("<details>") == said.count("</details>") == 2


def test_the_drawing_puts_the_marks_in_their_order(comment_of, make_suite):
    said = comment_of(
        suites=[
            make_suite(difference_pt=-1, interval_pt=[-2, 1]),
            make_suite("long-name", difference_pt=3, interval_pt=[-0.5, 4]),
        ]
    )
    first, second, scale = re.search(r"```text\n(.*?)\n```", said, re.DOTALL)[1].splitlines()
    assert re.fullmatch(r"mini-gsm8k  \[ +-+o-+\|-+", first)
    assert re.fullmatch(r"long-name   \[ +-+\|-+o-+", second)
    assert first.index("[") == second.index("[") == scale.index("\u22125.00 pt")
    assert first.index("|") == second.index("|")
    assert scale.endswith("+4.00 pt")


@pytest.mark.parametrize("verdict", ["pass", "fail", "inconclusive", "invalid"])
def test_nothing_a_model_wrote_reaches_markdown(comment_of, make_suite, records, verdict):
    calm = comment_of(suites=[make_suite(verdict=verdict)], kept=records())
    kept = [replace(r, answer=HOSTILE, text=HOSTILE) for r in records()]
    said = comment_of(suites=[make_suite(verdict=verdict)], kept=kept, target=HOSTILE)
    assert len(said.splitlines()) == len(calm.splitlines())
    for sign in (
        "<script",
        "@torvalds",
        "#1 ",
        "](",
        "www.e",
        "http:",
        "**b",
        "~~",
        "\x1b",
        "\x00",
    ):
        assert sign not in said
    assert said.count("|") == calm.count("|")
    assert said.count("`") == calm.count("`")


@pytest.mark.parametrize("sign", sorted(string.punctuation))
def test_no_sign_of_a_quoted_text_is_left_as_it_is(sign):
    assert re.fullmatch(rf"<code>a&#{ord(sign)};(&#8203;)?b</code>", quoted(f"a{sign}b"))


def test_hostile_names_and_reasons_stay_on_their_line(comment_of, make_suite):
    said = comment_of(suites=[make_suite(name="a|b`c\n@d", reason=HOSTILE, verdict="inconclusive")])
    assert "@d" not in re.sub(r"```.*?```", "", said, flags=re.DOTALL)
    assert "@torvalds" not in said
    assert "<script" not in said
    assert not [line for line in said.splitlines() if line.startswith(("# ", "- [ ]"))]


def test_many_disagreements_stay_within_a_comment(comment_of, make_suite, records):
    kept = [replace(r, answer="\u2603*" * 80) for r in records(both=0, lost=400, gained=300)]
    said = comment_of(suites=[make_suite(lost=400, gained=300)], kept=kept)
    assert len(said) <= LIMIT
    shown = said.count("\n| lost |") + said.count("\n| gained |")
    assert f"{700 - shown} more in report.html." in said
    assert said.rstrip().endswith("</details>")


def test_suites_after_a_full_comment_are_still_named(comment_of, make_suite, records):
    kept = [
        replace(r, answer="\u2603*" * 80)
        for name in ("a", "b")
        for r in records(name, both=0, lost=400, gained=300)
    ]
    said = comment_of(suites=[make_suite("a"), make_suite("b")], kept=kept)
    assert len(said) <= LIMIT
    assert "700 disagreements on b: see report.html." in said
