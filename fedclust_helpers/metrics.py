"""How good a clustering is, and how sure we are of it. Nothing here is private.

Each function sees raw points; use it to judge an algorithm in an experiment, never as part of what
is released.
"""

from __future__ import annotations

from numbers import Integral
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike
from scipy.optimize import linear_sum_assignment
from scipy.spatial.distance import cdist
from scipy.stats import t as student_t
from sklearn.metrics import adjusted_rand_score, davies_bouldin_score, silhouette_score

from fedclust_helpers._validation import (
    FloatArray,
    as_points,
    check_int,
    check_real,
    check_rng,
)
from fedclust_helpers.kmeans import (
    LARGEST,
    assign,
    finite_numbers,
    kmeans_cost,
    moderate_points,
)

MAX_POINTS = 20_000  # of the silhouette, whose cost is quadratic


class Interval(NamedTuple):
    """A mean and the half-width of its confidence interval."""

    mean: float
    half_width: float


def nicv(points: ArrayLike, centers: ArrayLike) -> float:
    """Normalised intra-cluster variance: mean squared distance to the nearest centre.

    All points count, also those that an algorithm left out because of a radius (FastLloyd,
    Section 6.2.1).

    Parameters
    ----------
    points : array_like of shape (n, d)
    centers : array_like of shape (k, d)

    Examples
    --------
    >>> nicv([[0.0], [1.0], [4.0]], [[0.0], [3.0]])
    0.6666666666666666
    """
    return kmeans_cost(points, centers, normalize=True)


def silhouette(
    points: ArrayLike, centers: ArrayLike, *, rng: np.random.Generator, max_points: int = 2000
) -> float:
    """Mean silhouette of the clusters around `centers`, between -1 and 1 (higher is better).

    Parameters
    ----------
    points : array_like of shape (n, d)
    centers : array_like of shape (k, d)
        Each point belongs to its nearest centre.
    rng : numpy.random.Generator
        Picks the rows if there are more than `max_points`. The same seed gives the same rows, so
        that methods are compared on one subsample.
    max_points : int, default 2000
        Largest number of rows used: the cost is quadratic.

    Returns
    -------
    float
        -1 if all rows used fall into one cluster, the convention of the paper (Appendix D).
    """
    array = moderate_points(points)
    centers = moderate_points(centers, "centers", n_features=array.shape[1])
    max_points = check_int(max_points, "max_points", minimum=2, maximum=MAX_POINTS)
    check_rng(rng)
    if len(array) > max_points:
        array = array[rng.choice(len(array), max_points, replace=False)]
    labels = assign(array, centers).labels
    n_found = len(np.unique(labels))
    if n_found == 1:
        return -1.0
    if n_found == len(array):  # the silhouette of a cluster with one point is 0 by definition
        return 0.0
    return float(silhouette_score(array, labels))


def davies_bouldin(points: ArrayLike, centers: ArrayLike) -> float:
    """Davies-Bouldin index of the clusters around `centers` (0 is best).

    Each point belongs to its nearest centre; scatter and distances are measured from the means of
    these clusters, as in scikit-learn. Centres without points do not count.

    Returns
    -------
    float
        inf if all points fall into one cluster, the convention of the paper (Appendix D).
    """
    array = moderate_points(points)
    centers = moderate_points(centers, "centers", n_features=array.shape[1])
    labels = assign(array, centers).labels
    n_found = len(np.unique(labels))
    if n_found == 1:
        return float("inf")
    if n_found == len(array):  # no scatter
        return 0.0
    return float(davies_bouldin_score(array, labels))


def centroid_mse(centers: ArrayLike, reference: ArrayLike) -> float:
    """Mean squared distance between centres and the reference centres matched to them.

    The matching is the one-to-one assignment of least total squared distance (Hungarian method).
    A squared distance is summed over the d coordinates and averaged over the k pairs.

    Parameters
    ----------
    centers, reference : array_like of shape (k, d)

    Raises
    ------
    ValueError
        If the shapes differ.

    Examples
    --------
    >>> centroid_mse([[0.0, 0.0], [5.0, 5.0]], [[5.0, 5.0], [0.0, 1.0]])
    0.5
    """
    first = moderate_points(centers, "centers")
    second = moderate_points(reference, "reference", n_features=first.shape[1])
    if len(first) != len(second):
        raise ValueError(f"reference must have {len(first)} rows like centers, got {len(second)}")
    squared = cdist(first, second, "sqeuclidean")
    return float(squared[linear_sum_assignment(squared)].mean())


def adjusted_rand(points: ArrayLike, centers: ArrayLike, labels: ArrayLike) -> float:
    """Adjusted Rand index between reference labels and the nearest-centre clusters.

    1 for the same grouping, about 0 for unrelated ones. Rows with label -1 (outliers) are left out.

    Raises
    ------
    ValueError
        If `labels` does not have one entry per point, or all of them are -1.
    """
    array = as_points(points)
    try:
        truth = np.asarray(labels)
    except ValueError:
        raise ValueError(f"labels must have shape ({len(array)},)") from None
    if truth.dtype.kind == "O" and not (
        all(isinstance(label, str) for label in truth.flat)
        or all(isinstance(label, Integral) for label in truth.flat)
    ):
        raise TypeError("labels must be integers or strings")
    if truth.dtype.kind == "f" and (truth == np.round(truth)).all() and np.isfinite(truth).all():
        truth = truth.astype(np.float64)  # whole numbers that a table stored as floats
    elif truth.dtype.kind not in "biuUO":
        raise TypeError("labels must be integers or strings")
    if truth.shape != (len(array),):
        raise ValueError(f"labels must have shape ({len(array)},), got {truth.shape}")
    kept = truth != -1
    if not kept.any():
        raise ValueError("labels must name a cluster for at least one point")
    return float(adjusted_rand_score(truth[kept], assign(array[kept], centers).labels))


def auc_over_epsilon(epsilons: ArrayLike, values: ArrayLike) -> float:
    """Area under a curve over epsilon by the trapezoidal rule (FastLloyd, Eq. 26).

    Parameters
    ----------
    epsilons : array_like of shape (m,)
        Increasing, positive, at least two.
    values : array_like of shape (m,)
        For example the mean NICV at each epsilon.

    Examples
    --------
    >>> auc_over_epsilon([0.5, 1.0, 2.0], [3.0, 1.0, 1.0])
    2.0
    """
    x, y = _vector(epsilons, "epsilons"), _vector(values, "values")
    if len(x) < 2 or (np.diff(x) <= 0).any() or x[0] <= 0:
        raise ValueError("epsilons must be at least two positive numbers in increasing order")
    if len(y) != len(x):
        raise ValueError(f"values must have {len(x)} entries like epsilons, got {len(y)}")
    return float(np.trapezoid(y, x))


def mean_ci(values: ArrayLike, level: float = 0.95) -> Interval:
    """Mean and half-width of its confidence interval by Student's t.

    Parameters
    ----------
    values : array_like of shape (m,)
        Independent repetitions, at least two.
    level : float in (0, 1), default 0.95

    Examples
    --------
    >>> mean_ci([1.0, 3.0]).mean
    2.0
    """
    sample = _vector(values, "values")
    if len(sample) < 2:
        raise ValueError("values must have at least two entries")
    level = check_real(level, "level")
    if not 0 < level < 1:
        raise ValueError(f"level must lie in (0, 1), got {level}")
    spread = sample.std(ddof=1) / np.sqrt(len(sample))
    quantile = student_t.isf((1 - level) / 2, len(sample) - 1)
    return Interval(float(sample.mean()), float(quantile * spread))


def _vector(values: ArrayLike, name: str) -> FloatArray:
    array = finite_numbers(values, name, largest=LARGEST)
    if array.ndim != 1:
        raise ValueError(f"{name} must have shape (m,), got {array.shape}")
    return array
