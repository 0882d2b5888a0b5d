"""Fixtures that every folder of tests shares."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
DATA = ROOT.parent / "shared" / "data"


@pytest.fixture(scope="session")
def shared_data() -> Path:
    """Real benchmark files and logs, which lie beside the checkout and are not part of it.

    `.ci/run` sets KERNELPROOF_REQUIRE_DATA, so that there their absence fails.
    """
    if not DATA.is_dir():
        reason = f"real benchmark files are not beside this checkout (looked in {DATA})"
        if os.environ.get("KERNELPROOF_REQUIRE_DATA"):
            pytest.fail(reason)
        pytest.skip(reason)
    return DATA
