"""Error bounds and conditions of the analysis, with the corrections they need to hold."""

from __future__ import annotations

import math

from numpy.typing import ArrayLike
from scipy.spatial.distance import pdist

from fedclust_helpers import kmeans
from fedclust_helpers._checked import checked
from fedclust_helpers._validation import (
    as_numbers,
    check_delta,
    check_int,
    check_positive,
)
from fedclust_helpers.accounting import gaussian_sigma_analytic
from fedclust_helpers.feddp_kmeans.budgets import check_budget


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
    sigma = gaussian_sigma_analytic(check_budget(epsilon) / 2, check_delta(delta))
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
