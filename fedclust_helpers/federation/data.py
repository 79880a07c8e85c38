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
    one slice.
    """

    points: FloatArray
    offsets: IntArray

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

    @classmethod
    def from_clients(cls, clients: Sequence[ArrayLike]) -> ClientData:
        """Stack one array of shape (n_i, d) per client."""
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
        return cls(np.concatenate(arrays), np.cumsum([0] + [len(a) for a in arrays]))

    @classmethod
    def from_owners(cls, points: ArrayLike, owners: ArrayLike) -> ClientData:
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
        return cls(points[order], np.concatenate([[0], np.cumsum(sizes)]))

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

    def client(self, i: int) -> FloatArray:
        """The rows of one client (a read-only view)."""
        return self.points[self.offsets[i] : self.offsets[i + 1]]

    def clipped(self, bound: float, *, domain: str = "box") -> tuple[ClientData, IntArray]:
        """Rows moved into the box [-bound, bound]^d or the ball ||x|| <= bound, and how many.

        Each client does this for itself; the counts (M,) stay with it. Without a row to move, no
        copy is made.
        """
        moved = np.zeros(len(self.points), dtype=bool)
        if domain == "ball":
            for start in range(0, len(moved), _BLOCK):  # no norms of all rows at once
                block = self.points[start : start + _BLOCK]
                moved[start : start + _BLOCK] = np.einsum("ij,ij->i", block, block) > bound**2
        else:
            for column in self.points.T:  # d passes, no (n, d) mask
                moved |= np.abs(column) > bound
        if not moved.any():
            return self, np.broadcast_to(np.int64(0), (self.n_clients,))  # no memory for zeros
        counts = np.add.reduceat(moved.astype(np.int64), self.offsets[:-1])
        if domain == "ball":
            inside = self.points.copy()
            # a hair inside, so that rounding cannot leave a row outside
            norms = np.linalg.norm(self.points[moved], axis=1)
            inside[moved] *= (bound * (1 - 1e-12) / norms)[:, None]
        else:
            inside = np.clip(self.points, -bound, bound)
        return ClientData(inside, self.offsets), counts
