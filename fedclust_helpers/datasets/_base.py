"""The record that every loader and generator returns."""

from __future__ import annotations

from dataclasses import InitVar, dataclass
from typing import Any

import numpy as np

from fedclust_helpers._validation import FloatArray, IntArray, as_points, check_int
from fedclust_helpers.datasets._checks import (
    as_reals,
    as_whole,
    check_text,
    is_sequence,
    own_view,
)
from fedclust_helpers.datasets.splits import scale_to_box


def set_texts(record: Any, *names: str) -> None:
    """Refuse fields of a record that are no text."""
    for name in names:
        check_text(getattr(record, name), name)


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
    copy : bool, default True
        Keep copies of the arrays given. False keeps views: they must not be changed afterwards.
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
    copy: InitVar[bool] = True

    def __post_init__(self, copy: bool) -> None:
        set_field = object.__setattr__
        set_texts(self, "name", "bounds_note", "source", "licence", "citation")
        points = as_points(self.points)
        n, d = points.shape
        set_field(self, "points", own_view(points, self.points, copy=copy))
        set_field(self, "bounds", _bounds(self.bounds, d))
        set_field(self, "n_clusters", check_int(self.n_clusters, "n_clusters", maximum=10**9))
        if self.labels is not None:
            labels = as_whole(self.labels, "labels", minimum=-1)
            if labels.shape != (n,):
                raise ValueError(
                    f"labels must have shape ({n},), one for each of the points, got {labels.shape}"
                )
            set_field(self, "labels", own_view(labels, None, copy=False))
        if self.feature_names is not None:
            wrong = f"feature_names must be {d} strings, one for each column"
            if not is_sequence(self.feature_names) or len(self.feature_names) != d:
                raise ValueError(wrong)
            if not all(isinstance(name, str) for name in self.feature_names):
                raise TypeError(wrong)
            set_field(self, "feature_names", tuple(self.feature_names))

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


def _bounds(bounds: Any, n_features: int) -> tuple[FloatArray, FloatArray]:
    """Lower and upper limits of each column, read-only."""
    if not is_sequence(bounds) or len(bounds) != 2:
        raise ValueError("bounds must be two arrays or numbers, lower and upper limits")
    sides = []
    for side in bounds:
        limits = as_reals(side, "bounds")
        if limits.shape not in ((), (1,), (n_features,)):
            raise ValueError(
                f"bounds must be numbers, or {n_features} of them, one for each column"
            )
        sides.append(own_view(np.broadcast_to(limits, (n_features,)).copy(), None, copy=False))
    if (sides[1] < sides[0]).any():
        raise ValueError("bounds must be lower limits first: upper >= lower in every column")
    return sides[0], sides[1]
