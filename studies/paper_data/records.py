"""Records of data that is split over clients, as the generators of this package return them.

The generators make them consistent; arrays are read-only. `ClientData` checks whatever is fed to a
federation.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fedclust_helpers._validation import FloatArray, IntArray, as_numbers, check_choice

GENERATED = {"source": "generated", "licence": "generated, no restriction"}


def as_weights(value: ArrayLike, name: str, *, n: int | None = None, of: str = "") -> FloatArray:
    """Numbers > 0, `n` of them (one for each `of`) if that is given, over their maximum."""
    weights = as_numbers(value, name, empty=True)
    if n is not None and weights.shape != (n,):
        raise ValueError(f"{name} must be {n} finite numbers > 0, one for each {of}")
    if weights.ndim != 1 or weights.size == 0:
        raise ValueError(f"{name} must have shape (n_clients,), got {weights.shape}")
    if not (weights > 0).all():
        raise ValueError(f"{name} must be {n or ''} finite numbers > 0".replace("  ", " "))
    return weights / weights.max()


def apportion(n: int, weights: FloatArray) -> IntArray:
    """Split n into integers >= 1 that add up to n, as near to n * weights / sum(weights) as can be.

    A part whose share is below 1 gets 1; the rest is shared again. ValueError if n is smaller than
    the number of weights.
    """
    if n < len(weights):
        raise ValueError(f"cannot split {n} rows into {len(weights)} parts of at least 1")
    small = np.zeros(len(weights), dtype=bool)
    while True:
        left = n - int(small.sum())
        share = np.where(small, 1, left * weights / weights[~small].sum())
        if small[share < 1].all():
            break
        small |= share < 1
        if small.all():  # n = M, up to rounding of the shares
            break
    sizes = np.ones(len(weights), dtype=np.int64)
    spare = n - len(weights)
    if spare:  # the largest remainders are rounded up
        beyond = np.maximum(share - 1, 0.0)
        exact = spare * beyond / beyond.sum()
        whole = np.floor(exact).astype(np.int64)
        order = np.argsort(whole - exact, kind="stable")
        whole[order[: spare - int(whole.sum())]] += 1
        sizes += whole
    return sizes


def offsets_of(sizes: IntArray | Sequence[int]) -> IntArray:
    """Offsets (M + 1,) of clients of the given sizes."""
    return np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)


def freeze(record: Any) -> None:
    """Make every array of a record read-only."""
    for field in fields(record):
        if isinstance(array := getattr(record, field.name), np.ndarray):
            array.flags.writeable = False


@dataclass(frozen=True, eq=False, repr=False, kw_only=True)
class FederatedDataset:
    """The rows of all clients, the points of the server, and what is publicly known.

    Attributes
    ----------
    points : ndarray of float64 of shape (N, d)
        Rows of all clients; client i owns ``points[offsets[i]:offsets[i + 1]]``.
    offsets : ndarray of int64 of shape (M + 1,)
    server_points : ndarray of float64 of shape (q, d)
        Public points held by the server: no epsilon pays for looking at them.
    n_clusters : int
        The number of clusters k that the paper uses with these data.
    radius : float
        Public bound Delta on the length of a point; `radius_note` says where it comes from. A row
        may still be longer; a federation clips it at the client and counts it.
    in_distribution : ndarray of bool of shape (q,)
        Which server points were drawn like the clients' rows. For figures and scores only.
    labels : ndarray of int64 of shape (N,), or None
        Reference labels of the rows. Never an input of the clustering.
    true_centers : ndarray of float64 of shape (k, d), or None
        Centres that the rows were generated around.
    """

    name: str
    points: FloatArray
    offsets: IntArray
    server_points: FloatArray
    n_clusters: int
    radius: float
    radius_note: str
    in_distribution: NDArray[np.bool_]
    source: str
    licence: str
    citation: str
    labels: IntArray | None = None
    true_centers: FloatArray | None = None

    def __post_init__(self) -> None:
        freeze(self)

    @property
    def n_clients(self) -> int:
        """Number of clients M."""
        return len(self.offsets) - 1

    @property
    def n_points(self) -> int:
        """Number of rows N of all clients together."""
        return self.points.shape[0]

    @property
    def n_features(self) -> int:
        """Number of columns d."""
        return self.points.shape[1]

    def clients(self) -> tuple[FloatArray, IntArray]:
        """Rows and offsets, in the form that `fedclust_helpers.federation.ClientData` takes."""
        return self.points, self.offsets

    def __repr__(self) -> str:
        size = f"M={self.n_clients}, N={self.n_points}, d={self.n_features}, k={self.n_clusters}"
        return f"FederatedDataset({self.name!r}, {size}, server={len(self.server_points)})"


@dataclass(frozen=True, eq=False, repr=False, kw_only=True)
class LabelledFederation:
    """Training and test examples of all clients, for clustering models (RR-Cluster, Section 5).

    Attributes
    ----------
    train_points : ndarray of float64 of shape (N, p)
        Client i owns ``train_points[train_offsets[i]:train_offsets[i + 1]]``. For regression the
        last column is the target.
    train_offsets : ndarray of int64 of shape (M + 1,)
    train_labels : ndarray of int64 of shape (N,), or None for regression
    test_points, test_offsets, test_labels
        The same for the test examples, of the same M clients.
    n_classes : int, or None for regression
        Labels are 0..n_classes - 1.
    feature_shape : tuple of int
        Shape of one example before it was flattened: (h, w), (h, w, 3), (characters,) or (1,).
    bound : float
        Public bound on the absolute value of a number in the points; `bound_note` says where it
        comes from. A federation clips at it.
    groups : ndarray of int64 of shape (M,), or None
        True group of each client. For scores and figures: no algorithm may use it.
    """

    name: str
    description: str
    train_points: FloatArray
    train_offsets: IntArray
    train_labels: IntArray | None
    test_points: FloatArray
    test_offsets: IntArray
    test_labels: IntArray | None
    n_classes: int | None
    feature_shape: tuple[int, ...]
    bound: float
    bound_note: str
    groups: IntArray | None
    source: str
    licence: str
    citation: str

    def __post_init__(self) -> None:
        freeze(self)

    @property
    def n_clients(self) -> int:
        """Number of clients M."""
        return len(self.train_offsets) - 1

    @property
    def n_features(self) -> int:
        """Number of features p of one example, without the target."""
        return math.prod(self.feature_shape)

    def clients(self, split: str = "train") -> tuple[FloatArray, IntArray, IntArray | None]:
        """Points, offsets and labels of one split ("train" or "test"), as ``ClientData`` takes."""
        if check_choice(split, "split", ("train", "test")) == "train":
            return self.train_points, self.train_offsets, self.train_labels
        return self.test_points, self.test_offsets, self.test_labels

    def __repr__(self) -> str:
        size = f"M={self.n_clients}, N={len(self.train_points)}+{len(self.test_points)}"
        kind = "regression" if self.n_classes is None else f"classes={self.n_classes}"
        groups = "" if self.groups is None else f", groups={len(np.unique(self.groups))}"
        return f"LabelledFederation({self.name!r}, {size}, p={self.n_features}, {kind}{groups})"
