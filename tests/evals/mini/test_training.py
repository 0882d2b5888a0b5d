"""Training's arithmetic: the same values as the kernel's, with a gradient."""

import json
import re
from pathlib import Path

import numpy as np
import torch

from evals.mini import model, tokenizer, train
from kernel import chain, mxfp8

FOLDER = Path(model.__file__).parent


def test_fake_quantise_is_the_quantiser_exact():
    y = torch.randn(64, 128, generator=torch.manual_seed(0))
    y = (y * torch.logspace(-20, 20, 64)[:, None]).bfloat16()
    y[3] = 0
    y[5, 32:64] = 448 * 2.0 ** torch.arange(-16, 16)
    q = torch.empty(64, 128, dtype=torch.float8_e4m3fn)
    scales = torch.empty(mxfp8.scale_bytes(64, 128), dtype=torch.uint8)
    mxfp8.quantise(y, q, scales)
    assert torch.equal(train.fake_quantise(y).float(), mxfp8.dequantise(q, scales))


def test_gradient_passes_the_quantiser_unchanged():
    y = torch.randn(4, 64, generator=torch.manual_seed(0), requires_grad=True)
    weight = torch.randn(4, 64, generator=torch.manual_seed(1))
    (train.fake_quantise(y) * weight).sum().backward()
    assert torch.equal(y.grad, weight)


def test_soft_mix_is_the_chain():
    c = model.CONFIG
    generator = torch.manual_seed(0)
    x = torch.randn(40, c.groups, c.k, generator=generator).bfloat16()
    weight = (torch.randn(c.groups, c.rank, c.k, generator=generator) * 0.05).bfloat16()
    positions = torch.arange(40, dtype=torch.int32) + c.first_position
    for table in model.make_tables(c):
        q = torch.empty(40, c.groups * c.rank, dtype=torch.float8_e4m3fn)
        scales = torch.empty(mxfp8.scale_bytes(*q.shape), dtype=torch.uint8)
        chain(x, weight, table, positions, head_dim=c.head_dim, q=q, scales=scales)
        expected = mxfp8.dequantise(q, scales)
        actual = train.soft_mix(x, weight, table, positions).float()
        # sums in another order may turn a BF16 rounding, and with it one code
        assert ((actual - expected).abs() <= expected.abs() / 8).all()
        assert (actual != expected).float().mean() < 0.01


def test_batches_depend_on_seed_and_index_alone():
    first = train.make_batch(1, 0, 32, 104)
    assert np.array_equal(first, train.make_batch(1, 0, 32, 104))
    assert not np.array_equal(first, train.make_batch(1, 1, 32, 104))
    assert not np.array_equal(first, train.make_batch(2, 0, 32, 104))


def test_a_few_steps_lower_the_loss_of_solutions_only():
    torch.manual_seed(0)
    net = model.Mini(model.Config(width=32, heads=2, hidden=32, tables=("plain", "yarn")))
    train.initialise(net)
    tables = model.make_tables(net.config)
    tokens = torch.from_numpy(train.make_batch(1, 0, 8, 104)).long()
    positions = (torch.arange(103) + net.config.first_position).expand(8, -1).contiguous()
    optimiser = torch.optim.AdamW(net.parameters(), lr=3e-3)
    losses = []
    for _ in range(8):
        loss = train.loss_of(net, tokens, positions, tables)
        losses.append(loss.item())
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
    assert losses[-1] < losses[0] - 0.2
    assert all(p.grad is not None and p.grad.abs().sum() > 0 for p in net.parameters())

    only_prompts = tokens.masked_fill((tokens == tokenizer.SOLVE).cumsum(-1).bool(), 0)
    only_prompts[0] = tokens[0]
    alone = train.loss_of(net, tokens[:1], positions[:1], tables)
    assert torch.isclose(train.loss_of(net, only_prompts, positions, tables), alone, atol=1e-5)


def test_model_card_states_what_the_log_measured():
    log = [json.loads(line) for line in (FOLDER / "train.log").read_text().splitlines()]
    measured = log[-1]["held_out"]
    card = (FOLDER / "MODEL_CARD.md").read_text(encoding="utf-8")
    stated = re.findall(r"^\| (mini-\w+) \| (\w+) \|.*\| ([\d.]+) % \|$", card, flags=re.MULTILINE)
    assert {f"{s}/{k}": float(v) for s, k, v in stated} == {
        name: round(100 * share, 1) for name, share in measured.items()
    }
    assert log[0]["parameters"] == sum(p.numel() for p in model.load().parameters())
