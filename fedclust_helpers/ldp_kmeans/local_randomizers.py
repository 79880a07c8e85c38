"""Local randomisers: what one user does to one value before anything leaves the device.

Each is a mechanism of the ledger: it states the privacy of *one user's report* under replace-one,
any two values of the same user. Row i of a report belongs to user i, and every user draws noise of
their own. Randomness comes in 64-bit words, from a seeded generator (teaching) or the operating
system (secure). Probabilities are rounded to multiples of 2^-53 *towards more noise*: epsilon holds
exactly, not up to rounding.
"""

from __future__ import annotations

import math
import secrets
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fedclust_helpers._index import bincount
from fedclust_helpers._validation import (
    FloatArray,
    IntArray,
    check_epsilon,
)
from fedclust_helpers.accounting.entries import Pure
from fedclust_helpers.federation.reports import Words
from fedclust_helpers.mechanisms import NoiseSource, SecureNoise

BoolArray = NDArray[np.bool_]

_WORD = 2.0**53  # probabilities are multiples of 2^-53
MAX_NUMBERS = 2**27  # numbers that one call may hold at once: 1 GiB
SWITCH = 2.18  # epsilon per participation at which splitting users and splitting budget break even


def random_words(shape: int | tuple[int, ...], *, rng: NoiseSource) -> Words:
    """Uniform 64-bit words from a seeded generator or from the operating system."""
    if isinstance(rng, SecureNoise):
        size = math.prod(shape) if isinstance(shape, tuple) else shape
        words = np.frombuffer(secrets.token_bytes(8 * size), dtype=np.uint64)
        return words.reshape(shape)
    return rng.integers(0, 2**64, size=shape, dtype=np.uint64)


def below(words: Words, probability: float) -> BoolArray:
    """True with a `probability` that is a multiple of 2^-53, from uniform words; exact."""
    threshold = probability * _WORD
    if not 0 <= threshold <= _WORD or threshold != math.floor(threshold):
        raise ValueError(f"probability must be a multiple of 2^-53 in [0, 1], got {probability!r}")
    if threshold == _WORD:  # 2^64 is no word
        return np.ones(words.shape, dtype=np.bool_)
    return np.asarray(words < np.uint64(int(threshold) << 11))


def words_modulo(words: Words, n_values: int, redraw: Callable[[Words], Words]) -> IntArray:
    """Values 0..n_values-1 with *exactly* equal odds, from uniform words.

    Words at or beyond the largest multiple of n are drawn again (``redraw(words)`` gives as many
    fresh ones), so every value is left with the same number of words.
    """
    largest = 2**64 - 2**64 % n_values - 1  # the last word that is kept
    if largest < 2**64 - 1:
        again = np.flatnonzero(words > np.uint64(largest))
        if len(again):
            words = words.copy()
            flat = words.reshape(-1)  # the same words
            while len(again):
                flat[again] = redraw(flat[again])
                again = again[flat[again] > np.uint64(largest)]
    return (words % np.uint64(n_values)).astype(np.int64)


def round_probability(probability: float, *, up: bool) -> float:
    """A multiple of 2^-53 that lies more than one whole step above or below.

    Two steps, because `probability` itself was computed in floats and may be wrong by 1.5 of them.
    """
    scaled = probability * _WORD
    step = math.floor(scaled) + 2 if up else math.ceil(scaled) - 2
    return min(max(step / _WORD, 0.0), 1.0)


def participations(epsilon: float, n_mechanisms: int) -> int:
    """How many of M mechanisms a user should answer: m = min(M, max(1, round(epsilon/2.18))).

    Each answer then gets epsilon/m. The error of splitting the budget grows like M sqrt(n), that of
    splitting users like sqrt(M n); but one-bit answers saturate, so large epsilons are better
    spread: ((e^x + 1)/(e^x - 1))^2 / m is least at x = epsilon/m = 2.18, where sinh x = 2x.
    """
    return min(n_mechanisms, max(1, round(epsilon / SWITCH)))


@dataclass(frozen=True)
class PureReport(Pure):
    """A pure local randomiser: it hides any change of one user's value by `epsilon`."""

    epsilon: float

    adjacency: ClassVar[str] = "replace-one"
    sensitivity: ClassVar[float] = 1.0

    def __post_init__(self) -> None:
        check_epsilon(self.epsilon)
        own, others = self._odds
        if own <= others:
            raise ValueError(
                f"epsilon must be large enough to leave a signal in 53 bits, got {self.epsilon:g}"
            )

    @property
    def _odds(self) -> tuple[float, float]:
        """Probabilities that holders of a value, and others, support it."""
        raise NotImplementedError

    def std(self, n_users: int, count: float = 0.0) -> float:
        """Standard deviation of the estimate of a value that `count` of `n_users` users hold."""
        own, others = self._odds
        variance = count * own * (1 - own)
        variance += (n_users - count) * others * (1 - others)
        return math.sqrt(variance) / (own - others)


@dataclass(frozen=True)
class RandomizedResponse(PureReport):
    """k-ary randomised response: the true value, or with some luck another one.

    The true value has probability e^eps/(e^eps + k - 1), each other of the values 0..k-1
    1/(e^eps + k - 1). (Warner 1965 for k = 2.) The odds are exact rationals: `keep` is a multiple
    of 2^-53, and all other values share the rest equally.
    """

    n_values: int = 2

    @cached_property
    def keep(self) -> float:
        """Probability of reporting the true value, rounded down."""
        odds = math.exp(-self.epsilon)
        return round_probability(1 / (1 + (self.n_values - 1) * odds), up=False)

    @property
    def other(self) -> float:
        """Probability of reporting one given other value."""
        return (1 - self.keep) / (self.n_values - 1)

    @property
    def _odds(self) -> tuple[float, float]:
        return self.keep, self.other

    @property
    def response_symbols(self) -> int:
        """k: tells `accounting.Shuffled` that this is randomised response, which has a blanket."""
        return self.n_values

    @property
    def debias(self) -> float:
        """1/(keep - other): what a de-biased count is multiplied with (c_eps for k = 2)."""
        return 1 / (self.keep - self.other)

    def probabilities(self) -> FloatArray:
        """The whole channel: (value, report) -> probability, shape (k, k)."""
        k = self.n_values
        channel: FloatArray = np.full((k, k), self.other, dtype=np.float64)
        np.fill_diagonal(channel, self.keep)
        return channel

    def randomize(self, values: ArrayLike, *, rng: NoiseSource) -> IntArray:
        """One report for each value; int array of the same shape (n,)."""
        values = check_values(values, self.n_values)
        words = random_words(len(values), rng=rng)
        if self.n_values == 2:
            return values ^ ~below(words, self.keep)
        shift = words_modulo(
            random_words(len(values), rng=rng), self.n_values - 1,
            lambda again: random_words(len(again), rng=rng),
        )  # fmt: skip
        other = (values + 1 + shift) % self.n_values
        return np.where(below(words, self.keep), values, other)

    def estimate(self, reports: ArrayLike) -> FloatArray:
        """Unbiased counts (k,) of the values behind n reports."""
        reports = np.asarray(reports, dtype=np.int64)
        counts = bincount(reports, minlength=self.n_values)
        return np.asarray(self.debias * (counts - self.other * len(reports)))


def check_values(values: ArrayLike, n_values: int, name: str = "values") -> IntArray:
    """Integers (n,) in 0..n_values-1; the message does not quote them."""
    try:
        array = np.asarray(values)
    except ValueError:
        raise TypeError(f"{name} must be integers of shape (n,)") from None
    if array.ndim != 1 or array.dtype.kind not in "iub":
        raise TypeError(f"{name} must be integers of shape (n,)")
    if len(array) and (array.min() < 0 or array.max() >= n_values):
        raise ValueError(f"{name} must lie in 0..{n_values - 1}")
    return array.astype(np.int64, copy=False)
