"""Locality-sensitive hashing by ball carving (Andoni and Indyk 2006; LDP paper, Theorem 2.14)."""

from __future__ import annotations

import math
from functools import lru_cache

import numpy as np
from numpy.typing import ArrayLike
from scipy import special, stats

from fedclust_helpers._validation import (
    FloatArray,
    IntArray,
    as_points,
    check_delta,
    check_int,
    check_non_negative,
    check_positive,
    check_rng,
)
from fedclust_helpers.ldp_kmeans.projections import row_products

SPACING = 4.0  # distance of neighbouring balls in a grid, in radii
CHUNK = 8192
MAX_T = 64  # dimensions for which grids are counted
MAX_GRIDS = 2**20
MAX_EXACT_T = 10_000  # dimensions up to which the quadrature holds
MAX_FEATURES = 2**24


def ball_fraction(t: int) -> float:
    """Share of R^t covered by one grid of balls: V_t/4^t, so one over t^O(t)."""
    t = check_int(t, "t", maximum=MAX_T)
    return float(math.exp(t / 2 * math.log(math.pi) - special.gammaln(t / 2 + 1)) / SPACING**t)


def grids_needed(t: int, n_points: int, beta: float) -> int:
    """Grids that cover all of n points with probability 1 - beta: ln(n/beta)/fraction."""
    beta = check_delta(beta, "beta")
    per_grid = -math.log1p(-ball_fraction(t))
    return math.ceil(math.log(check_int(n_points, "n_points") / beta) / per_grid)


class BallCarvingHash:
    """One hash function: project to t dimensions, return the first ball that catches the point.

    U randomly shifted grids of balls with radius w = t^(1/4) (then 1/(4 w^2) is the epsilon of
    Theorem 2.14), spacing 4w. The bucket is (first grid u with a ball around the point, which ball
    of it). Points in no ball get key 0, the null bucket.

    Parameters
    ----------
    t : int
        Dimensions after projection: t^O(t) grids are needed, so t <= 4 is practical.
    scale : float
        The distance r that counts as 1.
    n_grids : int, optional
        U; by default what covers 10^6 points but for 1 in 100 runs.
    """

    def __init__(
        self,
        n_features: int,
        *,
        rng: np.random.Generator,
        t: int = 3,
        scale: float = 1.0,
        n_grids: int | None = None,
    ) -> None:
        self.n_features = n_features = check_int(n_features, "n_features", maximum=MAX_FEATURES)
        self.t = t = check_int(t, "t", maximum=8)
        self.scale = check_positive(scale, "scale")
        self.width = t**0.25
        self.n_grids = grids_needed(t, 10**6, 0.01) if n_grids is None else n_grids
        check_int(self.n_grids, "n_grids", maximum=MAX_GRIDS)
        check_rng(rng)
        self._matrix = rng.normal(size=(n_features, t)) / (math.sqrt(t) * self.scale)
        spacing = SPACING * self.width
        self._shifts = rng.uniform(0, spacing, size=(self.n_grids, t))
        self._odd = rng.integers(2**63, size=t + 1, dtype=np.uint64) * np.uint64(2) + np.uint64(1)

    def __call__(self, points: ArrayLike) -> np.ndarray:
        """Bucket keys (n,), uint64; 0 for points that no ball caught."""
        points = as_points(points, n_features=self.n_features)
        keys = np.zeros(len(points), dtype=np.uint64)
        for start in range(0, len(points), CHUNK):
            keys[start : start + CHUNK] = self._chunk(points[start : start + CHUNK])
        return keys

    def _chunk(self, points: FloatArray) -> np.ndarray:
        images = row_products(points, self._matrix)
        keys = np.zeros(len(images), dtype=np.uint64)
        left = np.arange(len(images))
        spacing = SPACING * self.width
        for u, shift in enumerate(self._shifts):
            moved = (images[left] - shift) / spacing
            ball = np.rint(moved)
            moved -= ball
            inside = np.einsum("ij,ij->i", moved, moved) <= (self.width / spacing) ** 2
            if inside.any():
                caught = left[inside]
                keys[caught] = self._key(u, ball[inside].astype(np.int64))
                left = left[~inside]
                if not len(left):
                    break
        return keys

    def _key(self, u: int, ball: IntArray) -> np.ndarray:
        with np.errstate(over="ignore"):
            mixed = np.full(len(ball), np.uint64(u + 1) * self._odd[0], dtype=np.uint64)
            for column, odd in zip(ball.T, self._odd[1:], strict=True):
                mixed = (mixed ^ column.astype(np.uint64)) * odd
                mixed ^= mixed >> np.uint64(31)
        return np.maximum(mixed, np.uint64(1))


def collision_probability(distance: float, t: int) -> float:
    """Probability that two points at this distance share a bucket, in closed form.

    p(u) = E[I/(2 - I)], I the share of a ball's volume that two balls at distance rho have in
    common: ``I = betainc((t+1)/2, 1/2, 1 - (rho/2w)^2)`` for rho < 2w, else 0. The expectation is
    over the random projection, rho^2 = u^2 chi^2_t / t. (I/(2 - I) is "both" over "either": the
    first grid that catches one of the two must catch both.)
    """
    t = check_int(t, "t", maximum=MAX_EXACT_T)
    return _collision_probability(check_non_negative(distance, "distance"), t)


@lru_cache(maxsize=4096)
def _collision_probability(distance: float, t: int) -> float:
    w = float(t**0.25)
    if distance / w < 1e-150:
        return 1.0
    # over x = rho sqrt(t)/u, whose density is chi_t; the integrand is 0 beyond 2w sqrt(t)/u
    chi = stats.chi(t)
    top = min(2 * w / distance * math.sqrt(t), math.sqrt(t) + 12)
    nodes, weights = _unit_quadrature()
    x = top * nodes
    inside = np.clip(1 - (x * distance / (2 * w * math.sqrt(t))) ** 2, 0.0, 1.0)
    common = special.betainc((t + 1) / 2, 0.5, inside)
    return float(top * np.sum(weights * chi.pdf(x) * common / (2 - common)))


@lru_cache(maxsize=1)
def _unit_quadrature() -> tuple[FloatArray, FloatArray]:
    """Nodes and weights for integrals over [0, 1], with more nodes at both ends (cosine map)."""
    nodes, weights = np.polynomial.legendre.leggauss(400)
    angle = np.pi * (nodes + 1) / 2
    return (1 - np.cos(angle)) / 2, weights * np.pi / 4 * np.sin(angle)


def near_lower_bound(t: int) -> float:
    """Theorem 2.14.3 without its constant A < 1: p(1) >= A/(2 sqrt(t)) (1 + e + 8 e^2)^(-t/2)."""
    t = check_int(t, "t")
    e = 1 / (4 * math.sqrt(t))
    return math.exp(-t / 2 * math.log1p(e + 8 * e * e)) / (2 * math.sqrt(t))


def far_upper_bound(c: float, t: int) -> float:
    """Theorem 2.14.3: p(c) <= 2/(1 + c^2 e)^(t/2), e = 1/(4 sqrt(t))."""
    c, t = check_non_negative(c, "c"), check_int(t, "t")
    return 2 * math.exp(-t / 2 * math.log1p(c * c / (4 * math.sqrt(t))))
