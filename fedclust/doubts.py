"""What whoever holds rows should know of them, and nobody else: one rule for all entry points.

Values that bounds will cut: from one in twenty of a column on, of all rows or of one client, and at
any share where one client differs from the others, as in another unit. A value far from all others
that many rows have, as a code for a missing one. Row numbers. Texts name columns, and bounds, which
are public; they quote no value, and are no part of a release.

>>> import numpy as np
>>> rows = np.array([[40.0], [50.0], [900.0]])
>>> (said,) = outside(rows, np.array([0, 3]), np.array([0.0]), np.array([110.0]), ["age"])
>>> said.split(":")[0]
'column age'
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from fedclust_helpers._index import repeat, spread_from
from fedclust_helpers._lazy import stats
from fedclust_helpers._validation import FloatArray, IntArray

OFTEN = 0.05  # share of the values of a column
CHANCE = 1e-3  # of a word about one client, if all have as many values outside as the others twice
DISTINCT = 5  # values at least, beside a code
FEW = 20  # rows, of which nothing is said about row numbers


class UnusualColumnWarning(UserWarning):
    """A column holds what looks like codes for missing values, or row numbers: for its holder."""


def outside(
    points: FloatArray, offsets: Any, lower: FloatArray, upper: FloatArray,
    columns: Sequence[Any], clients: Sequence[str] = (),
) -> list[str]:  # fmt: skip
    """A line for each column of `points` (n, d) of which bounds (d,) cut many values.

    `offsets` (M + 1,) say whose the rows are; `clients` are what these are called, if they have
    names.
    """
    told = []
    for j, values in enumerate(points.T):
        cut = (values < lower[j]) | (values > upper[j])
        if not cut.any():
            continue
        k, n = _of_each(cut, offsets), _of_each(~np.isnan(values), offsets)
        odd = _odd(k, n, points.shape[1])
        if not odd.any() and k.sum() < OFTEN * n.sum():
            continue
        some = odd.any() and not odd.all()
        share = k[odd].sum() / n[odd].sum() if some else k.sum() / n.sum()
        many = "one in twenty of the values or more" if share <= 0.5 else "most of the values"
        many = many if share >= OFTEN else "more of the values than at other clients"
        whose = _named(np.flatnonzero(odd).tolist(), clients) if some else ""
        told.append(
            f"column {columns[j]}{whose}: {many} are not within {lower[j]:g} to"
            f" {upper[j]:g} and will be cut to it: is it the unit of the bounds, and the right"
            f" column?"
        )
    return told


def _of_each(chosen: Any, offsets: Any) -> IntArray:
    """How many rows of each client are chosen, (M,); 0 of a client without rows."""
    return np.diff(np.concatenate([[0], np.cumsum(chosen)])[np.asarray(offsets)])


def _odd(k: IntArray, n: IntArray, d: int) -> Any:
    """Which of M clients have many of their n (M,) values outside, k (M,), or more than others."""
    if len(k) == 1:
        return k >= OFTEN * n
    others = (k.sum() - k + 1) / (n.sum() - n + 2)  # add-one estimate, never 0
    chance = stats.binom.sf(k - 1, n, np.minimum(2 * others, 1.0))
    return (k >= 2) & ((k >= OFTEN * n) | (chance < CHANCE / (d * len(k))))


CODE = (
    "as a code for a missing one is: make it a missing value, and leave such rows out or fill it by"
    " a public rule"
)


def _named(some: list[int], clients: Sequence[str]) -> str:
    each = [clients[i] if clients else f"client {i}" for i in some[:4]]
    more = f" and {len(some) - 4} more" * (len(some) > 4)
    return f" of {', '.join(each)}{more}{'' if clients else ' (counted from 0)'}"


def unusual(points: FloatArray, offsets: Any, columns: Sequence[Any]) -> list[str]:
    """A line for each column with codes for missing values; it is their place that tells."""
    told = []
    for name, column in zip(columns, points.T, strict=True):
        n = _of_each(~np.isnan(column), offsets)
        if not n.any():
            continue
        for value in {float(np.nanmin(column)), float(np.nanmax(column))} - {0.0}:
            at = column == value
            many = (_of_each(at, offsets) >= OFTEN * n) & (n >= FEW)
            rest = column[~at & ~np.isnan(column)]
            if not (many.any() or at.sum() >= OFTEN * n.sum()) or not len(rest):
                continue
            far = np.abs(rest - value).min() >= np.ptp(rest) / 2
            if far and len(np.unique(rest[:1000])) >= DISTINCT:
                told.append(
                    f"column {name}: one in twenty or more of the values are one, far from all"
                    f" others, {CODE}"
                )
    return told


def row_numbers(points: FloatArray, offsets: Any, columns: Sequence[Any]) -> list[str]:
    """A line for each column that counts rows: of one client after the other, or of all."""
    each: list[Any] = [[0, len(points)], offsets]
    return [
        f"column {name}: whole numbers, one after the other, like row numbers, which no distance"
        " between rows should depend on: leave it out"
        for name, column in zip(columns, points.T, strict=True)
        if len(column) >= FEW and any(_counts(column, edges) for edges in each)
    ]


def _counts(column: FloatArray, edges: Any) -> bool:
    n = np.diff(edges)
    starts, n = np.asarray(edges)[:-1][n > 0], n[n > 0]
    if len(n) * 2 > len(column):  # rows of one user each
        return False
    if (spread_from(column, starts) != n - 1).any():  # quick, and most often so
        return False
    owner = repeat(np.arange(len(n)), n)
    steps = np.diff(column[np.lexsort((column, owner))])
    return bool((steps[np.diff(owner) == 0] == 1).all())
