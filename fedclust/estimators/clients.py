"""Whose each row is: tables, lists or dicts of them, ids beside one table.

Messages go to whoever holds the rows. They name arguments and columns, and quote no value.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from decimal import Decimal
from typing import Any, NamedTuple

import numpy as np
from scipy.sparse import issparse

from fedclust.frames import PROTOCOLS, are_numbers, find, names_of, series_of, table_of
from fedclust.tables import is_missing, read_numbers, said_of_names
from fedclust_helpers._index import bincount, repeat
from fedclust_helpers._validation import FloatArray, unmasked
from fedclust_helpers.federation import ClientData


class Rows(NamedTuple):
    """The rows of all clients, the names of the columns (None for arrays) and of the clients.

    `n_rows` is their number with those that were left out for a missing value. `named` is what a
    message may call the clients: entries of X, but no ids of owners.
    """

    data: ClientData
    columns: list[Any] | None
    clients: list[Any]
    n_rows: int
    named: tuple[str, ...] = ()


def holds_clients(X: Any) -> bool:
    """Whether X is a sequence whose entries are tables of their own."""
    if isinstance(X, memoryview) or (isinstance(X, np.ndarray) and X.dtype != object):
        return np.ndim(X) == 3
    if not isinstance(X, Sequence | np.ndarray) or isinstance(X, str | bytes) or len(X) == 0:
        return False
    try:
        first: Any = X[0]
        return names_of(first) is not None or np.ndim(first) >= 2
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
    if one := is_one_table(X):
        X = table_of(X)
    elif isinstance(X, Mapping):
        X = {key: table_of(table) for key, table in X.items()}
    elif not isinstance(X, ClientData):
        X = [table_of(table) for table in X]
    check_rows(X, x)
    if clients is not None and not one:
        raise ValueError(
            f"{c} must not be given beside clients: {x} says already whose each row is"
        )
    if isinstance(X, ClientData):
        if columns is not None and list(columns) != list(range(X.n_features)):
            raise ValueError(
                f"{x} must be a table with named columns, since bounds are given by name"
            )
        return Rows(X, None, list(range(X.n_clients)), len(X.points))
    if isinstance(X, Sequence | Mapping) and len(X) == 0:
        raise ValueError(f"{x} must hold at least one client, or one row")
    if one and clients is None and not one_holder and missing == "drop":
        raise ValueError(
            f"{c} must be given with missing='drop': a row that is its own client leaves none"
        )
    clients, owner_column = owners_of(X, clients, names)
    found: list[Any] = list(X) if isinstance(X, Mapping) else list(range(1 if one else len(X)))
    if isinstance(X, Mapping) and not one:
        check_apart(found, f"the names of the clients in {x}")
    each, answers, wanted = list[FloatArray](), list[Any](), columns
    for key in found:
        name, table, at = (x, X, []) if one else (f"{x}[{key!r}]", X[key], [key])
        own, label_column = (None, None) if labels is None else labels(table, *at)
        drop = [column for column in (label_column, owner_column) if column is not None]
        if wanted is not None and columns is None:
            ours = names_of(table)
            same = are_numbers(wanted) if ours is None else {*wanted} == {*ours} - {*drop}
            if not same:
                raise ValueError(f"{name} must have the same columns as {x}[{found[0]!r}]")
        points, wanted = read_numbers(
            table, name, columns=wanted, drop=drop, gaps=missing != "raise"
        )
        each.append(points)
        answers.append(own)
    points = np.concatenate(each)
    answer = None if answers[0] is None else np.concatenate(answers)
    codes, n_rows = repeat(np.arange(len(each)), [len(rows) for rows in each]), len(points)
    if clients is not None:
        codes, found = client_codes(clients, n_rows, c)
    elif one and not one_holder:
        codes, found = np.arange(n_rows), list(range(n_rows))
    if missing == "drop":
        kept = ~np.isnan(points).any(axis=1)
        points, codes, answer = points[kept], codes[kept], None if answer is None else answer[kept]
    if empty := int((bincount(codes, minlength=len(found)) == 0).sum()):
        raise ValueError(
            f"{x} must hold a row without missing values of every client, and {empty} of"
            f" {len(found)} have none: leave these clients out"
        )
    data = ClientData.from_owners(points, codes, answer, missing=missing == "keep")
    named = () if one else tuple(f"{x}[{key!r}]" for key in found)
    return Rows(data, None if are_numbers(wanted or ()) else wanted, found, n_rows, named)


def check_rows(X: Any, x: str = "X") -> None:
    """Refuse what holds no rows at all, or rows of which some are masked."""
    pairs = isinstance(X, list) and len(X) > 0 and isinstance(X[0], tuple) and len(X[0]) == 2
    if hasattr(X, "get_group") or (pairs and names_of(X[0][1]) is not None):
        raise TypeError(
            f"{x} must be a table, or a list or dict of them, one for each client: of groups make"
            " dict(list(groups))"
        )
    offers = any(hasattr(X, name) for name in ("__len__", "__array__", "shape", *PROTOCOLS))
    if not offers and not isinstance(X, ClientData):
        raise TypeError(
            f"{x} must be an array of real numbers (n, d), a table, or a list or dict of them; got"
            f" {type(X).__name__}"
        )
    unmasked(X, x)


def owners_of(X: Any, clients: Any, names: tuple[str, str] = ("X", "clients")) -> tuple[Any, Any]:
    """The ids that `clients` gives or names, and the column that it names, or None."""
    clients, (x, c) = series_of(clients), names
    check_order(X, clients, c, x)
    if clients is None or (np.ndim(clients) > 0 and not isinstance(clients, tuple)):
        return clients, None
    own = names_of(X)
    with suppress(TypeError):  # an expression of polars compares to no truth
        if own is not None and (at := find(own, clients)) is not None:
            return X[own[at]], own[at]
    if isinstance(clients, tuple):
        return clients, None
    known = "It is an array without names" if own is None else said_of_names(own, [clients])
    raise ValueError(
        f"{c} must be one id for each row of {x}, or the name of a column of {x}. {known}"
    )


def client_codes(ids: Any, n_rows: int, name: str = "clients") -> tuple[np.ndarray, list[Any]]:
    """Client number of each row, and the ids by number: in ascending order where they have one."""
    wrong = f"{name} must be {n_rows} ids, one for each row"
    unmasked(ids, name)
    ids = series_of(ids)
    ids = ids if hasattr(ids, "shape") else np.asarray(ids, dtype=object)
    if np.shape(ids) != (n_rows,):
        raise ValueError(wrong)
    values = list(ids)
    names: dict[Any, None] | None = None
    with suppress(TypeError, ValueError):  # a list, a signalling NaN
        names = dict.fromkeys(values)
    if names is None or any(map(is_missing, names)):
        raise ValueError(f"{wrong}: numbers, names or dates, none of them missing")
    check_apart(names, name)
    try:
        found = sorted(names)
    except TypeError:  # of several kinds
        found = sorted(names, key=lambda value: (type(value).__name__, str(value)))
    numbers = {name: i for i, name in enumerate(found)}
    return np.fromiter(map(numbers.__getitem__, values), np.int64, n_rows), found


def check_apart(ids: Iterable[Any], name: str) -> None:
    """Refuse ids that may give one owner two names, or two owners one: each would be misprotected.

    What is protected is one owner, so nothing is guessed here. Ids are not quoted.
    """
    different = dict.fromkeys(ids)
    kinds = set(map(type, different))
    if kinds <= {int} or kinds <= {np.int64}:
        return
    for each in different:
        if isinstance(each, float | np.floating) and abs(each) >= 2.0 * 2 ** np.finfo(each).nmant:
            raise ValueError(
                f"{name} must be ids that are exact: floats of this size stand for several whole"
                " numbers each. Read the column as text or as whole numbers"
            )
        if isinstance(each, str) and re.fullmatch(r"\s*\d(\.\d+)?[eE]\+\d+\s*", each):
            raise ValueError(
                f"{name} must be ids that are exact: some are text like a rounded number with an"
                " exponent, as spreadsheets write long ones. Export the column as text"
            )
    same: dict[Any, list[Any]] = {}
    for each in different:
        same.setdefault(_bare(each), []).append(each)
    if any(word in same for word in _NO_OWNER):
        raise ValueError(
            f"{name} must be ids, none of them missing: some are an empty text, or the text that"
            " stands for a missing value (as None becomes where a column is made text)"
        )
    if twice := [each for each in same.values() if len(each) > 1]:
        texts = all(isinstance(one, str) for each in twice for one in each)
        what = (
            "blanks, signs that are not seen, or the form of letters and numbers"
            if texts
            else "kind (as 1 and '1')"
        )
        raise ValueError(
            f"{name} must give each owner one id: some differ in {what} only, and would count as"
            " two owners, each protected by itself. Write each owner in one way"
        )


_NO_OWNER = {"", "nan", "None", "<NA>", "NaT", "NaN", "null", "NULL", "N/A", "#N/A"}
_PLAIN = re.compile(r"[A-Za-z0-9_-]+(?: [A-Za-z0-9_-]+)*")
_UNSEEN = (  # signs that take no place and no ink, beside controls and formats
    "\u034f\u115f\u1160\u17b4\u17b5\u180b-\u180d\u180f\u2800\u3164\ufe00-\ufe0f\uffa0"
)


def _bare(value: Any) -> Any:
    """An id without what is not seen of it: kind, blanks around it, the form of its letters."""
    if isinstance(value, str) and _PLAIN.fullmatch(value):
        return value
    if isinstance(value, tuple):
        return tuple(map(_bare, value))
    if isinstance(value, bytes):
        value = value.decode("utf-8", "replace")
    if isinstance(value, float | np.floating | Decimal) and value % 1 == 0:
        value = int(value)
    text = unicodedata.normalize("NFKC", re.sub(f"[{_UNSEEN}]", "", str(value)))
    seen = "".join(c for c in text if unicodedata.category(c) not in ("Cf", "Cc") or c.isspace())
    words = " ".join(seen.split())
    return re.sub(r"(?<=\d)\.0+$|(?<=\d)[T ]00:00:00(\.0+)?$", "", words)


def check_order(X: Any, each: Any, name: str, x: str = "X") -> None:
    """Refuse one Series or table beside another whose index is another: rows must be the same."""
    if not all(hasattr(one, "iloc") for one in (X, each)) or X.index.equals(each.index):
        return
    raise ValueError(
        f"{name} must have the rows of {x}, and its index has others, or in another order: take"
        f" {name}.loc[{x}.index], or {name}.to_numpy() if row i of one is that of the other"
    )
