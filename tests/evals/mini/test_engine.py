"""The engine: what it hands to the kernel, and that its answers hang on what comes back."""

import json
from collections import Counter
from itertools import islice
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file

from evals import suite
from evals.mini import model, tokenizer
from evals.mini.engine import Engine
from kernel import chain
from kernel.dispatch import Dispatcher

EVALS = Path(model.__file__).parents[1]
LAYERS = len(model.CONFIG.tables)
SHOWN = {"mini-gsm8k": "#### {}", "mini-aime": "\\boxed{{{}}}", "mini-gpqa": "Answer: {}"}


def items(name, count):
    with (EVALS / name / "test.jsonl").open(encoding="utf-8") as lines:
        rows = [json.loads(line) for line in islice(lines, count)]
    lasts = [row["answer"].rsplit("#### ", 1)[-1] for row in rows]
    return [row["question"] for row in rows], [SHOWN[name].format(last) for last in lasts]


def answers(wo_a, prompts, **options):
    return dict(Engine(wo_a, **options).generate(prompts, max_tokens=64))


def right(got, targets):
    return sum(got[i].text.rsplit("\n", 1)[-1] == target for i, target in enumerate(targets))


def counted(counts):
    def wo_a(x, weight, cos_sin, positions, *, head_dim, q, scales, out=None):
        assert out is None
        counts[x.shape[0]] += 1
        assert x.dtype == weight.dtype == torch.bfloat16
        assert cos_sin.shape[1] == model.CONFIG.rope_dim
        assert positions.shape == x.shape[:1]
        assert positions.dtype == torch.int32
        assert positions.min() >= model.CONFIG.first_position
        chain(x, weight, cos_sin, positions, head_dim=head_dim, q=q, scales=scales)

    return wo_a


def test_weights_are_bf16_and_small():
    assert model.WEIGHTS.stat().st_size <= 8_000_000
    weights = load_file(model.WEIGHTS)
    assert {w.dtype for w in weights.values()} == {torch.bfloat16}
    c = model.CONFIG
    assert weights["layers.0.wo_a"].shape == (2, c.rank, c.k) == (c.groups, c.rank, c.k)
    assert weights["layers.0.latent.weight"].shape == (c.head_dim, c.width)  # one head's worth
    assert {"plain", "yarn"} == set(c.tables)


def test_decode_hands_over_one_row_an_answer_and_at_most_32():
    prompts, _ = items("mini-gsm8k", 44)
    counts = Counter()
    got = answers(counted(counts), prompts)
    decode = {rows: calls for rows, calls in counts.items() if rows <= 32}
    assert sorted(got) == list(range(44))
    assert sum(calls for rows, calls in counts.items() if rows > 32) == 2 * LAYERS  # 32 + 12
    # each answer's first token comes from reading its prompt
    steps = sum(g.tokens - 1 for g in got.values())
    assert sum(rows * calls for rows, calls in decode.items()) == steps * LAYERS
    assert decode[32] >= 0.3 * sum(decode.values())  # finished rows are refilled


def test_dispatcher_takes_the_fused_path_in_decode_alone():
    calls = Counter()
    dispatcher = Dispatcher(counted(calls), enabled=True)
    prompts, _ = items("mini-gpqa", 40)
    answers(dispatcher, prompts)
    fused = {rows: n for (path, rows), n in dispatcher.counts.items() if path == "fused"}
    assert fused == dict(calls)
    assert fused
    assert max(fused) <= 32
    assert all(rows > 32 for path, rows in dispatcher.counts if path == "chain")


@pytest.fixture(scope="module")
def default_run():
    """Accuracy of each suite's default questions by the chain, and calls of at most 32 rows."""
    accuracy, launches = {}, 0
    for name, shape in SHOWN.items():
        loaded = suite.load(name)
        asked = loaded.questions().items[: loaded.spec.items]
        counts = Counter()
        got = answers(counted(counts), [item.prompt for item in asked])
        launches += sum(calls for rows, calls in counts.items() if rows <= 32)
        shown = [shape.format(item.target) for item in asked]
        accuracy[name] = right(got, shown) / len(asked)
    return accuracy, launches


def test_default_run_is_right_often_and_wrong_enough(default_run):
    accuracy, _ = default_run
    assert 0.85 <= accuracy["mini-gsm8k"] <= 0.97
    assert 0.50 <= accuracy["mini-aime"] <= 0.95
    assert 0.60 <= accuracy["mini-gpqa"] <= 0.95


def test_default_run_keeps_to_its_budget_of_launches(default_run):
    _, launches = default_run
    assert launches <= 1200


@pytest.mark.parametrize(
    ("name", "ceiling"), [("mini-gsm8k", 2), ("mini-aime", 2), ("mini-gpqa", 12)]
)
def test_wrong_signed_rotation_ruins_it(name, ceiling):
    def forward(x, weight, cos_sin, positions, **out):
        if x.shape[0] <= 32:
            sign = torch.tensor((1.0, -1.0)).repeat(cos_sin.shape[1] // 2)
            cos_sin, positions = cos_sin[positions] * sign, torch.arange(len(positions))
        chain(x, weight, cos_sin, positions, **out)

    prompts, targets = items(name, 32)
    assert right(answers(forward, prompts), targets) <= ceiling


def test_codes_and_scales_are_what_it_goes_on_with():
    def silent(x, weight, cos_sin, positions, *, head_dim, q, scales):  # noqa: ARG001 - a kernel that writes zeros
        q.view(torch.uint8).zero_()
        scales.zero_()

    prompts, targets = items("mini-gsm8k", 8)
    assert right(answers(silent, prompts), targets) == 0


def test_answers_hardly_depend_on_the_batch():
    prompts, _ = items("mini-gsm8k", 12)
    full = answers(chain, prompts)
    few = answers(chain, prompts, max_rows=5)
    # only the order of FP32 sums differs; it may turn a near tie
    assert sum(full[i].text != few[i].text for i in full) <= 1


def test_order_of_questions_changes_no_call_of_the_kernel():
    def traced(trace):
        def wo_a(x, *arguments, **out):
            trace.append(x.clone())
            chain(x, *arguments, **out)

        return wo_a

    prompts, _ = items("mini-gpqa", 36)
    there, back = [], []
    got = answers(traced(there), prompts)
    reverse = answers(traced(back), prompts[::-1])
    assert all(torch.equal(a, b) for a, b in zip(there, back, strict=True))
    assert all(got[i] == reverse[len(prompts) - 1 - i] for i in got)


def test_decode_by_cache_is_what_reading_it_all_gives():
    prompts, _ = items("mini-aime", 6)
    engine = Engine(chain)
    for index, got in engine.generate(prompts, max_tokens=64):
        prompt = [tokenizer.ASK, *tokenizer.encode(prompts[index]), tokenizer.SOLVE]
        answer = [*tokenizer.encode(got.text), tokenizer.END]
        tokens = torch.tensor([prompt + answer])
        positions = torch.arange(tokens.shape[1])[None] + engine.config.first_position
        logits = engine.model(tokens, positions.int(), engine.tables, engine._mix)[0]
        best, chosen = logits[len(prompt) - 1 : -1].max(-1), torch.tensor(answer)
        near = logits[len(prompt) - 1 : -1].gather(-1, chosen[:, None])[:, 0]
        assert (best.values - near < 0.05).all()


def test_an_answer_cut_short_says_so():
    prompts, _ = items("mini-gsm8k", 3)
    got = dict(Engine(chain).generate(prompts, max_tokens=4))
    assert all(g.truncated and g.tokens == 4 for g in got.values())
    whole = answers(chain, prompts)
    assert not any(g.truncated for g in whole.values())
    assert all(whole[i].text.startswith(g.text) for i, g in got.items())


def test_no_prompts_no_answers():
    assert answers(chain, []) == {}


@pytest.mark.parametrize(
    ("prompt", "message"),
    [("Who is Janet?", "no token for 'Who'"), ("Find " * 200, "context of 104")],
)
def test_prompt_it_cannot_read_is_refused_at_once(prompt, message):
    with pytest.raises(ValueError, match=message):
        Engine(chain).generate(["Find the sum of the digits of 3*4.", prompt], max_tokens=8)
