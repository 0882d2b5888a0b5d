"""What is told of both arms while they answer."""

import io
from types import SimpleNamespace

from rich.console import Console

from verify.evals.progress import PLAIN_LINES, Watch
from verify.store import Record


def record(arm="base", suite="sums", **changes):
    return Record(
        **{"arm": arm, "suite": suite, "item": "q", "correct": True, "completion_tokens": 30}
        | changes
    )


def watched(*, terminal=False, size=50, suites=("sums",), seconds=iter):
    """A watch on a console of its own, and what it has written so far."""
    clock = iter(seconds) if seconds is not iter else iter(range(10_000))
    written = io.StringIO()
    console = Console(file=written, force_terminal=terminal, width=120)
    tasks = [SimpleNamespace(name=name, answers=size) for name in suites]
    return Watch(console, ("base", "pr"), tasks, now=lambda: next(clock)), written


def test_a_few_plain_lines_where_there_is_no_terminal():
    watch, written = watched()
    with watch:
        for i in range(50):
            watch.heard(record(correct=i > 4, truncated=i < 3))
            watch.heard(
                record("pr", correct=None if i < 2 else True, error="x: y" if i < 2 else None)
            )
    lines = written.getvalue().splitlines()
    assert len(lines) == 2 * PLAIN_LINES
    assert lines[0].startswith("base  sums: 5 of 10 right, 3 cut, ")
    assert lines[1].startswith("pr  sums: 8 of 10 right, 2 errors, ")
    assert lines[-1].startswith("pr  sums: 48 of 50 right, 2 errors, ")
    assert lines[-1].endswith(", of 50")


def test_tokens_a_second_and_the_time_left():
    # asked: when the suite began, then for the rate and for the rest
    watch, written = watched(seconds=[100, *[110] * 99])
    for _ in range(10):
        watch.heard(record())
    assert written.getvalue() == "base  sums: 10 of 10 right, 30 tokens/s, of 50, 0:40 left\n"


def test_what_was_answered_before_counts_but_not_for_the_pace():
    watch, written = watched(seconds=[100, *[110] * 99])
    for _ in range(39):
        watch.held(record())
    watch.heard(record())
    assert written.getvalue() == "base  sums: 40 of 40 right, 3 tokens/s, of 50, 1:40 left\n"


def test_every_suite_is_counted_by_itself():
    watch, written = watched(suites=("sums", "more"), size=1)
    watch.heard(record())
    watch.heard(record(suite="more", correct=False, completion_tokens=None))
    assert written.getvalue().splitlines() == [
        "base  sums: 1 of 1 right, 30 tokens/s, of 1",
        "base  more: 0 of 1 right, of 1",
    ]


def test_a_terminal_shows_both_arms():
    watch, written = watched(terminal=True)
    with watch:
        watch.heard(record())
        watch.heard(record("pr", correct=False))
        watch._progress.refresh()
    text = written.getvalue()
    assert "sums: 1 of 1 right" in text
    assert "sums: 0 of 1 right" in text
    assert "1/50" in text
