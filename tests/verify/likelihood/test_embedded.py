"""The embedded model scores: every place by a decode step, and faults move it as they should."""

import json
from itertools import islice

import numpy as np
import pytest

from evals.mini import model, tokenizer
from evals.mini.engine import Engine
from kernel import chain
from kernel.dispatch import Dispatcher
from verify.command import UserError
from verify.faults.catalogue import CATALOGUE
from verify.faults.honest import VARIANTS
from verify.likelihood import embedded
from verify.likelihood.judging import Mean
from verify.likelihood.scores import pair

ROWS = model.WEIGHTS.parents[1] / "mini-gsm8k" / "test.jsonl"


@pytest.fixture(scope="module")
def texts():
    with ROWS.open(encoding="utf-8") as lines:
        rows = [json.loads(line) for line in islice(lines, 12)]
    return [(row["question"], row["answer"]) for row in rows]


@pytest.fixture(scope="module")
def base(texts):
    return embedded.score(Dispatcher(), texts).scores


def apart(base, candidate, texts):
    found = embedded.score(Dispatcher(candidate, enabled=True), texts)
    assert found.calls.keys() == {"fused", "chain"}  # prompts are read by the chain
    return [pair(str(n), *both) for n, both in enumerate(zip(base, found.scores, strict=True))]


def test_the_tokens_are_the_text(base, texts):
    for (_, answer), scores in zip(texts, base, strict=True):
        assert "".join(scores.tokens) == answer + "<end>"
        assert np.exp(scores.spread).sum(axis=1) == pytest.approx(1)


def test_along_its_own_answers_the_model_agrees_with_itself(texts):
    engine = Engine(chain)
    answers = dict(engine.generate([prompt for prompt, _ in texts], max_tokens=64))
    own = [(prompt, answers[n].text) for n, (prompt, _) in enumerate(texts)]
    for index, tokens, logits in engine.score(own):
        assert logits.argmax(-1).tolist() == tokens, own[index]


def test_the_order_and_company_of_texts_change_little(base, texts):
    backwards = embedded.score(Dispatcher(), texts[::-1]).scores[::-1]
    alone = embedded.score(Dispatcher(), texts[:1]).scores[0]
    for one, other in [*zip(base, backwards, strict=True), (base[0], alone)]:
        assert one.logprobs == pytest.approx(other.logprobs, abs=1e-4)


def test_every_scored_token_comes_of_the_kernel(texts):
    wo_a = Dispatcher(chain, enabled=True)
    embedded.score(wo_a, texts)
    steps = max(len(tokenizer.encode(answer)) + 1 for _, answer in texts)
    fused = sum(calls for (path, _), calls in wo_a.counts.items() if path == "fused")
    assert fused == steps * len(model.CONFIG.tables)


def test_another_order_of_sums_is_harmless(base, texts):
    pairs = apart(base, VARIANTS["reversed order"].build(), texts)
    assert all(each.kl < 1e-9 and abs(each.difference) < 1e-4 for each in pairs)
    assert all(each.agreement == 1 for each in pairs)


def test_a_wrong_sign_is_ruinous(base, texts):
    found = apart(base, CATALOGUE["forward_rotation"].plant(), texts)
    assert Mean.of([each.difference for each in found]).interval[0] > 5
    assert all(each.divergence is not None for each in found)


def test_a_rounded_down_scale_is_seen(base, texts):
    found = apart(base, CATALOGUE["scale_floored"].plant(), texts)
    assert Mean.of([each.kl for each in found]).mean > 1e-4


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (("What is pi?", "3"), "no token for 'pi'"),
        (("How many coins?", "1+" * 60), "tokens, and the embedded model's context is 104"),
    ],
)
def test_texts_that_it_cannot_read(text, words):
    with pytest.raises(UserError, match=words):
        embedded.score(Dispatcher(), [text])
