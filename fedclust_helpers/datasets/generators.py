"""Generated data sets: G2, Synth, Synth-K, TimeSynth, the ablation sets, clusters in the unit ball.

Everything is a mixture of Gaussians, rows in random order. All but `make_ball_mixture` are data
sets of the FastLloyd paper. The bounds of a generated data set are public in the sense that they
follow from the parameters of the mixture, never from the sample: each column of the paper's sets
runs from the lowest centre minus `BOUND_SD` standard deviations of that cluster to the highest
centre plus as much.
"""

from __future__ import annotations

from itertools import product

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.stats import norm

from fedclust_helpers._validation import (
    FloatArray,
    IntArray,
    as_points,
    check_int,
    check_positive,
    check_real,
    check_rng,
)
from fedclust_helpers.datasets._base import Dataset
from fedclust_helpers.datasets._checks import (
    LARGEST,
    as_reals,
    as_whole,
    check_fits,
    positive_definite,
)
from fedclust_helpers.datasets.splits import apportion

BOUND_SD = 5.0
MAX_SEPARATED, MAX_ON_A_LINE = 1024, 128
"""Most clusters that are placed one by one, each far from all others."""
_BLOCK = 65_536  # rows moved at a time, so that no second copy of the points is made

_POWERS = tuple(2**i for i in range(1, 10))
SYNTH_DESIGN = tuple(product(_POWERS[:5], _POWERS))
"""(n_clusters, n_features) of the 45 Synth settings (Section 6.1.3)."""
SYNTH_K_DESIGN = tuple((k, 2) for k in _POWERS[:7])
"""(n_clusters, n_features) of the Synth-K settings (Figure 3b)."""
ABLATION_DESIGN = tuple(product(_POWERS[:4], _POWERS[:4], (0.25, 0.5, 0.75)))
"""(n_clusters, n_features, separation) of the 48 ablation sets (Appendix B)."""


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


def make_g2(
    n_features: int, n: int = 2048, sd: float = 30.0, *, rng: np.random.Generator
) -> Dataset:
    """G2: two spherical Gaussians of equal size at (500, ..., 500) and (600, ..., 600).

    `sd` is the standard deviation in every dimension, as in the SIPU collection; the files of that
    collection (n = 2048, sd 10 to 100, d up to 1024) are other draws from the same distribution.

    Parameters
    ----------
    n_features : int
    n : int, default 2048
        At least 2; the first cluster has the odd point.
    sd : float, default 30
    rng : numpy.random.Generator

    Examples
    --------
    >>> import numpy as np
    >>> data = make_g2(2, rng=np.random.default_rng(0))
    >>> data.bounds[0], data.bounds[1]
    (array([350., 350.]), array([750., 750.]))
    """
    d = check_int(n_features, "n_features")
    n = check_int(n, "n", minimum=2)
    sd = check_positive(sd, "sd")
    if not 1e-70 <= sd <= 1e70:
        raise ValueError(f"sd must be between 1e-70 and 1e70, got {sd:g}")
    check_fits(3 * n * (d + 1), "n and n_features")
    means = np.repeat([[500.0], [600.0]], d, axis=1)
    return gaussian_mixture(
        means,
        sd**2,
        [n - n // 2, n // 2],
        rng=rng,
        name=f"g2_{d}_{sd:g}",
        citation="P. Franti, R. Mariescu-Istodor and C. Zhong (2016), XNN graph, S+SSPR, 207-217",
    )


def make_timesynth(
    n: int, n_clusters: int, n_features: int, *, rng: np.random.Generator
) -> Dataset:
    """TimeSynth: balanced spherical clusters for timing (Section 6.1.3).

    The paper fixes the sizes only. Ours: centres uniform in [-10, 10]^d, standard deviation 1,
    sizes that differ by at most one.
    """
    n, k = check_int(n, "n"), check_int(n_clusters, "n_clusters")
    d = check_int(n_features, "n_features")
    check_rng(rng)
    if n < k:
        raise ValueError(f"n must be >= n_clusters = {k}, got {n}")
    check_fits(3 * n * (d + 1), "n and n_features")
    means = rng.uniform(-10.0, 10.0, (k, d))
    sizes = apportion(n, np.ones(k))
    return gaussian_mixture(means, 1.0, sizes, rng=rng, name=f"timesynth_{n}_{k}_{d}")


def make_synth(
    n_clusters: int,
    n_features: int,
    n: int = 10_000,
    *,
    rng: np.random.Generator,
    separation: float | None = None,
    n_outliers: int | None = None,
) -> Dataset:
    """Synth and Synth-K: clusters of sizes 1:2:...:k with a given separation (Section 6.1.3).

    In the spirit of ``genRandomClust`` of the R package clusterGeneration, which the paper uses:
    covariances with eigenvalues uniform in [1, 10] and random orientation, and a separation index
    (`separation_index`) between each cluster and its nearest neighbour that equals `separation`.
    What differs: the R package puts the centres on a lattice of simplices and resizes the
    covariances; here the covariances stay and the centres are grown one by one, each in a random
    direction from an earlier one, at the distance that gives the separation, and only where every
    other cluster is at least as well separated. Outliers are uniform in the box of the bounds.

    Parameters
    ----------
    n_clusters, n_features : int
    n : int, default 10,000
        All points, outliers included.
    rng : numpy.random.Generator
    separation : float in (-1, 1), optional
        Drawn uniformly from [0.16, 0.26] if not given, as in the paper.
    n_outliers : int, optional
        Drawn uniformly from 0..100 if not given, as in the paper.

    Raises
    ------
    ValueError
        If fewer points than clusters are left after the outliers, or an argument is out of range.
    """
    k, d = _check_shape(n_clusters, n_features)
    n = check_int(n, "n")
    check_fits(3 * n * (d + 1), "n and n_features")
    check_rng(rng)
    separation = float(rng.uniform(0.16, 0.26)) if separation is None else separation
    n_outliers = int(rng.integers(0, 101)) if n_outliers is None else n_outliers
    n_outliers = check_int(n_outliers, "n_outliers", minimum=0)
    if n - n_outliers < k:
        raise ValueError(f"n must be >= n_clusters + n_outliers = {k + n_outliers}, got {n}")
    means, covariances = _separated_clusters(k, d, separation, rng)
    sizes = apportion(n - n_outliers, np.arange(1.0, k + 1.0))
    return gaussian_mixture(
        means, covariances, sizes, rng=rng, n_outliers=n_outliers, name=f"synth_{k}_{d}"
    )


def make_ablation(
    n_clusters: int, n_features: int, separation: float, *, rng: np.random.Generator
) -> Dataset:
    """One of the 48 ablation sets (Appendix B; the settings are `ABLATION_DESIGN`).

    Clusters as in `make_synth`, without outliers. Sizes are uniform integers between 0.7 and 1.3
    times the average 2048 / k.
    """
    k, d = _check_shape(n_clusters, n_features)
    check_rng(rng)
    means, covariances = _separated_clusters(k, d, separation, rng)
    average = 2048 / k
    low, high = int(np.ceil(0.7 * average)), int(np.floor(1.3 * average))
    sizes = rng.integers(low, high, size=k, endpoint=True)
    name = f"ablation_{k}_{d}_{separation:g}"
    return gaussian_mixture(means, covariances, sizes, rng=rng, name=name)


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


def _check_shape(n_clusters: int, n_features: int) -> tuple[int, int]:
    """Shapes whose clusters are placed one by one within seconds or minutes."""
    k = check_int(n_clusters, "n_clusters", maximum=MAX_SEPARATED)
    d = check_int(n_features, "n_features")
    if d == 1 and k > MAX_ON_A_LINE:  # only the two ends of a line are free
        raise ValueError(f"n_clusters must be <= {MAX_ON_A_LINE} with n_features = 1, got {k}")
    check_fits(4 * k * d * d, "n_clusters and n_features")
    if k * d**3 > 10**12:
        raise ValueError(f"n_features must be smaller for n_clusters = {k}, got {d}")
    return k, d


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


def separation_index(
    mean_1: ArrayLike,
    covariance_1: ArrayLike,
    mean_2: ArrayLike,
    covariance_2: ArrayLike,
    *,
    alpha: float = 0.05,
) -> float:
    """Separation index of two Gaussian clusters (Qiu and Joe 2006), between -1 and 1.

    Project both clusters on a direction, cut alpha/2 off each tail, and call the remaining
    intervals [L1, U1] and [L2, U2], the first one lower. Then J = (L2 - U1) / (U2 - L1): negative
    when the intervals overlap, near 1 when the gap dwarfs them. The index is the largest J over
    all directions.

    *Notation.* With z the (1 - alpha/2) normal quantile, m the difference of the means and s1, s2
    the standard deviations along direction a, J = (r - z) / (r + z) where r = <a, m> / (s1 + s2),
    so the best direction is the one with the largest r. It does not depend on alpha, nor on the
    length of m.

    Parameters
    ----------
    mean_1, mean_2 : array_like of shape (d,)
    covariance_1, covariance_2 : array_like of shape (d, d)
        Positive definite.
    alpha : float in (0, 1), default 0.05

    Raises
    ------
    ValueError
        If the shapes do not agree, a covariance is not positive definite, or alpha is outside
        (0, 1).

    Examples
    --------
    Two univariate clusters of variance 1 whose means are 4 apart barely touch:

    >>> round(separation_index([0], [[1]], [4], [[1]]), 4)
    0.0101
    """
    alpha = check_real(alpha, "alpha")
    if not 0 < alpha < 1:
        raise ValueError(f"alpha must lie in (0, 1), got {alpha}")
    z = float(norm.isf(alpha / 2))
    if not np.isfinite(z):
        raise ValueError(f"alpha must be larger, got {alpha:g}")
    first, second = as_reals(mean_1, "mean_1"), as_reals(mean_2, "mean_2")
    if first.ndim != 1 or first.shape != second.shape or len(first) == 0:
        raise ValueError("mean_1 and mean_2 must have the same shape (d,)")
    if max(np.abs(first).max(), np.abs(second).max()) > LARGEST:
        raise ValueError("mean_1 and mean_2 must be at most 1e150 in size")
    pair = [
        positive_definite(value, name, len(first))
        for name, value in (("covariance_1", covariance_1), ("covariance_2", covariance_2))
    ]
    # the ratio is proportional to the length: scaled, nothing overflows on the way
    difference = second - first
    length = float(np.abs(difference).max())
    if length == 0:
        return -1.0
    size = float(max(np.abs(c).max() for c in pair))
    ratio = _best_ratio(difference / length, *(c / size for c in pair)) * (length / np.sqrt(size))
    return float((1 - z / ratio) / (1 + z / ratio)) if ratio > 0 else -1.0


def _best_ratio(difference: FloatArray, cov_1: FloatArray, cov_2: FloatArray) -> float:
    """Largest <a, m> / (sd_1(a) + sd_2(a)) over directions a.

    Scaled to <a, m> = 1 this minimises a convex function. Its stationary points solve
    (cov_1 / sd_1 + cov_2 / sd_2) a = const * m, which is iterated; every step lowers the function.
    """
    if not difference.any():
        return 0.0
    direction: NDArray[np.floating] = difference
    best = 0.0
    for _ in range(200):
        sd_1 = np.sqrt(direction @ cov_1 @ direction)
        sd_2 = np.sqrt(direction @ cov_2 @ direction)
        ratio = float(direction @ difference / (sd_1 + sd_2))
        if ratio <= best * (1 + 1e-12):
            break
        best = ratio
        direction = np.linalg.solve(cov_1 / sd_1 + cov_2 / sd_2, difference)
    return best


def _random_covariances(k: int, d: int, rng: np.random.Generator) -> FloatArray:
    """k matrices with eigenvalues uniform in [1, 10] and Haar-random eigenvectors: (k, d, d)."""
    q, r = np.linalg.qr(rng.standard_normal((k, d, d)))
    q *= np.sign(np.diagonal(r, axis1=1, axis2=2))[:, None, :]
    return (q * rng.uniform(1.0, 10.0, (k, 1, d))) @ q.transpose(0, 2, 1)


def _separated_clusters(
    k: int, d: int, separation: float, rng: np.random.Generator
) -> tuple[FloatArray, FloatArray]:
    """Means (k, d) and covariances (k, d, d), each cluster at `separation` from its nearest one."""
    separation = check_real(separation, "separation")
    if not -1 < separation < 1:
        raise ValueError(f"separation must lie in (-1, 1), got {separation}")
    target = float(norm.isf(0.025)) * (1 + separation) / (1 - separation)
    covariances = _random_covariances(k, d, rng)
    means = np.zeros((k, d))
    placed = 1
    while placed < k:
        parent = int(rng.integers(placed))
        direction = rng.standard_normal(d)
        direction /= np.linalg.norm(direction)
        new = covariances[placed]
        # the ratio grows in proportion to the distance, so one evaluation gives the distance
        distance = target / _best_ratio(direction, covariances[parent], new)
        candidate = means[parent] + distance * direction
        if _all_separated(candidate, new, means[:placed], covariances[:placed], parent, target):
            means[placed] = candidate
            placed += 1
    return means, covariances


def _all_separated(
    mean: FloatArray,
    covariance: FloatArray,
    means: FloatArray,
    covariances: FloatArray,
    parent: int,
    target: float,
) -> bool:
    """Whether a new cluster reaches the ratio `target` with every placed one but its parent."""
    differences = mean - means
    # the ratio along the line between the means is a lower bound, and is enough for most pairs
    sd_new = np.sqrt(np.einsum("ij,ij->i", differences @ covariance, differences))
    images = (covariances @ differences[:, :, None])[:, :, 0]
    sd_old = np.sqrt(np.einsum("ij,ij->i", images, differences))
    squared = np.einsum("ij,ij->i", differences, differences)
    unsure: IntArray = np.flatnonzero(squared < target * (sd_new + sd_old))
    return all(
        _best_ratio(differences[j], covariances[j], covariance) >= target
        for j in unsure
        if j != parent
    )
