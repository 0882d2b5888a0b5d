"""Model output made safe to look at: hidden characters shown, long texts cut, pairs split."""

from __future__ import annotations

import hashlib
import re
import unicodedata
from dataclasses import dataclass

from markupsafe import Markup, escape

# Characters: a longer "token" is a line of garbage, and is cut.
TOKEN_LIMIT = 80

# Words, numbers or single signs, each with the space before it: as near to a token as one comes
# without the tokenizer. Possessive, so that a line of a million letters is still read once.
_TOKENS = re.compile(r"\s*+(?:\d++|[^\W\d]++|\S)|\s++")

# Bidirectional controls reorder what stands around them, zero-width ones hide in it.
_INVISIBLE = {"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"}
_KEPT = {"\n", "\t"}


def _stand_in(char: str) -> str:
    return f"\u27e8U+{ord(char):04X}\u27e9"  # few fonts have the pictures of U+2400


def _is_hidden(char: str) -> bool:
    return char not in _KEPT and unicodedata.category(char) in _INVISIBLE


def _hidden_in(text: str) -> list[str]:
    if text.isascii() and text.isprintable():  # nearly every text; the set below is for the rest
        return []
    return [char for char in sorted(set(text)) if _is_hidden(char)]


def visible(text: str) -> str:
    """`text` with each control, format, surrogate or unassigned character replaced by a sign."""
    hidden = _hidden_in(text)
    return text.translate({ord(char): _stand_in(char) for char in hidden}) if hidden else text


def marked(text: str) -> Markup:
    """`text` escaped for HTML, each stand-in for a hidden character set apart by a <span>."""
    table: dict[str, Markup] = {
        char: Markup('<span class="hidden-character" title="{}">{}</span>').format(
            unicodedata.name(char, f"U+{ord(char):04X}"), _stand_in(char)
        )
        for char in _hidden_in(text)
    }
    if not table:
        return escape(text)
    parts = re.split("([" + re.escape("".join(table)) + "])", text)
    return Markup("").join(table.get(part, part) for part in parts)


@dataclass(frozen=True)
class Excerpt:
    """A text, or the part of it that the page shows; `left_out` counts the other characters."""

    shown: str
    left_out: int = 0


def head(text: str, limit: int) -> Excerpt:
    """The first `limit` characters."""
    return Excerpt(text[:limit], max(0, len(text) - limit))


def tail(text: str, limit: int) -> Excerpt:
    """The last `limit` characters."""
    left_out = max(0, len(text) - limit)
    return Excerpt(text[left_out:], left_out)


@dataclass(frozen=True)
class Split:
    """Two texts as what they share at the start, and each one's first own token and its rest."""

    shared: str
    tokens: tuple[str, str]
    rests: tuple[str, str]


def split(first: str, second: str) -> Split:
    """Split two texts where their tokens begin to differ."""
    start = _shared_length(first, second)
    tokens = tuple(_token_at(text, start) for text in (first, second))
    rests = tuple(
        text[start + len(token) :] for text, token in zip((first, second), tokens, strict=True)
    )
    return Split(first[:start], (tokens[0], tokens[1]), (rests[0], rests[1]))


def _shared_length(first: str, second: str) -> int:
    start = 0
    for ours, theirs in zip(_TOKENS.finditer(first), _TOKENS.finditer(second), strict=False):
        if ours.group() != theirs.group():
            break
        start = ours.end()
    return start


def _token_at(text: str, start: int) -> str:
    found = _TOKENS.match(text, start)
    return found.group()[:TOKEN_LIMIT] if found else ""


def anchor(kind: str, *names: str) -> str:
    """An id for what bears `names`, whatever signs they hold: the same on every page."""
    key = "\0".join(names).encode("utf-8", "surrogatepass")
    return f"{kind}-{hashlib.sha256(key).hexdigest()[:12]}"
