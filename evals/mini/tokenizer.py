"""Text to tokens and back for the embedded model: words, punctuation and single digits."""

import json
import re
from collections.abc import Iterable, Sequence
from functools import cache
from pathlib import Path

PAD, ASK, SOLVE, END = range(4)
"""Fill, start of a prompt, start of its answer, end of the answer."""
SPECIAL = ("<pad>", "<ask>", "<solve>", "<end>")

VOCABULARY = Path(__file__).with_name("vocabulary.json")

_PIECE = re.compile(r"####|\\boxed\{|[A-D]\)|[A-Za-z]+|\d|[^\sA-Za-z\d]|\n")
_NO_SPACE_BEFORE = frozenset(".,?:}*+-/=\n")
_NO_SPACE_AFTER = frozenset(["\\boxed{", "*", "+", "-", "/", "=", "\n"])


def split(text: str) -> list[str]:
    """The pieces of a text; spaces separate and are not pieces, line breaks are."""
    return _PIECE.findall(text)


def join(pieces: Iterable[str]) -> str:
    """The text of some pieces, in the one spacing that all our texts use."""
    text: list[str] = []
    previous = "\n"
    for piece in pieces:
        glued = (
            piece in _NO_SPACE_BEFORE
            or previous in _NO_SPACE_AFTER
            or (piece.isdigit() and previous.isdigit())
        )
        text.append(piece if glued else f" {piece}")
        previous = piece
    return "".join(text)


@cache
def _vocabulary() -> tuple[str, ...]:
    return (*SPECIAL, *json.loads(VOCABULARY.read_text(encoding="utf-8")))


@cache
def _codes() -> dict[str, int]:
    return {piece: code for code, piece in enumerate(_vocabulary())}


def size() -> int:
    """Number of tokens, special ones included."""
    return len(_vocabulary())


def encode(text: str) -> list[int]:
    """Tokens of a text. Raises ValueError that names the first word the model never saw."""
    codes = _codes()
    try:
        return [codes[piece] for piece in split(text)]
    except KeyError as error:
        raise ValueError(
            f"prompt {text[:60]!r}: the embedded model has no token for {error.args[0]!r}; "
            "it answers only the questions of evals/mini-*"
        ) from None


def name(token: int) -> str:
    """What one token stands for, special ones included."""
    return _vocabulary()[token]


def decode(tokens: Sequence[int]) -> str:
    """Text of some tokens, special ones left out."""
    vocabulary = _vocabulary()
    return join(vocabulary[token] for token in tokens if token >= len(SPECIAL))
