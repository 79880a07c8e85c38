"""Locality-sensitive hashing by ball carving (Andoni and Indyk 2006; LDP paper, Theorem 2.14)."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import ArrayLike
from scipy import special

from fedclust_helpers._validation import (
    FloatArray,
    IntArray,
)
from fedclust_helpers.ldp_kmeans.projections import row_products

SPACING = 4.0  # distance of neighbouring balls in a grid, in radii
CHUNK = 8192


def ball_fraction(t: int) -> float:
    """Share of R^t covered by one grid of balls: V_t/4^t, so one over t^O(t)."""
    return float(math.exp(t / 2 * math.log(math.pi) - special.gammaln(t / 2 + 1)) / SPACING**t)


def grids_needed(t: int, n_points: int, beta: float) -> int:
    """Grids that cover all of n points with probability 1 - beta: ln(n/beta)/fraction."""
    per_grid = -math.log1p(-ball_fraction(t))
    return math.ceil(math.log(n_points / beta) / per_grid)


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
        self, n_features: int, *, rng: np.random.Generator, t: int = 3, scale: float = 1.0,
        n_grids: int | None = None,
    ) -> None:  # fmt: skip
        self.n_features, self.t, self.scale = n_features, t, scale
        self.width = t**0.25
        self.n_grids = grids_needed(t, 10**6, 0.01) if n_grids is None else n_grids
        self._matrix = rng.normal(size=(n_features, t)) / (math.sqrt(t) * self.scale)
        spacing = SPACING * self.width
        self._shifts = rng.uniform(0, spacing, size=(self.n_grids, t))
        self._odd = rng.integers(2**63, size=t + 1, dtype=np.uint64) * np.uint64(2) + np.uint64(1)

    def __call__(self, points: ArrayLike) -> np.ndarray:
        """Bucket keys (n,), uint64; 0 for points that no ball caught."""
        points = np.asarray(points)
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
