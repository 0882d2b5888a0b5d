"""What the tests of every reader share: writing small logs, and checking a refusal."""

from __future__ import annotations

import json

import pytest

from verify import logs
from verify.command import UserError


@pytest.fixture
def lines(tmp_path):
    """Write objects, or raw bytes, one a line, and return the path."""

    def write(name, *rows):
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        raw = [r if isinstance(r, bytes) else json.dumps(r).encode() for r in rows]
        path.write_bytes(b"".join(r if r.endswith(b"\n") else r + b"\n" for r in raw))
        return path

    return write


@pytest.fixture
def refused():
    """Read a source that must be refused: one line that holds all of `words`."""

    def check(source, *words, code=4, **options):
        with pytest.raises(UserError) as caught:
            logs.read(source, **options)
        message = str(caught.value)
        assert "\n" not in message
        assert str(source).split("::")[0] in message
        for word in words:
            assert word in message
        assert caught.value.exit_code == code

    return check
