"""What `serve` writes: every request, what each load came to, and how it was measured."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from verify import manifest
from verify.bench.serve.starts import CONFIDENCE
from verify.verdict import combine

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from verify.bench.serve.conduct import Request
    from verify.bench.serve.delay import Delay
    from verify.bench.serve.judging import Load
    from verify.bench.serve.method import Method

FILE = "serving.json"
KIND = "kernelproof-serving"
_DIGITS = 6


def document(
    loads: Sequence[Load],
    requests: Sequence[Request],
    method: Method,
    delay: Delay,
    described: Mapping[str, Any],
) -> dict[str, Any]:
    """The content of FILE; `described` is its manifest."""
    return {
        "kind": KIND,
        "version": 1,
        "verdict": str(combine(load.verdict for load in loads)),
        "measured": manifest.now(),
        "method": {
            **asdict(method),
            "loads": list(method.loads),
            "figure": "median over requests of tokens a second after a request's first chunk",
            "interval": "Student's t on the logarithms of the medians of starts",
            "confidence": CONFIDENCE,
        },
        "client_delay": _rounded(asdict(delay)),
        "loads": [_rounded(asdict(load)) for load in loads],
        "requests": [_request(request) for request in requests],
        "manifest": dict(described),
    }


def _request(request: Request) -> dict[str, Any]:
    """All of it but the single chunks."""
    found: dict[str, Any] = _rounded(asdict(request))
    if found["heard"] is not None:
        del found["heard"]["chunks"]
    return found


def _rounded(value: Any) -> Any:
    """Numbers to no more digits than a clock gives."""
    if isinstance(value, dict):
        return {key: _rounded(each) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [_rounded(each) for each in value]
    return round(value, _DIGITS) if isinstance(value, float) else value
