"""Baselines of section 6.1.2: GLloyd, SuLloyd, and Lloyd without noise."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike

from fedclust_helpers._validation import check_int
from fedclust_helpers.client_statistics import SUMS_AND_COUNTS
from fedclust_helpers.fastlloyd.algorithm import (
    POSTPROCESS,
    LloydPlan,
    LloydResult,
    NoiseKind,
    Postprocess,
    base_sigma,
    check_postprocess,
    check_run,
    collect_result,
    fastlloyd,
    floored,
    gaussian_pair,
    initial_centers,
    noise_kind,
    require_budget,
)
from fedclust_helpers.fastlloyd.parameters import (
    RHO,
    ROUND_LIMITS,
    n_rounds_glloyd,
    n_rounds_sulloyd,
    split_noise_glloyd,
)
from fedclust_helpers.federation import SumFederation, TrustModelError
from fedclust_helpers.mechanisms import DiscreteLaplace, Laplace, Mechanism, NoNoise


def _sum_and_count_lloyd(
    federation: SumFederation,
    plan: LloydPlan,
    postprocess: Postprocess,
    initial: str | ArrayLike,
    count_floor: float | None,
) -> LloydResult:
    """Lloyd from released sums and counts; without noise, an empty cluster keeps its centre."""
    check_postprocess(postprocess, count_floor)
    history, released = [initial_centers(federation, plan.n_clusters, initial)], []
    require_budget(federation, plan)
    for t, mechanisms in enumerate(plan.mechanisms):
        centers = history[-1]
        sums, counts = federation.noisy_sum(SUMS_AND_COUNTS, mechanisms, round=t, centers=centers)
        released.append((sums, counts))
        if plan.method == "lloyd":
            means = np.where(counts[:, None] > 0, sums / np.maximum(counts, 1)[:, None], centers)
        else:
            means = sums / floored(counts, count_floor)[:, None]
        history.append(POSTPROCESS[postprocess](means, federation.bound))
    return collect_result(federation, plan, history, released)


def glloyd(
    federation: SumFederation,
    *,
    n_clusters: int,
    epsilon: float,
    delta: float | None = None,
    n_rounds: int | None = None,
    postprocess: Postprocess = "none",
    initial: Literal["halving", "largest"] | ArrayLike = "halving",
    count_floor: float | None = None,
    noise: NoiseKind = "auto",
) -> LloydResult:
    """GLloyd: noised sums and counts with Gaussian noise (Appendix B.1), no radius.

    L2 sensitivity sqrt(d) B of the sums under add/remove. Parameters as in `fastlloyd`, but
    `count_floor` is None as in the paper: without radius and fold, a negative count raised to 1
    throws its centre far out of the box.
    """
    k, epsilon, delta = check_run(federation, n_clusters, epsilon, delta)
    d, kind = federation.n_features, noise_kind(federation, noise)
    sigma = base_sigma(epsilon, delta, kind)
    if n_rounds is None:
        n_rounds = n_rounds_glloyd(federation.n_records, k, d, sigma)
    check_int(n_rounds, "n_rounds")
    per_round = tuple(s * math.sqrt(n_rounds) for s in split_noise_glloyd(sigma, d))
    grid = federation.resolution or (0.0 if kind == "continuous" else 2.0**-30)
    sensitivities = tuple(
        SUMS_AND_COUNTS.sensitivity_of(
            part, 2, "add/remove", grid=grid, bound=federation.bound, n_features=d
        )
        for part in SUMS_AND_COUNTS.parts
    )
    pair = gaussian_pair(federation, kind, sensitivities, per_round, k)  # type: ignore[arg-type]
    plan = LloydPlan("glloyd", k, d, n_rounds, epsilon, delta, None, (pair,) * n_rounds)
    return _sum_and_count_lloyd(federation, plan, postprocess, initial, count_floor)


def sulloyd(
    federation: SumFederation,
    *,
    n_clusters: int,
    epsilon: float,
    n_rounds: int | None = None,
    postprocess: Postprocess = "none",
    initial: Literal["halving", "largest"] | ArrayLike = "halving",
    count_floor: float | None = None,
    noise: NoiseKind = "auto",
) -> LloydResult:
    """SuLloyd: noised sums and counts with Laplace noise (Su et al. 2016), pure epsilon-DP.

    L1 sensitivities d B (sums) and 1 (counts) under add/remove. Each round spends epsilon/T, in
    the proportion d : (4 d rho^2)^(1/3) on sums and counts. (The diffprivlib code that inspired
    the baseline swaps the two shares: notes P10.)
    """
    k, epsilon, _ = check_run(federation, n_clusters, epsilon, 1e-9)
    d, kind = federation.n_features, noise_kind(federation, noise)
    if kind == "distributed":
        raise TrustModelError(
            "sulloyd needs one party to draw its Laplace noise; the serverless variant offers"
            " fastlloyd and glloyd"
        )
    if n_rounds is None:
        n_rounds = n_rounds_sulloyd(federation.n_records, k, d, epsilon)
    check_int(n_rounds, "n_rounds")
    count_share = (4 * d * RHO**2) ** (1 / 3)
    unit = epsilon / (n_rounds * (d + count_share))
    grid = federation.resolution or (0.0 if kind == "continuous" else 2.0**-30)
    pair: list[Mechanism] = []
    for part, budget, step in (("sums", d * unit, grid), ("counts", count_share * unit, 1.0)):
        sensitivity = SUMS_AND_COUNTS.sensitivity_of(
            part, 1, "add/remove", grid=grid, bound=federation.bound, n_features=d
        )
        if kind == "continuous":
            pair.append(Laplace.from_budget(sensitivity, budget))
        else:
            pair.append(DiscreteLaplace.from_budget(sensitivity, budget, grid=step))
    plan = LloydPlan(
        "sulloyd", k, d, n_rounds, epsilon, 0.0, None, ((pair[0], pair[1]),) * n_rounds
    )
    return _sum_and_count_lloyd(federation, plan, postprocess, initial, count_floor)


def lloyd(
    federation: SumFederation,
    *,
    n_clusters: int,
    n_rounds: int = ROUND_LIMITS[1],
    initial: Literal["halving", "largest"] | ArrayLike = "halving",
) -> LloydResult:
    """Non-private federated Lloyd: the same protocol with `NoNoise`; the ledger shows inf."""
    k, _, _ = check_run(federation, n_clusters, 1.0, 1e-9)
    check_int(n_rounds, "n_rounds")
    pair = (NoNoise(), NoNoise())
    plan = LloydPlan(
        "lloyd", k, federation.n_features, n_rounds, math.inf, 0.0, None, (pair,) * n_rounds
    )
    return _sum_and_count_lloyd(federation, plan, "none", initial, 1.0)


METHODS: dict[str, Callable[..., Any]] = {
    "fastlloyd": fastlloyd,
    "glloyd": glloyd,
    "sulloyd": sulloyd,
    "lloyd": lloyd,
}
"""The algorithms by the names used in the result tables."""
