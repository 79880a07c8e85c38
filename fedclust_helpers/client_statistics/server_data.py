"""Statistics of FedDP-KMeans: outer products, server-point weights, sums by projected distance.

Data-point level: every row lies in the ball of radius `bound` (the federation clips it there), and
one row is protected. Client level (Appendix G.4): each client clips its whole statistic, and one
client with all its rows is protected; the clip bounds are public arguments.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from fedclust_helpers import kmeans
from fedclust_helpers._nearest import NearestTarget, project, squared_lengths
from fedclust_helpers._validation import FloatArray, IntArray
from fedclust_helpers.client_statistics.base import (
    ClientStatistic,
    Values,
    count_sensitivity,
    twice_if_replaced,
)

PADDED_ROWS = 65_536  # rows of one batch of padded clients, which bounds memory


# --- clients as batches of equal size -------------------------------------------------------------


def _width(sizes: IntArray) -> IntArray:
    """Rows that clients of these sizes are padded to: a quarter more at most, by own size alone.

    What a client computes then does not depend, in its last bits, on the size of any other.
    """
    step = 2 ** np.maximum(np.floor(np.log2(np.maximum(sizes, 1))).astype(np.int64) - 2, 0)
    return -(-sizes // step) * step


def _batches(points: FloatArray, offsets: IntArray) -> Iterator[tuple[IntArray, FloatArray]]:
    """Client numbers and their rows as an array (b, n, d), short clients padded with zero rows.

    Clients of one batch have one width. A client of very many rows comes alone and unpadded.
    """
    sizes = np.diff(offsets)
    for one in np.flatnonzero(sizes > PADDED_ROWS):
        yield np.array([one]), points[None, offsets[one] : offsets[one + 1]]
    rest = np.flatnonzero(sizes <= PADDED_ROWS)
    widths = _width(sizes[rest])
    for width in np.unique(widths):
        members = rest[widths == width]
        at_once = max(1, PADDED_ROWS // int(width))
        lanes = np.arange(width)
        for first in range(0, len(members), at_once):
            clients = members[first : first + at_once]
            inside = lanes < sizes[clients, None]
            batch = points[np.where(inside, offsets[clients, None] + lanes, 0)]
            if not inside.all():
                batch[~inside] = 0.0
            yield clients, batch


def _lengths(squares: FloatArray, n_terms: int) -> FloatArray:
    """Upper bounds on lengths from sums of `n_terms` squares, computed in any order.

    Such a sum is low by at most n_terms + 1 roundings, and a square by 2**-1075 if it underflows.
    """
    room = 1 + (n_terms + 8) * float(np.finfo(np.float64).eps)
    return (np.sqrt(squares) + np.sqrt(n_terms) * 2.0**-537) * room


def _shrink(norms: FloatArray, bound: float) -> FloatArray:
    """Factors min(1, bound/norm) that clip vectors of these norms to length `bound`.

    Never too large by rounding, and 0 where the norm is not finite: nothing is known of a vector
    whose squared norm overflows, so it must not count.
    """
    with np.errstate(all="ignore"):
        factors = bound / (norms * (1 + 4 * float(np.finfo(np.float64).eps)))
    factors = np.where(norms <= bound, 1.0, factors)
    return np.where(np.isfinite(norms) & (factors >= 1e-290), factors, 0.0)


def _clip(values: FloatArray, norms: FloatArray, bound: float) -> FloatArray:
    """Multiply `values` (m, ...) by `_shrink` in place; where that is 0, even nan becomes 0."""
    factors = _shrink(norms, bound)
    with np.errstate(under="ignore", invalid="ignore"):
        values *= factors.reshape(-1, *(1,) * (values.ndim - 1))
    if not factors.all():
        values[factors == 0] = 0.0
    return values


def _clip_clients(values: FloatArray, bound: float) -> FloatArray:
    """Cut each client's array of `values` (m, ...) to Euclidean length `bound`, in place."""
    flat = values.reshape(len(values), -1)
    with np.errstate(over="ignore", under="ignore", invalid="ignore"):
        squares = np.einsum("ij,ij->i", flat, flat)
        return _clip(values, _lengths(squares, flat.shape[1]), bound)


def _clip_rows(rows: FloatArray, bound: float) -> FloatArray:
    """Cut each of `rows` (n, d) to Euclidean length `bound` in place, each by its own factor."""
    d = rows.shape[1]
    with np.errstate(over="ignore", under="ignore", invalid="ignore"):
        rough = np.einsum("ij,ij->i", rows, rows)
        # the order of these sums is unknown: they only tell which rows are short beyond doubt
        limit = min(bound * bound * (1 - 1e-9), 1e300) if bound > 1e-140 else -1.0
        long = ~(rough <= limit)
        if 2 * np.count_nonzero(long) > len(rows):
            return _clip(rows, _lengths(squared_lengths(rows), d), bound)
        chosen = np.flatnonzero(long)
        cut = rows[chosen]
        rows[chosen] = _clip(cut, _lengths(squared_lengths(cut), d), bound)
    return rows


# --- Step 1: outer products -----------------------------------------------------------------------


def _gram(points: FloatArray, offsets: IntArray) -> Values:
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
        small = batch @ transposed if batch.shape[1] < batch.shape[2] else transposed @ batch
        squares = np.einsum("bij,bij->b", small, small)
        # two sums, one in the matrix product and one here
        norms[clients] = _lengths(squares, small.shape[1] ** 2 + sum(batch.shape[1:]))
    return norms


def _client_gram(points: FloatArray, offsets: IntArray, *, clip_outer: float) -> Values:
    with np.errstate(over="ignore", invalid="ignore"):
        return (_clip_clients(_gram(points, offsets)[0], clip_outer),)


def _client_gram_pooled(points: FloatArray, offsets: IntArray, *, clip_outer: float) -> Values:
    """The sum of all clipped outer products as one weighted product: no (M, d, d) array."""
    with np.errstate(over="ignore", invalid="ignore"):
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
    return _labels_with_margin(points, basis, targets, 1.0)


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
with ties counted twice, as the definition in the paper allows, it would be q (claim K6).
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
    return (_clip(histograms, histograms.sum(axis=1), clip_weights),)


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
    target = NearestTarget(targets, basis)
    labels = np.empty(len(points), dtype=np.int64)
    step = min(kmeans.CHUNK, target.rows_at_once)
    for start in range(0, len(points), step):
        part = slice(start, start + step)
        labels[part] = target.labels_with_margin(points[part], margin)
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
    return _clip_clients(means, clip_means), _clip(filled, filled.sum(axis=1), clip_filled)


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
    return _clip_clients(sums, clip_sums), _clip(counts, counts.sum(axis=1), clip_counts)


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
    # targets as a row is projected: the same bits for any number of threads
    target = NearestTarget(np.ascontiguousarray(project(centers, basis).T), basis)
    (k, d), n_clients = centers.shape, len(offsets) - 1
    sums = np.zeros((n_clients * k, d))
    counts = np.zeros(n_clients * k, dtype=np.int64)
    for part in kmeans.client_blocks(offsets, min(kmeans.CHUNK, target.rows_at_once)):
        labels = target.labels(points[part])
        with np.errstate(over="ignore"):
            residuals = points[part] - centers[labels]
        residuals = _clip_rows(residuals, clip_residual)
        kmeans.add_block(sums, counts, residuals, labels, part.start, offsets, k)
    return sums.reshape(n_clients, k, d), counts.reshape(n_clients, k).astype(np.float64)


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
    sums, counts = _residual_sums(
        points, offsets, basis=basis, centers=centers, clip_residual=np.inf
    )
    return _clip_clients(sums, clip_sums), _clip(counts, counts.sum(axis=1), clip_counts)


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
