"""Algorithm 1: the plan that is fixed before the first message, the round, the loop."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike

from fedclust_helpers import kmeans
from fedclust_helpers._validation import (
    FloatArray,
    as_points,
    check_choice,
    check_delta,
    check_epsilon,
    check_int,
    check_positive,
)
from fedclust_helpers.accounting import gaussian_sigma_analytic, zcdp_rho
from fedclust_helpers.client_statistics import RELATIVE_SUMS_AND_COUNTS
from fedclust_helpers.fastlloyd.parameters import (
    Strategy,
    default_delta,
    max_radius,
    n_rounds_fastlloyd,
    round_radii,
    split_noise,
)
from fedclust_helpers.federation import ServerlessSecureSum, SumFederation
from fedclust_helpers.mechanisms import (
    DiscreteGaussian,
    DistributedDiscreteGaussian,
    Gaussian,
    Mechanism,
)

Postprocess = Literal["fold", "truncate", "none"]
NoiseKind = Literal["auto", "continuous", "discrete"]


# --- the plan: everything that is fixed before the first message ---------------------------------


@dataclass(frozen=True)
class LloydPlan:
    """All public numbers of a run, fixed in advance and the same for every party.

    `mechanisms` holds one (sums, counts) pair per round. `radii` is None for the baselines.
    """

    method: str
    n_clusters: int
    n_features: int
    n_rounds: int
    epsilon: float
    delta: float
    radii: FloatArray | None
    mechanisms: tuple[tuple[Mechanism, Mechanism], ...]


def noise_kind(federation: SumFederation, noise: str) -> str:
    """Which mechanisms a run uses: "continuous", "discrete", or "distributed" (serverless)."""
    check_choice(noise, "noise", ("auto", "continuous", "discrete"))
    if isinstance(federation, ServerlessSecureSum):
        return "distributed"
    if noise == "auto":
        return "discrete" if federation.randomness.is_secure else "continuous"
    return noise


def gaussian_pair(
    federation: SumFederation,
    kind: str,
    sensitivities: tuple[float, float],
    sigmas: tuple[float, float],
    n_clusters: int,
) -> tuple[Mechanism, Mechanism]:
    """Mechanisms for one round: std = noise multiplier x sensitivity, on the right kind of grid."""
    out: list[Mechanism] = []
    grid = federation.resolution or 2.0**-30
    for part, (sensitivity, sigma) in enumerate(zip(sensitivities, sigmas, strict=True)):
        std = sensitivity * sigma
        if kind == "continuous":
            out.append(Gaussian(sensitivity, std))
            continue
        # counts are integers: their noise may be too
        step = grid if part == 0 else 1.0
        if kind == "discrete":
            out.append(DiscreteGaussian(sensitivity, std, step))
        else:
            assert isinstance(federation, ServerlessSecureSum)
            honest = federation.n_clients - federation.max_colluding
            coordinates = n_clusters * (federation.n_features if part == 0 else 1)
            # on a coarse grid the sum of discrete Gaussians is less close to one: refine it
            out.append(
                DistributedDiscreteGaussian(
                    sensitivity, std, grid, n_honest=honest, n_coordinates=coordinates
                )
            )
    return out[0], out[1]


def base_sigma(epsilon: float, delta: float, kind: str) -> float:
    """Noise multiplier of the whole run: analytic for Gaussians, from zCDP for discrete ones."""
    if kind == "continuous":
        return gaussian_sigma_analytic(epsilon, delta)
    return 1 / math.sqrt(2 * zcdp_rho(epsilon, delta))


def check_run(
    federation: SumFederation, n_clusters: int, epsilon: float, delta: float | None
) -> tuple[int, float, float]:
    """Shared validation; returns (k, epsilon, delta)."""
    if not callable(getattr(federation, "noisy_sum", None)):
        raise TypeError(f"federation must offer noisy_sum, got {type(federation).__name__}")
    if federation.ledger.adjacency != "add/remove" or federation.ledger.unit != "point":
        raise ValueError(
            "federation must keep a ledger for one point under add/remove, got"
            f" {federation.ledger.unit}, {federation.ledger.adjacency}"
        )
    k = check_int(n_clusters, "n_clusters", maximum=federation.n_records)
    d = default_delta(federation.n_records) if delta is None else check_delta(delta)
    return k, check_epsilon(epsilon), d


def plan_fastlloyd(
    federation: SumFederation,
    *,
    n_clusters: int,
    epsilon: float,
    delta: float | None = None,
    n_rounds: int | None = None,
    alpha: float = 0.8,
    strategy: Strategy = "step",
    noise: NoiseKind = "auto",
) -> LloydPlan:
    """Fix radii, rounds and noise for a total of (epsilon, delta), add/remove one point.

    The noise of round t follows the radius of round t (Eq. 8 has one eta for all), so every round
    costs the same. Sensitivities include the rounding to the federation's grid: r_t + sqrt(d) 2^-q.
    """
    k, epsilon, delta = check_run(federation, n_clusters, epsilon, delta)
    d, bound = federation.n_features, federation.bound
    kind = noise_kind(federation, noise)
    sigma = base_sigma(epsilon, delta, kind)
    eta = max_radius(k, d, alpha=alpha, bound=bound)
    if n_rounds is None:
        # Eq. 21 is derived for B = 1: only eta/B matters
        n_rounds = n_rounds_fastlloyd(federation.n_records, k, d, eta / bound, sigma)
    radii = round_radii(n_rounds, k, d, alpha=alpha, strategy=strategy, bound=bound)
    per_round = tuple(s * math.sqrt(n_rounds) for s in split_noise(sigma, d))
    grid = federation.resolution or (0.0 if kind == "continuous" else 2.0**-30)
    pairs = []
    for radius in radii:
        sensitivities = tuple(
            RELATIVE_SUMS_AND_COUNTS.sensitivity_of(
                part, 2, "add/remove", grid=grid, radius=radius, n_features=d
            )
            for part in RELATIVE_SUMS_AND_COUNTS.parts
        )
        pairs.append(gaussian_pair(federation, kind, sensitivities, per_round, k))  # type: ignore[arg-type]
    return LloydPlan("fastlloyd", k, d, n_rounds, epsilon, delta, radii, tuple(pairs))


# --- the algorithm -------------------------------------------------------------------------------


@dataclass(frozen=True)
class LloydResult:
    """Centres of a run and everything a reader may ask about it.

    `history` (T + 1, k, d) starts with the initial centres; `released` holds the noised
    (sums, counts) of each round. `private` is False for teaching mode: not private against anyone
    who knows the seed.
    """

    centers: FloatArray
    history: FloatArray
    released: tuple[tuple[FloatArray, FloatArray], ...]
    plan: LloydPlan
    epsilon: float
    delta: float
    private: bool

    @property
    def warning(self) -> str:
        """What this run does not give."""
        if not math.isfinite(self.epsilon):
            return "no privacy: exact statistics were released"
        if not self.private:
            return "teaching mode: not private against anyone who knows the seed"
        return ""


def update_centers(
    centers: FloatArray,
    relative_sums: FloatArray,
    counts: FloatArray,
    *,
    radius: float | None = None,
    postprocess: Postprocess = "fold",
    bound: float = 1.0,
    count_floor: float | None = 1.0,
    clip_step: bool = True,
) -> FloatArray:
    """The public part of a round: noised relative sums and counts -> new centres (section 5.3.5).

    Step = relative sum / count, cut to length `radius`, then folded into the box. All of it is
    post-processing: it sees released values only and costs no budget.

    Parameters
    ----------
    count_floor : float or None
        Counts below are raised to it (1 by default): a count that noise made tiny or negative
        would throw or reverse the step. None divides by the noised count as the paper does, with
        0 replaced by 1e-9 as in its released code.
    clip_step : bool
        Cut the step to the radius (text of section 5.3.5; missing in Algorithm 1).
    """
    check_postprocess(postprocess, count_floor)
    divisor = floored(counts, count_floor)
    step = relative_sums / divisor[:, None]
    if radius is not None and clip_step:
        length = np.linalg.norm(step, axis=1, keepdims=True)
        step = step * np.minimum(1.0, radius / np.maximum(length, 1e-300))
    return POSTPROCESS[postprocess](centers + step, bound)


POSTPROCESS: dict[str, Callable[[FloatArray, float], FloatArray]] = {
    "fold": lambda x, bound: kmeans.fold(x, bound=bound),
    "truncate": lambda x, bound: kmeans.truncate(x, bound=bound),
    "none": lambda x, bound: x,
}


def check_postprocess(postprocess: str, count_floor: float | None) -> None:
    """Refuse wrong post-processing before anything is released."""
    check_choice(postprocess, "postprocess", ("fold", "truncate", "none"))
    if count_floor is not None:
        check_positive(count_floor, "count_floor")


def floored(counts: FloatArray, count_floor: float | None) -> FloatArray:
    """Noised counts as divisors: raised to the floor, or only kept away from 0 if it is None."""
    if count_floor is None:
        return np.where(np.abs(counts) < 1e-9, 1e-9, counts)
    return np.maximum(counts, count_floor)


def require_budget(federation: SumFederation, plan: LloydPlan) -> None:
    """Refuse a run whose last round the ledger could not pay; nothing is charged here."""
    everything = [m for pair in plan.mechanisms for m in pair]
    federation.ledger.check(everything, name=f"{plan.method}, {plan.n_rounds} rounds")


def initial_centers(
    federation: SumFederation, n_clusters: int, initial: str | ArrayLike
) -> FloatArray:
    """Starting centres: sphere packing from public randomness, or an array given by the caller."""
    if isinstance(initial, str):
        method = check_choice(initial, "initial", ("halving", "largest"))
        return kmeans.sphere_packing(
            n_clusters, federation.n_features, rng=federation.randomness.public,
            bound=federation.bound, method=method,  # type: ignore[arg-type]
        )  # fmt: skip
    centers = as_points(initial, "initial", n_features=federation.n_features)
    if len(centers) != n_clusters:
        raise ValueError(f"initial must hold {n_clusters} centres, got {len(centers)}")
    return centers.copy()


def collect_result(
    federation: SumFederation,
    plan: LloydPlan,
    history: list[FloatArray],
    released: list[tuple[FloatArray, FloatArray]],
) -> LloydResult:
    """The result of a finished run; epsilon is inf where nothing was noised."""
    exact = plan.method == "lloyd"
    return LloydResult(
        history[-1], np.stack(history), tuple(released), plan,
        math.inf if exact else plan.epsilon, plan.delta,
        not exact and federation.randomness.is_secure,
    )  # fmt: skip


def fastlloyd(
    federation: SumFederation,
    *,
    n_clusters: int,
    epsilon: float,
    delta: float | None = None,
    n_rounds: int | None = None,
    alpha: float = 0.8,
    strategy: Strategy = "step",
    postprocess: Postprocess = "fold",
    initial: Literal["halving", "largest"] | ArrayLike = "halving",
    count_floor: float | None = 1.0,
    clip_step: bool = True,
    noise: NoiseKind = "auto",
) -> LloydResult:
    """Algorithm 1: Lloyd with a radius constraint, relative updates and Gaussian noise.

    Parameters
    ----------
    federation : SumFederation
        `MaskedSecureSum` gives the paper's protocol; any federation with ``noisy_sum`` works.
    n_clusters : int
    epsilon, delta : float
        Total over all rounds, add/remove one point. delta defaults to 1/(N ln N).
    n_rounds : int, optional
        Defaults to Eq. 21, between 2 and 7.
    alpha, strategy
        Radius, see `round_radii`.
    postprocess, count_floor, clip_step
        See `update_centers`.
    initial : {"halving", "largest"} or array_like of shape (k, d)
        Sphere packing variant, or public starting centres. Centres that were computed from private
        data would have to be charged: do not pass any.
    noise : {"auto", "continuous", "discrete"}
        "auto" is continuous in teaching mode and discrete in secure mode.

    Returns
    -------
    LloydResult

    Raises
    ------
    ValueError, TypeError, TrustModelError, RingOverflowError, BudgetExceededError
        Before any data is read. A ledger with a budget refuses a run that it cannot pay to the
        last round, and is asked again before each round.
    """
    check_postprocess(postprocess, count_floor)
    plan = plan_fastlloyd(
        federation, n_clusters=n_clusters, epsilon=epsilon, delta=delta, n_rounds=n_rounds,
        alpha=alpha, strategy=strategy, noise=noise,
    )  # fmt: skip
    assert plan.radii is not None
    history, released = [initial_centers(federation, plan.n_clusters, initial)], []
    require_budget(federation, plan)
    for radius, mechanisms in zip(plan.radii, plan.mechanisms, strict=True):  # all before the first
        federation.check_release(
            RELATIVE_SUMS_AND_COUNTS, mechanisms, centers=history[0], radius=radius
        )
    for t, (radius, mechanisms) in enumerate(zip(plan.radii, plan.mechanisms, strict=True)):
        sums, counts = federation.noisy_sum(
            RELATIVE_SUMS_AND_COUNTS, mechanisms, round=t, centers=history[-1], radius=radius
        )
        released.append((sums, counts))
        history.append(
            update_centers(
                history[-1],
                sums,
                counts,
                radius=radius,
                postprocess=postprocess,
                bound=federation.bound,
                count_floor=count_floor,
                clip_step=clip_step,
            )  # fmt: skip
        )
    return collect_result(federation, plan, history, released)
