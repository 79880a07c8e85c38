"""What a server can learn from one short report of each user: counts, heavy hitters, sums.

A `LocalQuery` has a user's side (`respond`: a pure function of the user's own point, number and
noise) and a server's side (`collect`: adds reports up). `LocalReports.ask` brings the two together,
chunk by chunk; nobody ever holds all values.

Every user gets a public coin (a function of the user number, see `public_coins`). It decides which
question the user answers ("channel") and which row r of the Hadamard matrix is used, so neither has
to be sent. H[r, t] = (-1)^popcount(r AND t).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.sparse import csc_array

from fedclust_helpers._state import Fixed
from fedclust_helpers._validation import (
    FloatArray,
    IntArray,
    as_numbers,
    as_points,
    check_delta,
    check_epsilon,
    check_function,
    check_int,
    check_non_negative,
    check_positive,
    check_real,
    check_rng,
    check_text,
    short,
)
from fedclust_helpers.federation.reports import LocalQuery, Reports, Words, as_words, public_coins
from fedclust_helpers.ldp_kmeans.local_randomizers import (
    MAX_NUMBERS,
    BoolArray,
    RandomizedResponse,
    below,
    random_words,
)
from fedclust_helpers.mechanisms import (
    MAX_STEPS,
    NEGLIGIBLE,
    DiscreteGaussian,
    Gaussian,
    Mechanism,
    NoiseSource,
    NoNoise,
    SecureNoise,
)

MAX_BUCKETS = 2**24


def frozen_arrays(public: Mapping[str, ArrayLike] | None) -> Mapping[str, NDArray[Any]]:
    """Read-only copies of arrays by name, in a read-only mapping."""
    if public is not None and not isinstance(public, Mapping):
        raise TypeError(f"public must be a mapping of arrays, got {type(public).__name__}")
    out = {}
    for name, value in (public or {}).items():
        array = np.array(value)
        array.flags.writeable = False
        out[str(name)] = array
    return MappingProxyType(out)


def _check_name(name: Any) -> str:
    if not isinstance(name, str):
        raise TypeError(f"name must be a string, got {type(name).__name__}")
    return name


def _check_memory(n_buckets: int, n_rows: int, name: str) -> None:
    """Refuse tables of sums that do not fit into memory."""
    if n_buckets * n_rows > MAX_NUMBERS:
        raise ValueError(
            f"{name} times n_buckets must be at most {MAX_NUMBERS} numbers, got"
            f" {n_rows} x {n_buckets}"
        )


def one_point_each(points: FloatArray, users: IntArray) -> tuple[FloatArray, IntArray]:
    """One point for each user number."""
    nobody = isinstance(points, np.ndarray) and points.ndim == 2 and not len(points)
    if not nobody:  # nobody in a part: (0, d)
        points = as_points(points)
    users = _numbers_of(users)
    if len(users) != len(points):
        raise ValueError(f"users must be {len(points)} numbers, one for each of the points")
    return points, users


def _numbers_of(users: IntArray) -> IntArray:
    """User numbers, (m,)."""
    users = np.asarray(users)
    if users.ndim != 1 or users.dtype.kind not in "iu":
        raise TypeError("users must be integers of shape (m,)")
    return users


class Question(NamedTuple):
    """A user's answer before randomisation: a key (any 64-bit word) and a sign bit."""

    keys: Words
    negative: BoolArray | None = None


Encode = Callable[[FloatArray, IntArray], Question]


def walsh_hadamard(values: ArrayLike) -> FloatArray:
    """The transform H @ values along the first axis, by butterflies: O(T log T), not normalised.

    Parameters
    ----------
    values : array_like of shape (T, ...), T a power of two
    """
    try:
        array = np.array(values)
        if array.dtype.kind not in "iufbO":
            raise TypeError
        array = array.astype(np.float64)
    except (TypeError, ValueError):
        raise TypeError("values must be an array of real numbers of shape (T, ...)") from None
    size = len(array) if array.ndim else 0
    if not np.isfinite(array).all():
        raise ValueError("values must be finite (no nan, no inf)")
    if size == 0 or size & (size - 1):
        raise ValueError(f"values must have a power of two rows, got {size}")
    rest = array.shape[1:]
    array = array.reshape(size, -1)
    half = 1
    while half < size:
        pairs = array.reshape(size // (2 * half), 2, half, -1)
        upper = pairs[:, 0] + pairs[:, 1]
        np.subtract(pairs[:, 0], pairs[:, 1], out=pairs[:, 1])
        pairs[:, 0] = upper
        half *= 2
    return array.reshape(size, *rest)


class BucketHash:
    """A public hash of 64-bit keys to T = 2^b buckets, strongly universal (pairwise independent).

    Multiply-shift on the two 32-bit halves of the key (Dietzfelbinger 1996, vector version):
    ``(a1 low + a2 high + c) mod 2^64 >> (64 - b)``.
    """

    def __init__(self, n_buckets: int, *, rng: np.random.Generator) -> None:
        n_buckets = check_int(n_buckets, "n_buckets", minimum=2, maximum=MAX_BUCKETS)
        if n_buckets & (n_buckets - 1):
            raise ValueError(f"n_buckets must be a power of two, got {n_buckets}")
        self.n_buckets = n_buckets
        self._shift = np.uint64(64 - (n_buckets.bit_length() - 1))
        self._a, self._b, self._c = random_words(3, rng=check_rng(rng))

    def __call__(self, keys: Words) -> Words:
        """Buckets (uint64) of keys of any shape."""
        keys = as_words(keys, "keys")
        with np.errstate(over="ignore"):
            low = keys & np.uint64(0xFFFFFFFF)
            low *= self._a
            low += (keys >> np.uint64(32)) * self._b
            low += self._c
        low >>= self._shift
        return low


class _Channels:
    """Public division of users over channels, and the Hadamard row of each user."""

    def __init__(
        self, shares: Sequence[float], n_answers: int, n_buckets: int, rng: np.random.Generator
    ) -> None:
        try:
            shares_ = np.asarray(shares, dtype=np.float64)
        except (TypeError, ValueError):
            raise TypeError("shares must be positive numbers, one for each channel") from None
        if (
            shares_.ndim != 1
            or not len(shares_)
            or not np.isfinite(shares_).all()
            or (shares_ <= 0).any()
        ):
            raise ValueError("shares must be positive numbers, one for each channel")
        self.n = len(shares_)
        self.n_answers = check_int(n_answers, "n_answers", maximum=self.n)
        if n_answers > 1 and np.ptp(shares_) > 1e-12:
            raise ValueError("shares must be equal when a user answers several channels")
        if shares_.max() > 1e9 * shares_.min():  # coins tell shares apart down to 2^-32
            raise ValueError("shares (oracle_share) must not differ by more than a factor 10^9")
        self._edges = np.cumsum(shares_ / shares_.sum())[:-1]
        self._row_mask = np.uint64(n_buckets - 1)
        self._seeds = [int(s) for s in random_words(self.n_answers, rng=check_rng(rng))]

    def coins(self, users: IntArray) -> tuple[list[IntArray], list[Words]]:
        """Channel and Hadamard row of each answer: lists of `n_answers` arrays (m,)."""
        coins = [public_coins(seed, users) for seed in self._seeds]
        if self.n == 1:
            first = np.zeros(len(users), dtype=np.int64)
        else:
            # upper half of the coin for the channel, lower bits for the row
            position = (coins[0] >> np.uint64(32)).astype(np.float64) * 2.0**-32
            first = np.searchsorted(self._edges, position, side="right")
        channels = [first] + [(first + i) % self.n for i in range(1, self.n_answers)]
        return channels, [coin & self._row_mask for coin in coins]


class OneBitCounts(Fixed):
    """Signed counts of hashed keys from one bit per user (Hashtogram, Hadamard response).

    User j with key v and sign s sends s H[r_j, h(v)] through binary randomised response. For all T
    buckets at once the server computes ``c (H @ y)`` where y[r] sums the reports of row r, and c
    undoes the response: an unbiased estimate of the signed number of users in each bucket, with
    standard deviation about c sqrt(n). (Bassily et al. 2020, Hashtogram; LDP paper Lemma 2.11.)

    Parameters
    ----------
    encode : callable
        ``encode(points, channels) -> Question``: what a user with this point would say on this
        channel. A public, pure function, defined for every point: it runs on the device, so it must
        not raise for some points only.
    epsilon : float
        Of all answers of one user together, any two values of that user.
    shares : sequence of float
        Public share of users for each channel.
    n_answers : int
        Channels that each user answers, with epsilon/n_answers each.
    n_buckets : int
        T, a power of two. The noise does not depend on it; collisions do.
    rng : numpy.random.Generator
        Public randomness (hash and coins).
    public : mapping of arrays, optional
        What the server tells the users with the question; it goes into the transcript.
    """

    parts = ("bit",)

    def __init__(
        self,
        encode: Encode,
        epsilon: float,
        *,
        rng: np.random.Generator,
        shares: Sequence[float] = (1.0,),
        n_answers: int = 1,
        n_buckets: int = 2**16,
        name: str = "one-bit counts",
        public: Mapping[str, ArrayLike] | None = None,
    ) -> None:
        check_function(encode, "encode")
        self._name, self._public = _check_name(name), frozen_arrays(public)
        self._encode = encode
        self._hash = BucketHash(n_buckets, rng=rng)
        self._channels = _Channels(shares, n_answers, n_buckets, rng)
        self._response = RandomizedResponse(check_epsilon(epsilon) / n_answers)
        _check_memory(n_buckets, self._channels.n, "shares")
        self._sums = np.zeros(self._channels.n * n_buckets)
        self._n_reports = np.zeros(self._channels.n, dtype=np.int64)
        self._n_users = 0
        self._spectrum: FloatArray | None = None

    @property
    def name(self) -> str:
        """What the ledger and the transcript call this question."""
        return self._name

    @property
    def public(self) -> Mapping[str, NDArray[Any]]:
        """What the server tells the users with the question."""
        return self._public

    @property
    def response(self) -> RandomizedResponse:
        """The binary response of one answer."""
        return self._response

    @property
    def n_users(self) -> int:
        """Users who were asked."""
        return self._n_users

    @property
    def n_reports(self) -> IntArray:
        """Answers on each channel, a copy."""
        return self._n_reports.copy()

    @property
    def n_channels(self) -> int:
        """Number of channels."""
        return self._channels.n

    @property
    def n_buckets(self) -> int:
        """T."""
        return self._hash.n_buckets

    @property
    def mechanisms(self) -> tuple[RandomizedResponse, ...]:
        """One binary response for each answer of a user."""
        return (self._response,) * self._channels.n_answers

    def check(self, n_features: int) -> None:
        """Raise what `respond` would raise, for a point at the origin and without noise."""
        n_features = check_int(n_features, "n_features", maximum=MAX_NUMBERS)
        self._answer(np.zeros((1, n_features)), np.zeros(1, dtype=np.int64))

    def _answer(self, points: FloatArray, channels: IntArray) -> tuple[Words, BoolArray | None]:
        """Buckets (m,) and sign bits (m,) of these users, before noise."""
        answer = self._encode(points, channels)
        if not isinstance(answer, Question):
            raise TypeError(f"encode must return a Question, got {type(answer).__name__}")
        keys, negative = answer
        if np.shape(keys) != (len(points),):
            raise ValueError("encode must return one key for each point")
        if negative is not None and (
            negative.shape != (len(points),) or negative.dtype != np.bool_
        ):
            raise ValueError("encode must return one sign bit (bool) for each point, or None")
        return self._hash(keys), negative

    def respond(self, points: FloatArray, users: IntArray, *, rng: NoiseSource) -> Reports:
        """One bit for each answer, bool array (m, n_answers): True stands for -1."""
        points, users = one_point_each(points, users)
        channels, rows = self._channels.coins(users)
        bits = np.empty((len(users), self._channels.n_answers), dtype=bool)
        for i, (channel, row) in enumerate(zip(channels, rows, strict=True)):
            buckets, negative = self._answer(points, channel)
            row &= buckets
            bit = (np.bitwise_count(row) & np.uint8(1)).view(bool)
            if negative is not None:
                bit ^= negative
            flip = below(random_words(len(users), rng=rng), 1 - self._response.keep)
            np.logical_xor(bit, flip, out=bits[:, i])
        return (bits,)

    def collect(self, users: IntArray, reports: Reports) -> None:
        """Add the reports of these users to the row sums."""
        users = _numbers_of(users)
        bits = _only(reports, (len(users), self._channels.n_answers), "b")
        channels, rows = self._channels.coins(users)
        size = len(self._sums)
        for i, (channel, row) in enumerate(zip(channels, rows, strict=True)):
            cell = row.astype(np.int64)
            if self.n_channels > 1:
                cell += channel * self.n_buckets
            cell += np.where(bits[:, i], size, 0)
            both = np.bincount(cell, minlength=2 * size)
            self._sums += both[:size] - both[size:]
            self._n_reports += np.bincount(channel, minlength=self.n_channels)
        self._n_users += len(users)
        self._spectrum = None

    @property
    def spectrum(self) -> FloatArray:
        """De-biased signed counts of every bucket among those who answered, (channels, T)."""
        if self._spectrum is None:
            rows = self._sums.reshape(self.n_channels, self.n_buckets)
            self._spectrum = self._response.debias * walsh_hadamard(rows.T).T
        return self._spectrum

    def buckets(self, keys: Words) -> IntArray:
        """The public hash of keys."""
        return self._hash(keys).astype(np.int64)

    def estimate(self, keys: Words, *, channel: int = 0) -> FloatArray:
        """Estimated number of all asked users whose answer on `channel` is each key, (m,)."""
        scale = self.scale(channel)
        return self.spectrum[channel, self.buckets(keys)] * scale

    def scale(self, channel: int = 0) -> float:
        """From those who answered this channel to all users who were asked."""
        channel = check_int(channel, "channel", minimum=0, maximum=self.n_channels - 1)
        return self._n_users / max(1, int(self._n_reports[channel]))

    def std(self, *, channel: int = 0) -> float:
        """Standard deviation (upper bound) of `estimate`: c sqrt(n_c) n/n_c."""
        scale = self.scale(channel)
        return self._response.debias * math.sqrt(self._n_reports[channel]) * scale


class Bitstogram(OneBitCounts):
    """Heavy hitters without listing the universe: recover each candidate bit by bit.

    (Bassily et al. 2020; LDP paper Lemma 2.11, here in signed Hadamard form.) Users are split over
    B bit channels and one oracle channel. On bit channel b the reported sign is (-1)^(bit b of v),
    so the sign of bucket t's sum is that bit of the value that dominates the bucket. One candidate
    comes out of each bucket; the oracle channel confirms or rejects it.

    Parameters
    ----------
    values : callable
        ``values(points) -> keys`` below 2^n_bits.
    n_bits : int
    oracle_share : float
        Share of users who answer the confirming oracle.
    """

    def __init__(
        self,
        values: Callable[[FloatArray], Words],
        epsilon: float,
        n_bits: int,
        *,
        rng: np.random.Generator,
        n_buckets: int = 2**10,
        oracle_share: float = 0.3,
        name: str = "Bitstogram",
    ) -> None:
        self._n_bits = n_bits = check_int(n_bits, "n_bits", maximum=63)
        if not 0 < check_real(oracle_share, "oracle_share") < 1:
            raise ValueError(f"oracle_share must lie in (0, 1), got {oracle_share}")
        check_function(values, "values")

        def encode(points: FloatArray, channels: IntArray) -> Question:
            keys = as_words(values(points), "values")
            bit = (keys >> np.minimum(channels, n_bits - 1).astype(np.uint64)) & np.uint64(1)
            return Question(keys, bit.astype(bool) & (channels < n_bits))

        shares = [(1 - oracle_share) / n_bits] * n_bits + [oracle_share]
        super().__init__(encode, epsilon, rng=rng, shares=shares, n_buckets=n_buckets, name=name)

    @property
    def n_bits(self) -> int:
        """B, the bits of a value."""
        return self._n_bits

    def candidates(self) -> Words:
        """Decoded values, at most one per bucket: those that do hash to the bucket they came from.

        The check is free and throws out almost all values decoded from mere noise.
        """
        bits = (self.spectrum[: self.n_bits] < 0).astype(np.uint64)
        decoded = (bits << np.arange(self.n_bits, dtype=np.uint64)[:, None]).sum(
            axis=0, dtype=np.uint64
        )
        return decoded[self.buckets(decoded) == np.arange(self.n_buckets)]

    def heavy_hitters(self, *, z: float = 3.5) -> tuple[Words, FloatArray]:
        """Values whose confirmed count exceeds `z` standard deviations, largest first.

        Returns
        -------
        values : uint64 array (m,)
        counts : estimated numbers of users, (m,)
        """
        z = check_real(z, "z")
        candidates = self.candidates()
        counts = self.estimate(candidates, channel=self.n_bits)
        kept = np.flatnonzero(counts > z * self.std(channel=self.n_bits))
        kept = kept[np.argsort(-counts[kept])]
        return candidates[kept], counts[kept]

    def recovery_threshold(self, n_users: int, *, z: float = 2.5, oracle_z: float = 3.5) -> float:
        """Smallest count that is recovered reliably among `n_users`: the larger of two limits.

        Bits: z c sqrt(n B/(1 - share)); confirmation: oracle_z c sqrt(n/share).
        """
        n_users = check_int(n_users, "n_users")
        check_non_negative(z, "z")
        check_non_negative(oracle_z, "oracle_z")
        c, share = self.response.debias, self.oracle_share
        bits = z * c * math.sqrt(n_users * self.n_bits / (1 - share))
        return max(bits, oracle_z * c * math.sqrt(n_users / share))

    @property
    def oracle_share(self) -> float:
        """Share of users on the confirming oracle."""
        return float(1 - self._channels._edges[-1])


class HeavySums(Fixed):
    """Sums of vectors over all users with a given key (HeavySumsOracle, Algorithm 6).

    A vector that is not finite counts as 0, a longer one is cut to `radius`: on the device, so that
    no value of one user can raise an error that others see.

    User j sends ``y_j = Z[f(x_j), j] g(x_j) + noise`` with the public sign Z[v, j] = H[r_j, h(v)].
    ``sum_j y_j Z[v, j]`` estimates the sum of g over users with key v; one Walsh-Hadamard transform
    of the row sums gives it for all buckets at once.

    Parameters
    ----------
    encode : callable
        ``encode(points, channels) -> (keys (m,), vectors (m, d))``; vectors are cut to length
        `radius`. Keys of different channels must differ: all channels share the buckets.
    radius : float
        Public bound on the length of a vector.
    n_outputs : int
        d, length of the vectors.
    mechanism : Gaussian or DiscreteGaussian
        Must hide 2 radius under replace-one: see `gaussian_report`.
    shares, n_buckets, rng, name, public
        As for `OneBitCounts`.
    """

    parts = ("signed vector",)

    def __init__(
        self,
        encode: Callable[[FloatArray, IntArray], tuple[Words, FloatArray]],
        radius: float,
        n_outputs: int,
        mechanism: Mechanism,
        *,
        rng: np.random.Generator,
        shares: Sequence[float] = (1.0,),
        n_buckets: int = 2**14,
        name: str = "heavy sums",
        public: Mapping[str, ArrayLike] | None = None,
    ) -> None:
        check_function(encode, "encode")
        self._n_outputs = n_outputs = check_int(n_outputs, "n_outputs")
        self._radius = radius = check_positive(radius, "radius")
        self._mechanism = check_report_mechanism(
            mechanism, radius, n_outputs, what="a signed vector"
        )
        self._name, self._public = _check_name(name), frozen_arrays(public)
        self._encode = encode
        self._hash = BucketHash(n_buckets, rng=rng)
        self._channels = _Channels(shares, 1, n_buckets, rng)
        _check_memory(n_buckets, n_outputs, "n_outputs")
        self._sums = np.zeros((n_buckets, n_outputs))
        self._n_users = 0
        self._spectrum: FloatArray | None = None

    @property
    def name(self) -> str:
        """What the ledger and the transcript call this question."""
        return self._name

    @property
    def public(self) -> Mapping[str, NDArray[Any]]:
        """What the server tells the users with the question."""
        return self._public

    @property
    def n_outputs(self) -> int:
        """d, length of the vectors."""
        return self._n_outputs

    @property
    def radius(self) -> float:
        """Public bound on the length of a vector."""
        return self._radius

    @property
    def mechanism(self) -> Mechanism:
        """The noise of one report."""
        return self._mechanism

    @property
    def n_users(self) -> int:
        """Users who were asked."""
        return self._n_users

    @property
    def mechanisms(self) -> tuple[Mechanism, ...]:
        """The one Gaussian report of each user."""
        return (self._mechanism,)

    def check(self, n_features: int) -> None:
        """Raise what `respond` would raise, for a point at the origin and without noise."""
        n_features = check_int(n_features, "n_features", maximum=MAX_NUMBERS)
        self._signed(np.zeros((1, n_features)), np.zeros(1, dtype=np.int64))

    def _signed(self, points: FloatArray, users: IntArray) -> FloatArray:
        channels, rows = self._channels.coins(users)
        answer = self._encode(points, channels[0])
        if not isinstance(answer, tuple) or len(answer) != 2:
            raise TypeError("encode must return keys and vectors")
        keys, vectors = answer[0], np.asarray(answer[1], dtype=np.float64)
        if vectors.shape != (len(points), self._n_outputs):
            raise ValueError(
                f"encode must return vectors of {self._n_outputs} columns for points of"
                f" {points.shape[1]} (n_features), got shape {vectors.shape}"
            )
        if np.shape(keys) != (len(points),):
            raise ValueError("encode must return one key for each point")
        shrink = cut_to(vectors, self._radius)
        negative = (np.bitwise_count(rows[0] & self._hash(keys)) & np.uint8(1)).view(bool)
        if not shrink.all():  # 0 times inf is nan
            vectors = np.where(shrink[:, None] > 0, vectors, 0.0)
        return vectors * np.where(negative, -shrink, shrink)[:, None]

    def respond(self, points: FloatArray, users: IntArray, *, rng: NoiseSource) -> Reports:
        """The noised signed vectors (m, d); in whole steps (int64) with noise on a grid."""
        points, users = one_point_each(points, users)
        return (noised_report(self._signed(points, users), self._mechanism, rng=rng),)

    def collect(self, users: IntArray, reports: Reports) -> None:
        """Add the reports of these users to their rows."""
        users = _numbers_of(users)
        vectors = _only(reports, (len(users), self._n_outputs), "if")
        _, rows = self._channels.coins(users)
        starts = np.arange(len(users) + 1)
        one_hot = csc_array(
            (np.ones(len(users)), rows[0].astype(np.int64), starts),
            shape=(len(self._sums), len(users)),
        )
        self._sums += one_hot @ report_values(vectors, self._mechanism)
        self._n_users += len(users)
        self._spectrum = None

    def estimate(self, keys: Words) -> FloatArray:
        """Estimated sums (m, d) over the asked users whose key is each of `keys`."""
        if self._spectrum is None:
            self._spectrum = walsh_hadamard(self._sums)
        return self._spectrum[self._hash(keys).astype(np.int64)]

    def rms_error(self, n_users: int, mean_square: float) -> float:
        """Root mean square of ||estimate - true||: sqrt(n (E||g||^2 + d sigma^2))."""
        n_users = check_int(n_users, "n_users", minimum=0)
        mean_square = check_non_negative(mean_square, "mean_square")
        return math.sqrt(n_users * (mean_square + self._n_outputs * self._mechanism.std**2))


# --- one vector of one user -----------------------------------------------------------------------


def check_report_mechanism(
    mechanism: Mechanism, radius: float, n_outputs: int, *, what: str = "a vector"
) -> Mechanism:
    """Return noise that hides any two vectors of length `radius`, each rounded to its grid.

    The L2 sensitivity under replace-one: 2 radius, plus half a step of the grid in each of
    `n_outputs` coordinates of both.

    Raises
    ------
    TypeError, ValueError
        If it is no Gaussian noise of one party, if it hides less, or if a report would not fit into
        64-bit integers (radius and noise in steps of the grid).
    """
    check_text(what, "what")
    if not hasattr(mechanism, "norm") or not hasattr(mechanism, "dp_event"):
        raise TypeError(f"mechanism must be a mechanism, got {type(mechanism).__name__}")
    if type(mechanism) not in (Gaussian, DiscreteGaussian, NoNoise):
        raise ValueError(
            "mechanism must hide an L2 sensitivity with one user's noise: Gaussian or"
            f" DiscreteGaussian, not {type(mechanism).__name__}"
        )
    radius, n_outputs = check_positive(radius, "radius"), check_int(n_outputs, "n_outputs")
    grid = mechanism.grid
    needed = 2 * radius + math.sqrt(n_outputs) * (grid or 0.0)
    if mechanism.sensitivity < needed * (1 - 1e-12):
        raise ValueError(
            f"mechanism hides a sensitivity of {mechanism.sensitivity:.6g}, but {what}"
            f" of length (radius) {radius:g} can change by {needed:.6g}"
        )
    if grid is not None and (radius + mechanism.tail(NEGLIGIBLE)) / grid >= MAX_STEPS:
        raise ValueError(
            f"mechanism has a grid of {grid:g}: a report does not fit into 64-bit integers"
        )
    return mechanism


def _rows(vectors: FloatArray) -> FloatArray:
    """Numbers of shape (m, d), finite or not."""
    if isinstance(vectors, np.ndarray) and vectors.dtype == np.float64 and vectors.ndim == 2:
        return vectors
    try:
        array = np.asarray(vectors)
        if array.dtype.kind not in "fiubO":
            raise TypeError
        array = array.astype(np.float64)
    except (TypeError, ValueError):
        raise TypeError("vectors must be an array of real numbers of shape (m, d)") from None
    if array.ndim != 2:
        raise ValueError(f"vectors must have shape (m, d), got {array.ndim} dimension(s)")
    return array


def _check_noise(mechanism: Mechanism) -> None:
    """Noise for arrays, as an object and not its class."""
    if isinstance(mechanism, type) or not all(
        hasattr(mechanism, name) for name in ("sample", "grid")
    ):
        raise TypeError(f"mechanism must be a mechanism, got {short(mechanism)}")


def cut_to(vectors: FloatArray, radius: float) -> FloatArray:
    """Factors (m,) that cut rows to length `radius`, a hair inside; 0 for rows that are not finite.

    Each row's factor depends on that row alone.
    """
    vectors, radius = _rows(vectors), check_positive(radius, "radius")
    with np.errstate(over="ignore", invalid="ignore"):
        lengths = np.sqrt(np.einsum("ij,ij->i", vectors, vectors))
    factor = np.minimum(1.0, radius * (1 - 1e-12) / np.maximum(lengths, 1e-300))
    return np.where(np.isfinite(lengths), factor, 0.0)


def noised_report(
    vectors: FloatArray, mechanism: Mechanism, *, rng: NoiseSource
) -> NDArray[np.float64] | IntArray:
    """Vectors plus noise, (m, d): floats, or with noise on a grid the number of steps (int64).

    On a grid vectors are rounded first and added as integers: the last bits of a sum of floats
    would tell its two parts apart.
    """
    vectors = as_numbers(vectors, "vectors", ndim=2, empty=True)
    _check_noise(mechanism)
    if not isinstance(rng, SecureNoise):
        check_rng(rng)
    grid = mechanism.grid
    if grid is None:
        return np.asarray(vectors + mechanism.sample(vectors.shape, rng=rng))
    steps = np.rint(vectors / grid).astype(np.int64)
    steps += mechanism.sample_steps(vectors.shape, rng=rng)  # type: ignore[attr-defined]
    return steps


def report_values(reports: NDArray[Any], mechanism: Mechanism) -> FloatArray:
    """What the server reads: the vectors (m, d) behind `noised_report`'s numbers."""
    _check_noise(mechanism)
    values = as_numbers(reports, "reports", ndim=2, empty=True)
    return values if mechanism.grid is None else values * mechanism.grid


def _only(reports: Reports, shape: tuple[int, ...], kinds: str) -> NDArray[Any]:
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


def lemma_2_12_bound(
    n_users: int, n_features: int, delta_norm: float, epsilon: float, delta: float, beta: float
) -> float:
    """Lemma 2.12's bound on ||S(v) - true||, with Delta_g = Delta as for g = id on a ball.

    ``2 Delta sqrt(2 n ln((d'+1)/beta)) + 4 c_G Delta/epsilon sqrt(2 d' n ln(4/beta))`` for one v.
    """
    n_users, n_features = check_int(n_users, "n_users"), check_int(n_features, "n_features")
    delta_norm = check_non_negative(delta_norm, "delta_norm")
    epsilon, delta, beta = check_epsilon(epsilon), check_delta(delta), check_delta(beta, "beta")
    c_g = math.sqrt(2 * math.log(1.25 / delta))
    first = 2 * delta_norm * math.sqrt(2 * n_users * math.log((n_features + 1) / beta))
    second = 4 * c_g * delta_norm / epsilon
    return first + second * math.sqrt(2 * n_features * n_users * math.log(4 / beta))


def ask_values(query: LocalQuery, values: ArrayLike, *, rng: np.random.Generator) -> None:
    """Run a query over an array (n, d) without a federation: for lessons and tests of oracles.

    No ledger, no transcript; `LocalReports.ask` is the way to ask real users.
    """
    if isinstance(query, type) or not hasattr(query, "respond") or not hasattr(query, "collect"):
        raise TypeError(f"query must be a LocalQuery, got {short(query)}")
    points = as_points(values, "values")
    check_rng(rng)
    users = np.arange(len(points))
    query.collect(users, query.respond(points, users, rng=rng))
