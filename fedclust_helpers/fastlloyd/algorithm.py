"""Algorithm 1, for FastLloyd and its baselines; comments give the lines of the paper.

The baselines (section 6.1.2) run the same loop without radius, with other noise or with none.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import partial
from typing import Annotated, Any, Literal, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from fedclust_helpers import kmeans
from fedclust_helpers._validation import (
    Epsilon,
    FloatArray,
    Positive,
    as_points,
    check_choice,
    check_int,
)
from fedclust_helpers.client_statistics import RELATIVE_SUMS_AND_COUNTS, SUMS_AND_COUNTS
from fedclust_helpers.fastlloyd import parameters
from fedclust_helpers.fastlloyd.parameters import MAX_ROUNDS, ROUND_LIMITS, Strategy
from fedclust_helpers.federation import FederationFacts, Plan
from fedclust_helpers.program import (
    NO_NOISE,
    Algorithm,
    Noise,
    Options,
    Public,
    Release,
    Steps,
    as_given,
    gaussian,
    laplace,
)

Postprocess = Literal["fold", "truncate", "none"]
Initial = Literal["halving", "largest"] | ArrayLike
Rounds = Annotated[int, partial(check_int, maximum=MAX_ROUNDS)]


class Centers(NamedTuple):
    """Centres (k, d), and `history` (T + 1, k, d): the initial ones, and those of each round."""

    centers: FloatArray
    history: FloatArray


def fastlloyd(
    public: Public, sigma: float, *, n_clusters: int, n_rounds: Rounds | None = None,
    initial: Initial = "halving", alpha: Positive = 0.8, strategy: Strategy = "step",
    postprocess: Postprocess = "fold", count_floor: Positive | None = 1.0, clip_step: bool = True,
) -> Steps:  # fmt: skip
    """FastLloyd (Algorithm 1) for a total of (epsilon, delta), add/remove one point.

    The noise of round t follows the radius of round t (Eq. 8 has one eta for all), so every round
    costs the same. Sensitivities include the rounding to the federation's grid: r_t + sqrt(d) 2^-q.
    What the federation could not run is refused; nothing is released or charged.

    Parameters
    ----------
    public : Public
        Facts and coins. `plan` takes the `federation` that will run it; the trust model "masked"
        with ``noise_from="server"`` is the paper's protocol.
    sigma : float
        Noise multiplier of all rounds together. `plan` takes `epsilon` and `delta`, the total over
        all rounds, and finds the least; delta is 1/(N ln N) by default (`default_delta`), which
        tells the federation's `n_records` N: it is public then.
    n_clusters : int
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
    f, k, d = public.facts, n_clusters, public.facts.n_features
    eta = parameters.max_radius(k, d, alpha=alpha)  # Eq. 21 is derived for B = 1
    t = n_rounds or parameters.n_rounds_fastlloyd(f.n_records, k, d, eta, sigma)
    radii = parameters.round_radii(t, k, d, alpha=alpha, strategy=strategy, bound=f.bound)
    noise = _each_round(parameters.split_noise(sigma, d), t)
    history = [start(public, k, initial)]  # line 3
    for radius in radii.tolist():  # line 4
        sums, counts = yield Release(  # lines 5 to 16: clients, aggregation, noise
            RELATIVE_SUMS_AND_COUNTS, noise, centers=history[-1], radius=radius
        )
        history.append(update_centers(  # lines 17 to 20
            history[-1], sums, counts, radius=radius, postprocess=postprocess, bound=f.bound,
            count_floor=count_floor, clip_step=clip_step,
        ))  # fmt: skip
    return Centers(history[-1], np.stack(history))


def start(public: Public, n_clusters: int, initial: Any) -> FloatArray:
    """Starting centres (k, d): public ones, or sphere packing from public coins."""
    if not isinstance(initial, str):
        return np.array(initial)
    method: Any = initial
    f = public.facts
    return kmeans.sphere_packing(
        n_clusters, f.n_features, rng=public.coins, bound=f.bound, method=method
    )


def _each_round(multipliers: Sequence[float], n_rounds: int) -> list[Noise]:
    """Gaussian noise of each of so many rounds, which share the budget of these multipliers."""
    return [gaussian(multiplier * math.sqrt(n_rounds)) for multiplier in multipliers]


# --- the baselines --------------------------------------------------------------------------------


def glloyd(
    public: Public, sigma: float, *, n_clusters: int, n_rounds: Rounds | None = None,
    initial: Initial = "halving", postprocess: Postprocess = "none",
    count_floor: Positive | None = None,
) -> Steps:  # fmt: skip
    """GLloyd: noised sums and counts with Gaussian noise (Appendix B.1), no radius.

    L2 sensitivity sqrt(d) B of the sums under add/remove. Parameters as of `fastlloyd`, but
    `count_floor` is None as in the paper: without radius and fold, a negative count raised to 1
    throws its centre far out of the box.
    """
    n, d = public.facts.n_records, public.facts.n_features
    t = n_rounds or parameters.n_rounds_glloyd(n, n_clusters, d, sigma)
    noise = _each_round(parameters.split_noise_glloyd(sigma, d), t)
    means = partial(_means, public, postprocess, count_floor)
    return (yield from _plain(public, noise, t, n_clusters, initial, means))


def sulloyd(
    public: Public, epsilon: float, *, n_clusters: int, n_rounds: Rounds | None = None,
    initial: Initial = "halving", postprocess: Postprocess = "none",
    count_floor: Positive | None = None,
) -> Steps:  # fmt: skip
    """SuLloyd: noised sums and counts with Laplace noise (Su et al. 2016), pure epsilon-DP.

    L1 sensitivities d B (sums) and 1 (counts) under add/remove. Each round spends epsilon/T, in
    the proportion d : (4 d rho^2)^(1/3) on sums and counts. (The diffprivlib code that inspired
    the baseline swaps the two shares.)
    """
    n, d = public.facts.n_records, public.facts.n_features
    t = n_rounds or parameters.n_rounds_sulloyd(n, n_clusters, d, epsilon)
    count_share = (4 * d * parameters.RHO**2) ** (1 / 3)
    unit = epsilon / (t * (d + count_share))
    noise = [laplace(d * unit), laplace(count_share * unit)]
    means = partial(_means, public, postprocess, count_floor)
    return (yield from _plain(public, noise, t, n_clusters, initial, means))


def lloyd(
    public: Public, _: None, *, n_clusters: int, n_rounds: Rounds = ROUND_LIMITS[1],
    initial: Initial = "halving",
) -> Steps:  # fmt: skip
    """Federated Lloyd **without privacy**: the same protocol, the ledger will show inf."""

    def means(centers: FloatArray, sums: FloatArray, counts: FloatArray) -> FloatArray:
        """The mean of each cluster; one without rows keeps its centre."""
        return np.where(counts[:, None] > 0, sums / np.maximum(counts, 1)[:, None], centers)

    return (yield from _plain(public, [NO_NOISE] * 2, n_rounds, n_clusters, initial, means))


def _plain(
    public: Public, noise: Sequence[Noise], n_rounds: int, n_clusters: int, initial: Any,
    means: Callable[..., FloatArray],
) -> Steps:  # fmt: skip
    """The loop of the baselines: new centres are the noised means."""
    history = [start(public, n_clusters, initial)]
    for _ in range(n_rounds):
        sums, counts = yield Release(SUMS_AND_COUNTS, noise, centers=history[-1])
        history.append(means(history[-1], sums, counts))
    return Centers(history[-1], np.stack(history))


def _means(
    public: Public, postprocess: str, count_floor: float | None,
    _: FloatArray, sums: FloatArray, counts: FloatArray,
) -> FloatArray:  # fmt: skip
    """Noised sums over noised counts."""
    return POSTPROCESS[postprocess](
        sums / _floored(counts, count_floor)[:, None], public.facts.bound
    )


# --- a round, after the release -------------------------------------------------------------------


def update_centers(
    centers: FloatArray, relative_sums: FloatArray, counts: FloatArray, *,
    radius: float | None = None, postprocess: Postprocess = "fold", bound: float = 1.0,
    count_floor: float | None = 1.0, clip_step: bool = True,
) -> FloatArray:  # fmt: skip
    """Lines 17 to 20, the public part of a round: noised relative sums and counts -> new centres.

    Step = relative sum / count, cut to length `radius`, then folded into the box (section 5.3.5).
    All of it is post-processing: it sees released values only and costs no budget.

    `centers` and `relative_sums` are (k, d), `counts` (k,). Counts below `count_floor` are raised
    to it (1 by default): a count that noise made tiny or negative would throw or reverse the step.
    None divides by the noised count as the paper does, with 0 replaced by 1e-9 as in its released
    code. `clip_step` cuts the step to the radius (text of section 5.3.5; missing in Algorithm 1).
    """
    step = relative_sums / _floored(counts, count_floor)[:, None]  # line 19
    if radius is not None and clip_step:
        step = kmeans.shortened(step, radius)
    return POSTPROCESS[postprocess](centers + step, bound)  # lines 19, 20


POSTPROCESS: dict[str, Callable[[FloatArray, float], FloatArray]] = {
    "fold": lambda x, bound: kmeans.fold(x, bound=bound),
    "truncate": lambda x, bound: kmeans.truncate(x, bound=bound),
    "none": lambda x, bound: x,
}


def _floored(counts: FloatArray, count_floor: float | None) -> FloatArray:
    """Noised counts as divisors: raised to the floor, or only kept away from 0 if it is None."""
    if count_floor is None:
        return np.where(np.abs(counts) < 1e-9, 1e-9, counts)
    return np.maximum(counts, count_floor)


# --- what the planners know -----------------------------------------------------------------------


def of_points(facts: FederationFacts, options: Options) -> Options:
    """The options, for a federation that hides one point under add/remove."""
    if (facts.unit, facts.adjacency) != ("point", "add/remove"):
        raise ValueError(
            "federation must keep a ledger for one point under add/remove, got"
            f" {facts.unit}, {facts.adjacency}"
        )
    k = check_int(options["n_clusters"], "n_clusters", maximum=facts.n_records)
    initial = options.get("initial", "halving")
    if isinstance(initial, str):
        check_choice(initial, "initial", ("halving", "largest"))
        return options
    initial = as_points(initial, "initial", n_features=facts.n_features)
    if len(initial) != k:
        raise ValueError(f"initial must hold {k} centres, got {len(initial)}")
    return options | {"initial": initial}


def default_delta(facts: FederationFacts, options: Options) -> float:
    """1/(N ln N), for the public number N of records."""
    return parameters.default_delta(facts.n_records)


def _last_round(plan: Plan) -> tuple[float, str]:
    """Eq. 16 for the last round, with all shares of noise that is distributed."""
    f, (sums, counts) = plan.facts, plan.mechanisms[-1]
    error = parameters.predicted_mse(
        f.n_records, plan.n_clusters, f.n_features, std_sums=f.more_noise * sums.std,
        std_counts=f.more_noise * counts.std, displacement=0.0,
    )  # fmt: skip
    return error, (
        "mean squared distance by which noise moves a centre in the last round, k clusters of"
        " equal size (Eq. 16)"
    )


FASTLLOYD = Algorithm(
    name="fastlloyd", steps=fastlloyd, check=of_points, default_delta=default_delta,
    predict=_last_round,
)  # fmt: skip
GLLOYD = Algorithm(name="glloyd", steps=glloyd, check=of_points, default_delta=default_delta)
SULLOYD = Algorithm(
    name="sulloyd", steps=sulloyd, check=of_points, budget={"epsilon": Epsilon}, search=as_given
)
LLOYD = Algorithm(name="lloyd", steps=lloyd, check=of_points, budget={})

# plan(federation, *, n_clusters, epsilon, delta=None, n_rounds=None, ...): the options of `steps`,
# and a budget in place of the dial
plan = FASTLLOYD.planner()
plan_glloyd = GLLOYD.planner("plan_glloyd")
plan_sulloyd = SULLOYD.planner("plan_sulloyd")
plan_lloyd = LLOYD.planner("plan_lloyd")
PLANS = {"fastlloyd": plan, "glloyd": plan_glloyd, "sulloyd": plan_sulloyd, "lloyd": plan_lloyd}
"""The planners by the names used in the result tables."""
