"""Sums and counts of Lloyd-type rounds: as they are, or relative to their centre.

Both kinds of *relative* sums add up x - centre of the nearest centre, and a row moves them by
`radius` at most. FastLloyd leaves rows out that lie further away (`RELATIVE_SUMS_AND_COUNTS`); cut
to the radius instead, every row counts (`CUT_RELATIVE_SUMS_AND_COUNTS`), or a client's whole sum is
cut (`CLIENT_RELATIVE_SUMS_AND_COUNTS`), which the adaptive variant of FedDP-KMeans does.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from fedclust_helpers import kmeans
from fedclust_helpers._nearest import NearestTarget, project
from fedclust_helpers._validation import FloatArray, IntArray, check_positive
from fedclust_helpers.client_statistics.base import (
    COUNT,
    Change,
    Values,
    known,
    vector,
    weights,
)
from fedclust_helpers.client_statistics.clipping import clip_clients, clip_rows, clip_totals


def in_box(*, bound: float, n_features: int, **_: Any) -> dict[str, Change]:
    """A row of [-bound, bound]^d, and 1 in its count."""
    bound = check_positive(bound, "bound")
    l1, l2 = n_features * bound, float(np.sqrt(n_features)) * bound
    row = Change(l1, l2, bound, n_features)
    return {"total": row, "sums": row, "counts": COUNT}


def in_ball(*, bound: float, n_features: int, **_: Any) -> dict[str, Change]:
    """A row with ||x|| <= bound, and 1 in its count."""
    return {"sums": vector(bound, "bound", n_features), "counts": COUNT}


def relative(*, radius: float, n_features: int, **_: Any) -> dict[str, Change]:
    """x - centre, of length `radius` at most, and 1 in its count."""
    return {"sums": vector(radius, "radius", n_features), "counts": COUNT}


def clipped(
    *, clip_sums: float, clip_counts: float, n_features: int, n_clusters: int, **_: Any
) -> dict[str, Change]:
    """A client's sums (k, d) cut to L2 norm `clip_sums` and counts to L1 norm `clip_counts`."""
    n = n_clusters * n_features
    return {
        "sums": vector(clip_sums, "clip_sums", n),
        "counts": weights(clip_counts, "clip_counts", n),
    }


@known("total", changes=in_box, domain="box")
def TOTAL(points: FloatArray, offsets: IntArray) -> Values:
    """The sum of all rows, for points in [-bound, bound]^d. Broadcast: nothing."""
    totals = np.zeros((len(offsets) - 1, points.shape[1]))
    filled = np.flatnonzero(np.diff(offsets))  # reduceat gives a client without rows a row of ours
    if len(filled):
        totals[filled] = np.add.reduceat(points, offsets[filled], axis=0)
    return (totals,)


# --- plain sums and counts (DP-Lloyd of Blum et al.; SuLloyd, GLloyd; FedDP-Lloyds) ---------------


@known("sums", "counts", changes=in_box, domain="box")
def SUMS_AND_COUNTS(points: FloatArray, offsets: IntArray, *, centers: FloatArray) -> Values:
    """Sums of the points of each cluster and their number, for points in [-bound, bound]^d.

    Broadcast: `centers` (k, d). Sensitivity under add/remove: d*bound (L1), sqrt(d)*bound (L2) for
    the sums, 1 for the counts.
    """
    sums, counts = kmeans.sums_and_counts(points, centers, offsets=offsets)
    return sums, counts.astype(np.float64)


@known("sums", "counts", changes=in_ball, domain="ball")
def BALL_SUMS_AND_COUNTS(points: FloatArray, offsets: IntArray, *, centers: FloatArray) -> Values:
    """The same for rows with ||x|| <= bound (FedDP-KMeans, Algorithm 2): L2 sensitivity `bound`."""
    return SUMS_AND_COUNTS.compute(points, offsets, centers=centers)


@known("sums", "counts", changes=clipped, unit="client")
def CLIENT_SUMS_AND_COUNTS(
    points: FloatArray, offsets: IntArray, *, centers: FloatArray, clip_sums: float,
    clip_counts: float,
) -> Values:  # fmt: skip
    """Sums and counts of a Lloyd round per client, cut to L2 `clip_sums` and L1 `clip_counts`."""
    sums, counts = SUMS_AND_COUNTS.compute(points, offsets, centers=centers)
    return clip_clients(sums, clip_sums), clip_totals(counts, clip_counts)


# --- relative sums and counts ---------------------------------------------------------------------


@known("sums", "counts", changes=relative)
def RELATIVE_SUMS_AND_COUNTS(
    points: FloatArray, offsets: IntArray, *, centers: FloatArray, radius: float
) -> Values:
    """Sums of x - centre over the points within `radius` of their nearest centre, and their number.

    FastLloyd, Algorithm 1, lines 12 and 13. Broadcast: `centers` (k, d), `radius`. Sensitivity
    (Theorem 5.1), all clusters jointly: L2 = radius for the sums and 1 for the counts under
    add/remove; 2 radius and sqrt(2) under replace-one.
    """
    sums, counts = kmeans.sums_and_counts(points, centers, radius=radius, offsets=offsets)
    return sums - counts[..., None] * np.asarray(centers), counts.astype(np.float64)


@known("sums", "counts", changes=relative)
def CUT_RELATIVE_SUMS_AND_COUNTS(
    points: FloatArray, offsets: IntArray, *, basis: FloatArray, centers: FloatArray, radius: float
) -> Values:
    """Sums of x - centre, each cut to length `radius`, by nearest centre in the subspace `basis`.

    Broadcast: `basis` (d, r), `centers` (k, d), `radius`. The same sensitivity, wherever the rows
    lie.
    """
    # targets as a row is projected: the same bits for any number of threads
    target = NearestTarget(np.ascontiguousarray(project(centers, basis).T), basis)
    (k, d), n_clients = centers.shape, len(offsets) - 1
    sums = np.zeros((n_clients * k, d))
    counts = np.zeros(n_clients * k, dtype=np.int64)
    for part in kmeans.client_blocks(offsets, min(kmeans.CHUNK, target.rows_at_once)):
        labels = target.labels(points[part])
        with np.errstate(over="ignore"):
            differences = points[part] - centers[labels]
        differences = clip_rows(differences, radius)
        kmeans.add_block(sums, counts, differences, labels, part.start, offsets, k)
    return sums.reshape(n_clients, k, d), counts.reshape(n_clients, k).astype(np.float64)


@known("sums", "counts", changes=clipped, unit="client")
def CLIENT_RELATIVE_SUMS_AND_COUNTS(
    points: FloatArray, offsets: IntArray, *, basis: FloatArray, centers: FloatArray,
    clip_sums: float, clip_counts: float,
) -> Values:  # fmt: skip
    """A client's sums of x - centre over all its rows, cut to L2 `clip_sums`; counts to L1."""
    sums, counts = CUT_RELATIVE_SUMS_AND_COUNTS.compute(
        points, offsets, basis=basis, centers=centers, radius=np.inf
    )
    return clip_clients(sums, clip_sums), clip_totals(counts, clip_counts)
