"""Public bounds of every column: numbers, arrays, by name, or a small file."""

from __future__ import annotations

import os
import warnings
from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np

from fedclust_helpers._lazy import pd
from fedclust_helpers._validation import FloatArray, as_bound
from fedclust_helpers.federation import ClientData
from fedclust_helpers.federation.data import depth_outside

HEADER = ["column", "lower", "upper"]


class PublicBoundsWarning(UserWarning):
    """Bounds were read off the rows, which were declared public: nothing of such a run is private.

    The smallest and the largest value of a column are exact facts about single rows.
    """


class Bounds(NamedTuple):
    """Bounds as they were given: `columns` are the features where these are named, else None.

    `lower` and `upper` are None where the data is public and its own range is to be taken.
    """

    columns: list[Any] | None
    lower: Any
    upper: Any

    def of_data(self, data: ClientData) -> tuple[FloatArray, FloatArray]:
        """Lower and upper bound (d,) of each column of these rows."""
        return _range_of(data.points) if self.lower is None else self.of(data.n_features)

    def of(self, d: int) -> tuple[FloatArray, FloatArray]:
        """Lower and upper bound (d,) of each of d columns that were given bounds: copies."""
        lower, upper = (as_bound(getattr(self, name), name, d).copy() for name in self._fields[1:])
        if not (lower < upper).all():
            raise ValueError("lower and upper must satisfy lower < upper in every feature")
        return lower, upper  # their difference is checked by `scale_to_box`


def given_bounds(lower: Any, upper: Any, bounds: Any, *, public_data: bool) -> Bounds:
    """Bounds from `lower` and `upper`, or from the file `bounds` (column, lower, upper)."""
    if bounds is not None:
        if lower is not None or upper is not None:
            raise ValueError("bounds must be None where lower or upper is given: choose one way")
        return _from_file(bounds)
    if lower is None and upper is None and public_data:
        return Bounds(None, None, None)
    for side, name in ((lower, "lower"), (upper, "upper")):
        if side is None:
            raise ValueError(
                f"{name} must be given: bounds of every column that are known without looking at"
                " the data (or bounds='bounds.csv'; for public data public_data=True reads them"
                " off)"
            )
    named = [side for side in (lower, upper) if isinstance(side, Mapping)]
    if not named:
        return Bounds(None, lower, upper)
    columns = list(named[0])
    if any(set(side) != set(columns) for side in named):
        raise ValueError("lower and upper must name the same columns")
    sides = [
        [side[c] for c in columns] if isinstance(side, Mapping) else side for side in (lower, upper)
    ]
    return Bounds(columns, *sides)


def _from_file(path: Any) -> Bounds:
    """A CSV file with the columns column, lower, upper: a row for each feature, in their order."""
    if not isinstance(path, str | os.PathLike):
        raise TypeError(f"bounds must be the path of a CSV file, got {type(path).__name__}")
    try:
        table = pd.read_csv(path, dtype={"column": str}, keep_default_na=False)  # NA is a name
    except OSError as error:
        raise ValueError(f"bounds must be a file that can be read: {error.strerror}") from None
    except (pd.errors.ParserError, pd.errors.EmptyDataError, UnicodeDecodeError):
        raise ValueError("bounds must be a CSV file with the header column,lower,upper") from None
    if list(table.columns) != HEADER or not len(table) or (table.column == "").any():
        raise ValueError("bounds must be a CSV file with the header column,lower,upper")
    if table.column.duplicated().any():
        raise ValueError("bounds must name every column once")
    numbers = table[["lower", "upper"]].apply(pd.to_numeric, errors="coerce")
    if numbers.isna().any().any():
        raise ValueError("bounds must hold two numbers, lower and upper, for every column")
    return Bounds(list(table.column), numbers.lower.to_numpy(), numbers.upper.to_numpy())


def _range_of(points: FloatArray) -> tuple[FloatArray, FloatArray]:
    """The range of public rows; a column of one value gets some width."""
    warnings.warn(
        "bounds were read off the data, which was declared public: their range is not protected by"
        " any epsilon. For private data give lower and upper",
        PublicBoundsWarning,
        stacklevel=depth_outside() + 1,
    )
    low, high = points.min(axis=0), points.max(axis=0)
    flat = high <= low
    pad = np.where(flat, np.maximum(1.0, np.abs(low)) / 2, 0.0)
    return low - pad, high + pad
