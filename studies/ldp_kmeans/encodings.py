"""Randomisers of other papers, to compare k-ary randomised response with: one report each."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike

from fedclust_helpers._validation import FloatArray, IntArray, check_fits
from fedclust_helpers.federation.reports import as_words, public_coins
from fedclust_helpers.ldp_kmeans.local_randomizers import (
    MAX_NUMBERS,
    BoolArray,
    PureReport,
    RandomizedResponse,
    below,
    check_values,
    random_words,
    round_probability,
    words_modulo,
)
from fedclust_helpers.mechanisms import NoiseSource


@dataclass(frozen=True)
class UnaryEncoding(PureReport):
    """One noised bit for each possible value (Wang et al. 2017): the value's bit is 1, others 0.

    ``optimized``: the 1 stays with probability 1/2, a 0 becomes 1 with 1/(e^eps + 1).
    ``symmetric``: both flip with probability 1/(e^(eps/2) + 1) (the basic RAPPOR). Two bits differ
    between two values: epsilon is ln of p(1-q)/(q(1-p)).
    """

    n_values: int
    kind: Literal["optimized", "symmetric"] = "optimized"

    @property
    def keep(self) -> float:
        """Probability that the bit of the true value is reported as 1."""
        if self.kind == "optimized":
            return 0.5
        return round_probability(1 / (1 + math.exp(-self.epsilon / 2)), up=False)

    @property
    def flip(self) -> float:
        """Probability that the bit of another value is reported as 1."""
        if self.kind == "optimized":
            odds = math.exp(-self.epsilon)
            return round_probability(odds / (1 + odds), up=True)
        return 1 - self.keep

    @property
    def _odds(self) -> tuple[float, float]:
        return self.keep, self.flip

    def randomize(self, values: ArrayLike, *, rng: NoiseSource) -> BoolArray:
        """Bits of shape (n, k)."""
        values = check_values(values, self.n_values)
        check_fits(len(values) * self.n_values, "values times n_values", limit=MAX_NUMBERS)
        words = random_words((len(values), self.n_values), rng=rng)
        own = np.arange(self.n_values) == values[:, None]
        return np.where(own, below(words, self.keep), below(words, self.flip))

    def estimate(self, reports: BoolArray) -> FloatArray:
        """Unbiased counts (k,) from bits (n, k)."""
        try:
            reports = np.asarray(reports)
        except ValueError:  # rows of unequal length
            reports = np.zeros(0, dtype=np.bool_)
        if reports.dtype != np.bool_ or reports.ndim != 2 or reports.shape[1] != self.n_values:
            raise TypeError(f"reports must be bits (bool) of shape (n, {self.n_values})")
        return (reports.sum(axis=0) - len(reports) * self.flip) / (self.keep - self.flip)


@dataclass(frozen=True)
class LocalHashing(PureReport):
    """Optimised local hashing (Wang et al. 2017): hash to g = e^eps + 1 values, then k-RR.

    Every user has a hash function of their own, drawn from their public coin.
    """

    n_values: int
    seed: int

    @property
    def response(self) -> RandomizedResponse:
        """The k-ary randomised response on hashed values."""
        return RandomizedResponse(self.epsilon, max(2, round(math.exp(min(self.epsilon, 20))) + 1))

    @property
    def _odds(self) -> tuple[float, float]:
        return self.response.keep, 1 / self.response.n_values

    def _hash(self, users: IntArray, values: IntArray) -> IntArray:
        with np.errstate(over="ignore"):
            mixed = public_coins(self.seed, users) + values.astype(np.uint64)
        coins = public_coins(0, mixed)
        return words_modulo(coins, self.response.n_values, lambda again: public_coins(1, again))

    def _users(self, users: ArrayLike, n: int) -> IntArray:
        numbers = as_words(users).astype(np.int64)
        if numbers.shape != (n,):
            raise ValueError(f"users must be {n} numbers, one for each of the values or reports")
        return numbers

    def randomize(self, values: ArrayLike, users: IntArray, *, rng: NoiseSource) -> IntArray:
        """Reports (n,) of users with the given numbers (n,)."""
        values = check_values(values, self.n_values)
        users = self._users(users, len(values))
        return self.response.randomize(self._hash(users, values), rng=rng)

    def estimate(self, reports: ArrayLike, users: IntArray) -> FloatArray:
        """Unbiased counts (k,): one pass over the users for each value."""
        reports = check_values(reports, self.response.n_values, "reports")
        users = self._users(users, len(reports))
        check_fits(max(len(reports), 32) * self.n_values, "n_values times reports", limit=2**32)
        keep, by_chance = self._odds
        support = np.array([
            (self._hash(users, np.full(len(reports), v)) == reports).sum()
            for v in range(self.n_values)
        ])  # fmt: skip
        return np.asarray((support - len(reports) / self.response.n_values) / (keep - by_chance))
