"""Plans of the Lloyd family: FastLloyd, and the baselines of section 6.1.2.

The baselines run the same loop without radius, with other noise or with none.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike

from fedclust_helpers import kmeans
from fedclust_helpers._checked import checked
from fedclust_helpers._validation import (
    FloatArray,
    as_points,
    check_choice,
    check_delta,
    check_epsilon,
    check_int,
    check_positive,
)
from fedclust_helpers.client_statistics import (
    RELATIVE_SUMS_AND_COUNTS,
    SUMS_AND_COUNTS,
    ClientStatistic,
)
from fedclust_helpers.fastlloyd import parameters
from fedclust_helpers.fastlloyd.parameters import Strategy, default_delta, max_radius
from fedclust_helpers.federation import Plan, PlannedRelease, SumFederation, planner, require
from fedclust_helpers.federation.noise import planned_within
from fedclust_helpers.mechanisms import Mechanism, NoNoise

Postprocess = Literal["fold", "truncate", "none"]
Initial = Literal["halving", "largest"] | ArrayLike


@checked
@dataclass(frozen=True, kw_only=True)
class LloydPlan(Plan):
    """A Lloyd-type run: a pair of noised arrays (sums, counts) in each round.

    `radii` are those of the rounds (None for the baselines, which have none), `initial` the sphere
    packing variant ("halving", "largest") or public starting centres (k, d). `postprocess`,
    `count_floor` and `clip_step` say what is done with released values, see `update_centers`.
    """

    radii: tuple[float, ...] | None = None
    initial: str | FloatArray = field(repr=False, compare=False)
    postprocess: Postprocess = "fold"
    count_floor: float | None = 1.0
    clip_step: bool = True
    statistic: ClientStatistic = field(repr=False)

    def __post_init__(self) -> None:
        if self.count_floor is not None:
            check_positive(self.count_floor, "count_floor")
        given = _checked_initial(self.initial, self.n_clusters, self.n_features)
        object.__setattr__(self, "initial", given)

    @property
    def mechanisms(self) -> tuple[tuple[Mechanism, ...], ...]:
        """The noise of (sums, counts) for each round."""
        return tuple(r.mechanisms for r in self.releases)


@planner
def plan(
    federation: SumFederation, *, n_clusters: int, epsilon: float, delta: float | None = None,
    n_rounds: int | None = None, initial: Initial = "halving", alpha: float = 0.8,
    strategy: Strategy = "step", postprocess: Postprocess = "fold",
    count_floor: float | None = 1.0, clip_step: bool = True,
) -> LloydPlan:  # fmt: skip
    """Plan FastLloyd (Algorithm 1) for a total of (epsilon, delta), add/remove one point.

    The noise of round t follows the radius of round t (Eq. 8 has one eta for all), so every round
    costs the same. Sensitivities include the rounding to the federation's grid: r_t + sqrt(d) 2^-q.
    What the federation could not run is refused; nothing is released or charged.

    Parameters
    ----------
    federation : SumFederation
        The one that will run the plan; `MaskedSecureSum` gives the paper's protocol.
    n_clusters : int
    epsilon, delta : float
        Total over all rounds; delta is 1/(N ln N) by default (`default_delta`), which tells the
        federation's `n_records` N: it is public then.
    n_rounds : int, optional
        Defaults to Eq. 21, between 2 and 7.
    initial : {"halving", "largest"} or array_like of shape (k, d)
        Sphere packing variant (public randomness of the federation that runs the plan), or public
        starting centres. Centres that were computed from private data would have to be charged: do
        not pass any.
    alpha, strategy
        Radius, see `round_radii`.
    postprocess, count_floor, clip_step
        See `update_centers`.
    """
    k, delta = checked_size(federation, n_clusters, delta)
    n, d, bound = federation.n_records, federation.n_features, federation.bound
    facts, statistic = federation.facts, RELATIVE_SUMS_AND_COUNTS
    # where every client adds a share, all shares together are more than the honest ones alone
    more = math.sqrt(facts.n_clients / facts.n_honest) if facts.noise == "distributed" else 1.0

    def made(sigma: float) -> LloydPlan:
        t = n_rounds
        if t is None:  # Eq. 21 is derived for B = 1
            t = parameters.n_rounds_fastlloyd(n, k, d, max_radius(k, d, alpha=alpha), sigma)
        radii = parameters.round_radii(t, k, d, alpha=alpha, strategy=strategy, bound=bound)
        shares = [s * math.sqrt(t) for s in parameters.split_noise(sigma, d)]
        noise = [_gaussian_pair(federation, statistic, shares, k, radius=r) for r in radii.tolist()]
        last_sums, last_counts = noise[-1]
        return _made(
            federation, statistic, noise, method="fastlloyd", n_clusters=k, epsilon=epsilon,
            delta=delta, initial=initial, radii=tuple(radii.tolist()), postprocess=postprocess,
            count_floor=count_floor, clip_step=clip_step,
            predicted_error=parameters.predicted_mse(
                n, k, d, std_sums=more * last_sums.std, std_counts=more * last_counts.std,
                displacement=0.0,
            ),
            predicted_error_is="mean squared distance by which noise moves a centre in the last"
            " round, k clusters of equal size (Eq. 16)",
        )  # fmt: skip

    return planned_within(federation, epsilon, delta, made)


# --- the baselines --------------------------------------------------------------------------------


@planner
def plan_glloyd(
    federation: SumFederation, *, n_clusters: int, epsilon: float, delta: float | None = None,
    n_rounds: int | None = None, initial: Initial = "halving", postprocess: Postprocess = "none",
    count_floor: float | None = None,
) -> LloydPlan:  # fmt: skip
    """Plan GLloyd: noised sums and counts with Gaussian noise (Appendix B.1), no radius.

    L2 sensitivity sqrt(d) B of the sums under add/remove. Parameters as in `plan`, but
    `count_floor` is None as in the paper: without radius and fold, a negative count raised to 1
    throws its centre far out of the box.
    """
    k, delta = checked_size(federation, n_clusters, delta)
    d = federation.n_features

    def made(sigma: float) -> LloydPlan:
        t = n_rounds
        if t is None:
            t = parameters.n_rounds_glloyd(federation.n_records, k, d, sigma)
        check_int(t, "n_rounds", maximum=parameters.MAX_ROUNDS)
        shares = [s * math.sqrt(t) for s in parameters.split_noise_glloyd(sigma, d)]
        pair = _gaussian_pair(federation, SUMS_AND_COUNTS, shares, k)
        return _made(
            federation, SUMS_AND_COUNTS, [pair] * t, method="glloyd", n_clusters=k,
            epsilon=epsilon, delta=delta, initial=initial, postprocess=postprocess,
            count_floor=count_floor,
        )  # fmt: skip

    return planned_within(federation, epsilon, delta, made)


@planner
def plan_sulloyd(
    federation: SumFederation, *, n_clusters: int, epsilon: float, n_rounds: int | None = None,
    initial: Initial = "halving", postprocess: Postprocess = "none",
    count_floor: float | None = None,
) -> LloydPlan:  # fmt: skip
    """Plan SuLloyd: noised sums and counts with Laplace noise (Su et al. 2016), pure epsilon-DP.

    L1 sensitivities d B (sums) and 1 (counts) under add/remove. Each round spends epsilon/T, in
    the proportion d : (4 d rho^2)^(1/3) on sums and counts. (The diffprivlib code that inspired
    the baseline swaps the two shares.)
    """
    (k, _), d = checked_size(federation, n_clusters, 0.5), federation.n_features
    epsilon = check_epsilon(epsilon)
    if n_rounds is None:
        n_rounds = parameters.n_rounds_sulloyd(federation.n_records, k, d, epsilon)
    check_int(n_rounds, "n_rounds", maximum=parameters.MAX_ROUNDS)
    count_share = (4 * d * parameters.RHO**2) ** (1 / 3)
    unit = epsilon / (n_rounds * (d + count_share))
    pair = (
        federation.laplace(SUMS_AND_COUNTS, "sums", epsilon=d * unit, n_coordinates=k * d),
        federation.laplace(SUMS_AND_COUNTS, "counts", epsilon=count_share * unit, n_coordinates=k),
    )
    return _made(
        federation, SUMS_AND_COUNTS, [pair] * n_rounds, method="sulloyd", n_clusters=k,
        epsilon=epsilon, delta=0.0, initial=initial, postprocess=postprocess,
        count_floor=count_floor,
    )  # fmt: skip


@planner
def plan_lloyd(
    federation: SumFederation, *, n_clusters: int, n_rounds: int = parameters.ROUND_LIMITS[1],
    initial: Initial = "halving",
) -> LloydPlan:  # fmt: skip
    """Plan federated Lloyd **without privacy**: the same protocol, the ledger will show inf."""
    k, _ = checked_size(federation, n_clusters, 0.5)
    n_rounds = check_int(n_rounds, "n_rounds", maximum=parameters.MAX_ROUNDS)
    return _made(
        federation, SUMS_AND_COUNTS, [(NoNoise(), NoNoise())] * n_rounds, method="lloyd",
        n_clusters=k, epsilon=math.inf, delta=0.0, initial=initial, postprocess="none",
    )  # fmt: skip


PLANS: dict[str, Callable[..., LloydPlan]] = {
    "fastlloyd": plan, "glloyd": plan_glloyd, "sulloyd": plan_sulloyd, "lloyd": plan_lloyd,
}  # fmt: skip
"""The planners by the names used in the result tables."""


# --- what the plans of the family share -----------------------------------------------------------


def checked_size(
    federation: SumFederation, n_clusters: int, delta: float | None = None
) -> tuple[int, float]:
    """(k, delta), after the federation was found to be one for one point under add/remove."""
    require(federation, "noisy_sum")
    if federation.ledger.adjacency != "add/remove" or federation.ledger.unit != "point":
        raise ValueError(
            "federation must keep a ledger for one point under add/remove, got"
            f" {federation.ledger.unit}, {federation.ledger.adjacency}"
        )
    k = check_int(n_clusters, "n_clusters", maximum=federation.n_records)
    return k, default_delta(federation.n_records) if delta is None else check_delta(delta)


def _checked_initial(initial: Any, n_clusters: int, n_features: int) -> str | FloatArray:
    """The name of a start, or a copy of public starting centres (k, d)."""
    if isinstance(initial, str):
        return check_choice(initial, "initial", ("halving", "largest"))
    centers = as_points(initial, "initial", n_features=n_features).copy()
    if len(centers) != n_clusters:
        raise ValueError(f"initial must hold {n_clusters} centres, got {len(centers)}")
    centers.flags.writeable = False
    return centers


def initial_centers(federation: SumFederation, plan: LloydPlan) -> FloatArray:
    """Starting centres (k, d): sphere packing from public randomness, or those of the plan."""
    if not isinstance(plan.initial, str):
        return plan.initial.copy()
    method: Any = plan.initial
    return kmeans.sphere_packing(
        plan.n_clusters, plan.n_features, rng=federation.randomness.public,
        bound=federation.bound, method=method,
    )  # fmt: skip


def _gaussian_pair(
    federation: SumFederation, statistic: ClientStatistic, shares: Sequence[float],
    n_clusters: int, **public: Any,
) -> tuple[Mechanism, ...]:  # fmt: skip
    """Mechanisms of one round: std = noise multiplier x sensitivity."""
    parts = zip(statistic.parts, shares, (federation.n_features, 1), strict=True)
    return tuple(
        federation.gaussian(
            statistic, part, multiplier=share, n_coordinates=n_clusters * width, **public
        )
        for part, share, width in parts
    )


def _made(
    federation: SumFederation, statistic: ClientStatistic, noise: Sequence[tuple[Mechanism, ...]],
    *, n_clusters: int, **rest: Any,
) -> LloydPlan:  # fmt: skip
    """The plan, after the federation was asked whether it would make every release."""
    d = federation.n_features
    plan = LloydPlan(
        releases=tuple(
            PlannedRelease.of(statistic, pair, round=t, numbers=n_clusters * (d + 1))
            for t, pair in enumerate(noise)
        ),
        n_clusters=n_clusters, n_features=d, n_rounds=len(noise), facts=federation.facts,
        statistic=statistic, **rest,
    )  # fmt: skip
    for t, pair in enumerate(noise):
        if t == 0 or pair != noise[t - 1]:
            radius: Any = {} if plan.radii is None else {"radius": plan.radii[t]}
            federation.check_release(statistic, pair, centers=np.zeros((n_clusters, d)), **radius)
    return plan
