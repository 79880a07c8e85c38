"""Generated data sets: Gaussian mixtures in a box, and clusters in the unit ball.

The bounds of a mixture are public: they follow from its parameters, never from the sample. Each
column runs from the lowest centre minus `BOUND_SD` standard deviations of that cluster to the
highest centre plus as much.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from fedclust_helpers._validation import FloatArray, as_points, check_int, check_positive, check_rng
from fedclust_helpers.datasets._base import Dataset
from fedclust_helpers.datasets._checks import (
    LARGEST,
    as_reals,
    as_whole,
    check_fits,
    positive_definite,
)

BOUND_SD = 5.0
MAX_SEPARATED = 1024
"""Most clusters that are placed one by one, each far from all others."""
_BLOCK = 65_536  # rows moved at a time, so that no second copy of the points is made


def gaussian_mixture(
    means: ArrayLike,
    covariances: ArrayLike,
    sizes: ArrayLike,
    *,
    rng: np.random.Generator,
    n_outliers: int = 0,
    name: str = "gaussian mixture",
    citation: str = "",
) -> Dataset:
    """Draw a Gaussian mixture with given cluster sizes, plus uniform outliers.

    Parameters
    ----------
    means : array_like of shape (k, d)
    covariances : float, or array_like of shape (k,) or (k, d, d)
        Positive variances of spherical clusters, or positive definite matrices.
    sizes : array_like of int of shape (k,)
        Points per cluster, at least 1 each.
    rng : numpy.random.Generator
    n_outliers : int, default 0
        Points drawn uniformly from the box of the bounds, with label -1.
    name, citation : str

    Returns
    -------
    Dataset
        Rows in random order, ``n_clusters = k``.

    Raises
    ------
    ValueError
        If shapes do not agree, a size is below 1, or a covariance is not positive definite.

    Examples
    --------
    >>> import numpy as np
    >>> gaussian_mixture([[0, 0], [9, 9]], 1.0, [30, 20], rng=np.random.default_rng(0))
    Dataset('gaussian mixture', n=50, d=2, k=2)
    """
    centers = as_points(means, "means")
    k, d = centers.shape
    counts = as_whole(sizes, "sizes", minimum=1)
    if counts.shape != (k,):
        raise ValueError(f"sizes must be {k} integers >= 1, one for each row of means")
    covariance = as_reals(covariances, "covariances")
    if covariance.shape not in ((), (k,), (k, d, d)):
        raise ValueError(f"covariances must be a number or have shape ({k},) or ({k}, {d}, {d})")
    n_outliers = check_int(n_outliers, "n_outliers", minimum=0)
    if np.abs(centers).max() > LARGEST or np.abs(covariance).max() > LARGEST:
        raise ValueError("means and covariances must be at most 1e150 in size")
    check_fits(3 * (sum(counts.tolist()) + n_outliers) * (d + 1), "sizes and n_outliers")
    check_rng(rng)

    labels = np.repeat(np.arange(k, dtype=np.int64), counts)
    points = rng.standard_normal((len(labels), d))
    if covariance.ndim < 3:
        if (covariance <= 0).any():
            raise ValueError("covariances must be > 0")
        sd = np.sqrt(np.broadcast_to(covariance, (k,)))
        points *= sd[labels, None]
        column_sd = np.repeat(sd[:, None], d, axis=1)
    else:
        for matrix in covariance:
            positive_definite(matrix, "covariances", d)
        roots = np.linalg.cholesky(covariance)
        ends = np.cumsum(counts)
        for cluster, root in enumerate(roots):
            rows = slice(ends[cluster] - counts[cluster], ends[cluster])
            points[rows] = points[rows] @ root.T
        column_sd = np.sqrt(np.diagonal(covariance, axis1=1, axis2=2))
    points += centers[labels]
    lower = (centers - BOUND_SD * column_sd).min(axis=0)
    upper = (centers + BOUND_SD * column_sd).max(axis=0)
    if n_outliers:
        points = np.vstack([points, rng.uniform(lower, upper, (n_outliers, d))])
        labels = np.concatenate([labels, np.full(n_outliers, -1, dtype=np.int64)])
    order = rng.permutation(len(points))
    return Dataset(
        name=name,
        points=points[order],
        labels=labels[order],
        n_clusters=k,
        bounds=(lower, upper),
        bounds_note=f"centres of the mixture -+ {BOUND_SD:g} standard deviations",
        source="generated",
        licence="generated, no restriction",
        citation=citation,
        copy=False,
    )


def make_ball_mixture(
    n: int,
    n_features: int,
    n_clusters: int,
    *,
    rng: np.random.Generator,
    radius: float = 0.15,
    separation: float = 0.5,
    largest_norm: float = 0.75,
    concentration: float = 8.0,
) -> Dataset:
    """Spherical Gaussian clusters in the unit ball: the data of the tables on local privacy.

    Rows are independent draws. Centres are uniform in the ball of radius `largest_norm`, at least
    `separation` apart; cluster weights are Dirichlet(`concentration`); the standard deviation of
    each coordinate is ``radius / sqrt(d)``, so the best cost per point is about ``radius**2``.
    Points outside the unit ball are moved to its surface.

    Where k centres do not find room (many clusters in few dimensions), the separation is lowered
    by a tenth at a time until they do.

    Parameters
    ----------
    n, n_features, n_clusters : int
    rng : numpy.random.Generator
    radius : float, default 0.15
        Root mean square distance of a point from its centre.
    separation : float, default 0.5
    largest_norm : float in (0, 1], default 0.75
    concentration : float, default 8

    Raises
    ------
    ValueError
        If `n` is below `n_clusters` or an argument is out of range.

    Examples
    --------
    >>> import numpy as np
    >>> data = make_ball_mixture(1000, 4, 5, rng=np.random.default_rng(0))
    >>> data, bool(np.linalg.norm(data.points, axis=1).max() <= 1)
    (Dataset('ball_mixture_4_5', n=1000, d=4, k=5), True)
    """
    k = check_int(n_clusters, "n_clusters", maximum=MAX_SEPARATED)
    d, n = check_int(n_features, "n_features"), check_int(n, "n")
    if n < k:
        raise ValueError(f"n must be >= n_clusters = {k}, got {n}")
    check_fits(n * (d + 3), "n and n_features")
    check_fits(200 * d * (k + 1), "n_features and n_clusters")
    radius, separation = check_positive(radius, "radius"), check_positive(separation, "separation")
    concentration = check_positive(concentration, "concentration")
    if not 1e-3 <= concentration <= 1e6:
        raise ValueError(f"concentration must be between 0.001 and 1e6, got {concentration:g}")
    if not 1e-6 <= radius <= 1e6:
        raise ValueError(f"radius must be between 1e-6 and 1e6, got {radius:g}")
    if not 1e-6 <= check_positive(largest_norm, "largest_norm") <= 1:
        raise ValueError(f"largest_norm must lie in (0, 1] and be at least 1e-6: {largest_norm}")
    separation = min(separation, 2.0)  # no two points of the unit ball are further apart
    check_rng(rng)
    centers = _separated_in_ball(k, d, largest_norm, separation, rng)
    edges = np.cumsum(rng.dirichlet(np.full(k, concentration)))[:-1]
    labels = np.searchsorted(edges, rng.random(n), side="right").astype(np.int64, copy=False)
    points = rng.standard_normal((n, d))
    points *= radius / np.sqrt(d)
    for start in range(0, n, _BLOCK):
        block = points[start : start + _BLOCK]
        block += centers[labels[start : start + _BLOCK]]
        norms = np.sqrt(np.einsum("ij,ij->i", block, block))
        outside = np.flatnonzero(norms > 1)
        block[outside] *= ((1 - 1e-12) / norms[outside])[:, None]
    return Dataset(
        name=f"ball_mixture_{d}_{k}",
        points=points,
        labels=labels,
        n_clusters=k,
        bounds=(np.full(d, -1.0), np.full(d, 1.0)),
        bounds_note="points lie in the unit ball by construction",
        source="generated",
        licence="generated, no restriction",
        citation="",
        copy=False,
    )


def _separated_in_ball(
    k: int, d: int, radius: float, separation: float, rng: np.random.Generator
) -> FloatArray:
    """k points uniform in a ball, each drawn again until it is far from those before it."""
    while True:
        centers = np.empty((0, d))
        for _ in range(k):
            directions = rng.standard_normal((200, d))
            directions /= np.linalg.norm(directions, axis=1, keepdims=True)
            drawn = directions * (radius * rng.random((200, 1)) ** (1 / d))
            far = (np.linalg.norm(drawn[:, None] - centers, axis=2) >= separation).all(axis=1)
            if not far.any():
                break
            centers = np.vstack([centers, drawn[far][:1]])
        if len(centers) == k:
            return centers
        separation *= 0.9
