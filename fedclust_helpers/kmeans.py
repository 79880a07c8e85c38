"""Non-private k-means: the ground truth that every private algorithm is measured against.

Nothing here knows about clients, noise or budgets. One chunked pass over the data
(`sums_and_counts`) is the only expensive operation of every Lloyd-type algorithm in this project.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import ArrayLike
from scipy.sparse import csc_array
from scipy.spatial.distance import cdist
from sklearn.cluster import KMeans

from fedclust_helpers._nearest import NearestTarget
from fedclust_helpers._validation import (
    FloatArray,
    IntArray,
    as_points,
    check_choice,
    check_int,
    check_positive,
    check_rng,
)

CHUNK = 8_192  # rows per pass: keeps the temporaries in cache and memory use independent of n


MAX_NUMBERS = 2**30  # of one result: 8 GiB
MAX_ROUNDS = 1_000_000
MAX_TRIES = 1_000_000
LARGEST = 1e150  # magnitudes whose squares can be added up


class Assignment(NamedTuple):
    """Nearest centres: `labels` (n,) with -1 for points outside the radius, `squared` (n,)."""

    labels: IntArray
    squared: FloatArray


def _check_centers(centers: ArrayLike, n_features: int | None) -> FloatArray:
    return as_points(centers, "centers", n_features=n_features)


def finite_numbers(values: ArrayLike, name: str, *, largest: float = np.inf) -> FloatArray:
    """`values` as a finite float64 array of any shape, up to `largest` in magnitude.

    Raises
    ------
    TypeError
        If they are not real numbers.
    ValueError
        If one is not finite or too large.
    """
    try:
        array = np.asarray(values)
        if array.dtype.kind in "cSUMm":
            raise TypeError
        array = array.astype(np.float64)
    except (TypeError, ValueError):
        raise TypeError(f"{name} must be an array of real numbers") from None
    if not np.isfinite(array).all():
        raise ValueError(f"{name} must be finite (no nan, no inf)")
    if array.size and np.abs(array).max() > largest:
        raise ValueError(f"{name} must be at most {largest:g} in magnitude")
    return array


def _check_size(name: str, *shape: int) -> None:
    if math.prod(shape) > MAX_NUMBERS:
        raise ValueError(f"{name} asks for an array of {shape}: more than {MAX_NUMBERS} numbers")


def moderate_points(
    points: ArrayLike, name: str = "points", *, n_features: int | None = None
) -> FloatArray:
    """`as_points`, and no value above `LARGEST`: squared distances and their sums are finite."""
    array = as_points(points, name, n_features=n_features)
    if max(array.max(), -array.min()) > LARGEST:
        raise ValueError(f"{name} must be at most {LARGEST:g} in magnitude")
    return array


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
        `labels` (n,) and squared distances `squared` (n,), inf where a square overflows. Ties go
        to the lowest index. The label of a row depends on that row and the centres alone.
    """
    points = as_points(points)
    centers = _check_centers(centers, points.shape[1])
    limit = np.inf if radius is None else check_positive(radius, "radius", finite=False)
    target = NearestTarget(centers)
    labels = np.empty(len(points), dtype=np.int64)
    squared = np.empty(len(points))
    step = min(CHUNK, target.rows_at_once)
    for start in range(0, len(points), step):
        part = slice(start, start + step)
        own, inside = target.labels_within(points[part], limit)
        with np.errstate(over="ignore"):
            difference = points[part] - centers[own]
            squared[part] = np.einsum("ij,ij->i", difference, difference)
        labels[part] = np.where(inside, own, -1)
    return Assignment(labels, squared)


def kmeans_cost(points: ArrayLike, centers: ArrayLike, *, normalize: bool = False) -> float:
    """Sum of squared distances to the nearest centre (WCSS), divided by n if `normalize` (NICV)."""
    if not isinstance(normalize, bool | np.bool_):
        raise TypeError(f"normalize must be True or False, got {type(normalize).__name__}")
    points = moderate_points(points)
    squared = assign(points, moderate_points(centers, "centers")).squared
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
    edges = _check_offsets(offsets, len(points))
    _check_size("offsets", len(edges) - 1, *centers.shape)
    return _sums_and_counts(points, centers, limit, edges)


def _check_offsets(offsets: ArrayLike, n: int) -> IntArray:
    """Offsets (M + 1,) of M >= 1 clients, rising from 0 to the number of rows."""
    try:
        edges = np.asarray(offsets)
    except ValueError:
        raise ValueError("offsets must be M + 1 integers for M >= 1 clients") from None
    if edges.dtype.kind not in "iu" or edges.ndim != 1 or len(edges) < 2:
        raise ValueError("offsets must be M + 1 integers for M >= 1 clients")
    if edges[0] != 0 or edges[-1] != n or (edges[1:] < edges[:-1]).any():
        raise ValueError("offsets must rise from 0 to the number of points")
    return edges.astype(np.int64)


def client_blocks(offsets: IntArray, size: int) -> Iterator[slice]:
    """Blocks of at most `size` rows that split no client, unless it has more rows than that.

    Such a client is cut at multiples of `size` from its own first row. So the order in which its
    rows are added up depends on no other client.
    """
    start, end = 0, int(offsets[-1])
    while start < end:
        stop = start + size
        if stop >= end:
            stop = end
        else:
            edge = int(offsets[np.searchsorted(offsets, stop, side="right") - 1])
            stop = edge if edge > start else stop
        yield slice(start, stop)
        start = stop


def _sums_and_counts(
    points: FloatArray, centers: FloatArray, radius: float, offsets: IntArray
) -> tuple[FloatArray, IntArray]:
    (k, d), n_clients = centers.shape, len(offsets) - 1
    target = NearestTarget(centers)
    sums = np.zeros((n_clients * k, d))
    counts = np.zeros(n_clients * k, dtype=np.int64)
    for part in client_blocks(offsets, min(CHUNK, target.rows_at_once)):
        labels, inside = target.labels_within(points[part], radius)
        labels[~inside] = -1
        add_block(sums, counts, points[part], labels, part.start, offsets, k)
    return sums.reshape(n_clients, k, d), counts.reshape(n_clients, k)


def add_block(
    sums: FloatArray,
    counts: IntArray,
    block: FloatArray,
    labels: IntArray,
    start: int,
    offsets: IntArray,
    k: int,
) -> None:
    """Add rows start, start + 1, ... to the sums and counts of their client and label, in place.

    A label of -1 is nobody's.
    """
    first, width = 0, k
    if len(offsets) > 2:
        first = int(np.searchsorted(offsets, start, side="right")) - 1
        last = int(np.searchsorted(offsets, start + len(block), side="left"))
        edges = np.clip(offsets[first : last + 1], start, start + len(block))
        rows = edges[1:] - edges[:-1]
        own = np.repeat(np.arange(0, len(rows) * k, k), rows)
        labels = np.where(labels < 0, -1, labels + own)
        width = len(rows) * k
    if labels.min() < 0:
        kept = labels >= 0
        block, labels = block[kept], labels[kept]
    bins = slice(first * k, first * k + width)
    # a sparse 0/1 matrix (bins x rows of the block) times the block: sums without a loop
    index = np.int32 if width < 2**31 else np.int64
    one_hot = csc_array(
        (np.ones(len(block)), labels.astype(index), np.arange(len(block) + 1, dtype=index)),
        shape=(width, len(block)),
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
    n_groups = check_int(n_groups, "n_groups")
    try:
        labels = np.asarray(labels)
    except ValueError:
        raise ValueError(f"labels must be {len(points)} integers, one for each row") from None
    if labels.shape != (len(points),) or labels.dtype.kind not in "iu":
        raise ValueError(f"labels must be {len(points)} integers, one for each row")
    if labels.min() < -1 or labels.max() >= n_groups:
        raise ValueError(f"labels must lie in -1..{n_groups - 1}")
    edges = np.array([0, len(points)]) if offsets is None else _check_offsets(offsets, len(points))
    n_clients = len(edges) - 1
    _check_size("n_groups", n_clients, n_groups, points.shape[1])
    sums = np.zeros((n_clients * n_groups, points.shape[1]))
    counts = np.zeros(n_clients * n_groups, dtype=np.int64)
    for part in client_blocks(edges, CHUNK):
        own = labels[part].astype(np.int64)
        add_block(sums, counts, points[part], own, part.start, edges, n_groups)
    shape = (n_groups,) if offsets is None else (n_clients, n_groups)
    return sums.reshape(*shape, -1), counts.reshape(shape)


def lloyd(points: ArrayLike, centers: ArrayLike, *, n_rounds: int) -> FloatArray:
    """Plain Lloyd's algorithm: `n_rounds` rounds of means; an empty cluster keeps its centre."""
    points = moderate_points(points)
    centers = moderate_points(centers, "centers", n_features=points.shape[1]).copy()
    for _ in range(check_int(n_rounds, "n_rounds", minimum=0, maximum=MAX_ROUNDS)):
        sums, counts = sums_and_counts(points, centers)
        filled = counts > 0
        before = centers[filled]
        centers[filled] = sums[filled] / counts[filled, None]
        if np.array_equal(before, centers[filled]):  # a fixed point: no later round moves
            break
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
    points = moderate_points(points)
    n_clusters = check_int(n_clusters, "n_clusters", maximum=len(points))
    n_init = check_int(n_init, "n_init", maximum=10_000)
    if weights is not None:
        message = f"weights must be {len(points)} non-negative numbers, not all zero"
        try:
            weights = finite_numbers(weights, "weights", largest=LARGEST)
        except ValueError:
            raise ValueError(message) from None
        if weights.shape != (len(points),) or weights.min() < 0 or weights.max() < 1 / LARGEST:
            raise ValueError(message)
        if not 1 / LARGEST < weights.max() * float(np.abs(points).max() or 1) ** 2 < LARGEST**2:
            raise ValueError("weights times squared points must neither overflow nor underflow")
    seed = int(check_rng(rng).integers(2**31))
    model = KMeans(n_clusters, n_init=n_init, random_state=seed)
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
    bound = _check_bound(bound)
    check_rng(rng)
    check_choice(method, "method", ("halving", "largest"))
    n_tries = check_int(n_tries, "n_tries", maximum=MAX_TRIES)
    n_steps = check_int(n_steps, "n_steps", maximum=1000)
    # each centre is compared with those before it; candidates are drawn `n_tries` at a time
    _check_size("n_clusters", n_clusters, n_clusters)
    _check_size("n_features", n_clusters, n_features)
    _check_size("n_tries", n_tries, max(n_clusters, n_features))
    distance = bound
    while (centers := _pack(n_clusters, n_features, bound, distance, n_tries, rng)) is None:
        distance /= 2
    if method == "largest":
        low, high = distance, min(bound, 2 * distance)
        for _ in range(n_steps):
            middle = (low + high) / 2
            better = _pack(n_clusters, n_features, bound, middle, n_tries, rng)
            if better is None:
                high = middle
            else:
                centers, low = better, middle
    return centers


def _check_bound(bound: float) -> float:
    bound = check_positive(bound, "bound")
    if not 1 / LARGEST <= bound <= LARGEST:
        raise ValueError(f"bound must lie in [{1 / LARGEST:g}, {LARGEST:g}], got {bound}")
    return bound


def fold(values: ArrayLike, *, bound: float = 1.0) -> FloatArray:
    """Reflect values at the walls of [-bound, bound] as often as needed.

    y = (x + B) mod 4B; y = 4B - y if y > 2B; return y - B. The identity inside the box, even at
    both walls, period 4B. (FastLloyd section 5.3.5 prints "mod 2B", which moves points that are
    already inside: claim F5.)

    Examples
    --------
    >>> fold([0.2, -1.2, 1.3, 3.4, -5.1]).round(3).tolist()
    [0.2, -0.8, 0.7, -0.6, -0.9]
    """
    bound = _check_bound(bound)
    values = finite_numbers(values, "values")
    y = np.mod(values + bound, 4 * bound)
    folded = np.where(y > 2 * bound, 4 * bound - y, y) - bound
    # the modulus costs a rounding error: leave values that are inside exactly as they are
    return np.where(np.abs(values) <= bound, values, np.clip(folded, -bound, bound))


def fold_as_printed(values: ArrayLike, *, bound: float = 1.0) -> FloatArray:
    """The folding rule exactly as FastLloyd section 5.3.5 prints it; wrong, kept for comparison."""
    bound = _check_bound(bound)
    y = np.mod(finite_numbers(values, "values") + bound, 2 * bound)
    return np.asarray(np.where(y > bound, 2 * bound - y, y) - bound)


def truncate(values: ArrayLike, *, bound: float = 1.0) -> FloatArray:
    """Move values outside [-bound, bound] to the nearest wall."""
    bound = _check_bound(bound)
    return np.clip(finite_numbers(values, "values"), -bound, bound)
