"""What was released about each cluster, as people read it: sizes, centres, what sets them apart.

All numbers are released ones, or follow from these and from the bounds: no row is asked again.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from fedclust_helpers._lazy import pd

DIGITS, DIGITS_UNKNOWN = 6, 4  # of the width of a column's bounds: at most, and of unknown noise


def centers_table(estimator: Any) -> list[list[Any]]:
    """Names of columns, then a row for each cluster: its number, size, and rounded centre."""
    names = column_names(estimator, list(range(estimator.n_features_in_)))
    rows = [
        [j, round(float(size)), *center]
        for j, (size, center) in enumerate(
            zip(estimator.cluster_sizes_, rounded_centers(estimator), strict=True)
        )
    ]
    return [["cluster", "size", *names], *rows]


def describe(estimator: Any) -> Any:
    """See `PrivateKMeans.describe`."""
    lower, upper = estimator._box
    centers, width = estimator.cluster_centers_, upper - lower
    names = column_names(estimator, [f"column {i}" for i in range(len(width))])
    sizes = np.maximum(estimator.cluster_sizes_, 0.0)
    mean = np.average(centers, axis=0, weights=sizes if sizes.any() else None)
    noise, shown = _noise(estimator), rounded_centers(estimator)
    rows = []
    for j, off in enumerate((centers - mean) / width):
        square = float(off @ off)
        rows += [
            {
                "cluster": j, "size": round(float(estimator.cluster_sizes_[j])),
                "column": names[i], "center": shown[j][i],
                "noise": math.nan if noise is None else noise[j, i],
                "from_mean": round(off[i] * width[i], decimals(width[i], _at(noise, j, i))),
                "in_widths": round(off[i], 3),
                "share": round(off[i] ** 2 / square if square else 0.0, 3),
            }
            for i in np.argsort(-np.abs(off), kind="stable").tolist()
        ]  # fmt: skip
    try:
        return pd.DataFrame(rows)
    except ImportError:  # without pandas there are no tables
        return rows


def rounded_centers(estimator: Any) -> list[list[float]]:
    """Centres (k, d) to the digits that noise leaves: the last two that it reaches are shown."""
    lower, upper = estimator._box
    noise, width = _noise(estimator), (upper - lower).tolist()
    return [
        [round(x, decimals(width[i], _at(noise, j, i))) for i, x in enumerate(center)]
        for j, center in enumerate(estimator.cluster_centers_.tolist())
    ]


def decimals(width: float, noise: float | None) -> int:
    """Places after the point that are worth showing of a number in a range of this width.

    Down to a tenth of the leading digit of the `noise` (a standard deviation), six digits of the
    width at most; four where the noise is not known.
    """
    leading = math.floor(math.log10(width))
    if noise is None:
        return DIGITS_UNKNOWN - 1 - leading
    finest = DIGITS - 1 - leading
    return finest if noise == 0 else min(finest, 1 - math.floor(math.log10(noise)))


def column_names(estimator: Any, otherwise: list[Any]) -> list[Any]:
    """The names of the columns of the fit, or these where they had none."""
    return list(getattr(estimator, "feature_names_in_", otherwise))


def _noise(estimator: Any) -> Any:
    """Standard deviation (k, d) of the noise in each coordinate of a centre, in its units."""
    lower, upper = estimator._box
    std = estimator._center_std
    return None if std is None else np.outer(std, (upper - lower) / 2)


def _at(noise: Any, j: int, i: int) -> float | None:
    return None if noise is None else float(noise[j, i])
