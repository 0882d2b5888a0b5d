import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from scipy.stats import ttest_1samp

from verify.evals.score import SERVER_MARGIN
from verify.likelihood.judging import Mean, Noise, judge, verdict_of
from verify.likelihood.scores import Divergence, Pair
from verify.likelihood.texts import Text, Texts

QUIET = Noise(Mean(0.0, (0.0, 0.0)), 0.0, identical=True)
NONE = Mean(0.0, (0.0, 0.0))
MARGIN = 0.01


def around(low, high):
    return Mean((low + high) / 2, (low, high))


def pairs(differences, tokens=5, kl=0.0):
    return [Pair(f"q{n}", tokens, (1.0, 1.0 + d), kl, 1.0, None) for n, d in enumerate(differences)]


def texts(count):
    return Texts("t", "a file", tuple(Text(f"q{n}", "p", "c") for n in range(count)))


def judged(differences, again=None, **options):
    count = len(differences)
    nothing = pairs([0.0] * count)
    options = {"margin": MARGIN, **options}
    return judge(texts(count), pairs(differences), again or nothing, **options)


def test_the_interval_is_students_over_items():
    values = np.random.default_rng(1).normal(0.01, 0.02, 40)
    found = Mean.of(values)
    assert found.interval == pytest.approx(ttest_1samp(values, 0).confidence_interval(0.95))
    assert found.mean == pytest.approx(values.mean())


def test_tokens_of_a_text_are_no_further_evidence():
    values = np.random.default_rng(2).normal(0.01, 0.02, 40)
    short, long = (
        judge(texts(40), pairs(values, tokens), pairs([0.0] * 40), margin=MARGIN)
        for tokens in (5, 5000)
    )
    assert short.difference == long.difference
    assert (short.verdict, short.reason) == (long.verdict, long.reason)


@pytest.mark.parametrize(
    ("difference", "kl", "noise", "verdict", "words"),
    [
        (around(-0.001, 0.009), NONE, QUIET, "pass", "a loss of 0.01 nats a token is ruled out"),
        (around(0.011, 0.03), NONE, QUIET, "fail", "PR finds the texts less likely, by 0.02"),
        (NONE, around(0.011, 0.03), QUIET, "fail", "next-token distribution is off"),
        (NONE, around(0.001, 0.03), QUIET, "inconclusive", "neither shown nor ruled out"),
        (around(-0.03, 0.03), NONE, QUIET, "inconclusive", "neither shown nor ruled out"),
        (around(-0.05, -0.02), NONE, QUIET, "inconclusive", "not the same model"),
        (Mean(0.5, None), NONE, QUIET, "inconclusive", "one text has no interval"),
        # the base arm's own noise: what it reaches is no evidence against PR, nor for it
        (around(0.02, 0.03), NONE, Noise(around(-0.03, 0.001), 0.0, identical=False),
         "inconclusive", "base differs from itself by up to 0.03"),
        (around(0.05, 0.06), NONE, Noise(around(-0.03, 0.001), 0.0, identical=False),
         "fail", "less likely"),
        (NONE, around(0.011, 0.03), Noise(NONE, 0.005, identical=False),
         "inconclusive", "neither shown"),
        (around(-0.001, 0.001), NONE, Noise(around(-0.001, 0.002), 0.0, identical=False),
         "pass", "ruled out"),
    ],
)  # fmt: skip
def test_verdicts(difference, kl, noise, verdict, words):
    found, reason = verdict_of(difference, kl, noise, items=50, margin=MARGIN, kl_is_bound=False)
    assert found == verdict
    assert words in reason


def test_a_lower_bound_of_kl_can_fail_a_kernel_and_pass_none():
    for high, verdict in ((0.03, "pass"), (0.05, "fail")):
        found, reason = verdict_of(
            NONE, around(high - 0.025, high), QUIET, items=50, margin=MARGIN, kl_is_bound=True
        )
        assert found == verdict
    assert "off" in reason


def test_what_would_settle_it_grows_as_the_room_shrinks():
    spread = np.tile([-0.05, 0.05], 20)
    sizes = []
    for room in (0.004, 0.002):
        values = spread + MARGIN - room
        found = judged(values)
        assert found.verdict == "inconclusive"
        sizes.append(int(found.reason.split("about ")[1].split()[0].replace(",", "")))
    assert sizes[1] == pytest.approx(4 * sizes[0], rel=0.01)
    enough = judged(np.tile([-0.05, 0.05], int(1.1 * sizes[0]) // 2) + MARGIN - 0.004)
    assert enough.verdict == "pass"


HARMLESS = json.loads((Path(__file__).parent / "harmless.json").read_text())["pairs"]


def resampled(seen, items, shift, rng):
    """A run of `items` of the texts seen, with replacement; PR's loss is `shift` greater."""
    drawn = [seen[n] for n in rng.integers(len(seen), size=items)]
    return [
        Pair(f"q{n}", 100, (base, pr + shift), kl, 1.0, None)
        for n, (base, pr, kl) in enumerate(drawn)
    ]


@pytest.mark.parametrize("items", [30])
@pytest.mark.parametrize("seen", HARMLESS.values(), ids=HARMLESS)
def test_false_alarms_and_power_of_resampled_runs(seen, items):
    rng, nothing = np.random.default_rng(3), pairs([0.0] * items)
    fails = {0.0: 0, 0.02: 0}
    for shift in fails:
        for _ in range(1000):
            run = resampled(seen, items, shift, rng)
            found = judge(texts(items), run, nothing, margin=SERVER_MARGIN, kl_is_bound=True)
            fails[shift] += found.verdict == "fail"
    assert fails[0.0] <= 10
    assert fails[0.02] >= 950


def test_false_alarms_and_power_where_the_tails_are_heavy():
    # as wide as harmless changes of a real model, 0.011 nats by text, and 0.002 off
    rng = np.random.default_rng(3)
    seen = rng.standard_t(4, 400) * 0.011 / np.sqrt(2)
    shifts = {0.002: 0, 0.02: 0}
    for shift in shifts:
        for _ in range(1000):
            mean = Mean.of(rng.choice(seen, 60) + shift)
            found, _ = verdict_of(mean, NONE, QUIET, items=60, margin=MARGIN, kl_is_bound=False)
            shifts[shift] += found == "fail"
    assert shifts[0.002] <= 10
    assert shifts[0.02] >= 950


def test_the_worst_texts_come_first():
    found = judged([0.0, 0.3, 0.1])
    assert [each.item for each in found.scored] == ["q1", "q2", "q0"]


def test_of_redacted_texts_no_word_is_kept():
    at = Divergence(0, "secret", "a", "b", 0.5)
    apart = [Pair(f"q{n}", 3, (1.0, 1.0), 0.0, 0.5, at) for n in range(2)]
    for redact in (False, True):
        kept = judge(replace(texts(2), redact=redact), apart, apart, margin=MARGIN)
        assert kept.redact == redact
        assert ("secret" in repr(kept)) != redact
