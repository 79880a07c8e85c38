"""What all questions to local users share: names, public coins, the shape of reports.

A `LocalQuery` has a user's side (`respond`: a pure function of the user's own point, number and
noise) and a server's side (`collect`). `LocalReports.ask` brings the two together, chunk by chunk.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fedclust_helpers._state import Fixed
from fedclust_helpers._validation import (
    FloatArray,
    IntArray,
    as_points,
    check_int,
    check_rng,
    check_text,
)
from fedclust_helpers.federation.reports import Reports, Words, public_coins
from fedclust_helpers.ldp_kmeans.local_randomizers import MAX_NUMBERS, random_words


class Query(Fixed):
    """A question with a `name`, and `public` arrays that the server tells the users with it."""

    def __init__(self, name: str, public: Mapping[str, ArrayLike] | None = None) -> None:
        self.name = check_text(name, "name")
        self.public = frozen_arrays(public)
        self._n_users = 0

    @property
    def n_users(self) -> int:
        """Users who were asked."""
        return self._n_users

    def check(self, n_features: int) -> None:
        """Raise what `respond` would raise, for a point at the origin and without noise."""
        n_features = check_int(n_features, "n_features", maximum=MAX_NUMBERS)
        self._answer(np.zeros((1, n_features)), np.zeros(1, dtype=np.int64))

    def _answer(self, points: FloatArray, users: IntArray) -> Any:
        raise NotImplementedError


def frozen_arrays(public: Mapping[str, ArrayLike] | None) -> Mapping[str, NDArray[Any]]:
    """Read-only copies of arrays by name, in a read-only mapping."""
    if public is not None and not isinstance(public, Mapping):
        raise TypeError(f"public must be a mapping of arrays, got {type(public).__name__}")
    out = {str(name): np.array(value) for name, value in (public or {}).items()}
    for array in out.values():
        array.flags.writeable = False
    return MappingProxyType(out)


def user_numbers(users: IntArray) -> IntArray:
    """User numbers, (m,)."""
    users = np.asarray(users)
    if users.ndim != 1 or users.dtype.kind not in "iu":
        raise TypeError("users must be integers of shape (m,)")
    return users


def one_point_each(points: FloatArray, users: IntArray) -> tuple[FloatArray, IntArray]:
    """One point for each user number; nobody, (0, d), is allowed."""
    nobody = isinstance(points, np.ndarray) and points.ndim == 2 and not len(points)
    points, users = points if nobody else as_points(points), user_numbers(users)
    if len(users) != len(points):
        raise ValueError(f"users must be {len(points)} numbers, one for each of the points")
    return points, users


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
        try:
            shares_ = np.asarray(shares, dtype=np.float64)
        except (TypeError, ValueError):
            raise TypeError("shares must be positive numbers, one for each channel") from None
        good = shares_.ndim == 1 and len(shares_) and np.isfinite(shares_).all()
        if not good or (shares_ <= 0).any():
            raise ValueError("shares must be positive numbers, one for each channel")
        self.n = len(shares_)
        self.n_answers = check_int(n_answers, "n_answers", maximum=self.n)
        if n_answers > 1 and np.ptp(shares_) > 1e-12:
            raise ValueError("shares must be equal when a user answers several channels")
        if shares_.max() > 1e9 * shares_.min():  # coins tell shares apart down to 2^-32
            raise ValueError("shares (oracle_share) must not differ by more than a factor 10^9")
        self.edges = np.cumsum(shares_ / shares_.sum())[:-1]
        self._row_mask = np.uint64(n_buckets - 1)
        self.seeds = [int(s) for s in random_words(self.n_answers, rng=check_rng(rng))]

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
        return channels, [coin & self._row_mask for coin in coins]
