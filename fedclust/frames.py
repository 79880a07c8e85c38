"""Tables of all libraries: with their rows at hand, and by the names of their columns.

>>> import pandas as pd
>>> names_of(pd.DataFrame({"age": [40], "length": [1.8]}))
['age', 'length']
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import Any

import numpy as np

from fedclust_helpers._lazy import imported, pd

PROTOCOLS = ("__arrow_c_stream__", "__dataframe__")
"""Ways of handing tables from one library to another."""


def table_of(X: Any) -> Any:
    """A table of whatever library as one that has its rows at hand; other things as they are."""
    if hasattr(X, "collect_schema") and hasattr(X, "collect"):  # polars, lazy
        return X.collect()
    if isinstance(X, np.ndarray) or hasattr(X, "column_names") or not hasattr(X, "columns"):
        return X
    if hasattr(X, "compute"):  # dask
        return X.compute()
    if hasattr(X, "to_numpy"):  # pandas, polars
        return X
    if hasattr(X, "__arrow_c_stream__"):
        return imported("pyarrow").table(X)
    if hasattr(X, "__dataframe__"):
        with warnings.catch_warnings():  # pandas will drop it one day, for Arrow's
            warnings.simplefilter("ignore")
            return pd.api.interchange.from_dataframe(X)
    return X


def series_of(values: Any) -> Any:
    """One column of whatever library, with its values at hand; other things as they are."""
    if hasattr(values, "compute"):  # dask
        return values.compute()
    if hasattr(values, "to_pylist"):  # Arrow, whose missing values are equal to themselves
        return np.fromiter(values.to_pylist(), dtype=object, count=len(values))
    return values


def names_of(X: Any) -> list[Any] | None:
    """The names of the columns of a table; None for an array, where they are 0, 1, ..."""
    if isinstance(X, np.ndarray):
        return None if X.dtype.names is None else list(X.dtype.names)
    if hasattr(X, "column_names"):  # Arrow
        return list(X.column_names)
    if hasattr(X, "collect_schema"):  # polars
        return list(X.collect_schema().names())
    if any(hasattr(X, how) for how in ("to_numpy", "compute", *PROTOCOLS)):
        return list(X.columns) if hasattr(X, "columns") else None
    return None


def find(names: Sequence[Any], name: Any) -> int | None:
    """The place of a name among these, or None: True is not 1 here."""
    truth = bool | np.bool_
    for i, other in enumerate(names):
        if (other is name or other == name) and isinstance(other, truth) == isinstance(name, truth):
            return i
    return None


def are_numbers(names: Sequence[Any]) -> bool:
    """Whether these are the names 0, 1, ... of an array; True and False are others."""
    numbered = list(names) == list(range(len(names)))
    return numbered and not any(isinstance(name, bool | np.bool_) for name in names)


def as_word(name: Any) -> Any:
    """The name of a column as JSON keeps it."""
    if isinstance(name, np.generic):
        name = name.item()
    return name if isinstance(name, int | str) and not isinstance(name, bool) else str(name)


def take(X: Any, rows: Any) -> Any:
    """These rows of a table or array, by number."""
    X = table_of(X)
    if names_of(X) is None:
        return np.asarray(X)[rows]
    if hasattr(X, "iloc"):
        return X.iloc[rows].reset_index(drop=True)
    return X.take(rows) if hasattr(X, "take") else X[rows]
