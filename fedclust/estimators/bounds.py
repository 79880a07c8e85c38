"""Public bounds of every column: by name, as numbers or arrays, or from a small file."""

from __future__ import annotations

import os
import warnings
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from fedclust.frames import names_of, series_of, table_of
from fedclust.tables import read_csv, read_numbers
from fedclust_helpers._validation import FloatArray, as_bound
from fedclust_helpers.federation import ClientData
from fedclust_helpers.federation.data import depth_outside

HEADER = ["column", "lower", "upper"]
STEPS = 100  # floating-point numbers between two bounds, at least


class PublicBoundsWarning(UserWarning):
    """Bounds were read off the rows, which were declared public: nothing of such a run is private.

    The smallest and the largest value of a column are exact facts about single rows.
    """


class Bounds(NamedTuple):
    """Bounds as they were given: `columns` are the features where these are named, else None.

    `lower` and `upper` are None where the data is public and its own range is to be taken, and
    where bounds are to be found privately (`private`).
    """

    columns: list[Any] | None
    lower: Any
    upper: Any
    private: bool = False

    def pick(self, columns: list[Any] | None) -> Bounds:
        """Those of these columns, by name; ValueError names a column that has none."""
        if columns is None:
            return self
        if self.columns is None:
            if np.ndim(self.lower) or np.ndim(self.upper):
                raise ValueError(
                    "bounds must be given by name beside columns: lists and arrays could be in the"
                    " order of columns, or in that of the table"
                )
            return self._replace(columns=columns)
        words = {str(c): c for c in self.columns}  # as a file has them
        named = [c if c in self.columns else words.get(str(c)) for c in columns]
        if missing := [str(c) for c, name in zip(columns, named, strict=True) if name is None]:
            raise ValueError(f"bounds must name each of columns; {', '.join(missing)} not")
        at, d = [self.columns.index(name) for name in named], len(self.columns)
        lower, upper = (np.broadcast_to(side, d)[at] for side in (self.lower, self.upper))
        return Bounds(columns, lower, upper)

    @property
    def read_off(self) -> bool:
        """Whether they are the range of the rows, which were declared public."""
        return self.lower is None and not self.private

    @property
    def source(self) -> str:
        """Where the bounds come from, in the words of a statement."""
        if self.private:
            return "found privately"
        return "read off the data, which was declared public" if self.read_off else "given, public"

    def of_data(self, data: ClientData, names: Any = None) -> tuple[FloatArray, FloatArray]:
        """Lower and upper bound (d,) of each column of these rows; `names` are those of columns."""
        return _range_of(data.points) if self.lower is None else self.of(data.n_features, names)

    def of(self, d: int, names: Any = None) -> tuple[FloatArray, FloatArray]:
        """Lower and upper bound (d,) of each of d columns that were given bounds, as new arrays."""
        sides = {"lower": self.lower, "upper": self.upper}
        lower, upper = (as_bound(side, name, d).copy() for name, side in sides.items())
        if not (lower < upper).all():
            wrong = np.flatnonzero(~(lower < upper)).tolist()
            said = ", ".join(f"column {i}" if names is None else repr(names[i]) for i in wrong)
            raise ValueError(
                f"lower and upper must satisfy lower < upper in every feature, but not in {said}:"
                " leave out a column that can have one value only"
            )
        step = np.spacing(np.maximum(np.abs(lower), np.abs(upper)))
        if (near := np.flatnonzero(upper / STEPS - lower / STEPS < step)).size:
            said = ", ".join(f"column {i}" if names is None else repr(names[i]) for i in near)
            raise ValueError(
                f"lower and upper must have {STEPS} floating-point numbers between them, but those"
                f" of this size are too far apart in {said}: subtract a public number first"
            )
        return lower, upper  # their difference is checked by `scale_to_box`


def given_bounds(lower: Any, upper: Any, bounds: Any, *, public_data: bool) -> Bounds:
    """Bounds from `lower` and `upper`, or from `bounds`: a mapping, a frame, a tuple or a file."""
    if bounds is not None:
        if lower is not None or upper is not None:
            raise ValueError("bounds must be None where lower or upper is given: choose one way")
        if isinstance(bounds, str) and bounds == "private":
            return Bounds(None, None, None, private=True)
        if isinstance(bounds, str | os.PathLike):
            return _from_file(bounds)
        lower, upper = _sides(bounds)
    if lower is None and upper is None and public_data:
        return Bounds(None, None, None)
    for side, name in ((lower, "lower"), (upper, "upper")):
        if side is None:
            raise ValueError(
                f"{name} must be given: bounds of every column that are known without looking at"
                " the data (or bounds='bounds.csv'; bounds='private' finds them for a share of"
                " the budget; for public data public_data=True reads them off)"
            )
    lower, upper = by_name(lower, "lower"), by_name(upper, "upper")
    named = [side for side in (lower, upper) if isinstance(side, Mapping)]
    if not named:
        return Bounds(None, lower, upper)
    if len(named) == 1 and (np.ndim(lower) or np.ndim(upper)):
        raise ValueError(
            "lower and upper must both name their columns, or neither: the numbers of the other"
            " could be in the order of the names, or in that of the table"
        )
    columns = list(named[0])
    if any(set(side) != set(columns) for side in named):
        odd = sorted(map(str, set(named[0]) ^ set(named[1])))
        raise ValueError(
            f"lower and upper must name the same columns; {', '.join(odd)} in one of them only"
        )
    sides = [
        [side[c] for c in columns] if isinstance(side, Mapping) else side for side in (lower, upper)
    ]
    return Bounds(columns, sides[0], sides[1])


def _sides(bounds: Any) -> tuple[Any, Any]:
    """Lower and upper bounds from a mapping {column: (lower, upper)}, a frame, or a tuple."""
    if names_of(bounds) is not None:
        bounds = _pairs(table_of(bounds))
    if isinstance(bounds, Mapping):
        if set(bounds) == {"lower", "upper"}:
            raise ValueError(
                "bounds must not have just the keys 'lower' and 'upper': they could be all lower"
                " and all upper bounds, or two columns of these names; give lower=..., upper=..."
            )
        for column, pair in bounds.items():
            if not isinstance(pair, Sequence | np.ndarray) or np.shape(pair) != (2,):
                raise ValueError(f"bounds must give {column!r} two numbers, (lower, upper)")
        if not bounds:
            raise ValueError("bounds must name at least one column")
        lower, upper = ({c: pair[i] for c, pair in bounds.items()} for i in (0, 1))
        return lower, upper
    if isinstance(bounds, tuple) and len(bounds) == 2:
        if all(isinstance(side, tuple) and len(side) == 2 for side in bounds):
            raise ValueError(
                "bounds must not be two tuples of two numbers: they could be (lower, upper) of"
                " each of two columns, or the lower bounds of both and then the upper ones. Give"
                " {column: (lower, upper)}, or lower=[...] and upper=[...]"
            )
        return bounds
    raise TypeError(
        "bounds must be a mapping {column: (lower, upper)}, a table with a column for each of"
        " these and two rows, a tuple (lower, upper) of numbers or arrays, or the path of a CSV"
        f" file; got {type(bounds).__name__}, which could be a pair for each column, or all lower"
        " and then all upper bounds"
    )


def _pairs(table: Any) -> dict[Any, tuple[Any, Any]]:
    """{column: (lower, upper)} from two rows below names, or from a row for each column."""
    names = names_of(table) or []
    if {"lower", "upper"} <= {*names}:
        rows = table["column"] if "column" in names else getattr(table, "index", None)
        if rows is not None:
            each = [list(series_of(side)) for side in (rows, table["lower"], table["upper"])]
            return _once([(c, (low, high)) for c, low, high in zip(*each, strict=True)], "bounds")
    if len(table) != 2:
        raise ValueError(
            "bounds must be a table of two rows, lower and upper, below the names of the columns;"
            " or one with the columns column, lower, upper"
        )
    return _once([(c, tuple(series_of(table[c]))) for c in names], "bounds")


def by_name(side: Any, name: str) -> Any:
    """A Series as a mapping of its index; what has no names as it is."""
    labelled = hasattr(side, "index") and hasattr(side, "items")
    return _once(list(side.items()), name) if labelled else side


def _once(items: list[tuple[Any, Any]], name: str) -> dict[Any, Any]:
    if len(dict(items)) < len(items):
        raise ValueError(f"{name} must name every column once")
    return dict(items)


def _from_file(path: Any) -> Bounds:
    """A CSV file with the columns column, lower, upper: a row for each feature, in their order."""
    try:
        table = read_csv(path)
    except OSError as error:
        raise ValueError(f"bounds must be a file that can be read: {error.strerror}") from None
    if table.column_names != HEADER:
        raise ValueError("bounds must be a CSV file with the header column,lower,upper")
    columns = [None if name is None else name.strip() for name in table["column"]]
    if len(set(columns)) < len(columns) or None in columns:
        raise ValueError("bounds must name every column once")
    lower, upper = read_numbers(table, "bounds", columns=HEADER[1:])[0].T
    return Bounds(columns, lower, upper)


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
