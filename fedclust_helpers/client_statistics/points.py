"""Statistics of points: sums and counts of Lloyd-type rounds, and those of FedDP-KMeans.

Two kinds of *relative* sums add up x - centre of the nearest centre, and a row moves them by
`radius` at most. FastLloyd leaves rows out that lie further away (`RELATIVE_SUMS_AND_COUNTS`); cut
to the radius instead, every row counts (`CUT_RELATIVE_SUMS_AND_COUNTS`), or a client's whole sum is
cut (`CLIENT_RELATIVE_SUMS_AND_COUNTS`), which the adaptive variant of FedDP-KMeans does.

Unit "point": one row is protected, and must lie in the box or ball of the federation's `bound`,
which clips it there. Unit "client" (Appendix G.4 of FedDP-KMeans): each client clips its whole
statistic to bounds that are public arguments, and one client with all its rows is protected.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from fedclust_helpers import kmeans
from fedclust_helpers._index import bincount, repeat, sums_from
from fedclust_helpers._nearest import NearestTarget, project
from fedclust_helpers._validation import FloatArray, IntArray
from fedclust_helpers.client_statistics.base import COUNT, Change, Values, known, vector, weights
from fedclust_helpers.client_statistics.broadcasts import MARGIN, POSITIVE, Takes
from fedclust_helpers.client_statistics.clipping import (
    clip_clients,
    clip_rows,
    clip_totals,
    lengths,
    shrink,
)

PADDED_ROWS = 65_536  # clients of more rows come alone
BATCH_ROWS = 4_096  # rows of one batch of padded clients: little enough to stay in cache

_CLIPS: Takes = {"clip_sums": POSITIVE, "clip_counts": POSITIVE}
_BASIS: Takes = {"basis": "d r", "centers": "k d"}
_PROJECTED: Takes = {"basis": "d r", "centers": "k r"}
_SERVER_POINTS: Takes = {"basis": "d r", "server_points": "q r"}


def in_box(*, bound: float, n_features: int, **_: Any) -> dict[str, Change]:
    """A row of [-bound, bound]^d, and 1 in its count."""
    l1, l2 = n_features * bound, float(np.sqrt(n_features)) * bound
    row = Change(l1, l2, bound, n_features)
    return {"total": row, "sums": row, "counts": COUNT}


def in_ball(*, bound: float, n_features: int, **_: Any) -> dict[str, Change]:
    """A row with ||x|| <= bound, and 1 in its count."""
    return {"sums": vector(bound, n_features), "counts": COUNT}


def relative(*, radius: float, n_features: int, **_: Any) -> dict[str, Change]:
    """x - centre, of length `radius` at most, and 1 in its count."""
    return {"sums": vector(radius, n_features), "counts": COUNT}


def clipped(
    *, clip_sums: float, clip_counts: float, n_features: int, n_clusters: int, **_: Any
) -> dict[str, Change]:
    """A client's sums (k, d) cut to L2 norm `clip_sums` and counts to L1 norm `clip_counts`."""
    return {
        "sums": vector(clip_sums, n_clusters * n_features),
        "counts": weights(clip_counts, n_clusters),
    }


def totals(rows: FloatArray, offsets: IntArray) -> FloatArray:
    """Sums (M, d) of each client's rows."""
    sums = np.zeros((len(offsets) - 1, rows.shape[1]))
    filled = np.flatnonzero(np.diff(offsets))  # reduceat gives a client without rows a row of ours
    if len(filled):
        sums[filled] = sums_from(rows, offsets[filled])
    return sums


def per_client(bins: IntArray, n_bins: int, offsets: IntArray) -> FloatArray:
    """Counts (M, n_bins) of the rows of each client by bin."""
    n_clients = len(offsets) - 1
    owners = repeat(np.arange(n_clients), np.diff(offsets))
    counts = bincount(owners * n_bins + bins, minlength=n_clients * n_bins)
    return counts.reshape(n_clients, n_bins).astype(np.float64)


def cut_sums(
    target: NearestTarget, points: FloatArray, offsets: IntArray, centers: FloatArray,
    bound: float, unit: float = 1.0,
) -> Values:  # fmt: skip
    """Sums of (x - centre)/unit over the rows that `target` labels, each cut to `bound`; counts."""
    (k, d), n_clients = centers.shape, len(offsets) - 1
    sums = np.zeros((n_clients * k, d))
    counts = np.zeros(n_clients * k, dtype=np.int64)
    for part in kmeans.client_blocks(offsets, min(kmeans.CHUNK, target.rows_at_once)):
        labels = target.labels(points[part])
        with np.errstate(over="ignore"):
            steps = points[part] - centers[labels]
            if unit != 1:
                steps /= unit
        kmeans.add_block(sums, counts, clip_rows(steps, bound), labels, part.start, offsets, k)
    return sums.reshape(n_clients, k, d), counts.reshape(n_clients, k).astype(np.float64)


@known("total", changes=in_box, domain="box")
def TOTAL(points: FloatArray, offsets: IntArray) -> Values:
    """The sum of all rows, for points in [-bound, bound]^d. Broadcast: nothing."""
    return (totals(points, offsets),)


# --- plain sums and counts (DP-Lloyd of Blum et al.; SuLloyd, GLloyd; FedDP-Lloyds) ---------------


@known("sums", "counts", changes=in_box, domain="box", takes={"centers": "k d"})
def SUMS_AND_COUNTS(points: FloatArray, offsets: IntArray, *, centers: FloatArray) -> Values:
    """Sums of the points of each cluster and their number, for points in [-bound, bound]^d.

    Broadcast: `centers` (k, d). Sensitivity under add/remove: d*bound (L1), sqrt(d)*bound (L2) for
    the sums, 1 for the counts.
    """
    sums, counts = kmeans.sums_and_counts(points, centers, offsets=offsets)
    return sums, counts.astype(np.float64)


@known("sums", "counts", changes=in_ball, domain="ball", takes={"centers": "k d"})
def BALL_SUMS_AND_COUNTS(points: FloatArray, offsets: IntArray, *, centers: FloatArray) -> Values:
    """The same for rows with ||x|| <= bound (FedDP-KMeans, Algorithm 2, lines 5 to 8).

    L2 sensitivity `bound` for the sums.
    """
    return SUMS_AND_COUNTS.compute(points, offsets, centers=centers)


@known("sums", "counts", changes=clipped, unit="client", takes={"centers": "k d", **_CLIPS})
def CLIENT_SUMS_AND_COUNTS(
    points: FloatArray, offsets: IntArray, *, centers: FloatArray, clip_sums: float,
    clip_counts: float,
) -> Values:  # fmt: skip
    """Sums and counts of a Lloyd round per client, cut to L2 `clip_sums` and L1 `clip_counts`."""
    sums, counts = SUMS_AND_COUNTS.compute(points, offsets, centers=centers)
    return clip_clients(sums, clip_sums), clip_totals(counts, clip_counts)


# --- relative sums and counts ---------------------------------------------------------------------


@known("sums", "counts", changes=relative, takes={"centers": "k d", "radius": POSITIVE})
def RELATIVE_SUMS_AND_COUNTS(
    points: FloatArray, offsets: IntArray, *, centers: FloatArray, radius: float
) -> Values:
    """Sums of x - centre over the points within `radius` of their nearest centre, and their number.

    FastLloyd, Algorithm 1, lines 6 to 13. Broadcast: `centers` (k, d), `radius`. Sensitivity
    (Theorem 5.1), all clusters jointly: L2 = radius for the sums and 1 for the counts under
    add/remove; 2 radius and sqrt(2) under replace-one.
    """
    sums, counts = kmeans.sums_and_counts(
        points, centers, radius=radius, offsets=offsets, relative=True
    )
    return sums, counts.astype(np.float64)


@known("sums", "counts", changes=relative, takes={**_BASIS, "radius": POSITIVE})
def CUT_RELATIVE_SUMS_AND_COUNTS(
    points: FloatArray, offsets: IntArray, *, basis: FloatArray, centers: FloatArray, radius: float
) -> Values:
    """Sums of x - centre, each cut to length `radius`, by nearest centre in the subspace `basis`.

    Broadcast: `basis` (d, r), `centers` (k, d), `radius`. The same sensitivity, wherever the rows
    lie.
    """
    # targets as a row is projected: the same bits for any number of threads
    target = NearestTarget(np.ascontiguousarray(project(centers, basis).T), basis)
    return cut_sums(target, points, offsets, centers, radius)


@known("sums", "counts", changes=clipped, unit="client", takes={**_BASIS, **_CLIPS})
def CLIENT_RELATIVE_SUMS_AND_COUNTS(
    points: FloatArray, offsets: IntArray, *, basis: FloatArray, centers: FloatArray,
    clip_sums: float, clip_counts: float,
) -> Values:  # fmt: skip
    """A client's sums of x - centre over all its rows, cut to L2 `clip_sums`; counts to L1."""
    sums, counts = CUT_RELATIVE_SUMS_AND_COUNTS.compute(
        points, offsets, basis=basis, centers=centers, radius=np.inf
    )
    return clip_clients(sums, clip_sums), clip_totals(counts, clip_counts)


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
        at_once = max(1, BATCH_ROWS // int(width))
        lanes = np.arange(width)
        for first in range(0, len(members), at_once):
            clients = members[first : first + at_once]
            inside = lanes < sizes[clients, None]
            batch = points[np.where(inside, offsets[clients, None] + lanes, 0)]
            if not inside.all():
                batch[~inside] = 0.0
            yield clients, batch


# --- Step 1: outer products -----------------------------------------------------------------------


def _squares(*, bound: float, n_features: int, **_: Any) -> dict[str, Change]:
    """||x x^T||_F = ||x||^2; two of them differ most when x and y are orthogonal."""
    square, two = bound**2, float(np.sqrt(2))
    return {
        "outer_product": Change(n_features * square, square, square, n_features**2, square * two)
    }


@known("outer_product", changes=_squares, domain="ball")
def OUTER_PRODUCT(points: FloatArray, offsets: IntArray) -> Values:
    """Sum of x x^T (d, d) over rows with ||x|| <= bound (FedDP-KMeans, Algorithm 1, line 4).

    L2 (Frobenius) sensitivity bound^2.
    """
    grams = np.empty((len(offsets) - 1, points.shape[1], points.shape[1]))
    for clients, batch in _batches(points, offsets):
        grams[clients] = batch.transpose(0, 2, 1) @ batch
    return (grams,)


def _gram_norms(points: FloatArray, offsets: IntArray) -> FloatArray:
    """||X_i^T X_i||_F of each client, through the smaller of the two Gram matrices."""
    norms = np.empty(len(offsets) - 1)
    for clients, batch in _batches(points, offsets):
        transposed = batch.transpose(0, 2, 1)
        small = batch @ transposed if batch.shape[1] < batch.shape[2] else transposed @ batch
        squares = np.einsum("bij,bij->b", small, small)
        # two sums, one in the matrix product and one here
        norms[clients] = lengths(squares, small.shape[1] ** 2 + sum(batch.shape[1:]))
    return norms


def _pooled_outer_product(points: FloatArray, offsets: IntArray, *, clip_outer: float) -> Values:
    """The sum of all clipped outer products as one weighted product: no (M, d, d) array."""
    with np.errstate(over="ignore", invalid="ignore"):
        scale = np.sqrt(shrink(_gram_norms(points, offsets), clip_outer))
    by_row = repeat(scale, np.diff(offsets))
    total = np.zeros((points.shape[1], points.shape[1]))
    for start in range(0, len(points), kmeans.CHUNK):
        part = slice(start, start + kmeans.CHUNK)
        block = points[part] * by_row[part, None]
        total += block.T @ block
    return (total,)


@known(
    "outer_product", unit="client", pooled=_pooled_outer_product, takes={"clip_outer": POSITIVE},
    changes=lambda *, clip_outer, n_features, **_: {
        "outer_product": vector(clip_outer, n_features**2)
    },
)  # fmt: skip
def CLIENT_OUTER_PRODUCT(points: FloatArray, offsets: IntArray, *, clip_outer: float) -> Values:
    """Each client's X^T X, cut to Frobenius norm `clip_outer`, which is its L2 sensitivity."""
    with np.errstate(over="ignore", invalid="ignore"):
        return (clip_clients(OUTER_PRODUCT.compute(points, offsets)[0], clip_outer),)


# --- Step 2: weights of server points -------------------------------------------------------------


def labels_with_margin(
    points: FloatArray, basis: FloatArray, targets: FloatArray, margin: float = 1.0
) -> IntArray:
    """For every row projected on the columns of `basis` (d, r) the nearest of `targets` (q, r).

    -1 unless it is at most `margin` times as far as every other one.
    """
    return NearestTarget(targets, basis).labels_with_margin(points, margin)


@known("weights", changes=lambda **_: {"weights": COUNT}, takes=_SERVER_POINTS)
def SERVER_POINT_WEIGHTS(
    points: FloatArray, offsets: IntArray, *, basis: FloatArray, server_points: FloatArray
) -> Values:
    """How many rows have each projected server point as their nearest; ties go to the first index.

    FedDP-KMeans, Algorithm 1, lines 11 to 13. Broadcast: `basis` (d, r), `server_points` (q, r)
    already projected. L1 sensitivity 1 (add/remove); with ties counted twice, as the definition in
    the paper allows, it would be q (claim K6).
    """
    labels = labels_with_margin(points, basis, server_points)
    return (per_client(labels, len(server_points), offsets),)


@known(
    "weights", unit="client", takes={**_SERVER_POINTS, "clip_weights": POSITIVE},
    changes=lambda *, clip_weights, n_server_points, **_: {
        "weights": weights(clip_weights, n_server_points)
    },
)  # fmt: skip
def CLIENT_SERVER_POINT_WEIGHTS(
    points: FloatArray, offsets: IntArray, *, basis: FloatArray, server_points: FloatArray,
    clip_weights: float,
) -> Values:  # fmt: skip
    """Each client's histogram over server points, cut to L1 norm `clip_weights`."""
    histograms = SERVER_POINT_WEIGHTS.compute(
        points, offsets, basis=basis, server_points=server_points
    )[0]
    return (clip_totals(histograms, clip_weights),)


# --- Step 3: sums by projected distance -----------------------------------------------------------


@known("sums", "counts", changes=in_ball, domain="ball", takes={**_PROJECTED, "margin": MARGIN})
def PROJECTED_SUMS_AND_COUNTS(
    points: FloatArray, offsets: IntArray, *, basis: FloatArray, centers: FloatArray,
    margin: float = 1.0,
) -> Values:  # fmt: skip
    """Sums in the full space and counts of the rows nearest to each centre in the subspace.

    FedDP-KMeans, Algorithm 1, lines 20 and 21. Broadcast: `basis` (d, r), `centers` (k, r),
    `margin` (1 is off; 1/3 in Algorithms 3 and 5). For rows with ||x|| <= bound. L2 sensitivity
    bound (sums), 1 (counts), add/remove.
    """
    labels = labels_with_margin(points, basis, centers, margin)
    sums, counts = kmeans.group_sums(points, labels, len(centers), offsets=offsets)
    return sums, counts.astype(np.float64)


@known(
    "means", "filled", unit="client",
    takes={**_PROJECTED, "clip_means": POSITIVE, "clip_filled": POSITIVE},
    changes=lambda *, clip_means, clip_filled, n_features, n_clusters, **_: {
        "means": vector(clip_means, n_clusters * n_features),
        "filled": weights(clip_filled, n_clusters, most=1.0),
    },
)  # fmt: skip
def CLIENT_MEANS(
    points: FloatArray, offsets: IntArray, *, basis: FloatArray, centers: FloatArray,
    clip_means: float, clip_filled: float,
) -> Values:  # fmt: skip
    """Mean of client means (G.4): each client's cluster means, and which of its clusters have rows.

    Cut to L2 norm `clip_means` and L1 norm `clip_filled`.
    """
    sums, counts = PROJECTED_SUMS_AND_COUNTS.compute(points, offsets, basis=basis, centers=centers)
    means = np.divide(sums, counts[..., None], out=sums, where=counts[..., None] > 0)
    filled = (counts > 0).astype(np.float64)
    return clip_clients(means, clip_means), clip_totals(filled, clip_filled)
