"""What the estimators take: arrays, tables, lists or dicts of them; and whose each row is.

Messages go to whoever holds the rows. They name arguments and columns, and quote no value.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from scipy.sparse import issparse

from fedclust_helpers._lazy import pd
from fedclust_helpers._validation import FloatArray, as_points, unmasked
from fedclust_helpers.federation import ClientData
from fedclust_helpers.federation.data import column_names, is_table


class Rows(NamedTuple):
    """The rows of all clients, the names of the columns (None for arrays) and of the clients."""

    data: ClientData
    columns: list[Any] | None
    clients: list[Any]


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
    return issparse(X) or not (isinstance(X, ClientData | Mapping) or holds_clients(X))


def read_rows(
    X: Any, clients: Any = None, *, columns: list[Any] | None = None, labels: Any = None,
    missing: bool = False,
) -> Rows:  # fmt: skip
    """The clients that X, and `clients` beside one table, speak of.

    Parameters
    ----------
    X : sequence or mapping of arrays or tables (n_i, d); one array or table (n, d); or ClientData
    clients : the name of a column, or one id for each row, optional
        Beside one table only: whose each row is. Without it every row is a client of its own.
    columns : list, optional
        The columns that are features, in this order. By default all but the owners'.
    labels : function, optional
        ``labels(X)`` gives what is no feature: class numbers (n,) of one table, and perhaps the
        name of their column.
    missing : bool
        Whether numbers may be missing (nan): for rows that are described as they are.
    """
    check_rows(X)
    if isinstance(X, ClientData):
        _check_alone(clients)
        if columns is not None:
            raise ValueError("X must be a table with named columns, since bounds are given by name")
        return Rows(X, None, list(range(X.n_clients)))
    if not is_one_table(X):
        _check_alone(clients)
        return _read_each(X, columns, labels, missing)
    if isinstance(X, Sequence) and len(X) == 0:
        raise ValueError("X must hold at least one client, or one row")
    own, label_column = (None, None) if labels is None else labels(X)
    check_order(X, clients, "clients")
    drop = [label_column] if label_column is not None else []
    owner_column = _owner_column(X, clients)
    ids = clients if owner_column is None else X[owner_column]
    if owner_column is not None:
        drop.append(owner_column)
    table = features(X, "X", columns=columns, drop=drop, missing=missing)
    names = column_names(table)
    table = as_rows(table, "X", missing=missing)
    if clients is None:
        points = table
        data = ClientData.one_point_each(points, missing=missing)
        if own is not None:
            data = ClientData(points, np.arange(len(points) + 1), own)
        return Rows(data, names, list(range(len(points))))
    codes, found = client_codes(ids, len(table))
    build = partial(ClientData.from_owners, missing=missing)
    data = _named("X and clients", build, table, codes, own)
    return Rows(data, names, found)


def check_rows(X: Any) -> None:
    """Refuse what holds no rows at all, or rows of which some are masked."""
    offers = any(hasattr(X, name) for name in ("__len__", "__array__", "shape"))
    if not offers and not isinstance(X, ClientData):
        raise TypeError(
            "X must be an array of real numbers (n, d), a table, or a list or dict of them; got"
            f" {type(X).__name__}"
        )
    unmasked(X, "X")


def _read_each(X: Any, columns: list[Any] | None, labels: Any, missing: bool) -> Rows:
    """Clients with a table each."""
    keys = list(X) if isinstance(X, Mapping) else list(range(len(X)))
    tables, answers = [], []
    for key in keys:
        own, drop = (None, None) if labels is None else labels(X[key], key)
        answers.append(own)
        drops = [drop] if drop is not None else []
        how: Any = {"columns": columns, "drop": drops, "missing": missing}
        tables.append(features(X[key], f"X[{key!r}]", **how))
    build = partial(ClientData.from_clients, missing=missing)
    data = _named(
        "X", build, dict(zip(keys, tables, strict=True)),
        None if labels is None else dict(zip(keys, answers, strict=True)),
    )  # fmt: skip
    return Rows(data, column_names(tables[0]) if tables else None, keys)


def _check_alone(clients: Any) -> None:
    if clients is not None:
        raise ValueError(
            "clients must not be given beside clients: X says already whose each row is"
        )


def _owner_column(X: Any, clients: Any) -> Any:
    """The column that `clients` names, or None where it is an array of ids."""
    if clients is None or (np.ndim(clients) > 0 and not isinstance(clients, tuple)):
        return None
    if isinstance(clients, tuple) and not (is_table(X) and clients in list(X.columns)):
        return None
    if not is_table(X) or clients not in list(X.columns):
        raise ValueError("clients must be one id for each row of X, or the name of a column of X")
    return clients


def client_codes(ids: Any, n_rows: int) -> tuple[np.ndarray, list[Any]]:
    """Client number of each row, and the ids by number: in ascending order where they have one."""
    wrong = f"clients must be {n_rows} ids, one for each row"
    unmasked(ids, "clients")
    try:
        values = ids if isinstance(ids, pd.Series | pd.Index) else pd.Series(_flat(ids))
        codes, found = pd.factorize(values, sort=True)
    except (TypeError, ValueError):
        raise ValueError(f"{wrong}: numbers, names, dates or others that can be compared") from None
    if codes.shape != (n_rows,):
        raise ValueError(wrong)
    if (codes < 0).any():
        raise ValueError(f"{wrong}, none of them missing")
    return codes.astype(np.int64), list(found)


def _flat(ids: Any) -> Any:
    """Ids as a list: integers beyond 64 bits stay what they are."""
    array = ids if isinstance(ids, np.ndarray) else np.asarray(ids, dtype=object)
    if array.ndim != 1:
        raise ValueError
    return list(array)


def check_order(X: Any, each: Any, name: str) -> None:
    """Refuse one Series or table beside another that has the same rows in another order."""
    if not all(hasattr(one, "iloc") for one in (X, each)) or X.index.equals(each.index):
        return
    if len(X) == len(each) and X.index.isin(each.index).all() and each.index.isin(X.index).all():
        raise ValueError(
            f"{name} must be in the order of the rows of X, and its index has them in another:"
            f" take {name}.loc[X.index], or {name}.to_numpy() if its order is right"
        )


def as_rows(
    X: Any, name: str, *, n_features: int | None = None, of: str = "", missing: bool = False
) -> FloatArray:
    """An array or table as finite numbers (n, d), in the words that scikit-learn's checks ask for.

    `of` is the estimator that expects `n_features` columns. Numbers may be `missing`: `ClientData`
    looks at the others then.
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
    points = as_points(X, name, finite=not missing)
    if n_features is not None and points.shape[1] != n_features:
        raise ValueError(
            f"{name} must have {n_features} columns: {name} has {points.shape[1]} features, but"
            f" {of} is expecting {n_features} features as input"
        )
    return points


# --- columns --------------------------------------------------------------------------------------


def features(
    table: Any, name: str, *, columns: list[Any] | None = None, drop: Sequence[Any] = (),
    missing: bool = False,
) -> Any:  # fmt: skip
    """The feature columns of a table, checked one by one; arrays as they are.

    ValueError names a column that is not there, is not numeric, or has values missing unless these
    may be `missing`.
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
    if absent := [c for c in wanted if c not in own]:
        raise ValueError(f"{name} must have the columns {_listed(wanted)}; {_listed(absent)} not")
    if isinstance(table, pd.DataFrame):  # by number: True and False would choose rows
        numbers = {column: i for i, column in enumerate(own)}
        chosen = table.iloc[:, [numbers[column] for column in wanted]]
    else:  # another kind of table
        chosen = pd.DataFrame({c: np.asarray(unmasked(table[c], name)) for c in wanted})
    for column in wanted:
        if not pd.api.types.is_numeric_dtype(chosen[column].dtype):
            if chosen[column].dtype == object and _is_real(chosen[column]):
                continue
            raise TypeError(
                f"{name} must be an array of real numbers, but column {column!r} is not numeric: if"
                " it says whose each row is, name it as clients; else leave it out"
            )
    gaps = [c for c in wanted if chosen[c].isna().any()]
    if missing and gaps:  # also where a column of objects has None
        chosen = chosen.astype(np.float64)
    elif gaps:
        raise ValueError(
            f"{name} must have no missing values (nan), but {_listed(gaps)} has some: fill them by"
            " a public rule, or leave such rows out, before the fit"
        )
    return chosen


def _is_real(column: Any) -> bool:
    try:
        column.astype(np.float64)
    except (TypeError, ValueError):
        return False
    return not any(isinstance(value, str) for value in column)


def _listed(names: Sequence[Any]) -> str:
    return ", ".join(map(str, names))


def _named(name: str, build: Callable[..., ClientData], *args: Any) -> ClientData:
    """Build client data; what is wrong is said of the argument of `fit`."""
    try:
        return build(*args)
    except (TypeError, ValueError) as error:
        raise type(error)(f"{name} cannot be read as clients: {error}") from None
