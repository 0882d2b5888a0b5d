"""Trains the embedded model from a seed and measures it on held-out problems.

`python -m evals.mini.train --out FOLDER --minutes 6` writes model.safetensors (BF16) and
train.log. Batches depend on the seed alone; `--minutes` only sets the number of steps, which the
log states, and `--steps` repeats it.
"""

from __future__ import annotations

import argparse
import itertools
import json
import math
import multiprocessing
import os
import random
import time
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import torch
from safetensors.torch import save_file
from torch import Tensor, nn
from torch.nn import functional as F  # noqa: N812 - torch's own name for it

from evals.mini import model, problems, tokenizer
from evals.mini.engine import Engine
from kernel import chain

if TYPE_CHECKING:
    from multiprocessing.queues import Queue

WARM_UP = 200  # steps
MEASURED = range(100, WARM_UP)  # steps whose pace decides how many fit into --minutes
PEAK = 2e-3  # learning rate


# --- batches -----------------------------------------------------------------------------------


def make_batch(seed: int, index: int, size: int, context: int) -> np.ndarray:
    """Tokens of one batch of training problems, UINT8 [size, context], PAD after each end."""
    rng = random.Random(f"{seed}/{index}")  # noqa: S311 - problems, not secrets
    suites = rng.choices(*zip(*problems.SUITE_SHARES.items(), strict=True), k=size)
    batch = np.full((size, context), tokenizer.PAD, dtype=np.uint8)
    for row, suite in zip(batch, suites, strict=True):
        kind = rng.choice(tuple(problems.MAKERS[suite]))
        problem = problems.draw(rng, suite, kind, held_out=False)
        tokens = (
            tokenizer.ASK,
            *tokenizer.encode(problem.question),
            tokenizer.SOLVE,
            *tokenizer.encode(problem.solution),
            tokenizer.END,
        )
        row[: len(tokens)] = tokens
    return batch


def _work(queue: Queue[np.ndarray], indices: range, seed: int, size: int, context: int) -> None:
    for index in indices:
        queue.put(make_batch(seed, index, size, context))


class Batches:
    """Batches 0, 1, 2, ... made ahead of time by `workers` processes."""

    def __init__(self, seed: int, size: int, context: int, workers: int) -> None:
        spawn = multiprocessing.get_context("spawn")
        self.queues: list[Queue[np.ndarray]] = [spawn.Queue(8) for _ in range(workers)]
        for worker, queue in enumerate(self.queues):
            indices = range(worker, 10**9, workers)
            spawn.Process(
                target=_work, args=(queue, indices, seed, size, context), daemon=True
            ).start()

    def __getitem__(self, index: int) -> Tensor:
        return torch.from_numpy(self.queues[index % len(self.queues)].get())


# --- MXFP8 with a gradient ---------------------------------------------------------------------


def fake_quantise(y: Tensor) -> Tensor:
    """MXFP8 values of BF16 y [T, N], FP32; the gradient passes as if nothing had been rounded."""
    blocks = y.detach().float().view(y.shape[0], -1, 32)
    bits = (blocks.abs().amax(-1, keepdim=True) * (1 / 448)).view(torch.int32)
    scale = ((bits >> 23) + ((bits & 0x7FFFFF) != 0)).clamp(1, 253)
    up, down = ((254 - scale) << 23).view(torch.float32), (scale << 23).view(torch.float32)
    codes = (blocks * up).clamp(-448, 448).to(torch.float8_e4m3fn)
    rounded = (codes.float() * down).flatten(-2)
    straight: Tensor = y + (rounded - y).detach()
    return straight


def soft_mix(x: Tensor, weight: Tensor, cos_sin: Tensor, positions: Tensor) -> Tensor:
    """The attention output's tail as `kernel.chain` computes it, differentiable."""
    row = cos_sin[positions] * cos_sin.new_tensor((1, -1)).repeat(cos_sin.shape[1] // 2)
    heads = x.view(*x.shape[:2], -1, model.CONFIG.head_dim)
    back = model.rotate(heads, row[:, None, None]).flatten(-2)
    return fake_quantise(torch.einsum("tgk,grk->tgr", back, weight).flatten(1))


# --- training ----------------------------------------------------------------------------------


def initialise(net: nn.Module) -> None:
    """Normal weights; those that write into the residual stream smaller."""
    for name, weight in net.named_parameters():
        if weight.ndim > 1:
            small = name.endswith(("wo_b.weight", "down.weight"))
            nn.init.normal_(weight, std=0.01 if small else 0.03)


def loss_of(net: nn.Module, tokens: Tensor, positions: Tensor, tables: list[Tensor]) -> Tensor:
    """Cross entropy of the solutions' tokens, prompt and padding left out."""
    given, wanted = tokens[:, :-1], tokens[:, 1:]
    solving = (given == tokenizer.SOLVE).cumsum(-1).bool() & (wanted != tokenizer.PAD)
    logits = net(given, positions, tables, soft_mix)
    wanted = wanted.masked_fill(~solving, -100)
    return F.cross_entropy(logits.float().flatten(0, 1), wanted.flatten(), ignore_index=-100)


def rate(step: int, steps: int) -> float:
    """Learning rate: linear warm-up, then cosine to nothing."""
    if step < WARM_UP:
        return PEAK * (step + 1) / WARM_UP
    done = (step - WARM_UP) / max(steps - WARM_UP, 1)
    return PEAK * 0.5 * (1 + math.cos(math.pi * min(done, 1.0)))


def save(net: nn.Module, path: Path) -> None:
    """BF16 weights, written aside and renamed."""
    aside = path.with_suffix(".partial")
    save_file({name: w.detach().bfloat16().cpu() for name, w in net.state_dict().items()}, aside)
    aside.rename(path)


def evaluate(weights: Path, device: str, each: int, seed: int = 1) -> dict[str, float]:
    """Share of held-out problems of each kind whose answer the engine ends with, by the chain."""
    rng = random.Random(seed)  # noqa: S311 - problems, not secrets
    asked = [
        problems.draw(rng, suite, kind, held_out=True)
        for suite, kinds in problems.MAKERS.items()
        for kind in kinds
        for _ in range(each)
    ]
    engine = Engine(chain, device=device, max_rows=32 if device == "cpu" else 1024, weights=weights)
    right: Counter[str] = Counter()
    for index, got in engine.generate([p.question for p in asked], max_tokens=64):
        problem = asked[index]
        last = problem.solution.rsplit("\n", 1)[-1]
        right[f"{problem.suite}/{problem.kind}"] += got.text.rsplit("\n", 1)[-1].strip() == last
    return {f"{p.suite}/{p.kind}": right[f"{p.suite}/{p.kind}"] / each for p in asked[::each]}


class Log:
    """JSON lines on the screen and in a file."""

    def __init__(self, path: Path) -> None:
        self.file = path.open("w", encoding="utf-8")
        self.start = time.monotonic()

    def __call__(self, **fields: object) -> None:
        """Write one line, with the seconds since the start."""
        line = json.dumps({"seconds": round(time.monotonic() - self.start, 1), **fields})
        print(line, flush=True)  # noqa: T201 - a training run's log
        print(line, file=self.file, flush=True)


def train(options: argparse.Namespace) -> None:
    """One run, its log and its weights."""
    out = Path(options.out)
    out.mkdir(parents=True, exist_ok=True)
    log = Log(out / "train.log")
    config = model.CONFIG
    batches = Batches(options.seed, options.batch, config.context, options.workers)
    torch.manual_seed(options.seed)
    device = torch.device(options.device)
    net = model.Mini(config)
    initialise(net)
    net.to(device)
    tables = model.make_tables(config, device)
    positions = torch.arange(config.context - 1, device=device) + config.first_position
    positions = positions.expand(options.batch, -1).contiguous()
    optimiser = torch.optim.AdamW(
        net.parameters(), lr=PEAK, betas=(0.9, 0.98), weight_decay=0.05, fused=device.type == "cuda"
    )
    objective = loss_of if options.eager else torch.compile(loss_of)
    log(
        torch=torch.__version__,
        device=torch.cuda.get_device_name() if device.type == "cuda" else "cpu",
        parameters=sum(p.numel() for p in net.parameters()),
        options={name: value for name, value in vars(options).items() if name != "out"},
    )
    steps, paced = options.steps or 10**9, 0.0
    for step in itertools.count():
        if step == MEASURED.start:
            paced = time.monotonic()
        if step == MEASURED.stop and not options.steps:
            pace = (time.monotonic() - paced) / len(MEASURED)
            steps = int((options.minutes * 60 - (time.monotonic() - log.start)) / pace) + step
            log(step=step, seconds_a_step=round(pace, 5), steps=steps)
        if step >= steps:
            break
        tokens = batches[step].to(device).long()
        for group in optimiser.param_groups:
            group["lr"] = rate(step, steps)
        with torch.autocast(device.type, torch.bfloat16):
            loss = objective(net, tokens, positions, tables)
        loss.backward()  # type: ignore[no-untyped-call]  # torch leaves it untyped
        nn.utils.clip_grad_norm_(net.parameters(), 1.0)
        optimiser.step()
        optimiser.zero_grad(set_to_none=True)
        if step % 500 == 0:
            log(step=step, loss=round(loss.item(), 4), rate=round(rate(step, steps), 6))
        if step % 2000 == 1999:
            save(net, out / "model.safetensors")
    save(net, out / "model.safetensors")
    log(trained_steps=steps)
    log(
        held_out=evaluate(out / "model.safetensors", options.device, options.each),
        each=options.each,
    )


def main() -> None:
    """Command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", required=True)
    parser.add_argument("--minutes", type=float, default=6.0)
    parser.add_argument("--steps", type=int, default=0, help="instead of --minutes")
    parser.add_argument("--batch", type=int, default=1024)
    parser.add_argument("--seed", type=int, default=20261201)
    parser.add_argument("--workers", type=int, default=max((os.cpu_count() or 2) - 2, 1))
    parser.add_argument("--each", type=int, default=1000, help="held-out problems of each kind")
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    parser.add_argument("--eager", action="store_true", help="without torch.compile")
    train(parser.parse_args())


if __name__ == "__main__":
    main()
