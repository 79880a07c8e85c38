"""Statistics that describe columns in their own units: rows as they are, nan where one is missing.

In each column a row counts in one bin at most, whatever it holds: the sensitivity of a count for
all d columns together is sqrt(d), for rows anywhere. A missing number counts in no bin.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from fedclust_helpers._validation import FloatArray, IntArray, check_fits
from fedclust_helpers.client_statistics.base import Change, Values, known
from fedclust_helpers.client_statistics.broadcasts import COUNTED, MAX_NUMBERS
from fedclust_helpers.client_statistics.points import per_client, totals

SMALLEST, LARGEST = -64, 127
N_MAGNITUDES = 2 * (LARGEST - SMALLEST) + 1  # 383
"""Signed powers of two from 2^-64 to 2^127, and a bin of what is smaller than 2^-64 in size."""
N_MOMENTS = 3


def magnitude_edges() -> FloatArray:
    """The N_MAGNITUDES + 1 public edges; the bins at both ends also hold all that lies beyond."""
    powers = 2.0 ** np.arange(SMALLEST, LARGEST + 1)
    return np.concatenate([-powers[::-1], powers])


def one_bin(*, n_features: int, **_: Any) -> Change:
    """One bin in each column: another row may change two of them."""
    d, length = n_features, float(np.sqrt(n_features))
    return Change(d, length, 1.0, d, float(np.sqrt(2)) * length, whole=True)


def moments(*, n_features: int, **_: Any) -> Change:
    """(1, u, u^2 - 1/2) in each column, |u| <= 1.

    Its squared length is 1 + u^2 + (u^2 - 1/2)^2 <= 9/4. Of two such rows it is that of
    (0, u - v, u^2 - v^2): (u - v)^2 (1 + (u + v)^2) <= 4; and 9/4 where one of them is missing.
    """
    d, root = n_features, float(np.sqrt(n_features))
    return Change(2.5 * d, 1.5 * root, 1.0, N_MOMENTS * d, 2 * root)


def _weighted(*, n_features: int, **_: Any) -> dict[str, Change]:
    """Weights with squares that add up to d at most, in one bin of each column."""
    d, root = n_features, float(np.sqrt(n_features))
    return {"counts": Change(d, root, root, d, float(np.sqrt(2)) * root)}


def _described(**public: Any) -> dict[str, Change]:
    return {"counts": one_bin(**public), "fine": one_bin(**public), "moments": moments(**public)}


def _columns(
    *, lower: FloatArray, upper: FloatArray, n_bins: int, n_parts: int = 1,
    weights: FloatArray | None = None, **_: Any,
) -> None:  # fmt: skip
    """Bins of positive width; weights that are no heavier than 1 in each column."""
    if not ((upper - lower) / (n_bins * n_parts) >= np.finfo(np.float64).tiny).all():
        raise ValueError("lower must be below upper in every column, by more than rounding")
    check_fits(len(lower) * n_bins * n_parts, "n_bins", limit=MAX_NUMBERS)
    if weights is not None and not ((weights >= 0).all() and (weights**2).sum() <= len(weights)):
        raise ValueError("weights must not be negative, with squares that add up to at most d")


def _counted(bins: IntArray, given: Any, n_bins: int, offsets: IntArray) -> FloatArray:
    """Counts (M, d, n_bins) of bins (n, d), where they are given."""
    columns = []
    for own, known_ in zip(bins.T, given.T, strict=True):
        last = np.where(known_, own, n_bins)  # a bin of missing numbers, which is not sent
        columns.append(per_client(last, n_bins + 1, offsets)[:, :n_bins])
    return np.stack(columns, axis=1)


def _cells(points: FloatArray, lower: FloatArray, upper: FloatArray, n_bins: int) -> IntArray:
    """In which of n_bins equal bins between the bounds each number lies; beyond, in the nearest."""
    with np.errstate(all="ignore"):
        places = np.floor((points - lower) / ((upper - lower) / n_bins))
    return np.clip(np.nan_to_num(places), 0, n_bins - 1).astype(np.int64)


@known("counts", changes=lambda **p: {"counts": one_bin(**p)}, domain="raw")
def MAGNITUDE_COUNTS(points: FloatArray, offsets: IntArray) -> Values:
    """Rows of each column by sign and power of two (d, N_MAGNITUDES). L2 sensitivity sqrt(d)."""
    _, exponents = np.frexp(points)  # |x| = m 2^e with 1/2 <= m < 1
    steps = np.clip(exponents.astype(np.int64) - SMALLEST, 0, LARGEST - SMALLEST)
    middle = LARGEST - SMALLEST
    bins = np.where(points == 0, middle, middle + np.sign(np.nan_to_num(points)) * steps)
    return (_counted(bins.astype(np.int64), ~np.isnan(points), N_MAGNITUDES, offsets),)


@known(
    "counts", changes=_weighted, rule=_columns, domain="raw",
    takes={"lower": "d", "upper": "d", "weights": "d", "n_bins": COUNTED},
)  # fmt: skip
def WEIGHTED_COUNTS(
    points: FloatArray, offsets: IntArray, *, lower: FloatArray, upper: FloatArray,
    weights: FloatArray, n_bins: int,
) -> Values:  # fmt: skip
    """Rows of each column in equal bins between its bounds, times the column's weight (d, n_bins).

    A column of more weight is known better, against the same noise. Rows beyond a bound count in
    the last bin. L2 sensitivity sqrt(d), for all weights whose squares add up to d at most.
    """
    counts = _counted(_cells(points, lower, upper, n_bins), ~np.isnan(points), n_bins, offsets)
    return (counts * weights[:, None],)


@known(
    "counts", "fine", "moments", changes=_described, rule=_columns, domain="raw",
    takes={"lower": "d", "upper": "d", "n_bins": COUNTED, "n_parts": COUNTED},
)  # fmt: skip
def DESCRIPTION(
    points: FloatArray, offsets: IntArray, *, lower: FloatArray, upper: FloatArray, n_bins: int,
    n_parts: int,
) -> Values:  # fmt: skip
    """Of each column a histogram, the same with each bin cut in parts, and three moments.

    Shapes (d, n_bins), (d, n_bins n_parts) and (d, 3): number, sum of u, and sum of u^2 - 1/2, with
    the box between the bounds mapped to u in [-1, 1] and clipped. L2 sensitivities sqrt(d),
    sqrt(d) and 3/2 sqrt(d).
    """
    given = ~np.isnan(points)
    cells = _cells(points, lower, upper, n_bins * n_parts)
    with np.errstate(all="ignore"):
        u = np.clip((points - lower) / ((upper - lower) / 2) - 1, -1, 1)
    u = np.where(given, u, 0.0)
    powers = (given.astype(np.float64), u, np.where(given, u * u - 0.5, 0.0))
    return (
        _counted(cells // n_parts, given, n_bins, offsets),
        _counted(cells, given, n_bins * n_parts, offsets),
        np.stack([totals(power, offsets) for power in powers], axis=2),
    )
