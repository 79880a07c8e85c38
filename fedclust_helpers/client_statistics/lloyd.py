"""Statistics of Lloyd-type rounds: relative or plain sums, and counts."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from fedclust_helpers import kmeans
from fedclust_helpers._validation import FloatArray, IntArray, check_positive
from fedclust_helpers.client_statistics.base import (
    ClientStatistic,
    Values,
    count_sensitivity,
    twice_if_replaced,
)

# --- relative sums and counts (FastLloyd, Algorithm 1, lines 12 and 13) ---------------------------


def _relative_sums_and_counts(
    points: FloatArray, offsets: IntArray, *, centers: FloatArray, radius: float
) -> Values:
    sums, counts = kmeans.sums_and_counts(points, centers, radius=radius, offsets=offsets)
    return sums - counts[..., None] * np.asarray(centers), counts.astype(np.float64)


def _relative_sensitivity(
    adjacency: str, *, radius: float, n_features: int, **_: Any
) -> Mapping[str, tuple[float, float]]:
    radius = check_positive(radius, "radius")
    return {
        "relative_sums": twice_if_replaced(adjacency, np.sqrt(n_features) * radius, radius),
        "counts": count_sensitivity(adjacency),
    }


RELATIVE_SUMS_AND_COUNTS = ClientStatistic(
    name="relative_sums_and_counts",
    parts=("relative_sums", "counts"),
    compute=_relative_sums_and_counts,
    sensitivity=_relative_sensitivity,
    magnitude=lambda *, radius, **_: {
        "relative_sums": check_positive(radius, "radius"),
        "counts": 1.0,
    },
    integral=("counts",),
)
"""Sums of x - centre over the points within `radius` of their nearest centre, and their number.

Broadcast: `centers` (k, d), `radius`. Sensitivity (Theorem 5.1), all clusters jointly: L2 = radius
for the sums and 1 for the counts under add/remove; 2 radius and sqrt(2) under replace-one.
"""


# --- plain sums and counts (DP-Lloyd of Blum et al.; SuLloyd, GLloyd) -----------------------------


def _sums_and_counts(points: FloatArray, offsets: IntArray, *, centers: FloatArray) -> Values:
    sums, counts = kmeans.sums_and_counts(points, centers, offsets=offsets)
    return sums, counts.astype(np.float64)


def _plain_sensitivity(
    adjacency: str, *, bound: float, n_features: int, **_: Any
) -> Mapping[str, tuple[float, float]]:
    bound = check_positive(bound, "bound")
    l1, l2 = n_features * bound, float(np.sqrt(n_features)) * bound
    return {
        "sums": twice_if_replaced(adjacency, l1, l2),
        "counts": count_sensitivity(adjacency),
    }


SUMS_AND_COUNTS = ClientStatistic(
    name="sums_and_counts",
    parts=("sums", "counts"),
    compute=_sums_and_counts,
    sensitivity=_plain_sensitivity,
    magnitude=lambda *, bound, **_: {"sums": float(bound), "counts": 1.0},
    integral=("counts",),
    domain="box",
)
"""Sums of the points of each cluster and their number, for points in [-bound, bound]^d.

Broadcast: `centers` (k, d). Sensitivity under add/remove: d*bound (L1), sqrt(d)*bound (L2) for the
sums, 1 for the counts.
"""


# --- total (the smallest example; used in notebook 00 and in tests) -------------------------------


def _total(points: FloatArray, offsets: IntArray) -> Values:
    totals = np.zeros((len(offsets) - 1, points.shape[1]))
    filled = np.flatnonzero(np.diff(offsets))  # reduceat gives a client without rows a row of ours
    if len(filled):
        totals[filled] = np.add.reduceat(points, offsets[filled], axis=0)
    return (totals,)


TOTAL = ClientStatistic(
    name="total",
    parts=("total",),
    compute=_total,
    sensitivity=lambda adjacency, **public: {
        "total": _plain_sensitivity(adjacency, **public)["sums"]
    },
    magnitude=lambda *, bound, **_: {"total": float(bound)},
    domain="box",
)
"""The sum of all rows, for points in [-bound, bound]^d. Broadcast: nothing."""
