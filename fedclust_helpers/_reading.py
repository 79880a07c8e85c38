"""What the estimators take as X and y: arrays, tables, lists or mappings of them, client data."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from fedclust_helpers._validation import as_points
from fedclust_helpers.federation import ClientData
from fedclust_helpers.federation.data import is_table


def column_names(X: Any, y: Any) -> list[Any] | None:
    """Names of the feature columns, where X (or its first client) is a table with names."""
    if isinstance(X, Mapping):
        X = next(iter(X.values()), None)
    elif holds_clients(X):
        X = X[0]
    if not is_table(X):
        return None
    names = [name for name in X.columns if not (isinstance(y, str) and name == y)]
    return None if names == list(range(len(names))) else names


def holds_clients(X: Any) -> bool:
    """Whether X is a sequence whose entries are tables of their own."""
    if isinstance(X, np.ndarray) and X.dtype != object:
        return X.ndim == 3
    if not isinstance(X, Sequence | np.ndarray) or isinstance(X, str | bytes) or len(X) == 0:
        return False
    try:
        return np.ndim(X[0]) >= 2
    except ValueError:  # ragged
        return False


def is_one_table(X: Any) -> bool:
    """Whether X is one array, table or list of rows, not clients."""
    return not (isinstance(X, ClientData | Mapping) or holds_clients(X))


def client_data(X: Any, y: Any) -> ClientData:
    """The clients that X, and y beside one table, speak of; errors name X or y."""
    if not is_one_table(X):
        if y is not None:
            raise ValueError("y must not be given beside clients: X says already whose each row is")
        return X if isinstance(X, ClientData) else _named("X", ClientData.from_clients, X)
    if isinstance(X, Sequence) and len(X) == 0:
        raise ValueError("X must hold at least one client, or one row")
    if y is None:
        return ClientData.one_point_each(as_points(X, "X"))
    return _named("X and y", ClientData.from_owners, X, y)


def _named(name: str, build: Callable[..., ClientData], *args: Any) -> ClientData:
    """Build client data; what is wrong is said of the argument of `fit`."""
    try:
        return build(*args)
    except (TypeError, ValueError) as error:
        raise type(error)(f"{name} cannot be read as clients: {error}") from None
