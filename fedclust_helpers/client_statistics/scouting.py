"""Statistics that tell where the data is: cells of a grid, moments; and cut steps.

What a method must know before it can spend its budget well. Each row counts once, in one cell;
steps are in units of the radius, so that a radius that follows from what was
released before leaves the sensitivity as it is.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from fedclust_helpers._nearest import NearestTarget
from fedclust_helpers._validation import (
    FloatArray,
    IntArray,
    check_fits,
)
from fedclust_helpers.client_statistics.base import COUNT, Change, Values, known, vector
from fedclust_helpers.client_statistics.broadcasts import COUNTED, NOT_NEGATIVE, POSITIVE
from fedclust_helpers.client_statistics.points import cut_sums, per_client, totals

MAX_CELLS = 2**20


def _moments(*, bound: float, n_features: int, middle: float, **_: Any) -> dict[str, Change]:
    """x and x^2 - middle of a row of [-bound, bound]^d."""
    b, root = bound, float(np.sqrt(n_features))
    most = max(middle, b * b - middle)
    return {
        "sums": Change(n_features * b, root * b, b, n_features),
        "squares": Change(n_features * most, root * most, most, n_features),
    }


def _unit_step(*, n_features: int, **_: Any) -> dict[str, Change]:
    """A step of length 1 at most, and 1 in its count."""
    return {"sums": vector(1.0, n_features), "counts": COUNT}


def _box(*, lower: FloatArray, upper: FloatArray, n_per_axis: int, **_: Any) -> None:
    """A grid with cells of positive width, and not too many of them."""
    if not ((upper - lower) / n_per_axis >= np.finfo(np.float64).tiny).all():
        raise ValueError("lower must be below upper in every column, by more than rounding")
    check_fits(float(n_per_axis) ** len(lower), "n_per_axis", limit=MAX_CELLS)


@known(
    "counts", changes=lambda **_: {"counts": COUNT}, rule=_box,
    takes={"lower": "d", "upper": "d", "n_per_axis": COUNTED},
)  # fmt: skip
def CELL_COUNTS(
    points: FloatArray, offsets: IntArray, *, lower: FloatArray, upper: FloatArray, n_per_axis: int
) -> Values:
    """Rows in each cell of a grid on the box from `lower` to `upper` (d,), (n_per_axis^d,).

    Rows outside count in the nearest cell. Sensitivity 1, wherever the rows lie.
    """
    d = points.shape[1]
    cells = np.zeros(len(points), dtype=np.int64)
    for column in range(d):
        width = (upper[column] - lower[column]) / n_per_axis
        with np.errstate(over="ignore"):
            place = np.floor((points[:, column] - lower[column]) / width)
        cells *= n_per_axis
        cells += np.clip(place, 0, n_per_axis - 1).astype(np.int64)
    return (per_client(cells, n_per_axis**d, offsets),)


@known("sums", "squares", changes=_moments, domain="box", takes={"middle": NOT_NEGATIVE})
def MOMENTS(points: FloatArray, offsets: IntArray, *, middle: float) -> Values:
    """Sums of x and of x^2 - middle by column, for rows in [-bound, bound]^d.

    L2 sensitivities sqrt(d) bound and sqrt(d) max(middle, bound^2 - middle): least for the middle
    of the range of a square, bound^2/2.
    """
    return totals(points, offsets), totals(points**2 - middle, offsets)


@known("sums", "counts", changes=_unit_step, takes={"centers": "k d", "radius": POSITIVE})
def CUT_STEPS(
    points: FloatArray, offsets: IntArray, *, centers: FloatArray, radius: float
) -> Values:
    """Sums of (x - centre)/radius over the rows nearest each centre, each cut to length 1; counts.

    Nothing is left out: a far row pulls with length 1. Sensitivity 1 (L2) and 1, for any radius.
    """
    return cut_sums(NearestTarget(centers), points, offsets, centers, 1.0, radius)
