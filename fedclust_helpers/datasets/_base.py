"""The record that every loader and generator returns."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from fedclust_helpers._validation import FloatArray, IntArray, as_points
from fedclust_helpers.datasets.splits import scale_to_box

_Scalar = TypeVar("_Scalar", bound=np.generic)


def _frozen(array: NDArray[_Scalar]) -> NDArray[_Scalar]:
    view = array.view()
    view.flags.writeable = False
    return view


@dataclass(frozen=True, eq=False, repr=False)
class Dataset:
    """Points, reference labels, and what is publicly known about them.

    Attributes
    ----------
    name : str
    points : ndarray of float64 of shape (n, d), read-only
    labels : ndarray of int64 of shape (n,), read-only, or None
        Reference labels from 0, with -1 for outliers. Never an input of the clustering.
    n_clusters : int
        The number of clusters k that the paper uses with these data.
    bounds : tuple of two ndarrays of shape (d,), read-only
        Lower and upper limits of each column, known without looking at the data. A point may
        still lie outside; a federation clips it at the client and counts it.
    bounds_note : str
        Where the bounds come from.
    feature_names : tuple of str, or None
    source, licence, citation : str
    """

    name: str
    points: FloatArray
    labels: IntArray | None
    n_clusters: int
    bounds: tuple[FloatArray, FloatArray]
    bounds_note: str
    source: str
    licence: str
    citation: str
    feature_names: tuple[str, ...] | None = None

    def __post_init__(self) -> None:
        points = as_points(self.points)
        shape = (points.shape[1],)
        lower, upper = (
            np.broadcast_to(np.asarray(side, dtype=np.float64), shape).copy()
            for side in self.bounds
        )
        object.__setattr__(self, "points", _frozen(points))
        object.__setattr__(self, "bounds", (_frozen(lower), _frozen(upper)))
        if self.labels is not None:
            labels = np.asarray(self.labels, dtype=np.int64)
            if labels.shape != (len(points),):
                raise ValueError(f"labels must have shape ({len(points)},), got {labels.shape}")
            object.__setattr__(self, "labels", _frozen(labels))

    @property
    def n_points(self) -> int:
        """Number of rows n."""
        return self.points.shape[0]

    @property
    def n_features(self) -> int:
        """Number of columns d."""
        return self.points.shape[1]

    def scaled(self, bound: float = 1.0) -> FloatArray:
        """Points mapped to [-bound, bound]^d with the public bounds; see `scale_to_box`."""
        return scale_to_box(self.points, *self.bounds, bound=bound)

    def __repr__(self) -> str:
        size = f"n={self.n_points}, d={self.n_features}, k={self.n_clusters}"
        return f"Dataset({self.name!r}, {size})"
