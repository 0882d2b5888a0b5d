"""The comment: a run in GitHub's Markdown, short enough for a pull request."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from reports import text, words

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from reports.layers import Layer
    from reports.questions import Disagreement
    from reports.read import Run, Suite
    from reports.suites import SuiteView
    from reports.view import Page

LIMIT = 65_536
"""Characters of a comment on GitHub."""

_ROOM = 400
"""Characters kept for closing what is open and saying what was left out."""

_QUOTED = 160
"""Characters of one quoted text."""

_SIGNS = {"pass": "\u2713", "fail": "\u2717", "inconclusive": "?", "invalid": "\u2205"}


def comment(run: Run, page: Page) -> str:
    """The verdicts, the differences drawn in text, what is left open, and disagreements that open.

    Whatever a model, a user or a manifest wrote is escaped: it cannot end a table, open a tag,
    mention a person or link anywhere. At most `LIMIT` characters; the last disagreements are left
    out first, and counted.
    """
    written = "\n\n".join(_always(run, page))
    room = LIMIT - _ROOM - len(written)
    for suite in page.suites:
        part = _disagreements(suite, room)
        room -= len(part) + 2
        written += f"\n\n{part}" * bool(part)
    return written[: LIMIT - 1].rstrip() + "\n"


def quoted(content: str) -> str:
    """`content` on one line as code that GitHub reads no further into, cut where it is long."""
    line = " ".join(text.visible(content.replace("\n", " ")).split())
    shown = text.head(line, _QUOTED)
    more = "\u2026" if shown.left_out else ""
    return f"<code>{re.sub(r'[!-/:-@[-`{-~]', _entity, shown.shown)}{more}</code>"


def _plain(content: str) -> str:
    """A sentence of ours with names in it, and no sign left that Markdown or GitHub would read."""
    line = text.visible(content.replace("\n", " "))
    return re.sub(r"[\\`*_\[\]<>|~&]|[@#]|:(?=//)|(?<=www)\.", _entity, line)


def _entity(sign: re.Match[str]) -> str:
    """A zero-width space keeps @ and # from naming a person or an issue."""
    return f"&#{ord(sign[0])};" + ("&#8203;" if sign[0] in "@#" else "")


def _always(run: Run, page: Page) -> Iterator[str]:
    whole = page.whole
    title = f"{words.verdict(whole.verdict)}. {whole.headline}"
    yield f"### kernelproof: {_SIGNS[whole.verdict]} {title}"
    if whole.sentence:
        yield _plain(whole.sentence)
    yield _table(
        ("layer", "verdict", "the number behind it"), [_layer(layer) for layer in page.layers]
    )
    suites = run.result.suites
    if suites:
        yield _table(
            ("suite", "verdict", "base", "PR", "lost / gained", "difference", "loss allowed"),
            [_suite(suite) for suite in suites],
        )
        yield from _drawn(suites)
    gaps = [f"- {_plain(g.claim)}{_remedy(g.remedy)}" for g in page.gaps]
    yield _opens("What this run does not establish", "\n".join(gaps))
    if page.manifest.command is not None:
        yield f"Repeat it: {quoted(page.manifest.command)}"


def _layer(layer: Layer) -> tuple[str, ...]:
    number = f"{layer.number} {layer.unit}" if layer.number else layer.sentence
    return (f"{layer.name}: {layer.question}", _verdict(layer.verdict), _plain(number))


def _verdict(verdict: str | None) -> str:
    return "not run" if verdict is None else f"{_SIGNS[verdict]} {verdict}"


def _remedy(remedy: str) -> str:
    return f" *To settle it:* {_plain(remedy)}" if remedy else ""


def _suite(suite: Suite) -> tuple[str, ...]:
    rates = suite.accuracy
    shares = [
        words.share(rate) if rate is not None else "\u2013"
        for rate in ((rates.base, rates.pr) if rates else (None, None))
    ]
    flips = "\u2013" if suite.lost is None else f"{suite.lost:,} / {suite.gained:,}"
    change = "\u2013"
    if suite.difference_pt is not None:
        change = f"{words.change(suite.difference_pt)} pt"
        if suite.interval_pt is not None:
            change += f" ({words.interval(suite.interval_pt)})"
    margin = f"{words.size(suite.noninferiority.margin_pt)} pt" if suite.noninferiority else ""
    return (_plain(suite.suite), _verdict(suite.verdict), *shares, flips, change, margin)


def _table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def _opens(summary: str, body: str) -> str:
    return f"<details><summary>{summary}</summary>\n\n{body}\n\n</details>"


@dataclass(frozen=True)
class _Scale:
    """Points to columns of a line of text."""

    low: float
    high: float
    columns: int = 49

    def at(self, points: float) -> int:
        return round((points - self.low) / (self.high - self.low) * (self.columns - 1))


def _drawn(suites: Sequence[Suite]) -> Iterator[str]:
    """Each interval as a line: `[` the loss allowed, `|` no difference, `o` the difference."""
    shown = [s for s in suites if s.interval_pt is not None and s.difference_pt is not None]
    if not shown:
        return
    ends = [end for suite in shown for end in (suite.interval_pt or ())]
    margins = [-s.noninferiority.margin_pt for s in shown if s.noninferiority]
    scale = _Scale(min(*ends, *margins, -0.5), max(*ends, 0.5))
    names = [re.sub(r"[`\s]", "", text.visible(suite.suite))[:24] for suite in shown]
    width = max(map(len, names))
    lines = [
        f"{name:<{width}}  {_line(suite, scale)}".rstrip()
        for name, suite in zip(names, shown, strict=True)
    ]
    left, right = f"{words.change(scale.low)} pt", f"{words.change(scale.high)} pt"
    lines.append(f"{'':<{width}}  {left:<{scale.columns - len(right)}}{right}")
    key = "`[` loss allowed, `|` no difference, `-` interval, `o` difference of PR from base."
    yield "```text\n" + "\n".join(lines) + f"\n```\n{key}"


def _line(suite: Suite, scale: _Scale) -> str:
    assert suite.interval_pt is not None
    assert suite.difference_pt is not None
    first, last = map(scale.at, suite.interval_pt)
    signs = ["-" if first <= column <= last else " " for column in range(scale.columns)]
    signs[scale.at(0)] = "|"
    if suite.noninferiority:
        signs[scale.at(-suite.noninferiority.margin_pt)] = "["
    signs[scale.at(suite.difference_pt)] = "o"
    return "".join(signs)


def _disagreements(suite: SuiteView, room: int) -> str:
    """The disagreements of a suite as a table, as many as fit into `room` characters."""
    found = suite.answers.disagreements if suite.answers else ()
    if not found:
        return ""
    head = _table(("", "question", "right", "base", "PR"), [])
    summary = f"{words.count(len(found), 'disagreement')} on {_plain(suite.name)}"
    room -= len(_opens(summary, head))
    rows: list[str] = []
    for question in found:
        row = f"\n| {' | '.join(_row(question))} |"
        if len(row) > room:
            break
        room -= len(row)
        rows.append(row)
    if not rows:
        return f"{summary}: see report.html."
    rest = len(found) - len(rows)
    more = f"\n\n{rest:,} more in report.html." if rest else ""
    return _opens(summary, head + "".join(rows) + more)


def _row(question: Disagreement) -> tuple[str, ...]:
    attempt = question.attempts[0]
    read = [
        quoted(answer.extracted) if answer.extracted is not None else "no answer found"
        for answer in (attempt.base, attempt.pr)
    ]
    return (
        "lost" if question.lost else "gained",
        quoted(question.item),
        quoted(question.target),
        *read,
    )
