"""The record that every loader and generator returns."""

from __future__ import annotations

from dataclasses import InitVar, dataclass
from functools import partial
from typing import Annotated

import numpy as np

from fedclust_helpers._checked import checked
from fedclust_helpers._validation import (
    FloatArray,
    IntArray,
    as_bound,
    as_integers,
    as_points,
    check_int,
)
from fedclust_helpers.datasets.splits import scale_to_box


@checked
@dataclass(frozen=True, eq=False, repr=False)
class Dataset:
    """Points, reference labels, and what is publicly known about them.

    `points` (n, d), `labels` (n,) and `bounds`, two arrays (d,), are read-only. Labels, from 0,
    with -1 for outliers, are a reference (or None) and never an input of the clustering.
    `n_clusters` is the k that the paper uses with these data. The bounds are lower and upper limits
    of each column, known without looking at the data; `bounds_note` says where they come from. A
    point may still lie outside; a federation clips it at the client. ``copy=False`` keeps a view of
    the points instead of a copy: they must not be changed afterwards.

    >>> from fedclust_helpers.datasets import load_iris
    >>> iris = load_iris()
    >>> iris.points.shape, iris.n_clusters, iris.bounds[1]
    ((150, 4), 3, array([10.,  5., 10.,  5.]))
    """

    name: str
    points: FloatArray
    labels: IntArray | None
    n_clusters: Annotated[int, partial(check_int, maximum=10**9)]
    bounds: tuple[FloatArray, FloatArray]
    bounds_note: str
    source: str
    licence: str
    citation: str
    feature_names: tuple[str, ...] | None = None
    copy: InitVar[bool] = True

    def __post_init__(self, copy: bool) -> None:
        points = as_points(self.points)
        n, d = points.shape
        low, high = (np.array(as_bound(side, "bounds", d)) for side in self.bounds)
        if (high < low).any():
            raise ValueError("bounds must be lower limits first: upper >= lower in every column")
        self._keep("points", points.copy() if copy else points)
        self._keep("bounds", low, high)
        if self.labels is not None:
            self._keep("labels", as_integers(self.labels, "labels", n=n, minimum=-1).copy())
        if self.feature_names is not None:
            if len(self.feature_names) != d:
                raise ValueError(f"feature_names must be {d} strings, one for each column")
            object.__setattr__(self, "feature_names", tuple(self.feature_names))

    def _keep(self, name: str, *arrays: np.ndarray) -> None:
        """Set a field to read-only views."""
        views = tuple(array.view() for array in arrays)
        for view in views:
            view.flags.writeable = False
        object.__setattr__(self, name, views if len(views) > 1 else views[0])

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
