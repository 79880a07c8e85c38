"""Non-private k-means: the ground truth that every private algorithm is measured against.

Nothing here knows about clients, noise or budgets. One chunked pass over the data
(`sums_and_counts`) is the only expensive operation of every Lloyd-type algorithm in this project.

>>> import numpy as np
>>> points = np.array([[0.0], [1.0], [10.0]])
>>> centers = lloyd(points, [[0.0], [10.0]], n_rounds=3)
>>> centers.ravel(), kmeans_cost(points, centers)
(array([ 0.5, 10. ]), 0.5)
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import lru_cache
from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import ArrayLike
from scipy.sparse import csc_array
from scipy.spatial.distance import cdist
from threadpoolctl import ThreadpoolController

from fedclust_helpers import _fast
from fedclust_helpers._index import bincount, repeat
from fedclust_helpers._lazy import cluster
from fedclust_helpers._nearest import NearestTarget
from fedclust_helpers._validation import (
    FloatArray,
    IntArray,
    as_integers,
    as_points,
    check_fits,
    check_int,
)

__all__ = ["assign", "kmeans_cost", "lloyd", "sphere_packing", "sums_and_counts", "weighted_kmeans"]

CHUNK = 8_192  # rows per pass: keeps the temporaries in cache and memory use independent of n
MAX_NUMBERS = 2**30  # of one result: 8 GiB
BISECTIONS, TRIES = 20, 100  # of `sphere_packing`
LARGEST = 1e150  # magnitudes whose squares can be added up


class Assignment(NamedTuple):
    """Nearest centres: `labels` (n,) with -1 for points outside the radius, `squared` (n,)."""

    labels: IntArray
    squared: FloatArray


def moderate_points(
    points: ArrayLike, name: str = "points", *, n_features: int | None = None
) -> FloatArray:
    """`as_points`, and no value above `LARGEST`: squared distances and their sums are finite."""
    array = as_points(points, name, n_features=n_features)
    if max(array.max(), -array.min()) > LARGEST:
        raise ValueError(f"{name} must be at most {LARGEST:g} in magnitude")
    return array


def _rows_and(
    points: ArrayLike, centers: ArrayLike, offsets: IntArray | None = None
) -> tuple[FloatArray, FloatArray]:
    """Rows (n, d), also none, and centres (k, d) as the loops need them: finite, of one width."""
    centers = as_points(centers, "centers")
    return _rows(points, offsets, centers.shape[1]), centers


def _rows(points: ArrayLike, offsets: IntArray | None, d: int | None = None) -> FloatArray:
    """Rows that `offsets` divide among clients: the loops would go beyond their memory else."""
    if len(np.shape(points)) != 2 or len(points):  # type: ignore[arg-type]
        rows = as_points(points, n_features=d)
    else:
        rows = np.asarray(points, dtype=np.float64)
    if offsets is not None:
        edges = as_integers(offsets, "offsets", minimum=0, maximum=len(rows))
        if len(edges) < 2 or (np.diff(edges) < 0).any():
            raise ValueError("offsets must run from one row to a later one")
    return rows


def assign(points: ArrayLike, centers: ArrayLike, *, radius: float | None = None) -> Assignment:
    """Assign each of `points` (n, d) to its nearest of `centers` (k, d).

    Points farther than `radius` from every centre get label -1 (FastLloyd, Eq. 4). Ties go to the
    lowest index; a squared distance that overflows is inf. The label of a row depends on that row
    and the centres alone.
    """
    points, centers = _rows_and(points, centers)
    limit = np.inf if radius is None else radius
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
    points = moderate_points(points)
    squared = assign(points, moderate_points(centers, "centers")).squared
    return float(squared.mean() if normalize else squared.sum())


def sums_and_counts(
    points: ArrayLike,
    centers: ArrayLike,
    *,
    radius: float | None = None,
    offsets: IntArray | None = None,
    relative: bool = False,
) -> tuple[FloatArray, IntArray]:
    """Per-cluster sums (k, d) and counts (k,) of `points` (n, d) in one Lloyd round.

    Points farther than `radius` from their nearest centre are left out (FastLloyd, Eq. 4). If
    `relative`, the sums are those of x - centre, row by row: subtracted from the sums of x, the
    centres would leave the rounding of those, which may be larger than the radius. With
    `offsets` (M + 1,) rows ``offsets[i]:offsets[i+1]`` belong to client i, and the results have
    shapes (M, k, d) and (M, k).
    """
    points, centers = _rows_and(points, centers, offsets)
    target, limit = NearestTarget(centers), np.inf if radius is None else radius
    size = min(CHUNK, target.rows_at_once)

    origins = centers if relative else np.zeros_like(centers)

    def labelled(part: slice) -> tuple[FloatArray, IntArray]:
        rows, (labels, inside) = points[part], target.labels_within(points[part], limit)
        if relative:
            with np.errstate(over="ignore"):  # of rows outside, which are left out
                rows = np.where(inside[:, None], rows - centers[labels], 0.0)
        labels[~inside] = -1
        return rows, labels

    def at_once(edges: IntArray, sums: FloatArray, counts: IntArray) -> bool:
        return target.add(points, limit, edges, size, sums, counts, origins)

    return _added(points, labelled, len(centers), offsets, size, "offsets", at_once)


def _added(
    points: FloatArray,
    labelled: Callable[[slice], tuple[FloatArray, IntArray]],
    k: int,
    offsets: IntArray | None,
    size: int,
    name: str,
    at_once: Callable[[IntArray, FloatArray, IntArray], bool],
) -> tuple[FloatArray, IntArray]:
    """Sums and counts of what is `labelled`, by client and label: `at_once`, or by blocks."""
    edges = np.array([0, len(points)]) if offsets is None else offsets
    d = points.shape[1]
    n_clients = len(edges) - 1
    check_fits(n_clients * k * d, name, limit=MAX_NUMBERS)
    sums = np.zeros((n_clients, k, d))
    counts = np.zeros((n_clients, k), dtype=np.int64)
    if not at_once(edges, sums, counts):
        flat = sums.reshape(-1, d), counts.reshape(-1)
        for part in client_blocks(edges, size):
            add_block(*flat, *labelled(part), part.start, edges, k)
    return (sums[0], counts[0]) if offsets is None else (sums, counts)


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
        width = (last - first) * k
        if width > k:
            edges = np.clip(offsets[first : last + 1], start, start + len(block))
            own = repeat(np.arange(0, width, k), edges[1:] - edges[:-1])
            labels = np.where(labels < 0, -1, labels + own)
    bins = slice(first * k, first * k + width)
    loops = _fast.fast(_fast.add_rows, block.size * k)
    if loops is not None:
        # the sums of several clients are still 0, unless the first of them goes on from before
        apart = width == k or offsets[first] < start
        loops(sums[bins], counts[bins], block, labels, apart)
        return
    labels = np.where(labels < 0, width, labels)  # a bin of its own, left away
    # a sparse 0/1 matrix (bins x rows of the block) times the block: sums without a loop
    index = np.int32 if width < 2**31 - 1 else np.int64
    one_hot = csc_array(
        (np.ones(len(block)), labels.astype(index), np.arange(len(block) + 1, dtype=index)),
        shape=(width + 1, len(block)),
    )
    sums[bins] += (one_hot @ block)[:width]
    counts[bins] += bincount(labels, minlength=width + 1)[:width]


def group_sums(
    points: ArrayLike, labels: ArrayLike, n_groups: int, *, offsets: IntArray | None = None
) -> tuple[FloatArray, IntArray]:
    """Sums and counts of rows by label, for one data set or for each of M clients.

    As `sums_and_counts`, with the group 0..n_groups-1 of each row, or -1 for none, in `labels`
    (n,) instead of centres.
    """
    points = _rows(points, offsets)
    check_int(n_groups, "n_groups")
    own = as_integers(labels, "labels", n=len(points), minimum=-1, maximum=n_groups - 1)
    return _added(
        points, lambda part: (points[part], own[part]), n_groups, offsets, CHUNK, "n_groups",
        lambda *_: False,
    )  # fmt: skip


def lloyd(points: ArrayLike, centers: ArrayLike, *, n_rounds: int) -> FloatArray:
    """Plain Lloyd's algorithm: `n_rounds` rounds of means; an empty cluster keeps its centre."""
    points = moderate_points(points)
    centers = moderate_points(centers, "centers", n_features=points.shape[1]).copy()
    for _ in range(n_rounds):
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
    """Best of `n_init` k-means++ / Lloyd runs on weighted points, by scikit-learn: (k, d)."""
    seed = int(rng.integers(2**31))
    model = cluster.KMeans(n_clusters, n_init=n_init, random_state=seed)
    with _thread_pools().limit(limits=1):  # a pool of OpenMP hangs in a child that is forked later
        return np.asarray(model.fit(points, sample_weight=weights).cluster_centers_)


@lru_cache(maxsize=1)
def _thread_pools() -> ThreadpoolController:
    return ThreadpoolController()


def _pack(
    k: int, d: int, bound: float, distance: float, rng: np.random.Generator
) -> FloatArray | None:
    """Random centres at least `distance` from the walls and `2 distance` apart, or None."""
    side = bound - distance
    if side < 0:
        return None
    centers = np.empty((k, d))
    for j in range(k):
        # draw the tries in blocks of growing size: the first is usually enough
        done = 0
        while done < TRIES:
            block = 4 if done == 0 else TRIES - done
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
) -> FloatArray:
    """Data-independent initial centres (k, d), spread over the box [-bound, bound]^d.

    Centres are drawn at random at least `a` from the walls and `2 a` from each other. A radius `a`
    counts as feasible when every centre finds its place within `TRIES` draws.

    "halving" starts at a = bound and halves until feasible, as the released code of FastLloyd does:
    the first centre is then the origin whenever a = bound is feasible for k = 1. "largest" does the
    binary search for the largest feasible `a` that the paper's text describes (`BISECTIONS` steps).

    Su et al. (2016), used in FastLloyd section 5.3.1. The result depends on public numbers only,
    so it costs no privacy budget.
    """
    distance = bound
    while (centers := _pack(n_clusters, n_features, bound, distance, rng)) is None:
        distance /= 2
    if method == "largest":
        low, high = distance, min(bound, 2 * distance)
        for _ in range(BISECTIONS):
            middle = (low + high) / 2
            better = _pack(n_clusters, n_features, bound, middle, rng)
            if better is None:
                high = middle
            else:
                centers, low = better, middle
    return centers


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
    values = np.asarray(values, dtype=np.float64)
    y = np.mod(values + bound, 4 * bound)
    folded = np.where(y > 2 * bound, 4 * bound - y, y) - bound
    # the modulus costs a rounding error: leave values that are inside exactly as they are
    return np.where(np.abs(values) <= bound, values, np.clip(folded, -bound, bound))


def truncate(values: ArrayLike, *, bound: float = 1.0) -> FloatArray:
    """Move values outside [-bound, bound] to the nearest wall."""
    return np.clip(np.asarray(values, dtype=np.float64), -bound, bound)


def shortened(rows: FloatArray, most: float) -> FloatArray:
    """Rows (m, d) cut to Euclidean length `most`: what is public or released.

    (`client_statistics.clipping.clip_rows` is for users' own rows.)
    """
    length = np.linalg.norm(rows, axis=1, keepdims=True)
    return np.asarray(rows * np.minimum(1.0, most / np.maximum(length, 1e-300)))


def shrinkage(vectors: FloatArray, noise: FloatArray) -> FloatArray:
    """Factors (1 - noise/|v|^2)+ of James and Stein for vectors (m, d) whose noise has this energy.

    A vector that is about as long as its noise says little; one much longer is left as it is.
    """
    energy = np.maximum((vectors**2).sum(axis=1), 1e-300)
    return np.asarray(np.maximum(0.0, 1 - noise / energy))
