"""Layers 1 and 2 over the whole grid, one test a case; the options stand in conftest.py."""

from __future__ import annotations

import functools

import pytest
import torch

from verify import session


@functools.cache
def session_of(candidate: str, seed: int) -> session.Session:
    torch.set_num_threads(1)
    replay = f"python -m verify.kernel --candidate {candidate}" + (f" --seed {seed}" * bool(seed))
    return session.Session(
        candidate, session.spec_of(candidate), seed, session.device_of(0), replay
    )


def test_case(candidate, case, request, record_property):
    judgement = session_of(candidate, request.config.option.seed).judge(case)
    record_property("candidate", candidate)
    record_property("layers", " ".join(sorted({str(f.layer) for f in judgement.findings})))
    told = [f"{f.check}: {f.message}\n{f.picture}\n  {f.replay}" for f in judgement.findings]
    told += [f"junk would have passed: {junk}" for junk in judgement.vacuous]
    if told:
        pytest.fail("\n".join(told), pytrace=False)
