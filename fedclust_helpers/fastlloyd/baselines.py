"""The baselines of section 6.1.2: the same loop without radius, with other noise or with none."""

from __future__ import annotations

import math
from collections.abc import Callable

from fedclust_helpers._validation import check_epsilon, check_int
from fedclust_helpers.client_statistics import SUMS_AND_COUNTS
from fedclust_helpers.fastlloyd.parameters import (
    MAX_ROUNDS,
    RHO,
    ROUND_LIMITS,
    n_rounds_glloyd,
    n_rounds_sulloyd,
    split_noise_glloyd,
)
from fedclust_helpers.fastlloyd.planning import (
    Initial,
    LloydPlan,
    Postprocess,
    checked_size,
    gaussian_pair,
    made,
    plan,
)
from fedclust_helpers.federation import SumFederation
from fedclust_helpers.mechanisms import NoNoise


def plan_glloyd(
    federation: SumFederation,
    *,
    n_clusters: int,
    epsilon: float,
    delta: float | None = None,
    n_rounds: int | None = None,
    initial: Initial = "halving",
    postprocess: Postprocess = "none",
    count_floor: float | None = None,
) -> LloydPlan:
    """Plan GLloyd: noised sums and counts with Gaussian noise (Appendix B.1), no radius.

    L2 sensitivity sqrt(d) B of the sums under add/remove. Parameters as in `plan`, but
    `count_floor` is None as in the paper: without radius and fold, a negative count raised to 1
    throws its centre far out of the box.
    """
    k, delta = checked_size(federation, n_clusters, delta)
    d, sigma = federation.n_features, federation.noise_multiplier(epsilon, delta)
    if n_rounds is None:
        n_rounds = n_rounds_glloyd(federation.n_records, k, d, sigma)
    check_int(n_rounds, "n_rounds", maximum=MAX_ROUNDS)
    shares = [s * math.sqrt(n_rounds) for s in split_noise_glloyd(sigma, d)]
    pair = gaussian_pair(federation, SUMS_AND_COUNTS, shares, k)
    return made(
        federation, SUMS_AND_COUNTS, [pair] * n_rounds, method="glloyd", n_clusters=k,
        epsilon=epsilon, delta=delta, initial=initial, postprocess=postprocess,
        count_floor=count_floor,
    )  # fmt: skip


def plan_sulloyd(
    federation: SumFederation,
    *,
    n_clusters: int,
    epsilon: float,
    n_rounds: int | None = None,
    initial: Initial = "halving",
    postprocess: Postprocess = "none",
    count_floor: float | None = None,
) -> LloydPlan:
    """Plan SuLloyd: noised sums and counts with Laplace noise (Su et al. 2016), pure epsilon-DP.

    L1 sensitivities d B (sums) and 1 (counts) under add/remove. Each round spends epsilon/T, in
    the proportion d : (4 d rho^2)^(1/3) on sums and counts. (The diffprivlib code that inspired
    the baseline swaps the two shares.)
    """
    (k, _), d = checked_size(federation, n_clusters, 0.5), federation.n_features
    epsilon = check_epsilon(epsilon)
    if n_rounds is None:
        n_rounds = n_rounds_sulloyd(federation.n_records, k, d, epsilon)
    check_int(n_rounds, "n_rounds", maximum=MAX_ROUNDS)
    count_share = (4 * d * RHO**2) ** (1 / 3)
    unit = epsilon / (n_rounds * (d + count_share))
    pair = (
        federation.laplace(SUMS_AND_COUNTS, "sums", epsilon=d * unit),
        federation.laplace(SUMS_AND_COUNTS, "counts", epsilon=count_share * unit),
    )
    return made(
        federation, SUMS_AND_COUNTS, [pair] * n_rounds, method="sulloyd", n_clusters=k,
        epsilon=epsilon, delta=0.0, initial=initial, postprocess=postprocess,
        count_floor=count_floor,
    )  # fmt: skip


def plan_lloyd(
    federation: SumFederation,
    *,
    n_clusters: int,
    n_rounds: int = ROUND_LIMITS[1],
    initial: Initial = "halving",
) -> LloydPlan:
    """Plan federated Lloyd **without privacy**: the same protocol, the ledger will show inf."""
    k, _ = checked_size(federation, n_clusters, 0.5)
    pairs = [(NoNoise(), NoNoise())] * check_int(n_rounds, "n_rounds", maximum=MAX_ROUNDS)
    return made(
        federation, SUMS_AND_COUNTS, pairs, method="lloyd", n_clusters=k, epsilon=math.inf,
        delta=0.0, initial=initial, postprocess="none",
    )  # fmt: skip


PLANS: dict[str, Callable[..., LloydPlan]] = {
    "fastlloyd": plan,
    "glloyd": plan_glloyd,
    "sulloyd": plan_sulloyd,
    "lloyd": plan_lloyd,
}
"""The planners by the names used in the result tables."""
