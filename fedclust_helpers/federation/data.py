"""The data of all clients, stacked: two hospitals and a million phones look the same."""

from __future__ import annotations

import sys
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import InitVar, dataclass
from numbers import Integral
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from fedclust_helpers._index import bincount, repeat, take
from fedclust_helpers._validation import (
    FloatArray,
    IntArray,
    as_integers,
    as_points,
    check_bool,
    check_int,
    check_positive,
    unmasked,
)
from fedclust_helpers.datasets import scale_to_box

SMALLEST_BOUND, LARGEST_BOUND = 1e-300, 1e300
"""Bounds beyond these leave no room to round a clipped row into the box or ball."""
_BLOCK = 65_536  # entries worked on at a time, so that no second copy of all rows is made
_PLAIN = (1e-280, 1e280)  # squared lengths in between neither overflowed nor lost digits
_HAIR = 1 - 1e-12  # clipped rows lie this far inside, so that rounding cannot leave one outside


class ClippedDataWarning(UserWarning):
    """Most rows lay outside the public bounds and were moved: a diagnostic of the clients alone."""


@dataclass(frozen=True, eq=False, repr=False)
class ClientData:
    """Rows of all clients in one array: client i owns ``points[offsets[i]:offsets[i+1]]``.

    The arrays are read-only copies: changing yours afterwards changes nothing here. What is wrong
    is said by a TypeError or ValueError that names the argument, never with a value of the data.

    `points` (N, d) are finite; `offsets` (M + 1,) are 0, then the number of rows of the first 1, 2,
    ..., M clients; `labels` (N,) are class numbers 0, 1, ... of labelled examples. ``copy=False``
    keeps a view of a float64 array of rows, to save the memory of large data. **Do not change that
    array then**: rows were clipped and checked only once. With ``missing=True`` numbers may be
    missing (nan): such data are for a federation of rows as they are, ``domain="raw"``, alone.

    Examples
    --------
    >>> ClientData([[0.1, 0.2], [0.3, 0.4], [0.5, 0.6]], [0, 2, 3])
    ClientData(n_clients=2, n_features=2)
    """

    points: FloatArray
    offsets: IntArray
    labels: IntArray | None = None
    copy: InitVar[bool] = True
    missing: InitVar[bool] = False

    def __post_init__(self, copy: bool, missing: bool) -> None:
        points = _rows(self.points, "points", copy=check_bool(copy, "copy"), missing=missing)
        offsets = as_integers(self.offsets, "offsets").copy()
        if len(offsets) < 2 or offsets[0] != 0 or offsets[-1] != len(points):
            raise ValueError("offsets must run from 0 to the number of rows")
        if (offsets[1:] <= offsets[:-1]).any():
            raise ValueError("offsets must give every client at least one row (empty client)")
        self._set(points, offsets, _as_labels(self.labels, len(points)), ours=copy)

    def _set(
        self, points: FloatArray, offsets: IntArray, labels: IntArray | None, *, ours: bool
    ) -> None:
        """Keep these arrays, read-only; the rows for everybody if the array is ours."""
        object.__setattr__(self, "points", _frozen(points, ours=ours))
        object.__setattr__(self, "offsets", _frozen(offsets))
        object.__setattr__(self, "labels", None if labels is None else _frozen(labels))

    def __setstate__(self, state: dict[str, Any]) -> None:
        # a pickle forgets that its arrays were read-only
        self._set(state["points"], state["offsets"], state["labels"], ours=True)

    def __repr__(self) -> str:
        labelled = "" if self.labels is None else ", labelled"
        return f"ClientData(n_clients={self.n_clients}, n_features={self.n_features}{labelled})"

    @classmethod
    def from_clients(
        cls,
        clients: Sequence[ArrayLike] | Mapping[Any, ArrayLike],
        labels: Sequence[ArrayLike] | Mapping[Any, ArrayLike] | None = None,
        *,
        missing: bool = False,
    ) -> ClientData:
        """Stack one array or DataFrame of shape (n_i, d), and one of labels (n_i,), per client.

        A mapping gives names to clients; they are numbered in its order, and labels, if any, have
        the same keys. DataFrames must have the same columns, which are put into the order of the
        first one. `missing` as for the class.
        """
        if getattr(clients, "ndim", None) == 2 or is_table(clients):
            raise ValueError(
                "clients must be a sequence of arrays, one per client; for one stacked array or"
                " table give the owner of each row to ClientData.from_owners"
            )
        keys = list(clients) if isinstance(clients, Mapping) else None
        tables = _as_list(clients, "clients", keys)
        if not tables:
            raise ValueError("clients must hold at least one client")
        names = [f"clients[{key!r}]" for key in (range(len(tables)) if keys is None else keys)]
        tables = _aligned(tables, names)
        first = _rows(tables[0], names[0], copy=False, missing=missing)
        arrays = [first]
        for table, name in zip(tables[1:], names[1:], strict=True):
            arrays.append(
                _rows(table, name, copy=False, n_features=first.shape[1], missing=missing)
            )
        stacked = None
        if labels is not None:
            own = unmasked(_as_list(labels, "labels", keys), "labels")
            if [np.shape(each) for each in own] != [(len(a),) for a in arrays]:
                raise ValueError("labels must hold one array for each client, one label per row")
            stacked = np.concatenate([np.asarray(each) for each in own])
        points = np.concatenate(arrays)
        offsets = np.cumsum([0] + [len(a) for a in arrays])
        return _unchecked(points, offsets, _as_labels(stacked, len(points)))

    @classmethod
    def from_owners(
        cls, points: ArrayLike, owners: ArrayLike | str, labels: ArrayLike | None = None, *,
        missing: bool = False,
    ) -> ClientData:  # fmt: skip
        """Stack rows (N, d) by owner; clients are the different owners, in ascending order.

        `owners` (N,) says whose row it is: a number of any size, or a name. With a DataFrame also
        the name of the column that says so; the other columns are the features then. `missing` as
        for the class.
        """
        if isinstance(owners, str):
            if not is_table(points) or owners not in list(points.columns):  # type: ignore[union-attr]
                raise ValueError(
                    "owners must be one owner for each row, or a column of a DataFrame"
                )
            column = points[owners]  # type: ignore[index,call-overload]
            if getattr(column, "ndim", 1) != 1:
                raise ValueError("owners must name one column, but several have that name")
            points, owners = points.drop(columns=owners), column  # type: ignore[union-attr]
        rows = _rows(points, "points", copy=False, missing=missing)
        codes, sizes = _numbered(owners, len(rows))
        small = codes.astype(np.uint16) if len(sizes) <= 2**16 else codes  # a faster stable sort
        order = np.argsort(small, kind="stable")
        sorted_labels = _as_labels(labels, len(rows))
        if sorted_labels is not None:
            sorted_labels = sorted_labels[order]
        offsets = np.concatenate([[0], np.cumsum(sizes)])
        return _unchecked(rows[order], offsets, sorted_labels)

    @classmethod
    def one_point_each(
        cls, points: ArrayLike, *, copy: bool = True, missing: bool = False
    ) -> ClientData:
        """Every row is a client of its own: users with one point, as in local privacy.

        `copy` and `missing` as for the class.
        """
        rows = _rows(points, "points", copy=check_bool(copy, "copy"), missing=missing)
        return _unchecked(rows, np.arange(len(rows) + 1), None, ours=copy)

    @property
    def n_clients(self) -> int:
        """Number of clients M."""
        return len(self.offsets) - 1

    @property
    def n_features(self) -> int:
        """Number of columns d."""
        return int(self.points.shape[1])

    @property
    def rows_per_client(self) -> int | None:
        """The number of rows of every client, or None where clients differ."""
        n = len(self.points) // self.n_clients
        return n if np.array_equal(self.offsets, np.arange(self.n_clients + 1) * n) else None

    def client(self, i: int) -> FloatArray:
        """The rows of client i (a read-only view), i from 0 to M - 1."""
        i = check_int(i, "i", minimum=0, maximum=self.n_clients - 1)
        return self.points[self.offsets[i] : self.offsets[i + 1]]

    def take(self, clients: ArrayLike) -> ClientData:
        """The data of distinct `clients`, in the order given: a copy of their rows and labels."""
        chosen = as_integers(clients, "clients", minimum=0, maximum=self.n_clients - 1)
        if len(chosen) == 0:
            raise ValueError("clients must be one or more client numbers")
        if bincount(chosen).max() > 1:
            raise ValueError("clients must be distinct")
        labels, n = None, self.rows_per_client
        if n is not None:
            points = take(self.points.reshape(self.n_clients, -1), chosen, axis=0)
            points = points.reshape(len(chosen) * n, self.n_features)
            if self.labels is not None:
                labels = self.labels.reshape(self.n_clients, n)[chosen].ravel()
            offsets = np.arange(len(chosen) + 1) * n
        else:
            sizes = np.diff(self.offsets)[chosen]
            offsets = np.concatenate([[0], np.cumsum(sizes)])
            rows = repeat(self.offsets[chosen] - offsets[:-1], sizes) + np.arange(offsets[-1])
            points = self.points[rows]
            if self.labels is not None:
                labels = self.labels[rows]
        return _unchecked(points, offsets, labels)

    @property
    def is_complete(self) -> bool:
        """Whether no number is missing."""
        return not np.isnan(self.points.sum()) or not np.isnan(self.points).any()

    def in_box(
        self, lower: FloatArray, upper: FloatArray, bound: float
    ) -> tuple[ClientData, IntArray]:
        """The box between `lower` and `upper` (d,) mapped to [-bound, bound]^d, then `clipped`.

        Rows with a missing number are left out, each for itself; a client may have none left then.
        """
        kept = ~np.isnan(self.points).any(axis=1)
        rows = self.points if kept.all() else self.points[kept]
        offsets = np.concatenate([[0], np.cumsum(kept)])[self.offsets]
        labels = None if self.labels is None else self.labels[kept]
        if not len(rows):
            rows, counts = np.zeros((0, self.n_features)), np.zeros(self.n_clients, dtype=np.int64)
            return _unchecked(rows, offsets, labels), counts
        scaled = _unchecked(scale_to_box(rows, lower, upper, bound=bound), offsets, labels)
        return scaled.clipped(bound)

    def clipped(self, bound: float, *, domain: str = "box") -> tuple[ClientData, IntArray]:
        """Rows moved into the box [-bound, bound]^d or the ball ||x|| <= bound, and how many.

        Each client does this for itself; the counts (M,) stay with it. What happens to a row
        depends on that row alone, bit for bit. Without a row to move, no copy is made.
        """
        bound = check_positive(bound, "bound")
        if not SMALLEST_BOUND <= bound <= LARGEST_BOUND:
            raise ValueError(f"bound must be between 1e-300 and 1e300, got {bound:g}")
        outside: Any = np.zeros(len(self.points), dtype=bool)
        if domain == "ball":
            outside = _longer(self.points, bound)
        else:
            for column in self.points.T:  # d passes, no (n, d) mask
                outside |= np.abs(column) > bound
        if not outside.any():
            return self, np.broadcast_to(np.int64(0), (self.n_clients,))  # no memory for zeros
        counts = np.diff(np.concatenate([[0], np.cumsum(outside)])[self.offsets])
        if domain == "ball":
            inside = self.points.copy()
            inside[outside] = _on_sphere(self.points[outside], bound * _HAIR)
        else:
            inside = np.clip(self.points, -bound, bound)
        return _unchecked(inside, self.offsets, self.labels), counts


def warn_if_mostly_clipped(data: ClientData, counts: IntArray) -> None:
    """Warn a data holder if more than half of all rows were moved: often wrong units.

    `counts` (M,) are those of `ClientData.clipped`. The `ClippedDataWarning` holds no number: it is
    for whoever holds the data, and no part of a release.
    """
    if 2 * int(counts.sum()) > len(data.points):
        warnings.warn(
            "most rows lie outside the bounds and were moved to their edge, so results say"
            " little about the data; scale with public bounds first (datasets.scale_to_box), or"
            " give the bound that fits",
            ClippedDataWarning,
            stacklevel=depth_outside() + 1,
        )


def depth_outside() -> int:
    """How many frames above our caller the first one lies that is of neither of our packages."""
    ours, depth = ("fedclust.", "fedclust_helpers."), 1
    frame = sys._getframe(1)
    while frame.f_back is not None and frame.f_globals.get("__name__", "").startswith(ours):
        frame, depth = frame.f_back, depth + 1
    return depth - 1


def row_lengths(points: FloatArray) -> FloatArray:
    """Euclidean length (n,) of each row, from that row alone: no other row moves a bit.

    Right at any finite magnitude; inf only where the length itself is above 1.8e308.
    """
    lengths = np.empty(len(points))
    step = max(1, _BLOCK // points.shape[1])
    for start in range(0, len(points), step):
        block = points[start : start + step]
        with np.errstate(over="ignore", under="ignore"):
            squared = _row_sums(block * block)
        odd = ~((squared > _PLAIN[0]) & (squared < _PLAIN[1]))
        lengths[start : start + step] = np.sqrt(squared)
        if odd.any():
            lengths[start + np.flatnonzero(odd)] = _careful_lengths(block[odd])
    return lengths


def _longer(points: FloatArray, bound: float) -> Any:
    """Which rows are longer than `bound`, by `row_lengths`; clear cases by a quick sum of squares.

    Its order may depend on the machine, so it decides only where rounding (2 d + 16 last digits,
    more than both ways of summing can be off) leaves no doubt: the answer is that of `row_lengths`.
    """
    if not 1e-140 <= bound <= 1e140:  # squares would overflow or vanish
        return row_lengths(points) > bound
    with np.errstate(over="ignore", under="ignore"):
        squared = np.einsum("ij,ij->i", points, points)
    margin = (2 * points.shape[1] + 16) * 2.0**-52
    longer = ~(squared < bound**2 * (1 - margin))
    doubtful = np.flatnonzero(longer)
    longer[doubtful] = row_lengths(points[doubtful]) > bound
    return longer


def _careful_lengths(rows: FloatArray) -> FloatArray:
    """Lengths where the squares overflow or vanish: scaled by the largest entry of each row."""
    largest = np.abs(rows).max(axis=1)
    scaled = rows / np.where(largest > 0, largest, 1.0)[:, None]
    with np.errstate(over="ignore", under="ignore"):
        return np.asarray(largest * np.sqrt(_row_sums(scaled * scaled)))


def _on_sphere(rows: FloatArray, radius: float) -> FloatArray:
    """Rows that are not zero, scaled to length `radius`."""
    scaled = rows / np.abs(rows).max(axis=1, keepdims=True)
    with np.errstate(under="ignore"):
        return np.asarray(scaled * (radius / np.sqrt(_row_sums(scaled * scaled)))[:, None])


def _row_sums(block: FloatArray) -> FloatArray:
    """Sum of each row by halving the columns, so that the order never depends on other rows.

    `block` is used up.
    """
    width = block.shape[1]
    while width > 1:
        half = width // 2
        block[:, :half] += block[:, width - half : width]
        width -= half
    return block[:, 0]


def _frozen(array: Any, *, ours: bool = True) -> Any:
    """A read-only view, of memory that stays read-only if it is ours."""
    view, base = array.view(), array
    while ours and isinstance(base, np.ndarray):
        base.flags.writeable, base = False, base.base
    view.flags.writeable = False
    return view


def _rows(
    points: Any, name: str, *, copy: bool, n_features: int | None = None, missing: bool = False
) -> FloatArray:
    """`as_points`, as an array of our own if `copy`; nan only where numbers may be `missing`."""
    unmasked(points, name)
    if copy and not isinstance(points, list | tuple):
        try:
            points = np.array(points, order="C")  # numpy.asarray may share a DataFrame's memory
        except (TypeError, ValueError):
            pass  # refused below
    if not check_bool(missing, "missing"):
        return as_points(points, name, n_features=n_features)
    rows = as_points(points, name, n_features=n_features, finite=False)
    if np.isinf(rows).any():
        raise ValueError(f"{name} must hold no infinite numbers (nan is a missing one)")
    return rows


def is_table(table: Any) -> bool:
    """Whether this is a table with named columns (pandas and the like)."""
    return hasattr(table, "columns") and hasattr(table, "to_numpy")


def column_names(table: Any) -> list[Any] | None:
    """Names of the columns, where this is a table with names of its own."""
    if not is_table(table):
        return None
    names = list(table.columns)  # True and False are names, though they equal 1 and 0
    numbered = names == list(range(len(names))) and not any(isinstance(n, bool) for n in names)
    return None if numbered else names


def _as_list(each: Any, name: str, keys: list[Any] | None) -> list[Any]:
    """One entry for each client, from a sequence, or from a mapping in the order of `keys`."""
    if isinstance(each, Mapping):
        if keys is None or len(each) != len(keys) or any(key not in each for key in keys):
            raise ValueError(f"{name} must be a mapping only with the keys of clients")
        return [each[key] for key in keys]
    if not isinstance(each, Sequence | np.ndarray) or isinstance(each, str | bytes):
        raise TypeError(
            f"{name} must be a sequence or mapping of arrays, not {type(each).__name__}"
        )
    return list(each)


def _aligned(tables: list[Any], names: list[str]) -> list[Any]:
    """DataFrames with named columns, all in the order of the first one; the rest as it is."""
    every = [column_names(table) for table in tables]
    first = next((i for i, own in enumerate(every) if own is not None), None)
    columns = None if first is None else every[first]
    if first is None or columns is None:
        return tables
    if len(set(columns)) < len(columns):
        raise ValueError(f"{names[first]} must have columns of different names")
    for own, name in zip(every, names, strict=True):
        if own is None:
            raise ValueError(f"{name} must be a table, as {names[first]} is, with the same columns")
        if len(own) != len(columns) or set(own) != set(columns):
            raise ValueError(f"{name} must have the same columns as {names[first]}")
    return [t if own == columns else t[columns] for t, own in zip(tables, every, strict=True)]


def _numbered(owners: Any, n_rows: int) -> tuple[IntArray, IntArray]:
    """Client number of each row, and rows of each client, from owners of any name or number."""
    wrong = ValueError(f"owners must be {n_rows} integers or names (str), one for each row")
    unmasked(owners, "owners")
    try:
        names = np.asarray(owners)
    except (TypeError, ValueError):
        raise wrong from None
    if names.shape != (n_rows,):
        raise wrong
    if names.dtype.kind == "O" and all(isinstance(name, str) for name in names):
        names = names.astype(np.str_)
    integers = names.dtype.kind == "O" and all(
        isinstance(name, Integral) and not isinstance(name, bool) for name in names
    )
    if names.dtype.kind not in "iuUS" and not integers:
        raise wrong
    _, codes = np.unique(names.astype(names.dtype.newbyteorder("=")), return_inverse=True)
    return codes.astype(np.int64), bincount(codes)


def _as_labels(labels: ArrayLike | None, n_rows: int) -> IntArray | None:
    """An int64 copy of the labels, class numbers from 0, one for each row."""
    return None if labels is None else as_integers(labels, "labels", n=n_rows, minimum=0).copy()


def _unchecked(
    points: FloatArray, offsets: IntArray, labels: IntArray | None, *, ours: bool = True
) -> ClientData:
    """Client data made of rows that were checked before."""
    data = object.__new__(ClientData)
    data._set(points, offsets, labels, ours=ours)
    return data
