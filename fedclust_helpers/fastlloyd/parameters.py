"""Public numbers of a run: radius, budget split, number of rounds, predicted error (5.5, 5.6)."""

from __future__ import annotations

import math
from typing import Literal

import numpy as np

from fedclust_helpers._checked import checked
from fedclust_helpers._validation import (
    FloatArray,
    check_int,
    check_non_negative,
    check_positive,
)

ROUND_LIMITS = (2, 7)  # section 5.5: fewer rounds are useless, more are not needed
ROUND_ERROR = 0.004  # the per-round error that Eq. 21 and 33 tolerate
RHO = 0.225  # Su et al. (2016): how far points lie from the origin, per coordinate

MAX_ROUNDS = 10_000
LARGEST = 10**15  # records, clusters, features
Strategy = Literal["step", "constant"]


@checked
def max_radius(
    n_clusters: int, n_features: int, *, alpha: float = 0.8, bound: float = 1.0
) -> float:
    """The radius eta = alpha beta / (2 k^(1/d)), with beta = 2 B sqrt(d) (Eq. 22 and 25)."""
    k, d = check_int(n_clusters, "n_clusters"), check_int(n_features, "n_features")
    diagonal = 2 * check_positive(bound, "bound") * math.sqrt(d)
    if not 1e-9 <= check_positive(alpha, "alpha") <= 1e9:
        raise ValueError(f"alpha must lie between 1e-9 and 1e9, got {alpha:g}")
    return alpha * diagonal / (2 * k ** (1 / d))


@checked
def round_radii(
    n_rounds: int,
    n_clusters: int,
    n_features: int,
    *,
    alpha: float = 0.8,
    strategy: Strategy = "step",
    bound: float = 1.0,
) -> FloatArray:
    """The radius of each round: eta ("constant"), or beta/2 first and then eta ("step").

    Returns an array of shape (n_rounds,).
    """
    eta = max_radius(n_clusters, n_features, alpha=alpha, bound=bound)
    radii = np.full(check_int(n_rounds, "n_rounds", maximum=MAX_ROUNDS), eta)
    if strategy == "step":
        radii[0] = bound * math.sqrt(n_features)
    return radii


@checked
def default_delta(n_records: int) -> float:
    """delta = 1/(N ln N), the paper's choice (section 6.1.1); N >= 3 so that it is below 1."""
    n = check_int(n_records, "n_records", minimum=3)
    return 1 / (n * math.log(n))


@checked
def split_noise(sigma: float, n_features: int) -> tuple[float, float]:
    """Noise multipliers (sigma^R, sigma^C) of relative sums and counts (Eq. 7).

    The minimiser of (sigma^C)^2 + 4 d (sigma^R)^2 under 1/(sigma^R)^2 + 1/(sigma^C)^2 = 1/sigma^2,
    that is sigma^C = (4d)^(1/4) sigma^R (Eq. 19).
    """
    sigma, d = check_positive(sigma, "sigma"), check_int(n_features, "n_features")
    total = math.sqrt(1 + math.sqrt(4 * d))
    return sigma * total / (4 * d) ** 0.25, sigma * total


@checked
def split_noise_glloyd(sigma: float, n_features: int) -> tuple[float, float]:
    """Noise multipliers (sigma^S, sigma^C) of plain sums and counts (Eq. 30 and 31)."""
    sigma, d = check_positive(sigma, "sigma"), check_int(n_features, "n_features")
    total = math.sqrt(2 * RHO + math.sqrt(d))
    return sigma * total / d**0.25, sigma * total / math.sqrt(2 * RHO)


def _clip_rounds(rounds: float) -> int:
    low, high = ROUND_LIMITS
    return int(min(max(math.floor(min(rounds, high + 1)), low), high))


def _moderate(value: float, name: str) -> float:
    """A number >= 0 whose powers are floats."""
    if not (check_non_negative(value, name) == 0 or 1e-110 <= value <= 1e110):
        raise ValueError(f"{name} must lie between 1e-110 and 1e110 (rescale), got {value:g}")
    return value


def _sizes(n_records: int, n_clusters: int, n_features: int) -> tuple[int, int, int]:
    """(N, k, d), each at least 1 and small enough for its powers to be floats."""
    named = ((n_records, "n_records"), (n_clusters, "n_clusters"), (n_features, "n_features"))
    n, k, d = (check_int(value, name, maximum=LARGEST) for value, name in named)
    return n, k, d


@checked
def n_rounds_fastlloyd(
    n_records: int, n_clusters: int, n_features: int, radius: float, sigma: float
) -> int:
    """T < 4 N^2 0.004 / (k^3 eta^2 sigma^2 (1 + sqrt(4d))^2), clipped to [2, 7] (Eq. 21)."""
    n, k, d = _sizes(n_records, n_clusters, n_features)
    both = check_positive(radius, "radius") * check_positive(sigma, "sigma")
    noise = check_positive(_moderate(both, "radius times sigma"), "radius times sigma")
    noise *= 1 + math.sqrt(4 * d)
    return _clip_rounds(4 * n**2 * ROUND_ERROR / (k**3 * noise**2))


@checked
def n_rounds_glloyd(n_records: int, n_clusters: int, n_features: int, sigma: float) -> int:
    """T <= 0.004 N^2 / (k^3 d (2 rho + sqrt d)^2 sigma^2), clipped (Eq. 33 without its stray T)."""
    n, k, d = _sizes(n_records, n_clusters, n_features)
    noise = (2 * RHO + math.sqrt(d)) * _moderate(check_positive(sigma, "sigma"), "sigma")
    return _clip_rounds(n**2 * ROUND_ERROR / (k**3 * d * noise**2))


@checked
def n_rounds_sulloyd(n_records: int, n_clusters: int, n_features: int, epsilon: float) -> int:
    """T = epsilon / epsilon_m with Su et al.'s smallest useful budget of one round, clipped."""
    n, k, d = _sizes(n_records, n_clusters, n_features)
    smallest = math.sqrt(500 * k**3 / n**2 * (d + (4 * d * RHO**2) ** (1 / 3)) ** 3)
    return _clip_rounds(check_positive(epsilon, "epsilon") / smallest)


@checked
def predicted_mse(
    n_records: int,
    n_clusters: int,
    n_features: int,
    *,
    std_sums: float,
    std_counts: float,
    displacement: float,
) -> float:
    """Mean squared error of one centre after one noisy round, corrected Eq. 16.

    (k/N)^2 (Var(gC) ||mu - mu_prev||^2 + d Var(gR)), for equal clusters of N/k points; the sum over
    all k clusters has the paper's prefactor k^3/N^2 (claim F6). Holds while the count is large
    against its noise (about 10 standard deviations).
    """
    n, k, d = _sizes(n_records, n_clusters, n_features)
    _moderate(std_sums, "std_sums")
    check_non_negative(std_counts, "std_counts"), check_non_negative(displacement, "displacement")
    _moderate(std_counts * displacement, "std_counts times displacement")
    return (k / n) ** 2 * ((std_counts * displacement) ** 2 + d * std_sums**2)
