"""What the estimators take: arrays, tables, lists or dicts of them; and whose each row is.

Messages go to whoever holds the rows. They name arguments and columns, and quote no value.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from scipy.sparse import issparse

from fedclust_helpers._lazy import pd
from fedclust_helpers._validation import FloatArray, as_points, unmasked
from fedclust_helpers.federation import ClientData
from fedclust_helpers.federation.data import column_names, is_table

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


# --- rows and their owners ------------------------------------------------------------------------


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
    missing: str = "raise", one_holder: bool = False, names: tuple[str, str] = ("X", "clients"),
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
    missing : {"raise", "drop", "keep"}
        What happens to rows with a missing value: they are refused, left out (every client needs
        one without), or kept for what is asked of rows as they are.
    names : pair of str
        What the caller calls `X` and `clients`.
    """
    x, c = names
    gaps, raw = missing == "drop", missing == "keep"
    check_rows(X, x)
    if isinstance(X, ClientData) or not is_one_table(X):
        if clients is not None:
            raise ValueError(
                f"{c} must not be given beside clients: {x} says already whose each row is"
            )
    if isinstance(X, ClientData):
        if columns is not None:
            raise ValueError(
                f"{x} must be a table with named columns, since bounds are given by name"
            )
        return Rows(X, None, list(range(X.n_clients)), len(X.points))
    if not is_one_table(X):
        return _read_each(X, columns, labels, gaps, raw, x)
    if isinstance(X, Sequence) and len(X) == 0:
        raise ValueError(f"{x} must hold at least one client, or one row")
    own, label_column = (None, None) if labels is None else labels(X)
    check_order(X, clients, c, x)
    owner_column = _owner_column(X, clients, names)
    drop = [column for column in (label_column, owner_column) if column is not None]
    table = features(X, x, columns=columns, drop=drop, gaps=gaps or raw)
    points = as_rows(table, x, gaps=gaps or raw)
    n_rows, codes = len(points), np.zeros(len(points), dtype=np.int64)
    found: list[Any] = [0]
    if clients is not None:
        ids = clients if owner_column is None else X[owner_column]
        codes, found = client_codes(ids, n_rows, c)
    if gaps and clients is None and not one_holder:
        raise ValueError(
            f"{c} must be given with missing='drop': a row that is its own client leaves none"
        )
    if gaps:
        kept = complete(points)
        points, codes, own = points[kept], codes[kept], None if own is None else own[kept]
        _check_left(np.bincount(codes, minlength=len(found)).tolist(), x)
    if clients is None and not one_holder:
        data = ClientData.one_point_each(points, missing=raw)
        if own is not None:
            data = ClientData(points, np.arange(len(points) + 1), own)
        return Rows(data, column_names(table), list(range(len(points))), n_rows)
    build = partial(ClientData.from_owners, missing=raw)
    data = _named(f"{x} and {c}", build, points, codes, own)
    return Rows(data, column_names(table), found, n_rows)


def _check_left(sizes: Sequence[int], x: str) -> None:
    """Refuse clients of whom no row is left."""
    if empty := sum(size == 0 for size in sizes):
        raise ValueError(
            f"{x} must hold a row without missing values of every client, and {empty} of"
            f" {len(sizes)} have none: leave these clients out"
        )


def check_rows(X: Any, x: str = "X") -> None:
    """Refuse what holds no rows at all, or rows of which some are masked."""
    offers = any(hasattr(X, name) for name in ("__len__", "__array__", "shape"))
    if not offers and not isinstance(X, ClientData):
        raise TypeError(
            f"{x} must be an array of real numbers (n, d), a table, or a list or dict of them; got"
            f" {type(X).__name__}"
        )
    unmasked(X, x)


def _read_each(
    X: Any, columns: list[Any] | None, labels: Any, gaps: bool, raw: bool, x: str
) -> Rows:  # fmt: skip
    """Clients with a table each."""
    keys = list(X) if isinstance(X, Mapping) else list(range(len(X)))
    tables, answers, n_rows = [], [], 0
    for key in keys:
        own, drop = (None, None) if labels is None else labels(X[key], key)
        drops = [drop] if drop is not None else []
        table = features(X[key], f"{x}[{key!r}]", columns=columns, drop=drops, gaps=gaps or raw)
        n_rows += len(table)
        if gaps:
            kept = complete(as_rows(table, f"{x}[{key!r}]", gaps=True))
            table = table.loc[kept] if hasattr(table, "iloc") else np.asarray(table)[kept]
            own = None if own is None else own[kept]
        tables.append(table)
        answers.append(own)
    if gaps:
        _check_left([len(table) for table in tables], x)
    data = _named(
        x, partial(ClientData.from_clients, missing=raw), dict(zip(keys, tables, strict=True)),
        None if labels is None else dict(zip(keys, answers, strict=True)),
    )  # fmt: skip
    return Rows(data, column_names(tables[0]) if tables else None, keys, n_rows)


def _owner_column(X: Any, clients: Any, names: tuple[str, str]) -> Any:
    """The column that `clients` names, or None where it is an array of ids."""
    if clients is None or (np.ndim(clients) > 0 and not isinstance(clients, tuple)):
        return None
    if isinstance(clients, tuple) and not (is_table(X) and clients in list(X.columns)):
        return None
    if not is_table(X) or clients not in list(X.columns):
        x, c = names
        raise ValueError(f"{c} must be one id for each row of {x}, or the name of a column of {x}")
    return clients


def client_codes(ids: Any, n_rows: int, name: str = "clients") -> tuple[np.ndarray, list[Any]]:
    """Client number of each row, and the ids by number: in ascending order where they have one."""
    wrong = f"{name} must be {n_rows} ids, one for each row"
    unmasked(ids, name)
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


def check_order(X: Any, each: Any, name: str, x: str = "X") -> None:
    """Refuse one Series or table beside another that has the same rows in another order."""
    if not all(hasattr(one, "iloc") for one in (X, each)) or X.index.equals(each.index):
        return
    if len(X) == len(each) and X.index.isin(each.index).all() and each.index.isin(X.index).all():
        raise ValueError(
            f"{name} must be in the order of the rows of {x}, and its index has them in another:"
            f" take {name}.loc[{x}.index], or {name}.to_numpy() if its order is right"
        )


def _named(name: str, build: Callable[..., ClientData], *args: Any) -> ClientData:
    """Build client data; what is wrong is said of the argument of `fit`."""
    try:
        return build(*args)
    except (TypeError, ValueError) as error:
        raise type(error)(f"{name} cannot be read as clients: {error}") from None
