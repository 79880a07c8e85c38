"""Choosing k from what FedDP-Init released: post-processing, which costs no privacy."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike

from fedclust_helpers import kmeans
from fedclust_helpers._validation import FloatArray, as_integers, as_numbers
from fedclust_helpers.feddp_kmeans.algorithm import InitResult


def server_cost_curve(
    init: InitResult, ks: Sequence[int], *, rng: np.random.Generator, n_init: int = 25
) -> FloatArray:
    """k-means cost per unit of weight on the weighted, projected server points, for each k (H.3).

    `init` is a run of FedDP-Init with the largest k in mind (its subspace has that many
    dimensions), each of `ks` at most the number of server points that survived. Few restarts
    (`n_init`) make the curve ragged. Returns an array (len(ks),).
    """
    filled = init.kept > 0
    points, weights = init.server_projected[filled], init.kept[filled]
    wanted = as_integers(ks, "ks", minimum=1, maximum=len(points)).tolist()
    centers = (kmeans.weighted_kmeans(points, weights, k, rng=rng, n_init=n_init) for k in wanted)
    share = weights / weights.sum()
    return np.array([float(share @ kmeans.assign(points, c).squared) for c in centers])


def elbow(ks: Sequence[int], costs: ArrayLike) -> int:
    """The k whose cost lies farthest below the chord between both ends of the curve.

    Both axes are scaled to [0, 1] first, so units do not matter. A curve that lies nowhere below
    its chord has no elbow; the first k is returned.

    Examples
    --------
    >>> elbow([1, 2, 3, 4, 5], [100, 60, 20, 15, 10])
    3
    """
    numbers = as_integers(ks, "ks", minimum=1).astype(np.float64)
    if len(numbers) < 3 or (np.diff(numbers) <= 0).any():
        raise ValueError("ks must be at least three numbers of clusters that increase")
    values = as_numbers(costs, "costs", ndim=1)
    if len(values) != len(numbers):
        raise ValueError(f"costs must be {len(numbers)} numbers, one for each of ks")
    drop = values[0] - values[-1]
    if drop <= 0:
        return int(numbers[0])
    across = (numbers - numbers[0]) / (numbers[-1] - numbers[0])
    below = (1 - across) - (values - values[-1]) / drop
    return int(numbers[int(below.argmax())])
