"""Public numbers of a run: radius, budget split, number of rounds, predicted error (5.5, 5.6)."""

from __future__ import annotations

import math
from typing import Literal, NamedTuple

import numpy as np

from fedclust_helpers._validation import FloatArray, check_int

ROUND_LIMITS = (2, 7)  # section 5.5: fewer rounds are useless, more are not needed
ROUND_ERROR = 0.004  # the per-round error that Eq. 21 and 33 tolerate
RHO = 0.225  # Su et al. (2016): how far points lie from the origin, per coordinate

MAX_ROUNDS = 10_000
Strategy = Literal["step", "constant"]


def max_radius(
    n_clusters: int, n_features: int, *, alpha: float = 0.8, bound: float = 1.0
) -> float:
    """The radius eta = alpha beta / (2 k^(1/d)), with beta = 2 B sqrt(d) (Eq. 22 and 25)."""
    if not 1e-9 <= alpha <= 1e9:
        raise ValueError(f"alpha must lie between 1e-9 and 1e9, got {alpha:g}")
    diagonal = 2 * bound * math.sqrt(n_features)
    return alpha * diagonal / (2 * n_clusters ** (1 / n_features))


def round_radii(
    n_rounds: int, n_clusters: int,
    n_features: int, *, alpha: float = 0.8, strategy: Strategy = "step", bound: float = 1.0,
) -> FloatArray:  # fmt: skip
    """The radius of each round: eta ("constant"), or beta/2 first and then eta ("step").

    Returns an array of shape (n_rounds,).
    """
    radii = np.full(n_rounds, max_radius(n_clusters, n_features, alpha=alpha, bound=bound))
    if strategy == "step":
        radii[0] = bound * math.sqrt(n_features)
    return radii


def default_delta(n_records: int) -> float:
    """delta = 1/(N ln N), the paper's choice (section 6.1.1); N >= 3 so that it is below 1."""
    check_int(n_records, "n_records", minimum=3)
    return 1 / (n_records * math.log(n_records))


def split_noise(sigma: float, n_features: int) -> tuple[float, float]:
    """Noise multipliers (sigma^R, sigma^C) of relative sums and counts (Eq. 7).

    The minimiser of (sigma^C)^2 + 4 d (sigma^R)^2 under 1/(sigma^R)^2 + 1/(sigma^C)^2 = 1/sigma^2,
    that is sigma^C = (4d)^(1/4) sigma^R (Eq. 19).
    """
    d = n_features
    total = math.sqrt(1 + math.sqrt(4 * d))
    return sigma * total / (4 * d) ** 0.25, sigma * total


def split_noise_glloyd(sigma: float, n_features: int) -> tuple[float, float]:
    """Noise multipliers (sigma^S, sigma^C) of plain sums and counts (Eq. 30 and 31)."""
    total = math.sqrt(2 * RHO + math.sqrt(n_features))
    return sigma * total / n_features**0.25, sigma * total / math.sqrt(2 * RHO)


def _clip_rounds(rounds: float) -> int:
    low, high = ROUND_LIMITS
    return int(min(max(math.floor(min(rounds, high + 1)), low), high))


def n_rounds_fastlloyd(
    n_records: int, n_clusters: int, n_features: int, radius: float, sigma: float
) -> int:
    """T < 4 N^2 0.004 / (k^3 eta^2 sigma^2 (1 + sqrt(4d))^2), clipped to [2, 7] (Eq. 21)."""
    noise = radius * sigma * (1 + math.sqrt(4 * n_features))
    return _clip_rounds(4 * n_records**2 * ROUND_ERROR / (n_clusters**3 * noise**2))


def n_rounds_glloyd(n_records: int, n_clusters: int, n_features: int, sigma: float) -> int:
    """T <= 0.004 N^2 / (k^3 d (2 rho + sqrt d)^2 sigma^2), clipped (Eq. 33 without its stray T)."""
    noise = (2 * RHO + math.sqrt(n_features)) * sigma
    return _clip_rounds(n_records**2 * ROUND_ERROR / (n_clusters**3 * n_features * noise**2))


def n_rounds_sulloyd(n_records: int, n_clusters: int, n_features: int, epsilon: float) -> int:
    """T = epsilon / epsilon_m with Su et al.'s smallest useful budget of one round, clipped."""
    d = n_features
    wide = (d + (4 * d * RHO**2) ** (1 / 3)) ** 3
    return _clip_rounds(epsilon / math.sqrt(500 * n_clusters**3 / n_records**2 * wide))


def predicted_mse(
    n_records: int, n_clusters: int, n_features: int, *, std_sums: float,
    std_counts: float, displacement: float,
) -> float:  # fmt: skip
    """Mean squared error of one centre after one noisy round, corrected Eq. 16.

    (k/N)^2 (Var(gC) ||mu - mu_prev||^2 + d Var(gR)), for equal clusters of N/k points; the sum over
    all k clusters has the paper's prefactor k^3/N^2 (claim F6). Holds while the count is large
    against its noise (about 10 standard deviations).
    """
    moved = std_counts * displacement
    return (n_clusters / n_records) ** 2 * (moved**2 + n_features * std_sums**2)


def known_groups_excess(n_records: int, n_clusters: int, n_features: int, mu: float) -> float:
    """What noise adds to the best cost, as a share, where the groups are known: d/(lambda s^2).

    One round from the best centres gets all of mu, groups have one size, and the radius is the root
    of the best cost. s = N mu/k is rows of a group for each noise of a count, lambda the share of
    the sums (Eq. 19). Claim B.central.known says how often that holds within a factor of two.
    """
    share = math.sqrt(4 * n_features) / (1 + math.sqrt(4 * n_features))
    return n_features / share * (n_clusters / (n_records * mu)) ** 2


class Excess(NamedTuple):
    """What over-clustered Lloyd added to the best cost where it was measured, as shares of it.

    `typical` is the median of settings, `most` what nine of ten runs stayed below in nine of ten of
    the `settings` measured.
    """

    typical: float
    most: float
    settings: int


EXCESS = {
    0: Excess(0.83, 6, 22), 12: Excess(0.36, 6.8, 21), 20: Excess(0.12, 0.63, 30),
    30: Excess(0.06, 1, 44), 50: Excess(0.03, 0.13, 34), 80: Excess(0.014, 0.08, 41),
    130: Excess(0.008, 0.05, 45), 250: Excess(0.0039, 0.037, 30), 700: Excess(0.0014, 0.017, 17),
}  # fmt: skip
"""From this s on, rows of a cluster for each noise of a count: data/results/better_excess.csv."""


def measured_excess(n_records: int, n_clusters: int, mu: float) -> Excess:
    """What over-clustered Lloyd added where a cluster had about as many rows: s = N mu/k.

    No formula from N, k, d and mu is within a factor of two in more than half of the settings: the
    shape of the data decides, which is private. Claim B.central.told says how often `most` held.
    """
    rows = n_records * mu / n_clusters
    return EXCESS[max(first for first in EXCESS if first <= rows)]
