"""How good a clustering is, and how sure we are of it. Nothing here is private.

Points have shape (n, d), centres (k, d). Each function sees raw points; use it to judge an
algorithm in an experiment, never as part of what is released.

>>> round(nicv([[0.0], [1.0], [10.0]], [[0.5], [10.0]]), 3)  # squared distance, the mean of rows
0.167
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from fedclust_helpers._lazy import metrics
from fedclust_helpers._validation import FloatArray
from fedclust_helpers.kmeans import assign, kmeans_cost, moderate_points

__all__ = ["nicv", "silhouette"]


def nicv(points: ArrayLike, centers: ArrayLike) -> float:
    """Normalised intra-cluster variance: mean squared distance to the nearest centre.

    All points count, also those that a radius left out (FastLloyd, Section 6.2.1).

    Examples
    --------
    >>> nicv([[0.0], [1.0], [4.0]], [[0.0], [3.0]])
    0.6666666666666666
    """
    return kmeans_cost(*_points_and_centers(points, centers), normalize=True)


def silhouette(
    points: ArrayLike,
    centers: ArrayLike,
    *,
    rng: np.random.Generator,
    max_points: int = 2000,
) -> float:
    """Mean silhouette of the nearest-centre clusters, between -1 and 1 (higher is better).

    -1 if all rows used fall into one cluster, the convention of the paper (Appendix D). The cost is
    quadratic, so `rng` picks `max_points` of the rows if there are more: the same seed gives the
    same rows, so that methods are compared on one subsample.
    """
    array, centers = _points_and_centers(points, centers)
    if len(array) > max_points:
        array = array[rng.choice(len(array), max_points, replace=False)]
    # the silhouette of a cluster with one point is 0 by definition
    return _of_clusters(metrics.silhouette_score, array, centers, one=-1.0)


def davies_bouldin(points: ArrayLike, centers: ArrayLike) -> float:
    """Davies-Bouldin index of the nearest-centre clusters (0 is best).

    Scatter and distances are measured from the means of these clusters, as in scikit-learn. Centres
    without points do not count. inf if all points fall into one cluster, the convention of the
    paper (Appendix D).
    """
    return _of_clusters(
        metrics.davies_bouldin_score, *_points_and_centers(points, centers), one=np.inf
    )


def _points_and_centers(points: ArrayLike, centers: ArrayLike) -> tuple[FloatArray, FloatArray]:
    array = moderate_points(points)
    return array, moderate_points(centers, "centers", n_features=array.shape[1])


def _of_clusters(
    index: Callable[..., Any], points: FloatArray, centers: FloatArray, *, one: float
) -> float:
    """An index that is `one` for one cluster, and 0 for clusters of one point each."""
    labels = assign(points, centers).labels
    n_found = len(np.unique(labels))
    if n_found == 1:
        return one
    return 0.0 if n_found == len(points) else float(index(points, labels))
