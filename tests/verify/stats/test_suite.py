import json

import msgspec
import numpy as np
import pytest

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
