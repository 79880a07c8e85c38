"""Statistics of FedDP-KMeans: outer products, server-point weights, sums by projected distance.

Data-point level: every row lies in the ball of radius `bound` (the federation clips it there), and
one row is protected. Client level (Appendix G.4): each client clips its whole statistic, and one
client with all its rows is protected; the clip bounds are public arguments.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
from scipy.sparse import csc_array

from fedclust_helpers import kmeans
from fedclust_helpers._validation import FloatArray, IntArray
from fedclust_helpers.client_statistics.base import (
    ClientStatistic,
    Values,
    count_sensitivity,
    twice_if_replaced,
)

PADDED_ROWS = 65_536  # rows of one batch of padded clients, which bounds memory


# --- clients as batches of equal size -------------------------------------------------------------


def _batches(points: FloatArray, offsets: IntArray) -> Iterator[tuple[IntArray, FloatArray]]:
    """Client numbers and their rows as an array (b, n, d), short clients padded with zero rows.

    Clients are taken in order of size, so that padding stays small.
    """
    sizes = np.diff(offsets)
    order = np.argsort(sizes, kind="stable")
    first = 0
    while first < len(order):
        # the largest batch whose padded size fits: counts times the last (largest) size grows
        padded = np.arange(1, len(order) - first + 1) * sizes[order[first:]]
        last = first + max(1, int(np.searchsorted(padded, PADDED_ROWS, side="right")))
        clients = order[first:last]
        width = int(sizes[clients[-1]])
        lanes = np.arange(width)
        rows = offsets[clients, None] + lanes
        inside = lanes < sizes[clients, None]
        batch = points[np.where(inside, rows, 0)]
        if not inside.all():
            batch[~inside] = 0.0
        yield clients, batch
        first = last


def _shrink(norms: FloatArray, bound: float) -> FloatArray:
    """Factors min(1, bound/norm) that clip vectors of these norms to length `bound`.

    A norm that is not finite gets 0: whoever overflows contributes nothing. So does a factor that
    floats hold with few digits only, which could leave more than `bound`.
    """
    factors = np.ones_like(norms)
    np.divide(bound, norms, out=factors, where=norms > bound)
    factors[~(np.isfinite(norms) & (factors > 1e-290))] = 0.0
    return factors


def _lengths(arrays: FloatArray) -> FloatArray:
    """Euclidean length of each array (m, ...): exact where squares leave the range of floats."""
    flat = arrays.reshape(len(arrays), -1)
    with np.errstate(over="ignore", invalid="ignore"):
        squared = np.einsum("ij,ij->i", flat, flat)
    lengths = np.sqrt(squared)
    for i in np.flatnonzero(~((squared > 1e-280) & np.isfinite(squared))):
        largest = np.abs(flat[i]).max(initial=0.0)
        if np.isfinite(largest) and largest > 0:
            # two factors: the quotient of the smallest floats would overflow
            lengths[i] = largest * np.linalg.norm(flat[i] / largest)
    return lengths


def _cut(arrays: FloatArray, norms: FloatArray, bound: float) -> FloatArray:
    """Each client's array (m, ...) cut to `bound` by its norm; zeros where that is not finite."""
    arrays[~np.isfinite(norms)] = 0.0
    arrays *= _shrink(norms, bound).reshape(-1, *[1] * (arrays.ndim - 1))
    return arrays


# --- Step 1: outer products -----------------------------------------------------------------------


def _gram(points: FloatArray, offsets: IntArray) -> Values:
    if len(offsets) == 2:
        return ((points.T @ points)[None],)
    grams = np.empty((len(offsets) - 1, points.shape[1], points.shape[1]))
    for clients, batch in _batches(points, offsets):
        grams[clients] = batch.transpose(0, 2, 1) @ batch
    return (grams,)


OUTER_PRODUCT = ClientStatistic(
    name="outer_product",
    domain="ball",
    parts=("outer_product",),
    compute=_gram,
    sensitivity=lambda adjacency, *, bound, n_features, **_: {
        # ||x x^T||_F = ||x||^2; two of them differ most when x and y are orthogonal
        "outer_product": (
            n_features * bound**2 * (1 if adjacency == "add/remove" else 2),
            bound**2 * (1.0 if adjacency == "add/remove" else float(np.sqrt(2))),
        )
    },
    magnitude=lambda *, bound, **_: {"outer_product": float(bound) ** 2},
    n_touched=lambda *, n_features, **_: n_features**2,
)
"""Sum of x x^T (d, d) over rows with ||x|| <= bound. L2 (Frobenius) sensitivity bound^2."""


def _gram_norms(points: FloatArray, offsets: IntArray) -> FloatArray:
    """||X_i^T X_i||_F of each client, through the smaller of the two Gram matrices."""
    norms = np.empty(len(offsets) - 1)
    for clients, batch in _batches(points, offsets):
        transposed = batch.transpose(0, 2, 1)
        with np.errstate(over="ignore", invalid="ignore"):
            small = batch @ transposed if batch.shape[1] < batch.shape[2] else transposed @ batch
        norms[clients] = _lengths(small)
    return norms


def _client_gram(points: FloatArray, offsets: IntArray, *, clip_outer: float) -> Values:
    with np.errstate(over="ignore", invalid="ignore"):
        grams = _gram(points, offsets)[0]
    return (_cut(grams, _lengths(grams), clip_outer),)


def _client_gram_pooled(points: FloatArray, offsets: IntArray, *, clip_outer: float) -> Values:
    """The sum of all clipped outer products as one weighted product: no (M, d, d) array."""
    scale = np.sqrt(_shrink(_gram_norms(points, offsets), clip_outer))
    weights = np.repeat(scale, np.diff(offsets))
    total = np.zeros((points.shape[1], points.shape[1]))
    for start in range(0, len(points), kmeans.CHUNK):
        part = slice(start, start + kmeans.CHUNK)
        block = points[part] * weights[part, None]
        total += block.T @ block
    return (total,)


CLIENT_OUTER_PRODUCT = ClientStatistic(
    name="client_outer_product",
    domain="any",
    parts=("outer_product",),
    compute=_client_gram,
    pooled=_client_gram_pooled,
    sensitivity=lambda adjacency, *, clip_outer, n_features, **_: {
        "outer_product": twice_if_replaced(adjacency, n_features * clip_outer, clip_outer)
    },
    magnitude=lambda *, clip_outer, **_: {"outer_product": float(clip_outer)},
    n_touched=lambda *, n_features, **_: n_features**2,
    unit="client",
)
"""Each client's X^T X, clipped to Frobenius norm `clip_outer`, which is its L2 sensitivity."""


# --- Step 2: weights of server points -------------------------------------------------------------


def _nearest_labels(points: FloatArray, basis: FloatArray, targets: FloatArray) -> IntArray:
    """Nearest of `targets` (q, r) for every row projected on the columns of `basis` (d, r)."""
    minus_two_t, norms = np.ascontiguousarray(-2 * targets.T), (targets**2).sum(axis=1)
    # distances in the subspace need x only through basis^T x: fold both products into one matrix
    folded = basis @ minus_two_t if targets.shape[0] <= 2 * basis.shape[1] else None
    labels = np.empty(len(points), dtype=np.int64)
    rows = max(256, kmeans.CHUNK * 32 // max(32, len(targets)))  # many targets: fewer rows at once
    for start in range(0, len(points), rows):
        part = slice(start, start + rows)
        block = points[part]
        scores = block @ folded if folded is not None else (block @ basis) @ minus_two_t
        scores += norms
        labels[part] = scores.argmin(axis=1)
    return labels


def _histograms(labels: IntArray, offsets: IntArray, n_bins: int) -> FloatArray:
    """Counts (M, n_bins) of the labels of each client."""
    n_clients = len(offsets) - 1
    owners = np.repeat(np.arange(n_clients), np.diff(offsets))
    flat = np.bincount(owners * n_bins + labels, minlength=n_clients * n_bins)
    return flat.reshape(n_clients, n_bins).astype(np.float64)


def _weights(
    points: FloatArray, offsets: IntArray, *, basis: FloatArray, server_points: FloatArray
) -> Values:
    labels = _nearest_labels(points, basis, server_points)
    return (_histograms(labels, offsets, len(server_points)),)


SERVER_POINT_WEIGHTS = ClientStatistic(
    name="server_point_weights",
    domain="any",
    parts=("weights",),
    compute=_weights,
    sensitivity=lambda adjacency, **_: {"weights": count_sensitivity(adjacency)},
    magnitude=lambda **_: {"weights": 1.0},
    integral=("weights",),
)
"""How many rows have each projected server point as their nearest; ties go to the first index.

Broadcast: `basis` (d, r), `server_points` (q, r) already projected. L1 sensitivity 1 (add/remove);
with ties counted twice, as the definition in the paper allows, it would be q (theory checks K6).
"""


def _client_weights(
    points: FloatArray,
    offsets: IntArray,
    *,
    basis: FloatArray,
    server_points: FloatArray,
    clip_weights: float,
) -> Values:
    histograms = _weights(points, offsets, basis=basis, server_points=server_points)[0]
    return (_cut(histograms, histograms.sum(axis=1), clip_weights),)


CLIENT_SERVER_POINT_WEIGHTS = ClientStatistic(
    name="client_server_point_weights",
    domain="any",
    parts=("weights",),
    compute=_client_weights,
    sensitivity=lambda adjacency, *, clip_weights, **_: {
        "weights": twice_if_replaced(adjacency, clip_weights, clip_weights)
    },
    magnitude=lambda *, clip_weights, **_: {"weights": float(clip_weights)},
    n_touched=lambda *, n_server_points, **_: n_server_points,
    unit="client",
)
"""Each client's histogram over server points, clipped to L1 norm `clip_weights`."""


# --- Step 3: sums by projected distance -----------------------------------------------------------


def _labels_with_margin(
    points: FloatArray, basis: FloatArray, targets: FloatArray, margin: float
) -> IntArray:
    """Nearest target if it is at most `margin` times as far as every other one, else -1."""
    if margin >= 1 or len(targets) == 1:
        return _nearest_labels(points, basis, targets)
    labels = np.empty(len(points), dtype=np.int64)
    for start in range(0, len(points), kmeans.CHUNK):
        part = slice(start, start + kmeans.CHUNK)
        projected = points[part] @ basis
        squared = ((projected[:, None] - targets[None]) ** 2).sum(axis=2)
        two = np.partition(squared, 1, axis=1)[:, :2]
        clear = two[:, 0] <= margin**2 * two[:, 1]
        labels[part] = np.where(clear, squared.argmin(axis=1), -1)
    return labels


def _projected_sums(
    points: FloatArray,
    offsets: IntArray,
    *,
    basis: FloatArray,
    centers: FloatArray,
    margin: float = 1.0,
) -> Values:
    labels = _labels_with_margin(points, basis, centers, margin)
    sums, counts = kmeans.group_sums(points, labels, len(centers), offsets=offsets)
    return sums, counts.astype(np.float64)


def _ball_sensitivity(
    adjacency: str, *, bound: float, n_features: int, **_: Any
) -> Mapping[str, tuple[float, float]]:
    """Rows with ||x||_2 <= bound: L2 bound, L1 sqrt(d) bound."""
    return {
        "sums": twice_if_replaced(adjacency, float(np.sqrt(n_features)) * bound, bound),
        "counts": count_sensitivity(adjacency),
    }


PROJECTED_SUMS_AND_COUNTS = ClientStatistic(
    name="projected_sums_and_counts",
    domain="ball",
    parts=("sums", "counts"),
    compute=_projected_sums,
    sensitivity=_ball_sensitivity,
    magnitude=lambda *, bound, **_: {"sums": float(bound), "counts": 1.0},
    integral=("counts",),
    n_touched=lambda *, n_features, **_: n_features,
)
"""Sums in the full space and counts of the rows nearest to each centre in the subspace.

Broadcast: `basis` (d, r), `centers` (k, r), `margin` (1 is off; 1/3 in Algorithms 3 and 5). For
rows with ||x|| <= bound. L2 sensitivity bound (sums), 1 (counts), add/remove.
"""


def _ball_sums(points: FloatArray, offsets: IntArray, *, centers: FloatArray) -> Values:
    sums, counts = kmeans.sums_and_counts(points, centers, offsets=offsets)
    return sums, counts.astype(np.float64)


BALL_SUMS_AND_COUNTS = ClientStatistic(
    name="ball_sums_and_counts",
    domain="ball",
    parts=("sums", "counts"),
    compute=_ball_sums,
    sensitivity=_ball_sensitivity,
    magnitude=lambda *, bound, **_: {"sums": float(bound), "counts": 1.0},
    integral=("counts",),
    n_touched=lambda *, n_features, **_: n_features,
)
"""Sums and counts of one Lloyd round (Algorithm 2), for rows with ||x|| <= bound."""


def _client_means(
    points: FloatArray,
    offsets: IntArray,
    *,
    basis: FloatArray,
    centers: FloatArray,
    clip_means: float,
    clip_filled: float,
) -> Values:
    sums, counts = _projected_sums(points, offsets, basis=basis, centers=centers)
    means = np.divide(sums, counts[..., None], out=sums, where=counts[..., None] > 0)
    filled = (counts > 0).astype(np.float64)
    return (
        _cut(means, _lengths(means), clip_means),
        _cut(filled, filled.sum(axis=1), clip_filled),
    )


CLIENT_MEANS = ClientStatistic(
    name="client_means",
    domain="any",
    parts=("means", "filled"),
    compute=_client_means,
    sensitivity=lambda adjacency, *, clip_means, clip_filled, n_features, n_clusters, **_: {
        "means": twice_if_replaced(
            adjacency, float(np.sqrt(n_clusters * n_features)) * clip_means, clip_means
        ),
        "filled": twice_if_replaced(adjacency, clip_filled, clip_filled),
    },
    magnitude=lambda *, clip_means, clip_filled, **_: {
        "means": float(clip_means),
        "filled": float(min(1.0, clip_filled)),
    },
    n_touched=lambda *, n_features, n_clusters, **_: n_features * n_clusters,
    unit="client",
)
"""Mean of client means (G.4): each client's cluster means, and which of its clusters have rows.

Clipped to L2 norm `clip_means` and L1 norm `clip_filled`.
"""


def _client_sums(
    points: FloatArray,
    offsets: IntArray,
    *,
    centers: FloatArray,
    clip_sums: float,
    clip_counts: float,
) -> Values:
    sums, counts = _ball_sums(points, offsets, centers=centers)
    return _cut(sums, _lengths(sums), clip_sums), _cut(counts, counts.sum(axis=1), clip_counts)


CLIENT_SUMS_AND_COUNTS = ClientStatistic(
    name="client_sums_and_counts",
    domain="any",
    parts=("sums", "counts"),
    compute=_client_sums,
    sensitivity=lambda adjacency, *, clip_sums, clip_counts, n_features, n_clusters, **_: {
        "sums": twice_if_replaced(
            adjacency, float(np.sqrt(n_clusters * n_features)) * clip_sums, clip_sums
        ),
        "counts": twice_if_replaced(adjacency, clip_counts, clip_counts),
    },
    magnitude=lambda *, clip_sums, clip_counts, **_: {
        "sums": float(clip_sums),
        "counts": float(clip_counts),
    },
    n_touched=lambda *, n_features, n_clusters, **_: n_features * n_clusters,
    unit="client",
)
"""Sums and counts of a Lloyd round per client, clipped to L2 `clip_sums` and L1 `clip_counts`."""


# --- beyond the paper: relative sums by projected distance ----------------------------------------


def _residual_sums(
    points: FloatArray,
    offsets: IntArray,
    *,
    basis: FloatArray,
    centers: FloatArray,
    clip_residual: float,
) -> Values:
    targets = centers @ basis
    minus_two_t, norms = basis @ (-2 * targets.T), (targets**2).sum(axis=1)
    center_norms = (centers**2).sum(axis=1)
    k, n_clients = len(centers), len(offsets) - 1
    sums = np.zeros((n_clients, k, points.shape[1]))
    counts = np.zeros((n_clients, k))
    owners = np.repeat(np.arange(n_clients), np.diff(offsets))
    for start in range(0, len(points), kmeans.CHUNK):
        part = slice(start, start + kmeans.CHUNK)
        block = points[part]
        labels = (block @ minus_two_t + norms).argmin(axis=1)
        squared = (
            np.einsum("ij,ij->i", block, block)
            - 2 * np.einsum("ij,ij->i", block, centers[labels])
            + center_norms[labels]
        )
        scale = _shrink(np.sqrt(np.maximum(squared, 0.0)) * (1 + 1e-9), clip_residual)
        first, last = owners[start], owners[start + len(block) - 1]
        bins = labels + (owners[part] - first) * k
        width = (last - first + 1) * k
        weighted = csc_array((scale, bins, np.arange(len(block) + 1)), shape=(width, len(block)))
        mass = np.bincount(bins, weights=scale, minlength=width).reshape(-1, k)
        own = slice(first, last + 1)
        sums[own] += (weighted @ block).reshape(-1, k, block.shape[1]) - mass[..., None] * centers
        counts[own] += np.bincount(bins, minlength=width).reshape(-1, k)
    return sums, counts


RESIDUAL_SUMS_AND_COUNTS = ClientStatistic(
    name="residual_sums_and_counts",
    domain="any",
    parts=("sums", "counts"),
    compute=_residual_sums,
    sensitivity=lambda adjacency, *, clip_residual, n_features, **_: {
        "sums": twice_if_replaced(
            adjacency, float(np.sqrt(n_features)) * clip_residual, clip_residual
        ),
        "counts": count_sensitivity(adjacency),
    },
    magnitude=lambda *, clip_residual, **_: {"sums": float(clip_residual), "counts": 1.0},
    integral=("counts",),
)
"""Sums of x - centre, each cut to `clip_residual`, by nearest centre in the subspace `basis`.

L2 sensitivity clip_residual (sums), 1 (counts), add/remove, wherever the rows lie.
"""


def _client_residual_sums(
    points: FloatArray,
    offsets: IntArray,
    *,
    basis: FloatArray,
    centers: FloatArray,
    clip_sums: float,
    clip_counts: float,
) -> Values:
    targets = centers @ basis
    labels = _nearest_labels(points, basis, targets)
    sums, counts = kmeans.group_sums(points, labels, len(centers), offsets=offsets)
    sums -= counts[..., None] * centers
    sums *= _shrink(np.sqrt(np.einsum("mkd,mkd->m", sums, sums)), clip_sums)[:, None, None]
    totals = counts.sum(axis=1).astype(np.float64)
    return sums, counts * _shrink(totals, clip_counts)[:, None]


CLIENT_RESIDUAL_SUMS_AND_COUNTS = ClientStatistic(
    name="client_residual_sums_and_counts",
    domain="any",
    parts=("sums", "counts"),
    compute=_client_residual_sums,
    sensitivity=CLIENT_SUMS_AND_COUNTS.sensitivity,
    magnitude=CLIENT_SUMS_AND_COUNTS.magnitude,
    n_touched=CLIENT_SUMS_AND_COUNTS.n_touched,
    unit="client",
)
"""A client's sums of x - centre over all its rows, clipped to L2 `clip_sums`; counts to L1."""
