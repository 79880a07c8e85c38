"""Sums and lists of vectors from one noised vector of each user."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.sparse import csc_array

from fedclust_helpers._validation import (
    FloatArray,
    IntArray,
    as_integers,
    as_numbers,
    check_fits,
)
from fedclust_helpers.client_statistics.clipping import clip_rows
from fedclust_helpers.federation.reports import Reports, Words
from fedclust_helpers.ldp_kmeans import frequency_oracles as fo
from fedclust_helpers.ldp_kmeans.local_randomizers import MAX_NUMBERS
from fedclust_helpers.mechanisms import (
    MAX_STEPS,
    NEGLIGIBLE,
    DiscreteGaussian,
    Gaussian,
    Mechanism,
    NoiseSource,
    NoNoise,
)

# --- one vector of one user -----------------------------------------------------------------------


def check_report_mechanism(
    mechanism: Mechanism, radius: float, n_outputs: int, *, what: str = "a vector"
) -> Mechanism:
    """Return noise that hides any two vectors of length `radius`, each rounded to its grid.

    The L2 sensitivity under replace-one: 2 radius, plus half a step of the grid in each of
    `n_outputs` coordinates of both. Refused: what is no Gaussian noise of one party, hides less, or
    makes reports that do not fit into 64-bit integers.
    """
    if type(mechanism) not in (Gaussian, DiscreteGaussian, NoNoise):
        raise ValueError(
            "mechanism must hide an L2 sensitivity with one user's noise: Gaussian or"
            f" DiscreteGaussian, not {type(mechanism).__name__}"
        )
    grid = mechanism.grid
    needed = 2 * radius + math.sqrt(n_outputs) * (grid or 0.0)
    if mechanism.sensitivity < needed * (1 - 1e-12):
        raise ValueError(
            f"mechanism hides a sensitivity of {mechanism.sensitivity:.6g}, but {what}"
            f" of length (radius) {radius:g} can change by {needed:.6g}"
        )
    stated = getattr(mechanism, "n_coordinates", None)
    if stated is not None and stated < n_outputs:
        raise ValueError(f"mechanism states n_coordinates={stated}, but {n_outputs} are released")
    if grid is not None and (radius + mechanism.tail(NEGLIGIBLE)) / grid >= MAX_STEPS:
        raise ValueError(
            f"mechanism has a grid of {grid:g}: a report does not fit into 64-bit integers"
        )
    return mechanism


def _noised_report(
    vectors: FloatArray, mechanism: Mechanism, *, rng: NoiseSource
) -> NDArray[np.float64] | IntArray:
    """Vectors plus noise, (m, d): floats, or with noise on a grid the number of steps (int64).

    On a grid vectors are rounded first and added as integers: the last bits of a sum of floats
    would tell its two parts apart.
    """
    grid = mechanism.grid
    if grid is None:
        return np.asarray(vectors + mechanism.sample(vectors.shape, rng=rng))
    steps = np.rint(vectors / grid).astype(np.int64)
    steps += mechanism.sample_steps(vectors.shape, rng=rng)  # type: ignore[attr-defined]
    return steps


def _report_values(reports: NDArray[Any], mechanism: Mechanism) -> FloatArray:
    """What the server reads: the vectors (m, d) behind `_noised_report`'s numbers."""
    values = as_numbers(reports, "reports", ndim=2, empty=True)
    return values if mechanism.grid is None else values * mechanism.grid


class _VectorQuery(fo.Query):
    """A question that every user answers with one noised vector of length at most `radius`."""

    parts: tuple[str, ...]

    def __init__(
        self, n_outputs: int, mechanism: Mechanism, radius: float, name: str,
        public: Mapping[str, ArrayLike] | None = None,
    ) -> None:  # fmt: skip
        super().__init__(name, public)
        self.n_outputs, self.radius = n_outputs, radius
        self.mechanism = check_report_mechanism(
            mechanism, radius, n_outputs, what=f"a {self.parts[0].removeprefix('noisy ')}"
        )
        self.mechanisms = (mechanism,)

    def respond(self, points: FloatArray, users: IntArray, *, rng: NoiseSource) -> Reports:
        """Noised vectors (m, d); in whole steps (int64) with noise on a grid."""
        points, users = fo.one_point_each(points, users)
        return (_noised_report(self._answer(points, users), self.mechanism, rng=rng),)

    def collect(self, users: IntArray, reports: Reports) -> None:
        """Take in the reports of these users."""
        users = as_integers(users, "users")
        vectors = fo.one_array(reports, (len(users), self.n_outputs), "if")
        self._add(users, vectors)
        self._n_users += len(users)

    def _add(self, users: IntArray, vectors: NDArray[Any]) -> None:
        raise NotImplementedError


class HeavySums(_VectorQuery):
    """Sums of vectors over all users with a given key (HeavySumsOracle, Algorithm 6).

    A vector that is not finite counts as 0, a longer one is cut to `radius`: on the device, so that
    no value of one user can raise an error that others see.

    User j sends ``y_j = Z[f(x_j), j] g(x_j) + noise`` with the public sign Z[v, j] = H[r_j, h(v)].
    ``sum_j y_j Z[v, j]`` estimates the sum of g over users with key v. Lines are the paper's.

    Parameters
    ----------
    encode : callable
        ``encode(points, channels) -> (keys (m,), vectors (m, d))``. Keys of different channels must
        differ: all channels share the buckets.
    radius, n_outputs
        Public bound on the length of a vector, and d.
    mechanism : Gaussian or DiscreteGaussian
        Must hide 2 radius and the rounding: see `Federation.gaussian_report`.
    shares, n_buckets, rng, name, public
        As for `OneBitCounts`.
    """

    parts = ("signed vector",)

    def __init__(
        self, encode: Callable[[FloatArray, IntArray], tuple[Words, FloatArray]], radius: float,
        n_outputs: int, mechanism: Mechanism, *, rng: np.random.Generator,
        shares: Sequence[float] = (1.0,), n_buckets: int = 2**14, name: str = "heavy sums",
        public: Mapping[str, ArrayLike] | None = None,
    ) -> None:  # fmt: skip
        self._encode = encode
        super().__init__(n_outputs, mechanism, radius, name, public)
        self._hash = fo.BucketHash(n_buckets, rng=rng)  # line 1: Z, from public coins
        self._channels = fo.Channels(shares, 1, n_buckets, rng)
        check_fits(n_buckets * n_outputs, "n_outputs times n_buckets", limit=MAX_NUMBERS)
        self._sums = np.zeros((n_buckets, n_outputs))
        self._spectrum: FloatArray | None = None

    def _answer(self, points: FloatArray, users: IntArray) -> FloatArray:
        """Line 3: the signed vectors (m, d) before noise."""
        channels, rows = self._channels.coins(users)
        answer = self._encode(points, channels[0])
        if not isinstance(answer, tuple) or len(answer) != 2:
            raise TypeError("encode must return keys and vectors")
        keys, vectors = answer[0], np.asarray(answer[1], dtype=np.float64)
        if vectors.shape != (len(points), self.n_outputs):
            raise ValueError(
                f"encode must return vectors of {self.n_outputs} columns for points of"
                f" {points.shape[1]} (n_features), got shape {vectors.shape}"
            )
        if np.shape(keys) != (len(points),):
            raise ValueError("encode must return one key for each point")
        negative = (np.bitwise_count(rows[0] & self._hash(keys)) & np.uint8(1)).view(bool)
        cut = clip_rows(vectors.copy(), self.radius)
        cut[negative] *= -1
        return cut

    def _add(self, users: IntArray, vectors: NDArray[Any]) -> None:
        _, rows = self._channels.coins(users)
        starts = np.arange(len(users) + 1)
        one_hot = csc_array(
            (np.ones(len(users)), rows[0].astype(np.int64), starts),
            shape=(len(self._sums), len(users)),
        )
        self._sums += one_hot @ _report_values(vectors, self.mechanism)
        self._spectrum = None

    def estimate(self, keys: Words) -> FloatArray:
        """Line 4: estimated sums (m, d) over the asked users whose key is each of `keys`."""
        if self._spectrum is None:
            self._spectrum = fo.walsh_hadamard(self._sums)
        return self._spectrum[self._hash(keys).astype(np.int64)]

    def rms_error(self, n_users: int, mean_square: float) -> float:
        """Root mean square of ||estimate - true||: sqrt(n (E||g||^2 + d sigma^2))."""
        return math.sqrt(n_users * (mean_square + self.n_outputs * self.mechanism.std**2))


class NoisyPoints(_VectorQuery):
    """Every user's point plus Gaussian noise, as the server receives them.

    Points are cut to length `radius` on the device. The server keeps at most `max_kept` reports,
    those of the lowest user numbers.
    """

    parts = ("noisy point",)

    def __init__(
        self, n_features: int, mechanism: Mechanism, *, max_kept: int, radius: float = 1.0
    ) -> None:
        super().__init__(n_features, mechanism, radius, "noisy points")
        self.max_kept = max_kept
        self._kept: list[FloatArray] = []

    def check(self, n_features: int) -> None:
        """The number of columns must be that of the points."""
        if n_features != self.n_outputs:
            raise ValueError(f"n_features must be {n_features}, got {self.n_outputs}")

    def _answer(self, points: FloatArray, users: IntArray) -> FloatArray:
        if points.shape[1] != self.n_outputs:
            raise ValueError(f"points must have {self.n_outputs} columns, got {points.shape[1]}")
        return clip_rows(points.copy(), self.radius)

    def _add(self, users: IntArray, vectors: NDArray[Any]) -> None:
        room = self.max_kept - sum(len(k) for k in self._kept)
        if room > 0:
            self._kept.append(_report_values(vectors[:room], self.mechanism))

    def points(self) -> FloatArray:
        """The kept reports, (m, d)."""
        return np.concatenate([np.zeros((0, self.n_outputs)), *self._kept])
