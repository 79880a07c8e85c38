"""The data of the lessons: rows in the box, and what is public about them.

Each notebook has a setting DATA, and its `lesson` module a function ``data(name, n=None, *, rng)``
that returns `Rows`: one of the sets below, or one of its own.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from fedclust_helpers import datasets
from fedclust_helpers._lazy import pd, toy_data
from fedclust_helpers._validation import FloatArray, IntArray, check_choice


class Rows(NamedTuple):
    """What a lesson clusters.

    Attributes
    ----------
    points : ndarray of shape (n, d)
        The rows, scaled to [-1, 1]^d by the public limits.
    names : tuple of str
        The columns.
    lower, upper : ndarray of shape (d,)
        Limits of the columns in their units, known without looking at the rows.
    owners : ndarray of shape (n,)
        Which client holds a row, 0, 1, ...
    k : int
        How many groups a reader may ask for.
    labels : ndarray of shape (n,), optional
        What is known about each row and no clustering sees.
    """

    points: FloatArray
    names: tuple[str, ...]
    lower: FloatArray
    upper: FloatArray
    owners: IntArray
    k: int
    labels: IntArray | None = None

    def clients(self) -> list[FloatArray]:
        """The rows of each client."""
        return [self.points[self.owners == i] for i in range(int(self.owners.max()) + 1)]

    def in_units(self, places: ArrayLike) -> FloatArray:
        """Places of the box in the units of the columns, shape (..., d)."""
        return datasets.scale_from_box(np.asarray(places), self.lower, self.upper)

    def table(self) -> pd.DataFrame:
        """The rows in the units of their columns, as a hospital would hold them."""
        return pd.DataFrame(self.in_units(self.points), columns=list(self.names))


def dealt(n: int, n_clients: int) -> IntArray:
    """Owners of n rows that are dealt to the clients in turn."""
    return np.arange(n) % n_clients


def tumours(n_clients: int, n: int | None = None, *, rng: np.random.Generator) -> Rows:
    """Two columns of 569 tumours (scikit-learn's breast cancer), or n of them drawn by `rng`.

    Mean radius and mean texture of the nuclei of cells, in the units of the table; the limits, 0
    and 40 for both, are round and wide. `labels`: 1 where the tumour is benign. Dealt in turn.
    """
    names = ("mean radius", "mean texture")
    raw = toy_data.load_breast_cancer(as_frame=True)
    kept = np.sort(rng.permutation(len(raw.data))[: n or len(raw.data)])
    lower, upper = np.zeros(2), np.full(2, 40.0)
    points = datasets.scale_to_box(raw.data[list(names)].to_numpy()[kept], lower, upper)
    labels = raw.target.to_numpy()[kept]
    return Rows(points, names, lower, upper, dealt(len(points), n_clients), 2, labels)


def photograph(
    n_clients: int, n: int | None = None, *, rng: np.random.Generator, name: str = "china.jpg"
) -> Rows:
    """The pixels of a sample image of scikit-learn, or n of them drawn by `rng`; columns 0 to 255.

    The clients hold horizontal stripes.
    """
    colours = toy_data.load_sample_image(name).reshape(-1, 3).astype(np.float64)
    kept = np.sort(rng.permutation(len(colours))[: n or len(colours)])
    lower, upper = np.zeros(3), np.full(3, 255.0)
    points = datasets.scale_to_box(colours[kept], lower, upper)
    owners = np.arange(len(points)) * n_clients // len(points)
    return Rows(points, ("red", "green", "blue"), lower, upper, owners, 5)


def choose(name: str, makers: Mapping[str, Callable[[], Rows]]) -> Rows:
    """The rows that a notebook's setting DATA names.

    Raises
    ------
    ValueError
        If there is no such data set; the message lists those that there are.
    """
    check_choice(name, "DATA", tuple(makers))
    return makers[name]()
