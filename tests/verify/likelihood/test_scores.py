import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.special import rel_entr

from verify.likelihood.scores import Scores, UnlikeTokensError, divergences, least_kl, pair

DISTRIBUTIONS = st.lists(st.floats(0.001, 1.0), min_size=6, max_size=6).map(
    lambda weights: np.array(weights) / sum(weights)
)


def full(rows, tokens=(0, 1), names="abc"):
    spread = np.log(np.array(rows, dtype=np.float64))
    return Scores(
        tuple(names[t] for t in tokens),
        spread[np.arange(len(tokens)), list(tokens)],
        tuple(names[t] for t in spread.argmax(axis=1)),
        spread,
    )


BASE = full([[0.7, 0.2, 0.1], [0.1, 0.6, 0.3]])


def test_a_pair_by_hand():
    found = pair("q", BASE, full([[0.5, 0.4, 0.1], [0.1, 0.3, 0.6]]))
    assert found.nll == pytest.approx(
        (-np.log([0.7, 0.6]).mean(), -np.log([0.5, 0.3]).mean()), abs=1e-12
    )
    assert found.difference == pytest.approx(np.log([0.7 / 0.5, 0.6 / 0.3]).mean())
    assert (found.tokens, found.agreement) == (2, 0.5)
    assert (found.divergence.place, found.divergence.before) == (1, "a")
    assert (found.divergence.base, found.divergence.pr) == ("b", "c")
    assert found.divergence.gap == pytest.approx(0.3)


def test_an_arm_beside_itself_is_the_same():
    found = pair("q", BASE, BASE)
    assert (found.difference, found.kl, found.agreement, found.divergence) == (0, 0, 1, None)


@given(DISTRIBUTIONS, DISTRIBUTIONS)
def test_kl_of_full_logits_is_that_of_scipy(p, q):
    found = divergences(full([p], [0], "abcdef"), full([q], [0], "abcdef"))
    assert found == pytest.approx([rel_entr(p, q).sum()], abs=1e-12)


@given(DISTRIBUTIONS, DISTRIBUTIONS, st.integers(1, 6), st.integers(1, 6))
def test_likeliest_tokens_bound_the_divergence_from_below(p, q, k, m):
    whole = rel_entr(p, q).sum()
    tops = [
        {str(t): float(np.log(arm[t])) for t in np.argsort(-arm)[:size]}
        for arm, size in ((p, k), (q, m))
    ]
    assert 0 <= least_kl(*tops) <= whole + 1e-12
    if k == m == 6:
        assert least_kl(*tops) == pytest.approx(whole, abs=1e-9)


def test_lists_without_a_common_token_bound_nothing():
    assert least_kl({"a": -0.1}, {"b": -0.1}) == 0


def test_a_gap_that_the_server_did_not_tell_is_unknown():
    base = Scores(("a",), np.array([-0.1]), ("a",), ({"a": -0.1},))
    pr = Scores(("a",), np.array([-2.0]), ("b",), ({"b": -0.2, "a": -2.0},))
    assert pair("q", base, pr).divergence.gap is None
    told = Scores(("a",), np.array([-0.1]), ("a",), ({"a": np.log(0.9), "b": np.log(0.1)},))
    assert pair("q", told, pr).divergence.gap == pytest.approx(0.8)


@pytest.mark.parametrize(("tokens", "place"), [((0, 2), 1), ((2, 1), 0)])
def test_other_tokens_are_not_paired(tokens, place):
    other = full([[0.7, 0.2, 0.1], [0.1, 0.6, 0.3]], tokens)
    with pytest.raises(UnlikeTokensError, match=f"q: .* from token {place} on"):
        pair("q", BASE, other)


@pytest.mark.parametrize(
    ("value", "finite"), [(np.nan, False), (0.0, True)], ids=["no number", "number"]
)
def test_what_is_no_number_is_noticed(value, finite):
    spread = BASE.spread.copy()
    spread[1, 2] = value
    assert Scores(BASE.tokens, BASE.logprobs, BASE.best, spread).finite == finite
