"""Error bounds and conditions of the analysis, with the corrections they need to hold."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import ArrayLike
from scipy.spatial.distance import pdist

from fedclust_helpers import kmeans
from fedclust_helpers._checked import checked
from fedclust_helpers._validation import (
    FloatArray,
    as_numbers,
    as_points,
    check_delta,
    check_epsilon,
    check_int,
    check_non_negative,
    check_positive,
)
from fedclust_helpers.accounting import gaussian_sigma_analytic


@checked
def averaging_error_bound(
    n_records: int,
    n_features: int,
    *,
    epsilon: float,
    delta: float,
    radius: float,
    failure: float,
    as_printed: bool = False,
) -> float:
    """Lemma 7: how far a noised mean may be from the mean, except with probability `failure`.

    A sum with Gaussian noise at (epsilon/2, delta) over a count with Laplace(2/epsilon) noise.
    With l = 2 ln(2/failure)/epsilon, the noise of the count, and sigma of the analytic mechanism:

        Delta (l + sigma (sqrt(d) + sqrt(2 ln(2/failure)))) / (n - l).

    The printed bound lacks sqrt(d) (claim F11), a factor 2 in l, and -l in the denominator. inf if
    n <= l.
    """
    n, d = check_int(n_records, "n_records"), check_int(n_features, "n_features")
    sigma = gaussian_sigma_analytic(check_epsilon(epsilon) / 2, check_delta(delta))
    log = math.log(2) - math.log(check_delta(failure, "failure"))
    check_positive(radius, "radius")
    if as_printed:
        return radius * (log / epsilon + sigma * math.sqrt(log)) / n
    noise = 2 * log / epsilon
    if n <= noise:
        return math.inf
    return radius * (noise + sigma * (math.sqrt(d) + math.sqrt(2 * log))) / (n - noise)


@checked
def separation_constant(
    means: ArrayLike, weights: ArrayLike, *, sigma: float, n_records: int
) -> float:
    """The c with which a mixture satisfies Definition 2 (sigma read as a standard deviation).

    min over pairs of ||mu_i - mu_j|| / (sqrt(k/w_min) sigma ln n), with the smallest weight.
    """
    means, w = kmeans.moderate_points(means, "means"), as_numbers(weights, "weights", ndim=1)
    if not 2 <= len(means) == len(w) or not (w > 0).all():
        raise ValueError("means must be at least two, and weights must be > 0, one for each")
    scale = math.sqrt(len(means) * w.sum() / w.min()) * check_positive(sigma, "sigma")
    n = check_int(n_records, "n_records", minimum=2)  # ln 1 = 0 separates nothing
    return float(pdist(means).min()) / (scale * math.log(n))


# --- the subspace of Step 1: what is left of it under noise ---


def _moderate(values: ArrayLike, name: str) -> FloatArray:
    """Points whose squares are still numbers."""
    array = as_points(values, name)
    if not np.abs(array).max() < 1e100:
        raise ValueError(f"{name} must be below 1e100 in size (rescale)")
    return array


@checked
def subspace_energy(basis: ArrayLike, means: ArrayLike, weights: ArrayLike | None = None) -> float:
    """Fraction of the energy between the means that the subspace keeps (claim K5).

    sum_i w_i ||basis^T (mu_i - mu)||^2 / sum_i w_i ||mu_i - mu||^2, in [0, 1], for a `basis` (d, r)
    of orthonormal columns, at least two different `means` (k, d), and `weights` (k,), the shares of
    the clusters, equal by default.
    """
    means, basis = _moderate(means, "means"), as_points(basis, "basis")
    if basis.shape[0] != means.shape[1]:
        raise ValueError(f"basis must have {means.shape[1]} rows, got {basis.shape[0]}")
    if not np.allclose(basis.T @ basis, np.eye(basis.shape[1]), atol=1e-8):
        raise ValueError("basis must have orthonormal columns")
    w = np.ones(len(means)) if weights is None else as_numbers(weights, "weights", ndim=1)
    if len(w) != len(means) or not (w >= 0).all() or w.sum() == 0:
        raise ValueError(f"weights must be {len(means)} numbers >= 0, not all zero")
    centred = means - np.average(means, axis=0, weights=w)
    total = float(w @ (centred**2).sum(axis=1))
    if total == 0:
        raise ValueError("means must not all be equal")
    return float(w @ ((centred @ basis) ** 2).sum(axis=1)) / total


@checked
def eigengap(outer: ArrayLike, rank: int) -> float:
    """lambda_rank - lambda_(rank + 1) of a symmetric matrix, eigenvalues in falling order."""
    matrix = _moderate(outer, "outer")
    if matrix.shape[0] != matrix.shape[1]:
        raise ValueError(f"outer must be square, got shape {matrix.shape}")
    rank = check_int(rank, "rank", maximum=len(matrix) - 1)
    values = np.linalg.eigvalsh((matrix + matrix.T) / 2)[::-1]
    return float(values[rank - 1] - values[rank])


@checked
def noise_norm(std: float, n_features: int) -> float:
    """Spectral norm to expect of (N + N^T)/2 for d^2 independent N(0, std^2): std sqrt(2 d).

    The subspace is lost when this exceeds the `eigengap`. Mirrored noise has 2 std sqrt(d).
    """
    return check_non_negative(std, "std") * math.sqrt(2 * check_int(n_features, "n_features"))
