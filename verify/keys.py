"""What of a request's headers must stand nowhere: in no file, message, log or answer."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

SHORTEST = 6
"""Characters of a key. A shorter one would be found in answers that do not repeat it."""
_TELLING = 8
"""Characters from which anything in a header is taken for a secret, and a number for a key."""
_CREDENTIAL = re.compile(
    r"(?i)(^|[-_])(authorization|authentication|auth|(api)?key|token|secret|password|credentials?)"
    r"($|[-_])"
)
_SCHEMES = frozenset({"basic", "bearer", "digest", "token", "apikey", "key"})
_NO_KEYS = frozenset({"", "empty", "none", "null", "dummy", "test", "no-key", "ollama"})
"""What servers' manuals say where no key is needed: no secrets, and words of answers."""


def secrets(headers: Mapping[str, str]) -> tuple[bytes, ...]:
    """Keys at any length they may have, and whatever else is long; the longest first."""
    found = set()
    for name, value in headers.items():
        found |= {part for part in (value, *value.split()) if len(part) >= _TELLING}
        found |= {key for key in _keys(name, value) if _can_be_kept(key)}
    return tuple(part.encode() for part in sorted(found, key=lambda part: (-len(part), part)))


def unkeepable(headers: Mapping[str, str]) -> Iterator[str]:
    """Names of the headers whose key could not be told from the words of an answer."""
    for name, value in headers.items():
        # sites set many cookies, most of which are no keys
        if name.lower() != "cookie" and not all(map(_can_be_kept, _keys(name, value))):
            yield name


def _keys(name: str, value: str) -> list[str]:
    if name.lower() == "cookie":
        keys = [pair.partition("=")[2].strip() for pair in value.split(";")]
    elif _CREDENTIAL.search(name):
        scheme, *rest = value.split() or [""]
        keys = rest if rest and scheme.lower() in _SCHEMES else [scheme, *rest]
    else:
        keys = []
    return [key for key in keys if key.lower() not in _NO_KEYS]


def _can_be_kept(key: str) -> bool:
    return len(key) >= (_TELLING if key.isdecimal() else SHORTEST)
