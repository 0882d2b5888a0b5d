"""Evidence that may be looked at after every question: betting against a hypothesis on the mean.

An e-process is the wealth of a gambler who bets, before each question, that the hypothesis is
wrong. While it is true the wealth does not grow on average, and ever reaches 1/alpha with
probability at most alpha [1]_. Questions must come in an order that does not depend on their
answers, such as a random one. A question's difference is PR's mean over repeats less base's.

The bets are fractions f of the largest one that cannot ruin the gambler, and the wealth is the
mean over f spread evenly between 0 and 1: nothing to tune, and not far behind the best f in
hindsight [2]_. Against "no worse at all", one answer a question, this is the mixture likelihood
ratio of the discordant questions.

References:
----------
.. [1] A. Ramdas, P. Grunwald, V. Vovk and G. Shafer, "Game-theoretic statistics and safe
   anytime-valid inference", Statistical Science 38 (2023) 576-601, arXiv:2210.01948.
.. [2] I. Waudby-Smith and A. Ramdas, "Estimating means of bounded random variables by betting",
   Journal of the Royal Statistical Society B 86 (2024) 1-27, arXiv:2010.09686.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.optimize import brentq

FloatArray = NDArray[np.float64]

_BETS = (np.arange(100) + 0.5) / 100
_CHUNK = 4096
# Beyond this a wealth is only "very large"; its exponential still fits a float.
_LARGEST_LOG = 690.0


class EProcess:
    """Evidence that the mean difference lies beyond a boundary: see `harm` and `certificate`."""

    def __init__(self, direction: int, boundary: float) -> None:
        """Bet that direction * mean > boundary, where differences lie between -1 and 1."""
        if not -1 < boundary < 1:
            raise ValueError(f"the boundary {boundary} does not lie between -1 and 1")
        self._direction = direction
        self._boundary = boundary
        self._log_wealth = np.zeros(_BETS.size)
        self.questions = 0
        self.e_value = 1.0
        self.peak = 1.0

    @classmethod
    def harm(cls, margin: float) -> EProcess:
        """Against "PR is worse than base by `margin` at most": large when it is worse than that."""
        return cls(-1, margin)

    @classmethod
    def certificate(cls, margin: float) -> EProcess:
        """Against "PR is worse than base by `margin` or more": large when it is non-inferior."""
        return cls(1, -margin)

    @property
    def p(self) -> float:
        """A p-value valid at any time: one over the largest e-value so far."""
        return 1 / self.peak

    def update(self, differences: ArrayLike) -> FloatArray:
        """Take the differences of the next questions, in the order asked.

        Returns the e-value after each of them, [questions]; the last and the largest stay in
        `e_value` and `peak`.
        """
        new = _differences(differences)
        path = np.empty(new.size)
        for start in range(0, new.size, _CHUNK):
            growth = _log_growth(self._direction * new[start : start + _CHUNK], self._boundary)
            wealth = self._log_wealth + np.cumsum(growth, axis=0)
            path[start : start + _CHUNK] = _mixture(wealth)
            self._log_wealth = wealth[-1]
        if new.size:
            self.questions += new.size
            self.e_value = float(path[-1])
            self.peak = max(self.peak, float(path.max()))
        return path


def confidence_sequence(differences: ArrayLike, confidence: float = 0.95) -> tuple[float, float]:
    """Interval for the mean difference, valid whenever and why the questions stopped.

    It holds those differences against which neither bet, that the truth lies above and that it
    lies below, has won.
    """
    values, counts = np.unique(_differences(differences), return_counts=True)
    return _lower(values, counts, confidence), -_lower(-values, counts, confidence)


def _lower(values: FloatArray, counts: NDArray[np.intp], confidence: float) -> float:
    needed = 2 / (1 - confidence)
    if not counts.size or values.max() <= -1:
        return -1.0

    def evidence(boundary: float) -> float:
        wealth = counts @ _log_growth(values, boundary)
        return float(np.log(_mixture(wealth[None, :])[0] / needed))

    edge, mean = -1 + 1e-9, float(values @ counts / counts.sum())
    if evidence(edge) <= 0:
        return -1.0
    return float(brentq(evidence, edge, mean, xtol=1e-9))


def _log_growth(values: FloatArray, boundary: float) -> FloatArray:
    """Log growth of each bet at each value, [values, bets]; fair where the mean is `boundary`."""
    return np.log1p(_BETS[None, :] * ((values - boundary) / (1 + boundary))[:, None])


def _mixture(log_wealth: FloatArray) -> FloatArray:
    """The mean over bets of wealths given as logarithms, [..., bets]."""
    top = log_wealth.max(axis=-1, keepdims=True)
    log_mean = top[..., 0] + np.log(np.exp(log_wealth - top).mean(axis=-1))
    return np.asarray(np.exp(np.minimum(log_mean, _LARGEST_LOG)))


def _differences(values: ArrayLike) -> FloatArray:
    array = np.atleast_1d(np.asarray(values, dtype=np.float64))
    if array.ndim != 1 or not np.all(np.abs(array) <= 1):
        raise ValueError("differences must be numbers between -1 and 1, one a question")
    return array
