"""Random projections to few dimensions that keep k-means costs (Johnson and Lindenstrauss)."""

from __future__ import annotations

import math
from functools import lru_cache
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike

from fedclust_helpers._lazy import stats
from fedclust_helpers._validation import (
    FloatArray,
    as_points,
    check_fits,
)
from fedclust_helpers.client_statistics.clipping import clip_rows

MAX_ENTRIES = 2**27  # of a matrix
CLIP_RATE = 0.01  # share of unit vectors that are cut to the ball
BLOCK = 64  # rows that are multiplied at once


def row_products(points: FloatArray, matrix: FloatArray) -> FloatArray:
    """``points @ matrix``, where each row's result depends on that row alone, bit for bit.

    A library of matrix products chooses its order of additions by the number of rows; one user more
    could move another's image across the border of a cell. Blocks of one size, padded with zeros,
    are always added up in the same order.
    """
    points = np.ascontiguousarray(points)
    n, width = points.shape
    full = n - n % BLOCK
    out = np.empty((n, matrix.shape[1]))
    blocks = points[:full].reshape(-1, BLOCK, width)
    np.matmul(blocks, matrix, out=out[:full].reshape(-1, BLOCK, matrix.shape[1]))
    if full < n:
        padded = np.zeros((BLOCK, width))
        padded[: n - full] = points[full:]
        out[full:] = (padded @ matrix)[: n - full]
    return out


def to_ball(points: FloatArray, radius: float = 1.0) -> FloatArray:
    """Rows cut to length `radius`: what is public or released (`clip_rows` is for users' own)."""
    return points / np.maximum(1.0, np.linalg.norm(points, axis=1, keepdims=True) / radius)


@lru_cache
def scale_of(n_outputs: int) -> float:
    """What a projection to `n_outputs` dimensions is divided by, to stay in the ball."""
    return math.sqrt(stats.chi2.isf(CLIP_RATE, n_outputs) / n_outputs)


class BallProjection:
    """Q = P o S o T of Algorithm 1: project, scale, and cut to the unit ball.

    T has independent Gaussian entries of variance 1/d, so ||Tp|| = ||p|| on average. S divides by
    ``scale``, P moves what is still outside to the sphere. For a point of length 1 ||Tp||^2 is
    chi^2_d / d, so ``scale = sqrt(chi2.isf(0.01, d)/d)`` cuts exactly one in a hundred of such
    points; shorter points are cut less often. (The paper scales by 1/(alpha sqrt(log(n/beta))),
    which drops the "1 +" of its own Lemma 2.8 and can blow points up: claims P4, F14.)

    Parameters
    ----------
    n_features, n_outputs : int
        d' and d. With d = d' and ``kind="identity"`` nothing is changed.
    """

    def __init__(
        self, n_features: int, n_outputs: int, *, rng: np.random.Generator,
        kind: Literal["gaussian", "identity"] = "gaussian",
    ) -> None:  # fmt: skip
        check_fits(n_features * n_outputs, "n_features times n_outputs", limit=MAX_ENTRIES)
        if kind == "identity" and n_outputs != n_features:
            raise ValueError("n_outputs must equal n_features for kind 'identity'")
        self.n_features, self.n_outputs, self.kind = n_features, n_outputs, kind
        if kind == "identity":
            self.matrix, self.scale = np.eye(n_features), 1.0
            return
        self.scale = scale_of(n_outputs)
        self.matrix = rng.normal(size=(n_features, n_outputs)) / math.sqrt(n_outputs)

    def __call__(self, points: ArrayLike) -> FloatArray:
        """Images (n, d) in the unit ball of points (n, d') in the unit ball."""
        points = as_points(points, n_features=self.n_features)
        if self.kind == "identity":
            return points
        return clip_rows(row_products(points, self.matrix / self.scale), 1.0)
