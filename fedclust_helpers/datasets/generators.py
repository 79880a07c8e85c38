"""Generated data sets: Gaussian mixtures in a box, and clusters in the unit ball.

The bounds of a mixture are public: they follow from its parameters, never from the sample. Each
column runs from the lowest centre minus `BOUND_SD` standard deviations of that cluster to the
highest centre plus as much.
"""

from __future__ import annotations

from functools import partial
from typing import Annotated, Any

import numpy as np
from numpy.typing import ArrayLike

from fedclust_helpers._checked import checked
from fedclust_helpers._index import repeat
from fedclust_helpers._validation import (
    Count,
    FloatArray,
    IntArray,
    Natural,
    as_integers,
    as_numbers,
    as_points,
    check_fits,
    check_int,
    check_positive,
)
from fedclust_helpers.datasets._base import Dataset

BOUND_SD = 5.0
LARGEST = 1e150  # numbers beyond have squares that overflow
MAX_SEPARATED = 1024  # most clusters that are placed one by one, each far from all others
SEPARATION, LARGEST_NORM, CONCENTRATION = 0.5, 0.75, 8.0  # of `make_ball_mixture`
_BLOCK = 65_536  # rows moved at a time, so that no second copy of the points is made


def _check_radius(radius: float, name: str) -> float:
    radius = check_positive(radius, name)
    if not 1e-6 <= radius <= 1e6:
        raise ValueError(f"{name} must be between 1e-6 and 1e6, got {radius:g}")
    return radius


def _generated(
    name: str, points: FloatArray, labels: IntArray, k: int, bounds: Any, note: str, citation: str
) -> Dataset:
    licence = "generated, no restriction"
    return Dataset(
        name, points, labels, k, bounds, note, "generated", licence, citation, copy=False
    )


@checked
def gaussian_mixture(
    means: ArrayLike,
    covariances: ArrayLike,
    sizes: ArrayLike,
    *,
    rng: np.random.Generator,
    n_outliers: Natural = 0,
    name: str = "gaussian mixture",
    citation: str = "",
) -> Dataset:
    """Draw a Gaussian mixture with given cluster sizes, plus outliers; rows in random order.

    `means` are (k, d), `sizes` (k,) the points of each cluster, at least 1. `covariances` are
    positive variances of spherical clusters, a number or (k,), or positive definite matrices
    (k, d, d). `n_outliers` points are uniform in the box of the bounds, with label -1.

    Examples
    --------
    >>> import numpy as np
    >>> gaussian_mixture([[0, 0], [9, 9]], 1.0, [30, 20], rng=np.random.default_rng(0))
    Dataset('gaussian mixture', n=50, d=2, k=2)
    """
    centers = as_points(means, "means")
    k, d = centers.shape
    counts = as_integers(sizes, "sizes", n=k, minimum=1)
    covariance = as_numbers(covariances, "covariances")
    if covariance.shape not in ((), (k,), (k, d, d)):
        raise ValueError(f"covariances must be a number or have shape ({k},) or ({k}, {d}, {d})")
    if np.abs(centers).max() > LARGEST or np.abs(covariance).max() > LARGEST:
        raise ValueError("means and covariances must be at most 1e150 in size")
    check_fits(3 * (sum(counts.tolist()) + n_outliers) * (d + 1), "sizes and n_outliers")

    labels = repeat(np.arange(k, dtype=np.int64), counts)
    points = rng.standard_normal((len(labels), d))
    if covariance.ndim < 3:
        if (covariance <= 0).any():
            raise ValueError("covariances must be > 0")
        sd = np.sqrt(np.broadcast_to(covariance, (k,)))
        points *= sd[labels, None]
        column_sd = repeat(sd[:, None], d, axis=1)
    else:
        roots = [np.linalg.cholesky(positive_definite(c, "covariances", d)) for c in covariance]
        ends = np.cumsum(counts)
        for start, end, root in zip(ends - counts, ends, roots, strict=True):
            points[start:end] = points[start:end] @ root.T
        column_sd = np.sqrt(np.diagonal(covariance, axis1=1, axis2=2))
    points += centers[labels]
    bounds = (
        (centers - BOUND_SD * column_sd).min(axis=0), (centers + BOUND_SD * column_sd).max(axis=0)
    )  # fmt: skip
    if n_outliers:
        points = np.vstack([points, rng.uniform(*bounds, (n_outliers, d))])
        labels = np.concatenate([labels, np.full(n_outliers, -1, dtype=np.int64)])
    order = rng.permutation(len(points))
    note = f"centres of the mixture -+ {BOUND_SD:g} standard deviations"
    return _generated(name, points[order], labels[order], k, bounds, note, citation)


def positive_definite(value: ArrayLike, name: str, n_features: int) -> FloatArray:
    """A symmetric positive definite matrix of moderate size."""
    matrix = as_numbers(value, name)
    if matrix.shape != (n_features, n_features):
        raise ValueError(f"{name} must have shape ({n_features}, {n_features}), got {matrix.shape}")
    largest = float(np.abs(matrix).max())
    if not 1 / LARGEST <= largest <= LARGEST:
        raise ValueError(f"{name} must be positive definite, of entries between 1e-150 and 1e150")
    if not np.allclose(matrix, matrix.T, rtol=1e-9, atol=1e-12 * largest):
        raise ValueError(f"{name} must be symmetric")
    try:
        np.linalg.cholesky(matrix)
    except np.linalg.LinAlgError:
        raise ValueError(f"{name} must be positive definite") from None
    return matrix


@checked
def make_ball_mixture(
    n: Count,
    n_features: Count,
    n_clusters: Annotated[int, partial(check_int, maximum=MAX_SEPARATED)],
    *,
    rng: np.random.Generator,
    radius: Annotated[float, _check_radius] = 0.15,
) -> Dataset:
    """Spherical Gaussian clusters in the unit ball: the data of the tables on local privacy.

    Rows are independent draws. Centres are uniform in the ball of radius `LARGEST_NORM`, at least
    `SEPARATION` apart (lowered by a tenth at a time until k centres find room); cluster weights are
    Dirichlet(`CONCENTRATION`). `radius` is the root mean square distance of a point from its centre
    (``radius / sqrt(d)`` in each coordinate), so the best cost per point is about ``radius**2``.
    Points outside the unit ball are moved to its surface. ValueError if n is below `n_clusters`.

    Examples
    --------
    >>> import numpy as np
    >>> data = make_ball_mixture(1000, 4, 5, rng=np.random.default_rng(0))
    >>> data, bool(np.linalg.norm(data.points, axis=1).max() <= 1)
    (Dataset('ball_mixture_4_5', n=1000, d=4, k=5), True)
    """
    k, d = n_clusters, n_features
    if n < k:
        raise ValueError(f"n must be >= n_clusters = {k}, got {n}")
    check_fits(n * (d + 3), "n and n_features")
    check_fits(200 * d * (k + 1), "n_features and n_clusters")
    centers = _separated_in_ball(k, d, rng)
    edges = np.cumsum(rng.dirichlet(np.full(k, CONCENTRATION)))[:-1]
    labels = np.searchsorted(edges, rng.random(n), side="right").astype(np.int64, copy=False)
    points = rng.standard_normal((n, d))
    points *= radius / np.sqrt(d)
    for start in range(0, n, _BLOCK):
        block = points[start : start + _BLOCK]
        block += centers[labels[start : start + _BLOCK]]
        norms = np.sqrt(np.einsum("ij,ij->i", block, block))
        outside = np.flatnonzero(norms > 1)
        block[outside] *= ((1 - 1e-12) / norms[outside])[:, None]
    note = "points lie in the unit ball by construction"
    return _generated(f"ball_mixture_{d}_{k}", points, labels, k, (-1.0, 1.0), note, "")


def uniform_in_ball(
    n: int, n_features: int, *, rng: np.random.Generator, radius: float = 1.0
) -> FloatArray:
    """Points (n, d) uniform in the ball of this radius around the origin."""
    directions = rng.standard_normal((n, n_features))
    directions /= np.linalg.norm(directions, axis=1, keepdims=True)
    return np.asarray(directions * (radius * rng.random((n, 1)) ** (1 / n_features)))


def _separated_in_ball(k: int, d: int, rng: np.random.Generator) -> FloatArray:
    """k points uniform in a ball, each drawn again until it is far from those before it."""
    separation = SEPARATION
    while True:
        centers = np.empty((0, d))
        for _ in range(k):
            drawn = uniform_in_ball(200, d, rng=rng, radius=LARGEST_NORM)
            far = (np.linalg.norm(drawn[:, None] - centers, axis=2) >= separation).all(axis=1)
            if not far.any():
                break
            centers = np.vstack([centers, drawn[far][:1]])
        if len(centers) == k:
            return centers
        separation *= 0.9
