"""The data of all clients, stacked: two hospitals and a million phones look the same."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from fedclust_helpers._validation import FloatArray, IntArray, as_points

_BLOCK = 65_536


@dataclass(frozen=True)
class ClientData:
    """Rows of all clients in one array: client i owns ``points[offsets[i]:offsets[i+1]]``.

    Two hospitals and a million phones look the same. The array is never changed; a real client is
    one slice. `labels` (N,), if given, are the class numbers of labelled examples, 0, 1, ...
    """

    points: FloatArray
    offsets: IntArray
    labels: IntArray | None = None

    def __post_init__(self) -> None:
        points = as_points(self.points)
        offsets = np.asarray(self.offsets, dtype=np.int64)
        if offsets.ndim != 1 or len(offsets) < 2 or offsets[0] != 0 or offsets[-1] != len(points):
            raise ValueError("offsets must run from 0 to the number of rows")
        if (offsets[1:] <= offsets[:-1]).any():
            raise ValueError("every client must hold at least one row (empty client)")
        view = points.view()
        view.flags.writeable = False
        object.__setattr__(self, "points", view)
        object.__setattr__(self, "offsets", offsets)
        object.__setattr__(self, "labels", _as_labels(self.labels, len(points)))

    @classmethod
    def from_clients(
        cls, clients: Sequence[ArrayLike], labels: Sequence[ArrayLike] | None = None
    ) -> ClientData:
        """Stack one array of shape (n_i, d), and one of labels (n_i,), per client."""
        if getattr(clients, "ndim", None) == 2:
            raise ValueError(
                "clients must be a sequence of arrays, one per client; for one stacked array give"
                " the owner of each row to ClientData.from_owners"
            )
        if not isinstance(clients, Sequence | np.ndarray) or isinstance(clients, str | bytes):
            raise TypeError(
                "clients must be a sequence of arrays, one per client, got"
                f" {type(clients).__name__}"
            )
        if len(clients) == 0:
            raise ValueError("clients must hold at least one client")
        first = as_points(clients[0], "clients[0]")
        arrays = [first]
        for i, c in enumerate(clients[1:], start=1):
            arrays.append(as_points(c, f"clients[{i}]", n_features=first.shape[1]))
        stacked = None
        if labels is not None:
            if [np.shape(each) for each in labels] != [(len(a),) for a in arrays]:
                raise ValueError("labels must hold one array for each client, one label per row")
            stacked = np.concatenate([np.asarray(each) for each in labels])
        return cls(np.concatenate(arrays), np.cumsum([0] + [len(a) for a in arrays]), stacked)

    @classmethod
    def from_owners(
        cls, points: ArrayLike, owners: ArrayLike, labels: ArrayLike | None = None
    ) -> ClientData:
        """Stack rows by owner: `owners` (n,) holds client numbers 0..M-1, each at least once."""
        points = as_points(points)
        owners = np.asarray(owners)
        if owners.shape != (len(points),) or owners.dtype.kind not in "iu":
            raise ValueError(f"owners must be {len(points)} integers, one for each row")
        if owners.min() < 0:
            raise ValueError("owners must be client numbers from 0")
        sizes = np.bincount(owners)
        if (sizes == 0).any():
            raise ValueError(
                "owners must give every client number up to the largest at least one row"
            )
        order = np.argsort(owners, kind="stable")
        sorted_labels = _as_labels(labels, len(points))
        if sorted_labels is not None:
            sorted_labels = sorted_labels[order]
        return cls(points[order], np.concatenate([[0], np.cumsum(sizes)]), sorted_labels)

    @classmethod
    def one_point_each(cls, points: ArrayLike) -> ClientData:
        """Every row is a client of its own: users with one point, as in local privacy."""
        points = as_points(points)
        return cls(points, np.arange(len(points) + 1))

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
        """The rows of one client (a read-only view)."""
        return self.points[self.offsets[i] : self.offsets[i + 1]]

    def take(self, clients: ArrayLike) -> ClientData:
        """The data of some clients, in the order given: a copy of their rows and labels.

        Parameters
        ----------
        clients : array_like of int, shape (m,)
            Distinct client numbers from 0 to M - 1, at least one.
        """
        chosen = np.asarray(clients)
        if chosen.ndim != 1 or len(chosen) == 0 or chosen.dtype.kind not in "iu":
            raise ValueError("clients must be one or more client numbers")
        if chosen.min() < 0 or chosen.max() >= self.n_clients:
            raise ValueError(f"clients must be numbers from 0 to {self.n_clients - 1}")
        if np.bincount(chosen).max() > 1:
            raise ValueError("clients must be distinct")
        labels, n = None, self.rows_per_client
        if n is not None:
            points = self.points.reshape(self.n_clients, -1).take(chosen, axis=0)
            points = points.reshape(len(chosen) * n, self.n_features)
            if self.labels is not None:
                labels = self.labels.reshape(self.n_clients, n)[chosen].ravel()
            offsets = np.arange(len(chosen) + 1) * n
        else:
            sizes = np.diff(self.offsets)[chosen]
            offsets = np.concatenate([[0], np.cumsum(sizes)])
            rows = np.repeat(self.offsets[chosen] - offsets[:-1], sizes) + np.arange(offsets[-1])
            points = self.points[rows]
            if self.labels is not None:
                labels = self.labels[rows]
        return _unchecked(points, offsets, labels)

    def clipped(self, bound: float, *, domain: str = "box") -> tuple[ClientData, IntArray]:
        """Rows moved into the box [-bound, bound]^d or the ball ||x|| <= bound, and how many.

        Each client does this for itself; the counts (M,) stay with it. Without a row to move, no
        copy is made.
        """
        moved = np.zeros(len(self.points), dtype=bool)
        if domain == "ball":
            for start in range(0, len(moved), _BLOCK):  # no norms of all rows at once
                block = self.points[start : start + _BLOCK]
                with np.errstate(over="ignore", invalid="ignore"):  # inf is longer, too
                    squares = np.einsum("ij,ij->i", block, block)
                    moved[start : start + _BLOCK] = ~(squares <= np.float64(bound) ** 2)
        else:
            for column in self.points.T:  # d passes, no (n, d) mask
                moved |= np.abs(column) > bound
        if not moved.any():
            return self, np.broadcast_to(np.int64(0), (self.n_clients,))  # no memory for zeros
        counts = np.add.reduceat(moved.astype(np.int64), self.offsets[:-1])
        if domain == "ball":
            inside = self.points.copy()
            # a hair inside, so that rounding cannot leave a row outside
            with np.errstate(over="ignore"):  # a length beyond floats: the row becomes 0
                norms = np.linalg.norm(self.points[moved], axis=1)
            inside[moved] *= (bound * (1 - 1e-12) / norms)[:, None]
        else:
            inside = np.clip(self.points, -bound, bound)
        return ClientData(inside, self.offsets, self.labels), counts


def _as_labels(labels: ArrayLike | None, n_rows: int) -> IntArray | None:
    """A read-only int64 view or copy of the labels, one for each row."""
    if labels is None:
        return None
    array = np.asarray(labels)
    if array.shape != (n_rows,) or array.dtype.kind not in "iu":
        raise ValueError(f"labels must be {n_rows} integers, one for each row")
    if array.min() < 0:
        raise ValueError("labels must be class numbers from 0")
    view = array.astype(np.int64, copy=False).view()
    view.flags.writeable = False
    return view


def _unchecked(points: FloatArray, offsets: IntArray, labels: IntArray | None) -> ClientData:
    """Client data made of rows that were checked before."""
    data = object.__new__(ClientData)
    for name, array in (("points", points), ("offsets", offsets), ("labels", labels)):
        if array is not None:
            array.flags.writeable = name == "offsets"
        object.__setattr__(data, name, array)
    return data
