"""What is asked of every server, request by request."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from evals.suite import Sampling

if TYPE_CHECKING:
    from collections.abc import Iterator

PLAIN_IDS = (1000, 8000)
"""Ids of synthetic prompts: in vocabularies of language models these are neither control tokens
nor single bytes, which stand before or at the end."""


@dataclass(frozen=True)
class Method:
    """What is asked, the same of both arms.

    Attributes:
        input_len: tokens of a synthetic prompt.
        output_len: tokens of every answer.
        prompt: a text to ask instead, the same every time.
        warm_ups: waves before those that count, in every start at every load.
        requests: that count, in every start at every load.
        loads: numbers of requests in flight.
        seed: of the synthetic prompts.
    """

    input_len: int
    output_len: int
    prompt: str | None
    warm_ups: int
    requests: int
    loads: tuple[int, ...]
    seed: int

    def waves(self) -> Iterator[tuple[int, bool, range]]:
        """Load, whether it is a warm-up, and the numbers of its requests."""
        for load in self.loads:
            for wave in range(self.warm_ups):
                yield load, True, range(wave * load, (wave + 1) * load)
            for first in range(0, self.requests, load):
                yield load, False, range(first, first + load)

    def body(self, model: str, load: int, number: int, *, warm_up: bool) -> dict[str, Any]:
        """A request; of its own in a start, and the same in every start of both arms."""
        random = np.random.default_rng([self.seed, load, number, warm_up])
        prompt = self.prompt or random.integers(*PLAIN_IDS, self.input_len).tolist()
        sampling = Sampling(temperature=0.0, max_tokens=self.output_len)
        from verify.client import request_body  # noqa: PLC0415 - needs an optional extra

        return {
            **request_body("", "completion", model, sampling, self.seed, stream=True),
            "prompt": prompt,
        }

    @property
    def extras(self) -> dict[str, Any]:
        """What some servers know beyond OpenAI's parameters: the whole length, and every count."""
        return {
            "ignore_eos": True,
            "min_tokens": self.output_len,
            "stream_options": {"include_usage": True, "continuous_usage_stats": True},
            "return_token_ids": True,  # vLLM
            "return_meta_info": True,  # SGLang
            "timings_per_token": True,  # llama.cpp
        }
