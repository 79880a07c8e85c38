"""Columns of a table as numbers, and what is said about one that does not hold numbers.

Messages go to whoever holds the rows. They name arguments and columns, and quote no value.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Sequence
from typing import Any

import numpy as np
from scipy.sparse import issparse

from fedclust_helpers._lazy import pd
from fedclust_helpers._validation import FloatArray, as_points, unmasked
from fedclust_helpers.federation.data import is_table

TEXTS = (
    (r"[<>]=?\s*[\d.,]+",
     "holds entries such as '<5': put a number in their place by a public rule, half of the limit,"
     " say"),
    (r"[-+]?(\d{1,3}(\.\d{3})+|\d+),\d+",
     "has decimal commas: read the file with decimal=','"),
    (r"[-+]?(\d+\.?\d*|\.\d+)([eE][-+]?\d+)?",
     "holds numbers as text: convert it, with pandas.to_numeric, say"),
)  # fmt: skip
"""How entries of text look (as a whole), and what to do."""


def as_rows(
    X: Any, name: str, *, n_features: int | None = None, of: str = "", gaps: bool = False
) -> FloatArray:
    """An array or table as finite numbers (n, d), in the words that scikit-learn's checks ask for.

    `of` is the estimator that expects `n_features` columns; with `gaps` numbers may be missing.
    """
    shape = tuple(X.shape) if hasattr(X, "shape") else None
    if issparse(X):
        raise TypeError(f"{name} must be a dense array: sparse input is not supported")
    if getattr(X, "dtype", None) is not None and np.dtype(X.dtype).kind == "c":
        raise ValueError(f"{name} must be an array of real numbers: Complex data not supported")
    if shape is not None and len(shape) == 2 and shape[1] == 0:
        raise ValueError(
            f"{name} must have at least one column: 0 feature(s) (shape=({shape[0]}, 0)) while a"
            " minimum of 1 is required."
        )
    if shape is not None and len(shape) == 1:
        raise ValueError(
            f"{name} must have shape (n, d), got 1 dimension(s). Reshape your data: X[None] if it"
            " is one row, X[:, None] if it is one column"
        )
    if gaps:
        known = hasattr(X, "iloc")
        values = X.to_numpy(np.float64, na_value=np.nan) if known else np.array(X, np.float64)
        filled = as_points(np.where(np.isnan(values), 0.0, values), name)
        points = np.where(np.isnan(values), np.nan, filled)
    else:
        points = as_points(X, name)
    if n_features is not None and points.shape[1] != n_features:
        raise ValueError(
            f"{name} must have {n_features} columns: {name} has {points.shape[1]} features, but"
            f" {of} is expecting {n_features} features as input"
        )
    return points


def features(
    table: Any, name: str, *, columns: list[Any] | None = None, drop: Sequence[Any] = (),
    gaps: bool = False,
) -> Any:  # fmt: skip
    """The feature columns of a table, checked one by one; arrays as they are.

    ValueError or TypeError names a column that is missing, does not hold numbers, or has missing
    values (unless `gaps` are allowed).
    """
    if not is_table(table):
        if columns is not None:
            raise ValueError(
                f"{name} must be a table with named columns, since bounds are given by name"
            )
        return table
    own = list(table.columns)
    if len(set(own)) < len(own):
        raise ValueError(f"{name} must have columns of different names")
    wanted = [c for c in own if c not in drop] if columns is None else list(columns)
    if both := [c for c in drop if c in wanted]:
        raise ValueError(f"{both[0]} must not have bounds: it says whose each row is, or its class")
    if missing := [c for c in wanted if c not in own]:
        raise ValueError(
            f"{name} must have the columns {_listed(wanted)}; {_listed(missing)} not. It has"
            f" {_listed(own)}{_meant(missing, own)}"
        )
    if isinstance(table, pd.DataFrame):  # by number: True and False would choose rows
        numbers = {column: i for i, column in enumerate(own)}
        chosen = table.iloc[:, [numbers[column] for column in wanted]]
    else:  # another kind of table
        chosen = pd.DataFrame({c: np.asarray(unmasked(table[c], name)) for c in wanted})
    for i, column in enumerate(wanted):
        values = chosen.iloc[:, i]
        if not pd.api.types.is_numeric_dtype(values.dtype):
            if values.dtype == object and _is_real(values):
                continue
            raise TypeError(
                f"{name} must be an array of real numbers, but column {column!r} is not numeric: it"
                f" {_instead(values)}. If it says whose each row is, name it as clients; else leave"
                " it out"
            )
    if not gaps and (empty := [c for i, c in enumerate(wanted) if chosen.iloc[:, i].isna().any()]):
        raise ValueError(
            f"{name} must have no missing values (nan), but {_listed(empty)} has some: fill them by"
            " a public rule, or missing='drop' leaves such rows out at their client"
        )
    return chosen


def complete(points: FloatArray) -> Any:
    """Which rows (n,) have no missing value."""
    return ~np.isnan(points).any(axis=1)


def _instead(values: Any) -> str:
    """What a column holds that is not numeric, and what to do about it; no value is quoted."""
    if pd.api.types.is_datetime64_any_dtype(values.dtype) or values.dtype.kind in "mM":
        return "holds dates: take the days since a public date"
    texts = [value.strip() for value in values if isinstance(value, str) and value.strip()]
    kinds = [next((k for k, (form, _) in enumerate(TEXTS) if re.fullmatch(form, t)), -1)
             for t in texts]  # fmt: skip
    if texts and kinds.count(-1) <= len(texts) // 2:
        return TEXTS[min(k for k in kinds if k >= 0)][1]
    if texts and sum(map(_is_date, texts[:100])) > len(texts[:100]) // 2:
        return "holds dates as text: take the days since a public date"
    return "holds words or other objects"


def _is_date(text: str) -> bool:
    return re.match(r"\d{1,4}[-/.]\d{1,2}[-/.]\d{1,4}\b", text) is not None


def _meant(missing: Sequence[Any], own: Sequence[Any]) -> str:
    """Names that are close to one that is missing."""
    known = [str(c) for c in own]
    near = {str(m): difflib.get_close_matches(str(m), known, 1) for m in missing}
    said = [f"{found[0]} for {name}" for name, found in near.items() if found]
    return f" (perhaps {', '.join(said)})" if said else ""


def _is_real(column: Any) -> bool:
    try:
        column.astype(np.float64)
    except (TypeError, ValueError):
        return False
    return not any(isinstance(value, str) for value in column)


def _listed(names: Sequence[Any]) -> str:
    names = list(names)
    return ", ".join(map(str, names[:12])) + (f" and {len(names) - 12} more" * (len(names) > 12))
