"""What a client computes from its own data: pure functions, each with its sensitivity.

A `ClientStatistic` is a named, module-level pure function of (rows, broadcast arrays) together
with the bound on how much one record can change it. A remote client is sent the *name*, not code.
Every statistic here is additive: its value on a union of data sets is the sum of its values.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from fedclust_helpers import kmeans
from fedclust_helpers._validation import (
    FloatArray,
    IntArray,
    check_choice,
    check_int,
    check_non_negative,
    check_positive,
)
from fedclust_helpers.accounting import ADJACENCIES

Values = tuple[FloatArray, ...]


@dataclass(frozen=True)
class ClientStatistic:
    """An additive statistic of one or more arrays, computed in one pass over the client's rows.

    Attributes
    ----------
    name : str
        Under which a client knows the function.
    parts : tuple of str
        Names of the arrays it returns (they are released together).
    compute : callable
        ``compute(points, offsets, **broadcast) -> tuple of arrays of shape (M, ...)``, one row for
        each client whose rows are ``offsets[i]:offsets[i+1]``.
    sensitivity : callable
        ``sensitivity(adjacency, **public) -> {part: (l1, l2)}``: how much one record changes each
        part, over all clusters jointly.
    magnitude : callable
        ``magnitude(**public) -> {part: float}``: the largest absolute value one record adds to one
        coordinate. Used for range checks from public bounds.
    integral : tuple of str
        Parts whose exact values are integers (rounding to a grid leaves them as they are).
    unit : str
        Whose presence the sensitivity speaks of: one "point", unless it says otherwise.
    """

    name: str
    parts: tuple[str, ...]
    compute: Callable[..., Values]
    sensitivity: Callable[..., Mapping[str, tuple[float, float]]]
    magnitude: Callable[..., Mapping[str, float]]
    integral: tuple[str, ...] = ()
    unit: str = "point"

    def sensitivity_of(
        self, part: str, norm: int, adjacency: str, *, grid: float = 0.0, **public: Any
    ) -> float:
        """Sensitivity of one part in the L1 or L2 norm, after rounding to multiples of `grid`.

        Rounding moves each coordinate of a difference by at most one grid step, and one record
        touches `d` coordinates, so the slack is d*grid (L1) or sqrt(d)*grid (L2): the corrected
        statement F7 of FastLloyd's Appendix A.3. Integer parts have none.
        """
        check_choice(adjacency, "adjacency", ADJACENCIES)
        check_choice(part, "part", self.parts)
        check_int(norm, "norm", maximum=2)
        check_non_negative(grid, "grid")
        check_int(public["n_features"], "n_features")
        bound = self.sensitivity(adjacency, **public)[part][norm - 1]
        if part in self.integral or grid == 0:
            return bound
        touched = public["n_features"] * (1 if adjacency == "add/remove" else 2)
        return bound + grid * (touched if norm == 1 else np.sqrt(touched))


def _twice_if_replaced(adjacency: str, l1: float, l2: float) -> tuple[float, float]:
    """Replace-one is one removal and one addition: both may count in full."""
    factor = 1 if adjacency == "add/remove" else 2
    return factor * l1, factor * l2


def _count_sensitivity(adjacency: str) -> tuple[float, float]:
    """One record changes one count by 1; a replaced one may change two (L1 = 2, L2 = sqrt 2)."""
    return (1.0, 1.0) if adjacency == "add/remove" else (2.0, float(np.sqrt(2)))


# --- relative sums and counts (FastLloyd, Algorithm 1, lines 12 and 13) ---------------------------


def _relative_sums_and_counts(
    points: FloatArray, offsets: IntArray, *, centers: FloatArray, radius: float
) -> Values:
    sums, counts = kmeans.sums_and_counts(points, centers, radius=radius, offsets=offsets)
    return sums - counts[..., None] * centers, counts.astype(np.float64)


def _relative_sensitivity(
    adjacency: str, *, radius: float, n_features: int, **_: Any
) -> Mapping[str, tuple[float, float]]:
    radius = check_positive(radius, "radius")
    return {
        "relative_sums": _twice_if_replaced(adjacency, np.sqrt(n_features) * radius, radius),
        "counts": _count_sensitivity(adjacency),
    }


RELATIVE_SUMS_AND_COUNTS = ClientStatistic(
    name="relative_sums_and_counts",
    parts=("relative_sums", "counts"),
    compute=_relative_sums_and_counts,
    sensitivity=_relative_sensitivity,
    magnitude=lambda *, radius, **_: {"relative_sums": float(radius), "counts": 1.0},
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
        "sums": _twice_if_replaced(adjacency, l1, l2),
        "counts": _count_sensitivity(adjacency),
    }


SUMS_AND_COUNTS = ClientStatistic(
    name="sums_and_counts",
    parts=("sums", "counts"),
    compute=_sums_and_counts,
    sensitivity=_plain_sensitivity,
    magnitude=lambda *, bound, **_: {"sums": float(bound), "counts": 1.0},
    integral=("counts",),
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
)
"""The sum of all rows, for points in [-bound, bound]^d. Broadcast: nothing."""

STATISTICS: Mapping[str, ClientStatistic] = {
    s.name: s for s in (RELATIVE_SUMS_AND_COUNTS, SUMS_AND_COUNTS, TOTAL)
}
"""Every statistic by the name that a remote client would be sent."""
