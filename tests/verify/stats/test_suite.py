import json

import msgspec
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from verify.stats.suite import SuiteScores, judge
from verify.verdict import Verdict

# DESIGN's fields of a suite in result.json.
FIELDS = {
    "suite", "items", "repeats", "both", "lost", "gained", "neither", "accuracy", "difference_pt",
    "interval_pt", "confidence", "interval_method", "mcnemar", "noninferiority", "equivalence",
    "smallest_margin_pt", "truncated", "truncation_bounds_pt", "detectable_pt", "verdict", "reason",
}  # fmt: skip


def scores(both, lost, gained, neither, *, cut=None, margin=0.05, floor=0.05, **changes):
    """A table as arrays; `cut` gives the indices truncated in base and in PR."""
    base = np.repeat([True, True, False, False], [both, lost, gained, neither])
    pr = np.repeat([True, False, True, False], [both, lost, gained, neither])
    flags = np.zeros((2, base.size), dtype=bool)
    for arm, indices in zip(flags, cut or ((), ()), strict=True):
        arm[list(indices)] = True
    return SuiteScores(
        **{
            "suite": "s",
            "base": base[:, None].astype(float),
            "pr": pr[:, None].astype(float),
            "truncated": (flags[0][:, None], flags[1][:, None]),
            "margin": margin,
            "floor": floor,
            **changes,
        }
    )


def verdict(*suites):
    return [result.verdict for result in judge(suites)]


def test_the_published_pull_request():
    (result,) = judge([scores(1275, 7, 3, 29, margin=0.01)])
    assert result.verdict is Verdict.PASS
    assert "a loss of 1 point is ruled out (p = 0.013)" in result.reason
    assert result.difference_pt == pytest.approx(-0.304, abs=1e-3)
    assert result.interval_pt == pytest.approx((-0.894, 0.202), abs=1e-3)
    assert result.smallest_margin_pt == pytest.approx(0.894, abs=1e-3)
    (result,) = judge([scores(1275, 7, 3, 29, margin=0.005)])
    assert result.verdict is Verdict.INCONCLUSIVE
    assert "items like these" in result.reason


def test_fields_are_those_of_the_design():
    for suite in (scores(50, 1, 2, 3), scores(0, 0, 0, 0), scores(50, 1, 2, 3, truncated=None)):
        written = json.loads(msgspec.json.encode(judge([suite])[0]))
        assert set(written) >= FIELDS
        assert set(written["accuracy"] or {"base", "pr"}) == {"base", "pr"}
        assert set(written["noninferiority"]) == {"margin_pt", "p", "method"}
        assert set(written["equivalence"]) == {"margin_pt", "p"}
        assert set(written["mcnemar"] or {"exact", "midp"}) == {"exact", "midp"}


def test_not_significant_is_never_a_pass():
    # 4 lost and 1 gained of 60: McNemar's p is 0.375
    assert verdict(scores(50, 4, 1, 5)) == [Verdict.INCONCLUSIVE]


def test_worse_than_base_fails_unless_the_loss_is_within_the_margin():
    assert verdict(scores(100, 12, 0, 20)) == [Verdict.FAIL]
    # 12 of 2,000 lost is significant, and less than the margin
    assert verdict(scores(1500, 12, 0, 488)) == [Verdict.PASS]


def test_alarms_are_corrected_for_the_number_of_suites():
    alone = scores(100, 6, 0, 20)  # one-sided p = 1/64
    calm = scores(100, 0, 0, 20)
    assert verdict(alone)[0] is Verdict.FAIL
    assert verdict(alone, calm)[0] is Verdict.INCONCLUSIVE
    assert verdict(scores(100, 7, 0, 20), calm)[0] is Verdict.FAIL


def test_a_base_near_its_floor_sees_nothing():
    (result,) = judge([scores(1, 0, 0, 40, margin=0.2)])
    assert result.verdict is Verdict.INCONCLUSIVE
    assert "such a suite can see nothing" in result.reason
    # 25 of 80 is not clearly above one in four, 45 is
    assert verdict(scores(25, 0, 0, 55, floor=0.25)) == [Verdict.INCONCLUSIVE]
    assert verdict(scores(45, 0, 0, 35, floor=0.25, margin=0.06)) == [Verdict.PASS]


def test_a_pass_survives_every_truncated_answer_counted_against_it():
    kept = scores(290, 1, 1, 8, cut=([], [0, 1]))
    assert verdict(kept) == [Verdict.PASS]
    lost = scores(290, 1, 1, 8, cut=([295, 296, 297, 298], range(12)))
    (result,) = judge([lost])
    assert result.verdict is Verdict.INCONCLUSIVE
    assert "16 truncated answers (4 of base, 12 of PR)" in result.reason
    assert (result.truncated.base, result.truncated.pr) == (4, 12)


def test_truncation_bounds_count_every_cut_answer_against_and_for_pr():
    # item 0: PR right, cut; item 3: base wrong, cut. 4 items: both, lost, gained, neither
    (result,) = judge([scores(1, 1, 1, 1, cut=([3], [0]))])
    # against: item 0 becomes lost, item 3 lost -> (1 gained - 3 lost) / 4
    # for: item 0 stays both, item 3 stays neither -> 0
    assert result.truncation_bounds_pt == (-50, 0)
    assert result.difference_pt == 0


def test_a_pass_with_unknown_truncation_says_so():
    (result,) = judge([scores(190, 1, 1, 8, truncated=None)])
    assert result.verdict is Verdict.PASS
    assert "truncated is not known" in result.reason
    assert result.truncated is result.truncation_bounds_pt is None


def test_problems_come_first():
    (result,) = judge([scores(10, 80, 0, 0, problems=("3 items missing from pr", "b"))])
    assert result.verdict is Verdict.INVALID
    assert result.reason == "3 items missing from pr; b"
    assert result.lost == 80  # what could be paired is still shown


def test_nothing_paired_is_invalid_and_has_no_figures():
    (result,) = judge([scores(0, 0, 0, 0)])
    assert result.verdict is Verdict.INVALID
    assert result.items == 0
    assert result.difference_pt is result.interval_pt is result.mcnemar is None
    assert result.noninferiority.margin_pt == 5


@pytest.mark.parametrize("table", [(1, 0, 0, 0), (0, 1, 0, 0), (0, 0, 1, 0), (0, 0, 0, 1)])
def test_one_item(table):
    (result,) = judge([scores(*table)])
    assert result.verdict is Verdict.INCONCLUSIVE
    assert result.items == 1


def test_no_discordance_passes_when_there_are_enough_items():
    # n m / (1 - m) >= z^2: 73 items at 5 points
    assert verdict(scores(72, 0, 0, 0)) == [Verdict.INCONCLUSIVE]
    assert verdict(scores(73, 0, 0, 0)) == [Verdict.PASS]


def test_order_of_items_is_irrelevant():
    suite = scores(60, 5, 3, 9, cut=([1, 2], [70]))
    order = np.random.default_rng(3).permutation(len(suite.base))
    shuffled = SuiteScores(
        "s",
        suite.base[order],
        suite.pr[order],
        tuple(flags[order] for flags in suite.truncated),
        suite.margin,
        suite.floor,
    )
    assert judge([suite]) == judge([shuffled])


@st.composite
def arms(draw, kinds=((0.0, 1.0), (0.0, 0.5, 1.0))):
    """Two arms of a suite: repeats, missing answers, truncation, starts, partial credit."""
    items = draw(st.integers(1, 25))
    widths = draw(st.tuples(st.integers(1, 3), st.integers(1, 3)))
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    values = draw(st.sampled_from(kinds))
    found, cuts, starts = [], [], []
    for width in widths:
        score = rng.choice(values, size=(items, width), p=_weights(values))
        score[:, 1:][rng.random((items, width - 1)) < 0.1] = np.nan
        found.append(score)
        cuts.append((rng.random(score.shape) < 0.1) & ~np.isnan(score))
        starts.append(tuple(range(width)) if rng.random() < 0.5 else (0,) * width)
    return SuiteScores("s", found[0], found[1], tuple(cuts), 0.1, 0.05, starts=tuple(starts))


def _weights(values):
    return (0.3, 0.7) if len(values) == 2 else (0.2, 0.2, 0.6)


@settings(max_examples=30, deadline=None)
@given(arms())
def test_swapping_the_arms_mirrors_everything(suite):
    swapped = SuiteScores(
        "s",
        suite.pr,
        suite.base,
        suite.truncated[::-1],
        suite.margin,
        suite.floor,
        starts=suite.starts[::-1],
    )
    one, other = judge([suite, swapped])
    assert one.difference_pt == pytest.approx(-other.difference_pt, abs=1e-9)
    assert one.interval_pt == pytest.approx([-x for x in other.interval_pt[::-1]], abs=1e-3)
    assert one.truncation_bounds_pt == pytest.approx(
        [-x for x in other.truncation_bounds_pt[::-1]], abs=1e-9
    )
    assert (one.lost, one.gained) == (other.gained, other.lost)
    assert one.accuracy.base == pytest.approx(other.accuracy.pr)
    assert one.interval_method == other.interval_method
    assert one.mcnemar == other.mcnemar
    assert one.equivalence.p == pytest.approx(other.equivalence.p, abs=1e-6)


@settings(max_examples=20, deadline=None)
@given(arms(), st.randoms(use_true_random=False))
def test_the_order_of_items_never_matters(suite, random):
    order = list(range(len(suite.base)))
    random.shuffle(order)
    shuffled = SuiteScores(
        "s",
        suite.base[order],
        suite.pr[order],
        tuple(flags[order] for flags in suite.truncated),
        suite.margin,
        suite.floor,
        starts=suite.starts,
    )
    (one,), (other,) = judge([suite]), judge([shuffled])
    assert (one.verdict, one.lost, one.gained) == (other.verdict, other.lost, other.gained)
    assert one.interval_pt == pytest.approx(other.interval_pt, abs=1e-6)
    assert one.noninferiority.p == pytest.approx(other.noninferiority.p, abs=1e-9)


@settings(max_examples=30, deadline=None)
@given(arms(kinds=((0.0, 1.0),)))
def test_a_verdict_never_contradicts_its_figures(suite):
    (found,) = judge([suite])
    low, high = found.interval_pt
    assert low - 1e-6 <= found.difference_pt <= high + 1e-6
    worst, best = found.truncation_bounds_pt
    assert worst - 1e-9 <= found.difference_pt <= best + 1e-9
    assert found.both + found.lost + found.gained + found.neither == found.items
    if found.verdict is Verdict.PASS:
        assert found.noninferiority.p <= 0.025
        assert found.smallest_margin_pt <= found.noninferiority.margin_pt + 1e-6
    if found.verdict is Verdict.FAIL:
        assert found.difference_pt < 0
        assert found.noninferiority.p > 0.025


def test_the_method_does_not_depend_on_what_was_answered():
    for table in ((600, 0, 0, 0), (100, 250, 0, 250), (0, 0, 0, 600)):
        (found,) = judge([scores(*table)])
        assert found.interval_method == found.noninferiority.method == "Tango score"
    for table in ((100, 0, 0, 0), (10, 45, 0, 45), (0, 0, 0, 100)):
        (found,) = judge([scores(*table)])
        assert found.interval_method.startswith("exact unconditional")


def test_shifts_of_starts_widen_the_interval_and_one_start_is_said_to_be_uncontrolled():
    rng = np.random.default_rng(5)
    right = rng.random((1000, 1)) < 0.9
    base, pr = (np.repeat(right, 4, axis=1).astype(float) for _ in "bp")
    pr[:30, 1] = 1 - pr[:30, 1]
    calm = SuiteScores("s", base, base, None, 0.05, 0.05, starts=((0,) * 4, (0,) * 4))
    one, two = judge(
        [calm, SuiteScores("s", base, pr, None, 0.05, 0.05, starts=(range(4), range(4)))]
    )
    assert not one.starts.controlled
    assert "shifts of starts not controlled" in one.reason
    assert two.starts.controlled
    assert "not controlled" not in two.reason
    (pooled,) = judge([SuiteScores("s", base, pr, None, 0.05, 0.05)])
    width = [np.ptp(found.interval_pt) for found in (pooled, two)]
    assert width[1] > 1.5 * width[0]


def test_a_million_items_with_four_repeats():
    rng = np.random.default_rng(2)
    right = rng.random((10**6, 1)) < 0.9
    base, pr = ((right ^ (rng.random((10**6, 4)) < 0.01)).astype(np.float64) for _ in "bp")
    (found,) = judge([SuiteScores("s", base, pr, None, 0.01, 0.05)])
    assert found.verdict is Verdict.PASS
    assert found.items == 10**6
