"""What all questions to local users share: encode on the device, decode at the server."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fedclust_helpers._state import Fixed
from fedclust_helpers._validation import FloatArray, IntArray
from fedclust_helpers.federation.reports import Reports, Words, public_coins
from fedclust_helpers.ldp_kmeans.local_randomizers import random_words
from fedclust_helpers.mechanisms import NoiseSource


class Query(Fixed):
    """A question to each user, answered once by one array of randomised numbers.

    A kind of question says what a user's row of the array holds (`_shape`, numbers of the `_kinds`
    of NumPy), how users encode and randomise their answers (`_encode`: a function of a user's own
    point, number and noise), and what the server adds up (`_decode`); it has an `estimate` of its
    own. `public` are arrays that the server tells the users with the question.
    """

    _kinds: ClassVar[str]
    _shape: tuple[int, ...] = ()

    def __init__(self, name: str, public: Mapping[str, ArrayLike] | None = None) -> None:
        self.name = name
        self.public = frozen_arrays(public)
        self._n_users = 0

    @property
    def n_users(self) -> int:
        """Users who were asked."""
        return self._n_users

    def check(self, n_features: int) -> None:
        """Raise what `respond` would raise, for a point at the origin and without noise."""
        self._answer(np.zeros((1, n_features)), np.zeros(1, dtype=np.int64))

    def respond(self, points: FloatArray, users: IntArray, *, rng: NoiseSource) -> Reports:
        """The users' side: one array with a row for each of these users."""
        return (self._encode(points, users, rng),)

    def collect(self, users: IntArray, reports: Reports) -> None:
        """The server's side: take in the reports of these users."""
        self._decode(users, one_array(reports, (len(users), *self._shape), self._kinds))
        self._n_users += len(users)

    def _answer(self, points: FloatArray, users: IntArray) -> Any:
        """What users with these points would say, before noise."""
        raise NotImplementedError

    def _encode(self, points: FloatArray, users: IntArray, rng: NoiseSource) -> NDArray[Any]:
        raise NotImplementedError

    def _decode(self, users: IntArray, array: NDArray[Any]) -> None:
        raise NotImplementedError


def frozen_arrays(public: Mapping[str, ArrayLike] | None) -> Mapping[str, NDArray[Any]]:
    """Read-only copies of arrays by name, in a read-only mapping."""
    out = {str(name): np.array(value) for name, value in (public or {}).items()}
    for array in out.values():
        array.flags.writeable = False
    return MappingProxyType(out)


def one_array(reports: Reports, shape: tuple[int, ...], kinds: str) -> NDArray[Any]:
    """The one array of a report, of this shape and of these kinds of numbers."""
    if not isinstance(reports, tuple) or len(reports) != 1:
        raise TypeError("reports must be a tuple of one array")
    array = np.asarray(reports[0])
    if array.dtype.kind not in kinds or array.shape != shape:
        raise ValueError(
            f"reports must be one array of shape {shape}, a row for each of the users, got"
            f" {array.shape}"
        )
    return array


class Channels:
    """Public division of users over channels, and the Hadamard row of each user."""

    def __init__(
        self, shares: Sequence[float], n_answers: int, n_buckets: int, rng: np.random.Generator
    ) -> None:
        shares_ = np.asarray(shares, dtype=np.float64)
        self.n, self.n_answers = len(shares_), n_answers
        self.edges = np.cumsum(shares_ / shares_.sum())[:-1]
        self._row_mask = np.uint64(n_buckets - 1)
        self.seeds = [int(s) for s in random_words(self.n_answers, rng=rng)]

    def coins(self, users: IntArray) -> tuple[list[IntArray], list[Words]]:
        """Channel and Hadamard row of each answer: lists of `n_answers` arrays (m,)."""
        coins = [public_coins(seed, users) for seed in self.seeds]
        if self.n == 1:
            first = np.zeros(len(users), dtype=np.int64)
        else:
            # upper half of the coin for the channel, lower bits for the row
            position = (coins[0] >> np.uint64(32)).astype(np.float64) * 2.0**-32
            first = np.searchsorted(self.edges, position, side="right")
        channels = [first] + [(first + i) % self.n for i in range(1, self.n_answers)]
        for coin in coins:
            coin &= self._row_mask
        return channels, coins
