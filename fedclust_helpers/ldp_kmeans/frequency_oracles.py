"""Questions to local users whose answers are hashed, and counts from one bit of each user.

A `LocalQuery` has a user's side (`respond`: a pure function of the user's own point, number and
noise) and a server's side (`collect`). `Federation.ask` brings the two together, chunk by chunk.

Every user gets a public coin (a function of the user number, see `public_coins`). It decides which
question the user answers ("channel") and which row r of the Hadamard matrix is used, so neither has
to be sent. H[r, t] = (-1)^popcount(r AND t).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fedclust_helpers import _fast
from fedclust_helpers._index import bincount
from fedclust_helpers._validation import (
    FloatArray,
    IntArray,
)
from fedclust_helpers.federation.reports import LocalQuery, Reports, Words, as_words
from fedclust_helpers.ldp_kmeans.local_randomizers import (
    BoolArray,
    RandomizedResponse,
    below,
    random_words,
)
from fedclust_helpers.ldp_kmeans.queries import Channels, Query
from fedclust_helpers.mechanisms import NoiseSource

BLOCK = 2**16  # users whose words are held at once: they stay in cache


# --- counts ---------------------------------------------------------------------------------------


def walsh_hadamard(values: ArrayLike) -> FloatArray:
    """H @ values along the first axis (T, ...), T a power of two: O(T log T), not normalised."""
    array = np.array(values, dtype=np.float64)
    size = len(array)
    if size & (size - 1):
        raise ValueError(f"values must have a power of two rows, got {size}")
    rest = array.shape[1:]
    if not array.any():  # before the first report
        return array
    # index = (high, low): the steps of the low half come first, with it in front, so that all loops
    # run over long stretches of memory
    low = 2 ** ((size.bit_length() - 1) // 2)
    shape = size // low, low, array.size // size
    array = np.ascontiguousarray(array.reshape(shape).swapaxes(0, 1))
    _butterflies(array)
    array = np.ascontiguousarray(array.swapaxes(0, 1))
    _butterflies(array)
    return array.reshape(size, *rest)


def _butterflies(array: FloatArray) -> None:
    """The steps along the first axis, in place."""
    size, half = len(array), 1
    while half < size:
        pairs = array.reshape(size // (2 * half), 2, -1)
        upper = pairs[:, 0] + pairs[:, 1]
        np.subtract(pairs[:, 0], pairs[:, 1], out=pairs[:, 1])
        pairs[:, 0] = upper
        half *= 2


class BucketHash:
    """A public hash of 64-bit keys to T = 2^b buckets, pairwise independent.

    Multiply-shift on the two 32-bit halves of the key (Dietzfelbinger 1996):
    ``(a1 low + a2 high + c) mod 2^64 >> (64 - b)``.
    """

    def __init__(self, n_buckets: int, *, rng: np.random.Generator) -> None:
        self.n_buckets = n_buckets
        self._shift = np.uint64(64 - (n_buckets.bit_length() - 1))
        self._a, self._b, self._c = random_words(3, rng=rng)

    def __call__(self, keys: Words) -> Words:
        """Buckets (uint64) of keys of any shape."""
        keys = as_words(keys)
        loop = _fast.fast(_fast.hashes, _fast.PER_USER * keys.size)
        if loop is not None and keys.ndim == 1:
            out = np.empty(len(keys), dtype=np.uint64)
            loop(np.ascontiguousarray(keys), self._a, self._b, self._c, self._shift, out)
            return out
        with np.errstate(over="ignore"):
            low = keys & np.uint64(0xFFFFFFFF)
            low *= self._a
            low += (keys >> np.uint64(32)) * self._b
            low += self._c
        low >>= self._shift
        return low


def _flip_by_parity(bits: BoolArray, rows: Words, buckets: Words) -> None:
    """Flip the bits, in place, where H[row, bucket] = -1; rows are below 2^32, and used up."""
    loop = _fast.fast(_fast.flip_by_parity, _fast.PER_USER * len(rows))
    if loop is not None:
        loop(bits, rows, buckets)
    else:
        rows &= buckets
        bits ^= (np.bitwise_count(rows) & np.uint8(1)).view(bool)


class Question(NamedTuple):
    """A user's answer before randomisation: a key (any 64-bit word) and a sign bit."""

    keys: Words
    negative: BoolArray | None = None


class HashedQuery(Query):
    """Answers are hashed to T buckets and signed by H[r, bucket], with r from the user's coin.

    One transform of the sums of all rows r gives the estimates of all buckets at once.

    Parameters
    ----------
    encode : callable
        A public, pure function of points and channels that must not raise for some points only.
    shares : sequence of float
        Public share of users for each channel.
    n_answers : int
        Channels that each user answers.
    n_buckets : int
        T, a power of two. The noise does not depend on it; collisions do.
    rng : numpy.random.Generator
        Public randomness (hash and coins).
    public : mapping of arrays, optional
        What the server tells the users with the question; it goes into the transcript.
    """

    def __init__(
        self, encode: Callable[[FloatArray, IntArray], Any], *, rng: np.random.Generator,
        shares: Sequence[float], n_answers: int, n_buckets: int, name: str,
        public: Mapping[str, ArrayLike] | None,
    ) -> None:  # fmt: skip
        super().__init__(name, public)
        self._function = encode
        self._hash = BucketHash(n_buckets, rng=rng)
        self._channels = Channels(shares, n_answers, n_buckets, rng)
        self._spectrum: FloatArray | None = None

    def buckets(self, keys: Words) -> IntArray:
        """The public hash of keys."""
        return self._hash(keys).astype(np.int64)

    def collect(self, users: IntArray, reports: Reports) -> None:
        """The server's side: add the reports of these users to the sums of their rows."""
        super().collect(users, reports)
        self._spectrum = None


class OneBitCounts(HashedQuery):
    """Signed counts of hashed keys from one bit per user (Hashtogram, Hadamard response).

    User j with key v and sign s sends s H[r_j, h(v)] through binary randomised response. For all T
    buckets at once the server computes ``c (H @ y)`` where y[r] sums the reports of row r, and c
    undoes the response: an unbiased estimate of the signed number of users in each bucket, with
    standard deviation about c sqrt(n). (Bassily et al. 2020, Hashtogram; LDP paper Lemma 2.11.)

    Parameters
    ----------
    encode : callable
        ``encode(points, channels) -> Question``: what users with these points would say on these
        channels.
    epsilon : float
        Of all answers of one user together, any two values of that user; each has
        epsilon/n_answers.
    rng, shares, n_answers, n_buckets, name, public
        As for `HashedQuery`.
    """

    parts = ("bit",)
    _kinds = "b"

    def __init__(
        self, encode: Callable[[FloatArray, IntArray], Question], epsilon: float, *,
        rng: np.random.Generator, shares: Sequence[float] = (1.0,), n_answers: int = 1,
        n_buckets: int = 2**16, name: str = "one-bit counts",
        public: Mapping[str, ArrayLike] | None = None,
    ) -> None:  # fmt: skip
        super().__init__(
            encode, rng=rng, shares=shares, n_answers=n_answers, n_buckets=n_buckets, name=name,
            public=public,
        )  # fmt: skip
        self.n_buckets, self.n_channels = self._hash.n_buckets, self._channels.n
        self._shape = (n_answers,)
        self.response = RandomizedResponse(epsilon / n_answers)
        self.mechanisms = (self.response,) * n_answers
        self._sums = np.zeros(self.n_channels * n_buckets)
        self._n_reports = np.zeros(self.n_channels, dtype=np.int64)

    @property
    def n_reports(self) -> IntArray:
        """Answers on each channel, a copy."""
        return self._n_reports.copy()

    def _answer(self, points: FloatArray, channels: IntArray) -> tuple[Words, BoolArray | None]:
        """Buckets (m,) and sign bits (m,) of these users, before noise."""
        keys, negative = self._function(points, channels)
        return self._hash(keys), negative

    def _encode(self, points: FloatArray, users: IntArray, rng: NoiseSource) -> BoolArray:
        """One bit for each answer, (m, n_answers): True stands for -1."""
        bits = np.empty((len(users), len(self.mechanisms)), dtype=bool)
        # all users draw for their first answer before anyone does for the second
        size = BLOCK if len(self.mechanisms) == 1 else max(1, len(users))
        for start in range(0, len(users), size):
            part = slice(start, start + size)
            block = points[part]
            channels, rows = self._channels.coins(users[part])
            for i, (channel, row) in enumerate(zip(channels, rows, strict=True)):
                buckets, negative = self._answer(block, channel)
                bit = below(random_words(len(row), rng=rng), 1 - self.response.keep)
                _flip_by_parity(bit, row, buckets)
                if negative is not None:
                    bit ^= negative
                bits[part, i] = bit
        return bits

    def _decode(self, users: IntArray, bits: NDArray[Any]) -> None:
        size = max(BLOCK, 2 * len(self._sums))
        for start in range(0, len(users), size):
            self._add(users[start : start + size], bits[start : start + size])

    def _add(self, users: IntArray, bits: BoolArray) -> None:
        channels, rows = self._channels.coins(users)
        size = len(self._sums)
        for channel, row, negative in zip(channels, rows, bits.T, strict=True):
            cell = row.view(np.int64)  # the coins are ours, and below 2^24
            if self.n_channels > 1:
                cell += channel * self.n_buckets
                self._n_reports += bincount(channel, minlength=self.n_channels)
            else:
                self._n_reports += len(users)
            loop = _fast.fast(_fast.tally, _fast.PER_USER * len(cell))
            if loop is not None:
                loop(self._sums, cell, np.ascontiguousarray(negative))
            else:
                cell += np.where(negative, size, 0)
                both = bincount(cell, minlength=2 * size)
                self._sums += both[:size] - both[size:]

    @property
    def spectrum(self) -> FloatArray:
        """De-biased signed counts of every bucket among those who answered, (channels, T)."""
        if self._spectrum is None:
            rows = self._sums.reshape(self.n_channels, self.n_buckets)
            self._spectrum = self.response.debias * walsh_hadamard(rows.T).T
        return self._spectrum

    def estimate(self, keys: Words, *, channel: int = 0) -> FloatArray:
        """Estimated number of all asked users whose answer on `channel` is each key, (m,)."""
        if not self._n_users:  # a dry run, or a part without users
            return np.zeros(len(keys))
        scale = self.scale(channel)
        return self.spectrum[channel, self.buckets(keys)] * scale

    def scale(self, channel: int = 0) -> float:
        """From those who answered this channel to all users who were asked."""
        return self._n_users / max(1, int(self._n_reports[channel]))

    def std(self, *, channel: int = 0) -> float:
        """Standard deviation (upper bound) of `estimate`: c sqrt(n_c) n/n_c."""
        scale = self.scale(channel)
        return self.response.debias * math.sqrt(self._n_reports[channel]) * scale


def ask_values(query: LocalQuery, values: ArrayLike, *, rng: np.random.Generator) -> None:
    """Run a query over an array (n, d): for lessons; `Federation.ask` is for real users."""
    points = np.asarray(values, dtype=np.float64)
    users = np.arange(len(points))
    query.collect(users, query.respond(points, users, rng=rng))
