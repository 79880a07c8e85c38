"""Choosing k from what FedDP-Init released, and diagnostics of its subspace: all post-processing.

`server_cost_curve`, `elbow` read released values only and cost no privacy. `subspace_energy`,
`eigengap` and `separation_constant` compare with the truth and are for experiments.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike
from scipy.spatial.distance import pdist

from fedclust_helpers import kmeans
from fedclust_helpers._validation import (
    FloatArray,
    as_points,
    check_int,
    check_non_negative,
    check_positive,
    check_rng,
)
from fedclust_helpers.feddp_kmeans.algorithm import InitResult
from fedclust_helpers.feddp_kmeans.planning import check_restarts


def _numbers(values: ArrayLike, name: str, n: int | None = None) -> FloatArray:
    """One-dimensional finite numbers, `n` of them."""
    try:
        if np.asarray(values).dtype.kind == "c":
            raise TypeError
        array = np.asarray(values, dtype=np.float64)
    except (TypeError, ValueError):
        raise TypeError(f"{name} must be numbers") from None
    if array.ndim != 1 or (n is not None and len(array) != n) or not np.isfinite(array).all():
        raise ValueError(f"{name} must be {'' if n is None else f'{n} '}finite numbers in a list")
    return array


def _moderate(values: ArrayLike, name: str) -> FloatArray:
    """Points whose squares are still numbers."""
    array = as_points(values, name)
    if not np.abs(array).max() < 1e100:
        raise ValueError(f"{name} must be below 1e100 in size (rescale)")
    return array


def _cluster_numbers(ks: Sequence[int], *, maximum: int | None = None) -> list[int]:
    """Numbers of clusters, at least one."""
    try:
        wanted = list(ks)
    except TypeError:
        raise TypeError("ks must be a sequence of numbers of clusters") from None
    if not wanted:
        raise ValueError("ks must hold at least one number of clusters")
    return [check_int(k, "ks", maximum=maximum) for k in wanted]


def server_cost_curve(
    init: InitResult, ks: Sequence[int], *, rng: np.random.Generator, n_init: int = 25
) -> FloatArray:
    """k-means cost per unit of weight on the weighted, projected server points, for each k (H.3).

    Parameters
    ----------
    init : InitResult
        A run of FedDP-Init with the largest k in mind (its subspace has that many dimensions).
    ks : sequence of int
        Each at most the number of server points that survived.
    rng : numpy.random.Generator
    n_init : int
        Restarts; few make the curve ragged.

    Returns
    -------
    ndarray of shape (len(ks),)
    """
    if not isinstance(init, InitResult):
        raise TypeError(f"init must be an InitResult (result.init), got {type(init).__name__}")
    filled = init.kept > 0
    points, weights = init.server_projected[filled], init.kept[filled]
    wanted = _cluster_numbers(ks, maximum=len(points))
    check_rng(rng)
    check_restarts(n_init)
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
    numbers = np.array(_cluster_numbers(ks), dtype=np.float64)
    if len(numbers) < 3:
        raise ValueError("ks must hold at least three numbers of clusters")
    values = _numbers(costs, "costs", len(numbers))
    if (np.diff(numbers) <= 0).any():
        raise ValueError("ks must increase")
    drop = values[0] - values[-1]
    if drop <= 0:
        return int(numbers[0])
    across = (numbers - numbers[0]) / (numbers[-1] - numbers[0])
    below = (1 - across) - (values - values[-1]) / drop
    return int(numbers[int(below.argmax())])


def subspace_energy(basis: ArrayLike, means: ArrayLike, weights: ArrayLike | None = None) -> float:
    """Fraction of the energy between the means that the subspace keeps (claim K5).

    Parameters
    ----------
    basis : array_like of shape (d, r)
        Orthonormal columns.
    means : array_like of shape (k, d)
        At least two different means.
    weights : array_like of shape (k,), optional
        Shares of the clusters; equal by default.

    Returns
    -------
    float
        sum_i w_i ||basis^T (mu_i - mu)||^2 / sum_i w_i ||mu_i - mu||^2, in [0, 1].
    """
    means = _moderate(means, "means")
    basis = as_points(basis, "basis")
    if basis.shape[0] != means.shape[1]:
        raise ValueError(f"basis must have {means.shape[1]} rows, got {basis.shape[0]}")
    if not np.allclose(basis.T @ basis, np.eye(basis.shape[1]), atol=1e-8):
        raise ValueError("basis must have orthonormal columns")
    w = np.ones(len(means)) if weights is None else _numbers(weights, "weights", len(means))
    if not (w >= 0).all() or w.sum() == 0:
        raise ValueError(f"weights must be {len(means)} numbers >= 0, not all zero")
    centred = means - np.average(means, axis=0, weights=w)
    total = float(w @ (centred**2).sum(axis=1))
    if total == 0:
        raise ValueError("means must not all be equal")
    return float(w @ ((centred @ basis) ** 2).sum(axis=1)) / total


def eigengap(outer: ArrayLike, rank: int) -> float:
    """lambda_rank - lambda_(rank + 1) of a symmetric matrix, eigenvalues in falling order."""
    matrix = _moderate(outer, "outer")
    if matrix.shape[0] != matrix.shape[1]:
        raise ValueError(f"outer must be square, got shape {matrix.shape}")
    rank = check_int(rank, "rank", maximum=len(matrix) - 1)
    values = np.linalg.eigvalsh((matrix + matrix.T) / 2)[::-1]
    return float(values[rank - 1] - values[rank])


def noise_norm(std: float, n_features: int) -> float:
    """Spectral norm to expect of (N + N^T)/2 for d^2 independent N(0, std^2): std sqrt(2 d).

    The subspace is lost when this exceeds the `eigengap`. Mirrored noise has 2 std sqrt(d).
    """
    return check_non_negative(std, "std") * math.sqrt(2 * check_int(n_features, "n_features"))


def separation_constant(
    means: ArrayLike, weights: ArrayLike, *, sigma: float, n_records: int
) -> float:
    """The c with which a mixture satisfies Definition 2 (sigma read as a standard deviation).

    min over pairs of ||mu_i - mu_j|| / (sqrt(k/w_min) sigma ln n), with the smallest weight.
    """
    means = _moderate(means, "means")
    if len(means) < 2:
        raise ValueError("means must hold at least two means")
    w = _numbers(weights, "weights", len(means))
    if not (w > 0).all():
        raise ValueError(f"weights must be {len(means)} numbers > 0")
    scale = math.sqrt(len(means) * w.sum() / w.min()) * check_positive(sigma, "sigma")
    n = check_int(n_records, "n_records", minimum=2)  # ln 1 = 0 separates nothing
    return float(pdist(means).min()) / (scale * math.log(n))
