"""Error bounds of the analysis, with the corrections they need to hold."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from fedclust_helpers._validation import check_delta, check_int, check_positive
from fedclust_helpers.accounting import gaussian_sigma_analytic
from fedclust_helpers.feddp_kmeans.budgets import check_budget


def check_flag(value: Any, name: str) -> bool:
    """Return a switch: True or False."""
    if not isinstance(value, bool | np.bool_):
        raise TypeError(f"{name} must be True or False, got {type(value).__name__}")
    return bool(value)


def check_weight(min_weight: float) -> float:
    """Return the weight of a component: in (0, 1]."""
    if check_positive(min_weight, "min_weight") > 1:
        raise ValueError(f"min_weight must lie in (0, 1], got {min_weight}")
    return float(min_weight)


def max_server_points(
    n_records: int, n_clusters: int, *, epsilon: float, sigma: float, radius: float
) -> int:
    """Assumption (2): |Q| <= epsilon n k sigma^2 / Delta^2 (section 4; G.2 has a further ln n)."""
    n, k = check_int(n_records, "n_records"), check_int(n_clusters, "n_clusters")
    check_positive(sigma, "sigma"), check_positive(radius, "radius")
    log_bound = math.log(check_budget(epsilon)) + math.log(n) + math.log(k)
    log_bound += 2 * (math.log(sigma) - math.log(radius))
    if log_bound > 600:
        raise ValueError(f"sigma must not be that much larger than radius, got {sigma}, {radius}")
    return math.floor(epsilon * n * k * (sigma / radius) ** 2)


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

    The printed bound lacks sqrt(d) (claim F11), a factor 2 in l, and -l in the denominator.
    inf if n <= l.
    """
    n, d = check_int(n_records, "n_records"), check_int(n_features, "n_features")
    sigma = gaussian_sigma_analytic(check_budget(epsilon) / 2, check_delta(delta))
    log = math.log(2) - math.log(check_delta(failure, "failure"))
    check_positive(radius, "radius")
    if check_flag(as_printed, "as_printed"):
        return radius * (log / epsilon + sigma * math.sqrt(log)) / n
    noise = 2 * log / epsilon
    if n <= noise:
        return math.inf
    return radius * (noise + sigma * (math.sqrt(d) + math.sqrt(2 * log))) / (n - noise)


def lloyd_error_bound(
    n_rounds: int,
    *,
    n_records: int,
    cluster_size: int,
    n_features: int,
    epsilon: float,
    delta: float,
    sigma: float,
    radius: float,
    min_weight: float,
    constant: float = 1.0,
    true_means: bool = False,
    as_printed: bool = False,
) -> float:
    """Theorem 3 as corrected (claim F10): error of one centre after `n_rounds` rounds.

        c (2^-T sqrt(n/|G_i|) sigma + T Delta sqrt(d ln(T/delta)) / (epsilon n w_min))

    against the empirical mean of G_i; `true_means` adds sigma sqrt(d/|G_i|). As printed, the second
    term has ln(n) for sqrt(d ln(T/delta)), and speaks of the true mean.
    """
    rounds = check_int(n_rounds, "n_rounds", minimum=0)
    n, size = check_int(n_records, "n_records"), check_int(cluster_size, "cluster_size")
    d = check_int(n_features, "n_features")
    for value, name in ((sigma, "sigma"), (radius, "radius"), (constant, "constant")):
        check_positive(value, name)
    check_delta(delta)
    check_flag(true_means, "true_means")
    check_flag(as_printed, "as_printed")
    if size > n:
        raise ValueError(f"cluster_size must be <= n_records={n}, got {size}")
    first = 2.0**-rounds * math.sqrt(n / size) * sigma
    log = math.log(max(rounds, 1)) - math.log(delta)
    factor = math.log(n) if as_printed else math.sqrt(d * log)
    floor = rounds * radius * factor / (check_budget(epsilon) * n * check_weight(min_weight))
    sampling = sigma * math.sqrt(d / size) if true_means and not as_printed else 0.0
    return constant * (first + floor + sampling)
