"""What the estimators take: arrays, tables, lists or dicts of them; and whose each row is.

Messages go to whoever holds the rows. They name arguments and columns, and quote no value.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from scipy.sparse import issparse

from fedclust.estimators.columns import as_rows, complete, features
from fedclust_helpers._validation import unmasked
from fedclust_helpers.federation import ClientData
from fedclust_helpers.federation.data import column_names, is_table


class Rows(NamedTuple):
    """The rows of all clients, the names of the columns (None for arrays) and of the clients.

    `n_rows` is their number with those that were left out for a missing value.
    """

    data: ClientData
    columns: list[Any] | None
    clients: list[Any]
    n_rows: int


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
    gaps: bool = False, one_holder: bool = False, raw: bool = False,
) -> Rows:  # fmt: skip
    """The clients that X, and `clients` beside one table, speak of.

    Parameters
    ----------
    X : sequence or mapping of arrays or tables (n_i, d); one array or table (n, d); or ClientData
    clients : the name of a column, or one id for each row, optional
        Beside one table only: whose each row is. Without it every row is a client of its own, or,
        with `one_holder`, one client holds all rows.
    columns : list, optional
        The columns that are features, in this order. By default all but the owners'.
    labels : function, optional
        ``labels(X)`` gives what is no feature: class numbers (n,) of one table, and perhaps the
        name of their column.
    gaps : bool
        Whether rows with a missing value are left out. Every client needs one without.
    raw : bool
        Whether missing values are kept, for what is asked of rows as they are.
    """
    check_rows(X)
    if isinstance(X, ClientData):
        _check_alone(clients)
        if columns is not None:
            raise ValueError("X must be a table with named columns, since bounds are given by name")
        return Rows(X, None, list(range(X.n_clients)), len(X.points))
    if not is_one_table(X):
        _check_alone(clients)
        return _read_each(X, columns, labels, gaps, raw)
    if isinstance(X, Sequence) and len(X) == 0:
        raise ValueError("X must hold at least one client, or one row")
    own, label_column = (None, None) if labels is None else labels(X)
    check_order(X, clients, "clients")
    owner_column = _owner_column(X, clients)
    drop = [column for column in (label_column, owner_column) if column is not None]
    table = features(X, "X", columns=columns, drop=drop, gaps=gaps or raw)
    names = column_names(table)
    points = as_rows(table, "X", gaps=gaps or raw)
    n_rows, codes = len(points), np.zeros(len(points), dtype=np.int64)
    found: list[Any] = [0]
    if clients is not None:
        codes, found = client_codes(clients if owner_column is None else X[owner_column], n_rows)
    if gaps and clients is None and not one_holder:
        raise ValueError(
            "clients must be given with missing='drop': a row that is its own client leaves none"
        )
    if gaps:
        kept = complete(points)
        points, codes, own = points[kept], codes[kept], None if own is None else own[kept]
        _check_left(np.bincount(codes, minlength=len(found)).tolist())
    if clients is None and not one_holder:
        data = ClientData.one_point_each(points, missing=raw)
        if own is not None:
            data = ClientData(points, np.arange(len(points) + 1), own)
        return Rows(data, names, list(range(len(points))), n_rows)
    build = partial(ClientData.from_owners, missing=raw)
    data = _named("X and clients", build, points, codes, own)
    return Rows(data, names, found, n_rows)


def _check_left(sizes: Sequence[int]) -> None:
    """Refuse clients of whom no row is left."""
    if empty := sum(size == 0 for size in sizes):
        raise ValueError(
            f"X must hold a row without missing values of every client, and {empty} of"
            f" {len(sizes)} have none: leave these clients out"
        )


def check_rows(X: Any) -> None:
    """Refuse what holds no rows at all, or rows of which some are masked."""
    offers = any(hasattr(X, name) for name in ("__len__", "__array__", "shape"))
    if not offers and not isinstance(X, ClientData):
        raise TypeError(
            "X must be an array of real numbers (n, d), a table, or a list or dict of them; got"
            f" {type(X).__name__}"
        )
    unmasked(X, "X")


def _read_each(X: Any, columns: list[Any] | None, labels: Any, gaps: bool, raw: bool) -> Rows:
    """Clients with a table each."""
    keys = list(X) if isinstance(X, Mapping) else list(range(len(X)))
    tables, answers, n_rows = [], [], 0
    for key in keys:
        own, drop = (None, None) if labels is None else labels(X[key], key)
        drops = [drop] if drop is not None else []
        table = features(X[key], f"X[{key!r}]", columns=columns, drop=drops, gaps=gaps or raw)
        n_rows += len(table)
        if gaps:
            kept = complete(as_rows(table, f"X[{key!r}]", gaps=True))
            table = table.loc[kept] if hasattr(table, "iloc") else np.asarray(table)[kept]
            own = None if own is None else own[kept]
        tables.append(table)
        answers.append(own)
    if gaps:
        _check_left([len(table) for table in tables])
    data = _named(
        "X", partial(ClientData.from_clients, missing=raw), dict(zip(keys, tables, strict=True)),
        None if labels is None else dict(zip(keys, answers, strict=True)),
    )  # fmt: skip
    return Rows(data, column_names(tables[0]) if tables else None, keys, n_rows)


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
    if np.shape(ids if hasattr(ids, "shape") else np.asarray(ids, dtype=object)) != (n_rows,):
        raise ValueError(wrong)
    values = list(ids)
    try:
        gaps = any(map(_is_gap, values))
        names = dict.fromkeys(values)
    except (TypeError, ValueError):
        raise ValueError(f"{wrong}: numbers, names, dates or others that can be compared") from None
    if gaps:
        raise ValueError(f"{wrong}, none of them missing")
    try:
        found = sorted(names)
    except TypeError:  # of several kinds
        found = sorted(names, key=lambda value: (type(value).__name__, str(value)))
    numbers = {name: i for i, name in enumerate(found)}
    return np.array([numbers[value] for value in values], dtype=np.int64), found


def _is_gap(value: Any) -> bool:
    """Whether this is None, or one of the values that are not themselves (nan, NaT, NA)."""
    try:
        return value is None or bool(value != value)
    except TypeError:  # pandas.NA has no truth
        return True


def check_order(X: Any, each: Any, name: str) -> None:
    """Refuse one Series or table beside another that has the same rows in another order."""
    if not all(hasattr(one, "iloc") for one in (X, each)) or X.index.equals(each.index):
        return
    if len(X) == len(each) and X.index.isin(each.index).all() and each.index.isin(X.index).all():
        raise ValueError(
            f"{name} must be in the order of the rows of X, and its index has them in another:"
            f" take {name}.loc[X.index], or {name}.to_numpy() if its order is right"
        )


def _named(name: str, build: Callable[..., ClientData], *args: Any) -> ClientData:
    """Build client data; what is wrong is said of the argument of `fit`."""
    try:
        return build(*args)
    except (TypeError, ValueError) as error:
        raise type(error)(f"{name} cannot be read as clients: {error}") from None
