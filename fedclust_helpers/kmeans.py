"""Non-private k-means: the ground truth that every private algorithm is measured against.

Nothing here knows about clients, noise or budgets. One chunked pass over the data
(`sums_and_counts`) is the only expensive operation of every Lloyd-type algorithm in this project.
"""

from __future__ import annotations

from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.sparse import csc_array
from scipy.spatial.distance import cdist
from sklearn.cluster import KMeans

from fedclust_helpers._validation import (
    FloatArray,
    IntArray,
    as_points,
    check_choice,
    check_int,
    check_positive,
    check_rng,
)

CHUNK = 16_384  # rows per pass: keeps the temporaries in cache and memory use independent of n
_EPS = float(np.finfo(np.float64).eps)


class Assignment(NamedTuple):
    """Nearest centres: `labels` (n,) with -1 for points outside the radius, `squared` (n,)."""

    labels: IntArray
    squared: FloatArray


def _check_centers(centers: ArrayLike, n_features: int | None) -> FloatArray:
    return as_points(centers, "centers", n_features=n_features)


def _nearest(block: FloatArray, minus_two_t: FloatArray, norms: FloatArray) -> Assignment:
    """Nearest centre by ||x||^2 - 2<x,c> + ||c||^2; ties go to the first centre."""
    scores = block @ minus_two_t
    scores += norms
    labels = scores.argmin(axis=1)
    nearest = np.take_along_axis(scores, labels[:, None], axis=1)[:, 0]
    return Assignment(labels, nearest)


def _inside(
    nearest: FloatArray, block: FloatArray, norms: FloatArray, radius: float
) -> tuple[FloatArray, NDArray[np.bool_]]:
    """Squared distances, and which of them are certainly within `radius`.

    The expanded square is off by a few units of rounding. A point that close to the sphere counts
    as outside, so that rounding can lower the sensitivity of a sum but never raise it.
    """
    x_norms = np.einsum("ij,ij->i", block, block)
    squared = nearest + x_norms
    guard = 4 * (block.shape[1] + 4) * _EPS * (x_norms + norms.max())
    return squared, squared + guard <= radius * radius


def assign(points: ArrayLike, centers: ArrayLike, *, radius: float | None = None) -> Assignment:
    """Assign each point to its nearest centre, or to none if it is farther than `radius`.

    Parameters
    ----------
    points : array_like of shape (n, d)
    centers : array_like of shape (k, d)
    radius : float, optional
        Points farther than this from every centre get label -1 (FastLloyd, Eq. 4).

    Returns
    -------
    Assignment
        `labels` (n,) and squared distances `squared` (n,). Ties go to the lowest index.
    """
    points = as_points(points)
    centers = _check_centers(centers, points.shape[1])
    limit = np.inf if radius is None else check_positive(radius, "radius", finite=False)
    minus_two_t, norms = np.ascontiguousarray(-2 * centers.T), (centers**2).sum(axis=1)
    labels = np.empty(len(points), dtype=np.int64)
    squared = np.empty(len(points))
    for start in range(0, len(points), CHUNK):
        part = slice(start, start + CHUNK)
        block_labels, nearest = _nearest(points[part], minus_two_t, norms)
        squared[part], inside = _inside(nearest, points[part], norms, limit)
        labels[part] = np.where(inside, block_labels, -1) if np.isfinite(limit) else block_labels
    return Assignment(labels, np.maximum(squared, 0.0))


def kmeans_cost(points: ArrayLike, centers: ArrayLike, *, normalize: bool = False) -> float:
    """Sum of squared distances to the nearest centre (WCSS), divided by n if `normalize` (NICV)."""
    squared = assign(points, centers).squared
    return float(squared.mean() if normalize else squared.sum())


def sums_and_counts(
    points: ArrayLike,
    centers: ArrayLike,
    *,
    radius: float | None = None,
    offsets: IntArray | None = None,
) -> tuple[FloatArray, IntArray]:
    """Per-cluster sums and counts of one Lloyd round, for one data set or for each of M clients.

    Parameters
    ----------
    points : array_like of shape (n, d)
    centers : array_like of shape (k, d)
    radius : float, optional
        Points farther than this from their nearest centre are left out (FastLloyd, Eq. 4).
    offsets : int array of shape (M + 1,), optional
        Rows ``offsets[i]:offsets[i+1]`` belong to client i. Without it all rows are one data set.

    Returns
    -------
    sums : ndarray of shape (k, d), or (M, k, d) with `offsets`
    counts : ndarray of int64 of shape (k,), or (M, k) with `offsets`
    """
    points = as_points(points)
    centers = _check_centers(centers, points.shape[1])
    limit = np.inf if radius is None else check_positive(radius, "radius", finite=False)
    if offsets is None:
        sums, counts = _sums_and_counts(points, centers, limit, np.array([0, len(points)]))
        return sums[0], counts[0]
    offsets = np.asarray(offsets)
    if offsets.dtype.kind not in "iu" or offsets.ndim != 1 or len(offsets) < 2:
        raise ValueError("offsets must be M + 1 integers for M >= 1 clients")
    if offsets[0] != 0 or offsets[-1] != len(points) or (offsets[1:] < offsets[:-1]).any():
        raise ValueError("offsets must rise from 0 to the number of points")
    return _sums_and_counts(points, centers, limit, offsets.astype(np.int64))


def _sums_and_counts(
    points: FloatArray, centers: FloatArray, radius: float, offsets: IntArray
) -> tuple[FloatArray, IntArray]:
    (k, d), n_clients = centers.shape, len(offsets) - 1
    minus_two_t, norms = np.ascontiguousarray(-2 * centers.T), (centers**2).sum(axis=1)
    sums = np.zeros((n_clients * k, d))
    counts = np.zeros(n_clients * k, dtype=np.int64)
    for start in range(0, len(points), CHUNK):
        block = points[start : start + CHUNK]
        rows = np.arange(start, start + len(block))
        labels, nearest = _nearest(block, minus_two_t, norms)
        if np.isfinite(radius):
            inside = _inside(nearest, block, norms, radius)[1]
            if not inside.all():
                block, labels, rows = block[inside], labels[inside], rows[inside]
        _add_block(sums, counts, block, labels, rows, offsets, k)
    return sums.reshape(n_clients, k, d), counts.reshape(n_clients, k)


def _add_block(
    sums: FloatArray,
    counts: IntArray,
    block: FloatArray,
    labels: IntArray,
    rows: IntArray,
    offsets: IntArray,
    k: int,
) -> None:
    """Add the rows of one block to the sums and counts of their client and label, in place."""
    if len(block) == 0:
        return
    first, width = 0, k
    if len(offsets) > 2:
        client = np.searchsorted(offsets, rows, side="right") - 1
        first, last = int(client[0]), int(client[-1])
        labels = labels + (client - first) * k
        width = (last - first + 1) * k
    bins = slice(first * k, first * k + width)
    # a sparse 0/1 matrix (bins x rows of the block) times the block: sums without a loop
    one_hot = csc_array(
        (np.ones(len(block)), labels, np.arange(len(block) + 1)), shape=(width, len(block))
    )
    sums[bins] += one_hot @ block
    counts[bins] += np.bincount(labels, minlength=width)


def group_sums(
    points: ArrayLike, labels: ArrayLike, n_groups: int, *, offsets: IntArray | None = None
) -> tuple[FloatArray, IntArray]:
    """Sums and counts of rows by label, for one data set or for each of M clients.

    Parameters
    ----------
    points : array_like of shape (n, d)
    labels : int array of shape (n,)
        Group 0..n_groups-1 of each row, or -1 for none.
    offsets : int array of shape (M + 1,), optional
        As in `sums_and_counts`.

    Returns
    -------
    sums : ndarray of shape (n_groups, d), or (M, n_groups, d) with `offsets`
    counts : ndarray of int64 of shape (n_groups,), or (M, n_groups) with `offsets`
    """
    points = as_points(points)
    labels = np.asarray(labels)
    n_groups = check_int(n_groups, "n_groups")
    if labels.shape != (len(points),) or labels.dtype.kind not in "iu":
        raise ValueError(f"labels must be {len(points)} integers, one for each row")
    if labels.min() < -1 or labels.max() >= n_groups:
        raise ValueError(f"labels must lie in -1..{n_groups - 1}")
    edges = np.array([0, len(points)]) if offsets is None else np.asarray(offsets, dtype=np.int64)
    n_clients = len(edges) - 1
    sums = np.zeros((n_clients * n_groups, points.shape[1]))
    counts = np.zeros(n_clients * n_groups, dtype=np.int64)
    for start in range(0, len(points), CHUNK):
        part = slice(start, start + CHUNK)
        rows = start + np.flatnonzero(labels[part] >= 0)
        if len(rows):
            _add_block(sums, counts, points[rows], labels[rows], rows, edges, n_groups)
    shape = (n_groups,) if offsets is None else (n_clients, n_groups)
    return sums.reshape(*shape, -1), counts.reshape(shape)


def lloyd(points: ArrayLike, centers: ArrayLike, *, n_rounds: int) -> FloatArray:
    """Plain Lloyd's algorithm: `n_rounds` rounds of means; an empty cluster keeps its centre."""
    points = as_points(points)
    centers = _check_centers(centers, points.shape[1]).copy()
    for _ in range(check_int(n_rounds, "n_rounds", minimum=0)):
        sums, counts = sums_and_counts(points, centers)
        filled = counts > 0
        centers[filled] = sums[filled] / counts[filled, None]
    return centers


def weighted_kmeans(
    points: ArrayLike,
    weights: ArrayLike | None,
    n_clusters: int,
    *,
    rng: np.random.Generator,
    n_init: int = 10,
) -> FloatArray:
    """Best of `n_init` k-means++ / Lloyd runs on weighted points, by scikit-learn.

    Returns centres of shape (n_clusters, d).
    """
    points = as_points(points)
    n_clusters = check_int(n_clusters, "n_clusters", maximum=len(points))
    if weights is not None:
        weights = np.asarray(weights, dtype=np.float64)
        good = np.isfinite(weights) & (weights >= 0)
        if weights.shape != (len(points),) or not good.all() or not weights.any():
            raise ValueError(f"weights must be {len(points)} non-negative numbers, not all zero")
    seed = int(check_rng(rng).integers(2**31))
    model = KMeans(n_clusters, n_init=check_int(n_init, "n_init"), random_state=seed)
    return np.asarray(model.fit(points, sample_weight=weights).cluster_centers_)


def _pack(
    k: int, d: int, bound: float, distance: float, tries: int, rng: np.random.Generator
) -> FloatArray | None:
    """Random centres at least `distance` from the walls and `2 distance` apart, or None."""
    side = bound - distance
    if side < 0:
        return None
    centers = np.empty((k, d))
    for j in range(k):
        # draw the tries in blocks of growing size: the first is usually enough
        done = 0
        while done < tries:
            block = min(tries - done, 4 if done == 0 else tries)
            candidates = rng.uniform(-side, side, size=(block, d))
            gaps = cdist(candidates, centers[:j]) if j else np.full((block, 1), np.inf)
            good = np.flatnonzero((gaps >= 2 * distance).all(axis=1))
            if len(good):
                centers[j] = candidates[good[0]]
                break
            done += block
        else:
            return None
    return centers


def sphere_packing(
    n_clusters: int,
    n_features: int,
    *,
    rng: np.random.Generator,
    bound: float = 1.0,
    method: Literal["halving", "largest"] = "halving",
    n_tries: int = 100,
    n_steps: int = 20,
) -> FloatArray:
    """Data-independent initial centres, spread over the box [-bound, bound]^d.

    Centres are drawn at random at least `a` from the walls and `2 a` from each other. A radius `a`
    counts as feasible when every centre finds its place within `n_tries` draws.

    Parameters
    ----------
    method : {"halving", "largest"}
        "halving" starts at a = bound and halves until feasible, as the released code of FastLloyd
        does: the first centre is then the origin whenever a = bound is feasible for k = 1.
        "largest" does the binary search for the largest feasible `a` that the paper's text
        describes (`n_steps` bisections).

    Returns
    -------
    ndarray of shape (n_clusters, n_features)

    Notes
    -----
    Su et al. (2016), used in FastLloyd section 5.3.1. The result depends on public numbers only,
    so it costs no privacy budget.
    """
    n_clusters = check_int(n_clusters, "n_clusters")
    n_features = check_int(n_features, "n_features")
    bound = check_positive(bound, "bound")
    check_rng(rng)
    check_choice(method, "method", ("halving", "largest"))
    check_int(n_tries, "n_tries")
    distance = bound
    while (centers := _pack(n_clusters, n_features, bound, distance, n_tries, rng)) is None:
        distance /= 2
    if method == "largest":
        low, high = distance, min(bound, 2 * distance)
        for _ in range(check_int(n_steps, "n_steps")):
            middle = (low + high) / 2
            better = _pack(n_clusters, n_features, bound, middle, n_tries, rng)
            if better is None:
                high = middle
            else:
                centers, low = better, middle
    return centers


def fold(values: ArrayLike, *, bound: float = 1.0) -> FloatArray:
    """Reflect values at the walls of [-bound, bound] as often as needed.

    y = (x + B) mod 4B; y = 4B - y if y > 2B; return y - B. The identity inside the box, even at
    both walls, period 4B. (FastLloyd section 5.3.5 prints "mod 2B", which moves points that are
    already inside: theory checks F5.)

    Examples
    --------
    >>> fold([0.2, -1.2, 1.3, 3.4, -5.1]).round(3).tolist()
    [0.2, -0.8, 0.7, -0.6, -0.9]
    """
    bound = check_positive(bound, "bound")
    values = np.asarray(values, dtype=np.float64)
    y = np.mod(values + bound, 4 * bound)
    folded = np.where(y > 2 * bound, 4 * bound - y, y) - bound
    # the modulus costs a rounding error: leave values that are inside exactly as they are
    return np.where(np.abs(values) <= bound, values, np.clip(folded, -bound, bound))


def fold_as_printed(values: ArrayLike, *, bound: float = 1.0) -> FloatArray:
    """The folding rule exactly as FastLloyd section 5.3.5 prints it; wrong, kept for comparison."""
    bound = check_positive(bound, "bound")
    y = np.mod(np.asarray(values, dtype=np.float64) + bound, 2 * bound)
    return np.asarray(np.where(y > bound, 2 * bound - y, y) - bound)


def truncate(values: ArrayLike, *, bound: float = 1.0) -> FloatArray:
    """Move values outside [-bound, bound] to the nearest wall."""
    bound = check_positive(bound, "bound")
    return np.clip(np.asarray(values, dtype=np.float64), -bound, bound)
