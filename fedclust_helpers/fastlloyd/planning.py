"""Plans of FastLloyd and of its baselines (section 6.1.2): all public numbers of a run."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np

from fedclust_helpers._validation import (
    check_bool,
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
from fedclust_helpers.fastlloyd.parameters import (
    MAX_ROUNDS,
    RHO,
    ROUND_LIMITS,
    Strategy,
    default_delta,
    max_radius,
    n_rounds_fastlloyd,
    n_rounds_glloyd,
    n_rounds_sulloyd,
    predicted_mse,
    round_radii,
    split_noise,
    split_noise_glloyd,
)
from fedclust_helpers.federation import Plan, PlannedRelease, SumFederation, require
from fedclust_helpers.mechanisms import Mechanism, NoNoise

Postprocess = Literal["fold", "truncate", "none"]
Pair = tuple[Mechanism, Mechanism]


@dataclass(frozen=True, kw_only=True)
class LloydPlan(Plan):
    """A Lloyd-type run: a pair of noised arrays (sums, counts) in each round.

    Attributes
    ----------
    radii : tuple of float, or None
        The radius of each round; None for the baselines, which have none.
    postprocess, count_floor, clip_step
        What is done with released values, see `update_centers`. Costs no budget.
    """

    radii: tuple[float, ...] | None = None
    postprocess: Postprocess = "fold"
    count_floor: float | None = 1.0
    clip_step: bool = True
    statistic: ClientStatistic = field(repr=False, default=RELATIVE_SUMS_AND_COUNTS)

    @property
    def mechanisms(self) -> tuple[Pair, ...]:
        """One (sums, counts) pair for each round."""
        return tuple((r.mechanisms[0], r.mechanisms[1]) for r in self.releases)


def plan(
    federation: SumFederation,
    *,
    n_clusters: int,
    epsilon: float,
    delta: float | None = None,
    n_rounds: int | None = None,
    alpha: float = 0.8,
    strategy: Strategy = "step",
    postprocess: Postprocess = "fold",
    count_floor: float | None = 1.0,
    clip_step: bool = True,
) -> LloydPlan:
    """Plan FastLloyd (Algorithm 1) for a total of (epsilon, delta), add/remove one point.

    The noise of round t follows the radius of round t (Eq. 8 has one eta for all), so every round
    costs the same. Sensitivities include the rounding to the federation's grid: r_t + sqrt(d) 2^-q.

    Parameters
    ----------
    federation : SumFederation
        The one that will run the plan. `MaskedSecureSum` gives the paper's protocol; any federation
        with ``noisy_sum`` works.
    n_clusters : int
    epsilon, delta : float
        Total over all rounds. delta defaults to 1/(N ln N) with N the federation's `n_records`: it
        tells N, which is public then.
    n_rounds : int, optional
        Defaults to Eq. 21, between 2 and 7.
    alpha, strategy
        Radius, see `round_radii`.
    postprocess, count_floor, clip_step
        See `update_centers`.

    Returns
    -------
    LloydPlan

    Raises
    ------
    ValueError, TypeError, TrustModelError, RingOverflowError
        If the federation could not run it; nothing is released or charged.
    """
    k, epsilon, delta = _check(federation, n_clusters, epsilon, delta)
    d, bound = federation.n_features, federation.bound
    sigma = federation.noise_multiplier(epsilon, delta)
    eta = max_radius(k, d, alpha=alpha, bound=bound)
    if n_rounds is None:
        # Eq. 21 is derived for B = 1: only eta/B matters
        n_rounds = n_rounds_fastlloyd(federation.n_records, k, d, eta / bound, sigma)
    check_int(n_rounds, "n_rounds", maximum=MAX_ROUNDS)
    radii = round_radii(n_rounds, k, d, alpha=alpha, strategy=strategy, bound=bound)
    shares = [s * math.sqrt(n_rounds) for s in split_noise(sigma, d)]
    pairs = [
        _gaussian_pair(federation, RELATIVE_SUMS_AND_COUNTS, shares, k, radius=float(radius))
        for radius in radii
    ]
    facts, last = federation.facts, pairs[-1]
    # where every client adds a share, all shares together are more than the honest ones alone
    more = math.sqrt(facts.n_clients / facts.n_honest) if facts.noise == "distributed" else 1.0
    return _made(
        federation, RELATIVE_SUMS_AND_COUNTS, pairs, method="fastlloyd", n_clusters=k,
        epsilon=epsilon, delta=delta, radii=tuple(float(r) for r in radii),
        postprocess=postprocess, count_floor=count_floor,
        clip_step=check_bool(clip_step, "clip_step"),
        predicted_error=predicted_mse(
            federation.n_records, k, d, std_sums=more * last[0].std,
            std_counts=more * last[1].std, displacement=0.0,
        ),
        predicted_error_is="mean squared distance by which noise moves a centre in the last"
        " round, k clusters of equal size (Eq. 16)",
    )  # fmt: skip


def plan_glloyd(
    federation: SumFederation,
    *,
    n_clusters: int,
    epsilon: float,
    delta: float | None = None,
    n_rounds: int | None = None,
    postprocess: Postprocess = "none",
    count_floor: float | None = None,
) -> LloydPlan:
    """Plan GLloyd: noised sums and counts with Gaussian noise (Appendix B.1), no radius.

    L2 sensitivity sqrt(d) B of the sums under add/remove. Parameters as in `plan`, but
    `count_floor` is None as in the paper: without radius and fold, a negative count raised to 1
    throws its centre far out of the box.
    """
    k, epsilon, delta = _check(federation, n_clusters, epsilon, delta)
    d = federation.n_features
    sigma = federation.noise_multiplier(epsilon, delta)
    if n_rounds is None:
        n_rounds = n_rounds_glloyd(federation.n_records, k, d, sigma)
    check_int(n_rounds, "n_rounds", maximum=MAX_ROUNDS)
    shares = [s * math.sqrt(n_rounds) for s in split_noise_glloyd(sigma, d)]
    pair = _gaussian_pair(federation, SUMS_AND_COUNTS, shares, k)
    return _made(
        federation, SUMS_AND_COUNTS, [pair] * n_rounds, method="glloyd", n_clusters=k,
        epsilon=epsilon, delta=delta, postprocess=postprocess, count_floor=count_floor,
    )  # fmt: skip


def plan_sulloyd(
    federation: SumFederation,
    *,
    n_clusters: int,
    epsilon: float,
    n_rounds: int | None = None,
    postprocess: Postprocess = "none",
    count_floor: float | None = None,
) -> LloydPlan:
    """Plan SuLloyd: noised sums and counts with Laplace noise (Su et al. 2016), pure epsilon-DP.

    L1 sensitivities d B (sums) and 1 (counts) under add/remove. Each round spends epsilon/T, in
    the proportion d : (4 d rho^2)^(1/3) on sums and counts. (The diffprivlib code that inspired
    the baseline swaps the two shares.)
    """
    k, epsilon, _ = _check(federation, n_clusters, epsilon, 0.5)
    d = federation.n_features
    if n_rounds is None:
        n_rounds = n_rounds_sulloyd(federation.n_records, k, d, epsilon)
    check_int(n_rounds, "n_rounds", maximum=MAX_ROUNDS)
    count_share = (4 * d * RHO**2) ** (1 / 3)
    unit = epsilon / (n_rounds * (d + count_share))
    pair = (
        federation.laplace(SUMS_AND_COUNTS, "sums", epsilon=d * unit),
        federation.laplace(SUMS_AND_COUNTS, "counts", epsilon=count_share * unit),
    )
    return _made(
        federation, SUMS_AND_COUNTS, [pair] * n_rounds, method="sulloyd", n_clusters=k,
        epsilon=epsilon, delta=0.0, postprocess=postprocess, count_floor=count_floor,
    )  # fmt: skip


def plan_lloyd(
    federation: SumFederation, *, n_clusters: int, n_rounds: int = ROUND_LIMITS[1]
) -> LloydPlan:
    """Plan federated Lloyd **without privacy**: the same protocol, the ledger will show inf."""
    k, _, _ = _check(federation, n_clusters, 1.0, 0.5)
    check_int(n_rounds, "n_rounds", maximum=MAX_ROUNDS)
    pair = (NoNoise(), NoNoise())
    return _made(
        federation, SUMS_AND_COUNTS, [pair] * n_rounds, method="lloyd", n_clusters=k,
        epsilon=math.inf, delta=0.0, postprocess="none",
    )  # fmt: skip


PLANS: dict[str, Callable[..., LloydPlan]] = {
    "fastlloyd": plan,
    "glloyd": plan_glloyd,
    "sulloyd": plan_sulloyd,
    "lloyd": plan_lloyd,
}
"""The planners by the names used in the result tables."""


# --- what they share ------------------------------------------------------------------------------


def _check(
    federation: SumFederation, n_clusters: int, epsilon: float, delta: float | None
) -> tuple[int, float, float]:
    """Shared validation; returns (k, epsilon, delta)."""
    require(federation, "noisy_sum")
    if federation.ledger.adjacency != "add/remove" or federation.ledger.unit != "point":
        raise ValueError(
            "federation must keep a ledger for one point under add/remove, got"
            f" {federation.ledger.unit}, {federation.ledger.adjacency}"
        )
    k = check_int(n_clusters, "n_clusters", maximum=federation.n_records)
    d = default_delta(federation.n_records) if delta is None else check_delta(delta)
    return k, check_epsilon(epsilon), d


def _gaussian_pair(
    federation: SumFederation,
    statistic: ClientStatistic,
    shares: Sequence[float],
    n_clusters: int,
    **public: Any,
) -> Pair:
    """Mechanisms of one round: std = noise multiplier x sensitivity."""
    sums, counts = statistic.parts
    d = federation.n_features
    return (
        federation.gaussian(
            statistic, sums, multiplier=shares[0], n_coordinates=n_clusters * d, **public
        ),
        federation.gaussian(
            statistic, counts, multiplier=shares[1], n_coordinates=n_clusters, **public
        ),
    )


def _made(
    federation: SumFederation,
    statistic: ClientStatistic,
    pairs: Sequence[Pair],
    *,
    n_clusters: int,
    postprocess: Postprocess,
    count_floor: float | None = 1.0,
    radii: tuple[float, ...] | None = None,
    **rest: Any,
) -> LloydPlan:
    """The plan, after the federation was asked whether it would make every release."""
    check_postprocess(postprocess, count_floor)
    d, zeros = federation.n_features, np.zeros((n_clusters, federation.n_features))
    for t, pair in enumerate(pairs):
        if t == 0 or pair != pairs[t - 1]:
            given: dict[str, Any] = {} if radii is None else {"radius": radii[t]}
            federation.check_release(statistic, pair, centers=zeros, **given)
    made = LloydPlan(
        releases=tuple(
            PlannedRelease.of(statistic, pair, round=t, numbers=n_clusters * (d + 1))
            for t, pair in enumerate(pairs)
        ),
        n_clusters=n_clusters, n_features=d, n_rounds=len(pairs), facts=federation.facts,
        statistic=statistic, postprocess=postprocess, count_floor=count_floor, radii=radii, **rest,
    )  # fmt: skip
    if not made.total_epsilon <= made.epsilon * (1 + 1e-9):
        raise ValueError(
            f"epsilon={made.epsilon:g} cannot be kept on this federation's grid of"
            f" {federation.resolution:g}: the releases would cost {made.total_epsilon:.3g}; give"
            " the ring more fractional_bits"
        )
    return made


def check_postprocess(postprocess: str, count_floor: float | None) -> None:
    """Refuse wrong post-processing before anything is released."""
    check_choice(postprocess, "postprocess", ("fold", "truncate", "none"))
    if count_floor is not None:
        check_positive(count_floor, "count_floor")
