"""Greedy batched decode of the embedded model, WO-A and its quantiser injected."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from evals.mini import model, tokenizer
from kernel import mxfp8

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from pathlib import Path


@dataclass(frozen=True)
class Generation:
    """One answer."""

    text: str
    tokens: int  # decoded ones, the end token included
    truncated: bool  # stopped by max_tokens or by the model's context


@dataclass
class _Sequence:
    """A question on its way to an answer."""

    index: int
    length: int  # tokens whose latents are stored
    latents: Tensor  # [layers, length, head_dim] of the prompt, until it gets a row
    answer: list[int] = field(default_factory=list)


class Engine:
    """The embedded model with one candidate kernel behind its attention output.

    Prompts are read `max_rows` at a time, so a call of `wo_a` there has all their tokens as rows
    and a dispatcher leaves it to the chain (unless a last lone prompt has no more tokens than the
    fused kernel takes). Each decode step then calls `wo_a` once a layer with one row for each
    unfinished answer, at most `max_rows`; a finished answer's row goes to the next question, so
    rows stay full until the questions run out.

    Everything but `wo_a` computes in FP32, and questions are taken longest first: on one machine
    the same set of questions, in any order, gives the same answers.
    """

    def __init__(
        self,
        wo_a: Callable[..., object],
        *,
        device: str = "cpu",
        max_rows: int = 32,
        weights: Path = model.WEIGHTS,
    ) -> None:
        self.wo_a = wo_a
        self.device = torch.device(device)
        self.max_rows = max_rows
        self.model = model.load(weights).to(self.device)
        self.config = self.model.config
        self.tables = model.make_tables(self.config, self.device)

    def generate(
        self, prompts: Sequence[str], *, max_tokens: int
    ) -> Iterator[tuple[int, Generation]]:
        """Answers as they finish, each with its prompt's index.

        Raises ValueError, before any answer, for a prompt with a word the model has no token for
        or with too many tokens to leave room for an answer.
        """
        encoded = enumerate(map(self._encode, prompts))
        # long questions have long answers: started first, they leave no lone row for the end
        asked = sorted(encoded, key=lambda pair: (-len(pair[1]), pair[1]))
        return self._answers(deque(asked), max_tokens)

    def score(self, texts: Sequence[tuple[str, str]]) -> Iterator[tuple[int, list[int], Tensor]]:
        """What the model would say at each place of given (prompt, answer) pairs.

        Yields a pair's index, the answer's tokens with the end [L], and the logits before each,
        FP32 [L, vocabulary]. Every one comes of a decode step of at most `max_rows` rows, as in
        `generate`; the same pairs in any order give the same logits.

        Raises ValueError, before any score, for a word the model has no token for, or for a pair
        longer than its context.
        """
        forced = sorted(
            ((index, *self._forced(*text)) for index, text in enumerate(texts)),
            key=lambda each: (-len(each[2]), each[1:]),
        )
        return self._scored(forced)

    def _forced(self, prompt: str, answer: str) -> tuple[list[int], list[int]]:
        asked, tokens = self._encode(prompt), [*tokenizer.encode(answer), tokenizer.END]
        if len(asked) + len(tokens) > self.config.context:
            raise ValueError(
                f"prompt {prompt[:60]!r}: with its answer {len(asked) + len(tokens)} tokens, and "
                f"the embedded model's context is {self.config.context}"
            )
        return asked, tokens

    def _scored(
        self, forced: list[tuple[int, list[int], list[int]]]
    ) -> Iterator[tuple[int, list[int], Tensor]]:
        c = self.config
        for start in range(0, len(forced), self.max_rows):
            batch = forced[start : start + self.max_rows]  # longest answers first
            rows = self._read([(index, asked[:-1]) for index, asked, _ in batch])
            store = torch.zeros(len(c.tables), len(rows), c.context, c.head_dim, device=self.device)
            for row, sequence in enumerate(rows):
                store[:, row, : sequence.length] = sequence.latents
            given = [[tokenizer.SOLVE, *tokens] for _, _, tokens in batch]
            steps = []
            for place in range(len(given[0]) - 1):
                live = sum(place < len(tokens) - 1 for tokens in given)
                for sequence, tokens in zip(rows[:live], given[:live], strict=True):
                    sequence.answer = [tokens[place]]
                steps.append(self._step(rows[:live], store))
            for row, (index, _, tokens) in enumerate(batch):
                yield index, tokens, torch.stack([step[row] for step in steps[: len(tokens)]])

    def _encode(self, prompt: str) -> list[int]:
        tokens = [tokenizer.ASK, *tokenizer.encode(prompt), tokenizer.SOLVE]
        if len(tokens) >= self.config.context:
            raise ValueError(
                f"prompt {prompt[:60]!r}: {len(tokens)} tokens, and the embedded model's context "
                f"of {self.config.context} must hold the answer too"
            )
        return tokens

    def _answers(
        self, asked: deque[tuple[int, list[int]]], max_tokens: int
    ) -> Iterator[tuple[int, Generation]]:
        c = self.config
        store = torch.zeros(len(c.tables), self.max_rows, c.context, c.head_dim, device=self.device)
        waiting: deque[_Sequence] = deque()
        rows: list[_Sequence] = []
        while asked or waiting or rows:
            while len(rows) < self.max_rows and (waiting or asked):
                if not waiting:
                    batch = [asked.popleft() for _ in range(min(self.max_rows, len(asked)))]
                    waiting.extend(self._read(batch))
                sequence = waiting.popleft()
                if (done := self._finished(sequence, max_tokens)) is not None:
                    yield sequence.index, done
                    continue
                store[:, len(rows), : sequence.length] = sequence.latents
                rows.append(sequence)
            if not rows:
                return
            chosen = self._step(rows, store).argmax(-1).tolist()
            for sequence, token in zip(rows, chosen, strict=True):
                sequence.answer.append(token)
            for row in reversed(range(len(rows))):
                if (done := self._finished(rows[row], max_tokens)) is not None:
                    yield rows[row].index, done
                    # the last row moves into the gap, so live rows stay the first ones
                    store[:, row] = store[:, len(rows) - 1]
                    rows[row] = rows[-1]
                    rows.pop()

    def _read(self, batch: list[tuple[int, list[int]]]) -> list[_Sequence]:
        """Latents and first answer token of some prompts, padded to the longest."""
        lengths = [len(tokens) for _, tokens in batch]
        tokens = torch.full((len(batch), max(lengths)), tokenizer.PAD)
        for row, (_, prompt) in enumerate(batch):
            tokens[row, : len(prompt)] = torch.tensor(prompt)
        steps = torch.arange(max(lengths)).expand_as(tokens)
        latents: list[Tensor] = []

        def remember(_: int, new: Tensor) -> Tensor:
            latents.append(new)
            return new

        logits = self._forward(tokens, steps, remember)
        last = torch.tensor(lengths, device=self.device) - 1
        first = logits[torch.arange(len(batch), device=self.device), last].argmax(-1).tolist()
        stacked = torch.stack(latents)
        return [
            _Sequence(index, length, stacked[:, row, :length], [token])
            for row, ((index, _), length, token) in enumerate(
                zip(batch, lengths, first, strict=True)
            )
        ]

    def _step(self, rows: list[_Sequence], store: Tensor) -> Tensor:
        """Read the last token of each row's answer: logits of the next, [rows, vocabulary]."""
        tokens = torch.tensor([[sequence.answer[-1]] for sequence in rows])
        steps = torch.tensor([[sequence.length] for sequence in rows])
        column = steps.to(self.device)
        # the whole context, so that what one row sums over does not depend on the others
        visible = torch.arange(self.config.context, device=self.device) <= column
        live = torch.arange(len(rows), device=self.device)

        def remember(layer: int, new: Tensor) -> Tensor:
            store[layer, live, column[:, 0]] = new[:, 0]
            return store[layer, : len(rows)]

        logits = self._forward(tokens, steps, remember, visible[:, None, None])
        for sequence in rows:
            sequence.length += 1
        return logits[:, 0]

    @torch.no_grad()
    def _forward(
        self,
        tokens: Tensor,
        steps: Tensor,
        remember: model.Remember,
        visible: Tensor | None = None,
    ) -> Tensor:
        positions = (steps + self.config.first_position).to(self.device, torch.int32)
        logits: Tensor = self.model(
            tokens.to(self.device),
            positions,
            self.tables,
            self._mix,
            remember=remember,
            visible=visible,
        )
        return logits

    def _mix(self, x: Tensor, weight: Tensor, cos_sin: Tensor, positions: Tensor) -> Tensor:
        rows, columns = x.shape[0], weight.shape[0] * weight.shape[1]
        q = torch.empty(rows, columns, dtype=torch.float8_e4m3fn, device=x.device)
        scales = torch.empty(mxfp8.scale_bytes(rows, columns), dtype=torch.uint8, device=x.device)
        self.wo_a(x, weight, cos_sin, positions, head_dim=self.config.head_dim, q=q, scales=scales)
        return mxfp8.dequantise(q, scales)

    def _finished(self, sequence: _Sequence, max_tokens: int) -> Generation | None:
        ended = sequence.answer[-1] == tokenizer.END
        full = len(sequence.answer) >= max_tokens or sequence.length >= self.config.context
        if not (ended or full):
            return None
        text = tokenizer.decode(sequence.answer)
        return Generation(text, tokens=len(sequence.answer), truncated=not ended)
