"""Numbers that the paper's bounds give: dimensions, collision probabilities, parallel calls."""

from __future__ import annotations

import math
from functools import lru_cache

import numpy as np
from scipy import special, stats

from fedclust_helpers._validation import (
    FloatArray,
    check_delta,
    check_int,
    check_non_negative,
    check_positive,
    check_share,
)

MAX_OUTPUTS = 2**50
MAX_EXACT_T = 10_000  # dimensions up to which the quadrature holds


# --- dimension reduction ---


def jl_dimension(alpha: float, beta: float) -> int:
    """Smallest d that keeps a length within a factor 1 + alpha with probability 1 - beta.

    Lemma 2.6 without its O(.): for a Gaussian map ||Tx||^2/||x||^2 is chi^2_d / d.
    """
    alpha, beta = _check_alpha(alpha), check_share(beta, "beta")
    low, high = 1, 1
    while jl_failure(high, alpha) > beta:
        low, high = high, 2 * high
        if high > MAX_OUTPUTS:
            raise ValueError(f"alpha must be larger: {alpha:g} needs more than 2^50 dimensions")
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if jl_failure(middle, alpha) > beta else (low, middle)
    return high


def jl_failure(n_outputs: int, alpha: float) -> float:
    """P(||Tx||/||x|| outside [1/(1 + alpha), 1 + alpha]) for a Gaussian map to d dimensions."""
    n_outputs = check_int(n_outputs, "n_outputs", maximum=2 * MAX_OUTPUTS)
    alpha = _check_alpha(alpha)
    chi = stats.chi2(n_outputs)
    return float(chi.sf(n_outputs * (1 + alpha) ** 2) + chi.cdf(n_outputs / (1 + alpha) ** 2))


def kmeans_dimension(n_clusters: int, alpha: float, beta: float) -> int:
    """d = ln(k/(alpha beta))/alpha^2 of Theorem 2.7, with constant 1 (claim P3)."""
    n_clusters = check_int(n_clusters, "n_clusters")
    alpha, beta = _check_alpha(alpha), check_share(beta, "beta")
    if alpha < 1e-7:
        raise ValueError(f"alpha must be larger: {alpha:g} needs more than 2^50 dimensions")
    return max(1, math.ceil((math.log(n_clusters) - math.log(alpha) - math.log(beta)) / alpha**2))


def _check_alpha(value: float) -> float:
    if check_positive(value, "alpha") > 1e100:
        raise ValueError(f"alpha must be at most 1e100, got {value:g}")
    return float(value)


# --- locality-sensitive hashing ---


def collision_probability(distance: float, t: int) -> float:
    """Probability that two points at this distance share a bucket, in closed form.

    p(u) = E[I/(2 - I)], I the share of a ball's volume that two balls at distance rho have in
    common: ``I = betainc((t+1)/2, 1/2, 1 - (rho/2w)^2)`` for rho < 2w, else 0. The expectation is
    over the random projection, rho^2 = u^2 chi^2_t / t. (I/(2 - I) is "both" over "either": the
    first grid that catches one of the two must catch both.)
    """
    t = check_int(t, "t", maximum=MAX_EXACT_T)
    return _collision_probability(check_non_negative(distance, "distance"), t)


@lru_cache(maxsize=4096)
def _collision_probability(distance: float, t: int) -> float:
    w = float(t**0.25)
    if distance / w < 1e-150:
        return 1.0
    # over x = rho sqrt(t)/u, whose density is chi_t; the integrand is 0 beyond 2w sqrt(t)/u
    chi = stats.chi(t)
    top = min(2 * w / distance * math.sqrt(t), math.sqrt(t) + 12)
    nodes, weights = _unit_quadrature()
    x = top * nodes
    inside = np.clip(1 - (x * distance / (2 * w * math.sqrt(t))) ** 2, 0.0, 1.0)
    common = special.betainc((t + 1) / 2, 0.5, inside)
    return float(top * np.sum(weights * chi.pdf(x) * common / (2 - common)))


@lru_cache(maxsize=1)
def _unit_quadrature() -> tuple[FloatArray, FloatArray]:
    """Nodes and weights for integrals over [0, 1], with more nodes at both ends (cosine map)."""
    nodes, weights = np.polynomial.legendre.leggauss(400)
    angle = np.pi * (nodes + 1) / 2
    return (1 - np.cos(angle)) / 2, weights * np.pi / 4 * np.sin(angle)


def near_lower_bound(t: int) -> float:
    """Theorem 2.14.3 without its constant A < 1: p(1) >= A/(2 sqrt(t)) (1 + e + 8 e^2)^(-t/2)."""
    t = check_int(t, "t")
    e = 1 / (4 * math.sqrt(t))
    return math.exp(-t / 2 * math.log1p(e + 8 * e * e)) / (2 * math.sqrt(t))


def far_upper_bound(c: float, t: int) -> float:
    """Theorem 2.14.3: p(c) <= 2/(1 + c^2 e)^(t/2), e = 1/(4 sqrt(t))."""
    c, t = check_non_negative(c, "c"), check_int(t, "t")
    return 2 * math.exp(-t / 2 * math.log1p(c * c / (4 * math.sqrt(t))))


def printed_calls(
    n_users: int, n_outputs: int, n_clusters: int, *, t: int = 4, beta: float = 0.1
) -> dict[str, float]:
    """How many parallel calls Algorithm 4 makes as printed, and what each would get.

    L = lg n, F = lg(sqrt(n)/k), M = 1 + lg(d^(3/2) sqrt(L)), R = ln(k L^2/beta)/p(1) (constant 1).
    """
    n = check_int(n_users, "n_users", minimum=2)
    n_outputs = check_int(n_outputs, "n_outputs")
    n_clusters = check_int(n_clusters, "n_clusters")
    beta = check_delta(beta, "beta")
    levels = math.ceil(math.log2(n))
    guesses = max(1, math.ceil(math.log2(n / (math.sqrt(n) * n_clusters))))
    scales = math.ceil(1 + math.log2(n_outputs**1.5 * math.sqrt(levels)))
    repetitions = math.ceil(math.log(n_clusters * levels**2 / beta) / collision_probability(1.0, t))
    calls = guesses * levels * scales * repetitions
    return {
        "F": guesses, "L": levels, "M": scales, "R": repetitions, "calls": calls,
        "epsilon_share": 1 / (8 * calls), "users_per_call": n / calls,
    }  # fmt: skip
