"""Sums of vectors from one noised vector of each user."""

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
    as_numbers,
)
from fedclust_helpers.client_statistics.clipping import clip_rows
from fedclust_helpers.federation.reports import Words
from fedclust_helpers.ldp_kmeans import frequency_oracles as fo
from fedclust_helpers.mechanisms import (
    MAX_STEPS,
    NEGLIGIBLE,
    DiscreteGaussian,
    Gaussian,
    Mechanism,
    NoiseSource,
    NoNoise,
)


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


def noised_report(
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


def report_values(reports: NDArray[Any], mechanism: Mechanism) -> FloatArray:
    """What the server reads: the vectors (m, d) behind `noised_report`'s numbers."""
    values = as_numbers(reports, "reports", ndim=2, empty=True)
    return values if mechanism.grid is None else values * mechanism.grid


class HeavySums(fo.HashedQuery):
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
        As for `HashedQuery`.
    """

    parts = ("signed vector",)
    _kinds = "if"

    def __init__(
        self, encode: Callable[[FloatArray, IntArray], tuple[Words, FloatArray]], radius: float,
        n_outputs: int, mechanism: Mechanism, *, rng: np.random.Generator,
        shares: Sequence[float] = (1.0,), n_buckets: int = 2**14, name: str = "heavy sums",
        public: Mapping[str, ArrayLike] | None = None,
    ) -> None:  # fmt: skip
        # line 1: Z, from public coins
        super().__init__(
            encode, rng=rng, shares=shares, n_answers=1, n_buckets=n_buckets, name=name,
            public=public,
        )  # fmt: skip
        self.n_outputs, self.radius, self._shape = n_outputs, radius, (n_outputs,)
        self.mechanism = check_report_mechanism(
            mechanism, radius, n_outputs, what="a signed vector"
        )
        self.mechanisms = (mechanism,)
        self._sums = np.zeros((n_buckets, n_outputs))

    def _answer(self, points: FloatArray, users: IntArray) -> FloatArray:
        """Line 3: the signed vectors (m, d) before noise."""
        channels, rows = self._channels.coins(users)
        keys, vectors = self._function(points, channels[0])
        if vectors.shape != (len(points), self.n_outputs):
            raise ValueError(
                f"encode must return vectors of {self.n_outputs} columns for points of"
                f" {points.shape[1]} (n_features), got shape {vectors.shape}"
            )
        negative = (np.bitwise_count(rows[0] & self._hash(keys)) & np.uint8(1)).view(bool)
        cut = clip_rows(vectors.copy(), self.radius)
        cut[negative] *= -1
        return cut

    def _encode(self, points: FloatArray, users: IntArray, rng: NoiseSource) -> NDArray[Any]:
        """Noised vectors (m, d); in whole steps (int64) with noise on a grid."""
        return noised_report(self._answer(points, users), self.mechanism, rng=rng)

    def _decode(self, users: IntArray, vectors: NDArray[Any]) -> None:
        _, rows = self._channels.coins(users)
        starts = np.arange(len(users) + 1)
        one_hot = csc_array(
            (np.ones(len(users)), rows[0].astype(np.int64), starts),
            shape=(len(self._sums), len(users)),
        )
        self._sums += one_hot @ report_values(vectors, self.mechanism)

    def estimate(self, keys: Words) -> FloatArray:
        """Line 4: estimated sums (m, d) over the asked users whose key is each of `keys`."""
        if self._spectrum is None:
            self._spectrum = fo.walsh_hadamard(self._sums)
        return self._spectrum[self.buckets(keys)]

    def rms_error(self, n_users: int, mean_square: float) -> float:
        """Root mean square of ||estimate - true||: sqrt(n (E||g||^2 + d sigma^2))."""
        return math.sqrt(n_users * (mean_square + self.n_outputs * self.mechanism.std**2))
