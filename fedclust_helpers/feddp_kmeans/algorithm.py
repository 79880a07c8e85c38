"""FedDP-Init (Algorithm 1), then FedDP-Lloyds (Algorithm 2), with the lines of the paper."""

from __future__ import annotations

import math
from collections.abc import Callable, Generator
from dataclasses import dataclass
from functools import partial
from typing import Annotated, Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from fedclust_helpers import kmeans
from fedclust_helpers._validation import Delta, Epsilon, FloatArray, as_points, check_int
from fedclust_helpers.accounting import LedgerMismatchError
from fedclust_helpers.feddp_kmeans.budgets import (
    MAX_ROUNDS,
    StepBudgets,
    calibrate_budgets,
    joint_epsilon,
    split_epsilon,
)
from fedclust_helpers.feddp_kmeans.levels import ClipBounds, Level, level_of
from fedclust_helpers.feddp_kmeans.server import (
    centers_from_sums,
    count_floor,
    surviving_points,
    top_eigenvectors,
)
from fedclust_helpers.federation import FederationFacts, Plan, TrustModelError
from fedclust_helpers.program import Algorithm, Noise, Options, Public, Steps, gaussian, laplace

N_INIT = 10  # restarts of the server's own k-means: they cost no privacy, and one is not enough
LEAST_WEIGHT = 5.0  # the released code drops server points below at data-point level

Weighted = tuple[FloatArray, FloatArray, FloatArray, FloatArray, FloatArray]


@dataclass(frozen=True, eq=False)
class InitResult:
    """What FedDP-Init released and what the server made of it.

    Step 1: `eigenvalues` (r,) and `basis` (d, r) of the noised outer product. Step 2: the server
    points `server_projected` (q, r), their noised `weights` (q,), and `kept` (q,), those weights
    made usable. Step 3: `projected_centers` (k, r) of the weighted points; `sums` (k, d) and
    `counts` (k,) of the rows nearest to them; `centers` (k, d).
    """

    eigenvalues: FloatArray
    basis: FloatArray
    server_projected: FloatArray
    weights: FloatArray
    kept: FloatArray
    projected_centers: FloatArray
    sums: FloatArray
    counts: FloatArray
    centers: FloatArray


class Found(NamedTuple):
    """Centres (k, d), and `history` (T + 1, k, d): those before the first round of FedDP-Lloyds,
    and those of each round. `init` is None where no FedDP-Init was run."""

    centers: FloatArray
    history: FloatArray
    init: InitResult | None = None


def feddp_kmeans(
    public: Public, budgets: StepBudgets, server_points: ArrayLike, *, n_clusters: int,
    clips: ClipBounds | None = None,
    n_init: Annotated[int, partial(check_int, maximum=10_000)] = N_INIT,
) -> Steps:  # fmt: skip
    """FedDP-KMeans for a total of (epsilon, delta), add/remove one point or one client.

    Whatever can be refused is refused here; nothing is charged, read or sent.

    Parameters
    ----------
    public : Public
        Facts and coins. `plan` takes the `federation` that will run it: with ``domain="ball"``,
        ``bound`` = Delta, and a server that sees the noised sums. Its ledger's unit decides the
        level: one "point", or one "client" (then `clips` is needed).
    budgets : StepBudgets
        Of each step. `plan` takes `epsilon` and `delta`, the exact total of all releases by the
        ledger, and shares it out in the paper's proportions; delta, also that of each Gaussian step
        alone, is 1e-6 by default. `n_rounds` of FedDP-Lloyds get the same pair of budgets as Step
        3. Or it takes explicit `budgets` in place of `epsilon`, `delta` and `n_rounds` (other
        proportions: `split_epsilon`, `calibrate_budgets`). Without a budget for the outer product
        the subspace is that of the server points.
    server_points : array_like of shape (q, d)
        Data of the server, public: they cost no privacy. The plan is for these alone.
    n_clusters : int
    clips : ClipBounds, optional
        Client level only: public clip bounds.
    n_init : int
        Restarts of the server's weighted k-means.
    """
    facts, level = public.facts, level_of(public.facts.unit, clips)
    found = yield from weigh_server_points(
        public, budgets, level, server_points, n_clusters,
        minimum=lambda std: LEAST_WEIGHT if facts.unit == "point" else std,
    )  # fmt: skip
    # Step 3: cluster the weighted points, refine by sums over the rows of the clients
    xi = cluster_weighted(public, found, n_clusters, n_init)  # line 17
    noise, basis = (normal(public, budgets, budgets.sums), laplace(budgets.counts)), found[1]
    answer = yield level.means.ask(*noise, basis=basis, centers=xi)  # lines 18 to 23
    sums, counts = answer
    centers = centers_from_sums(  # line 24
        sums, counts, xi @ basis.T, count_floor=count_floor(answer.std[1]), radius=facts.bound
    )
    history = yield from lloyds(public, budgets, level, centers)
    return Found(history[-1], history, InitResult(*found, xi, sums, counts, centers))


def weigh_server_points(
    public: Public, budgets: StepBudgets, level: Level, server_points: Any, n_clusters: int, *,
    minimum: Callable[[float], float],
) -> Generator[Any, Any, Weighted]:  # fmt: skip
    """Steps 1 and 2 of FedDP-Init: the first five fields of `InitResult`.

    Points with a noised weight below `minimum`, of the std of that noise, are dropped.
    """
    server = kmeans.shortened(
        server_points, public.facts.bound
    )  # public points, cut to the same ball

    # Step 1: the subspace of the largest eigenvectors
    outer = server.T @ server
    if budgets.outer:
        (outer,) = yield level.outer.ask(normal(public, budgets, budgets.outer))  # lines 3 to 6
    rank = min(n_clusters, public.facts.n_features)
    eigenvalues, basis = top_eigenvectors(outer, rank)  # line 7

    # Step 2: the server's points, weighted by how many rows are nearest to each
    projected = server @ basis
    answer = yield level.weights.ask(  # lines 9 to 15
        laplace(budgets.weights), basis=basis, server_points=projected
    )
    (weights,), (std,) = answer, answer.std
    kept = surviving_points(weights, minimum=minimum(std), at_least=n_clusters)
    return eigenvalues, basis, projected, weights, kept


def cluster_weighted(public: Public, found: Weighted, n_clusters: int, n_init: int) -> FloatArray:
    """Centres xi (k, r) of the weighted, projected server points."""
    _, _, projected, _, kept = found
    filled = kept > 0
    return public.kmeans(projected[filled], kept[filled], n_clusters, rng=public.own, n_init=n_init)


def lloyds(
    public: Public, budgets: StepBudgets, level: Level, start: FloatArray
) -> Generator[Any, Any, FloatArray]:
    """FedDP-Lloyds (Algorithm 2): centres (T + 1, k, d) of all rounds, beginning with `start`.

    The noise of the sums is that of one Gaussian release at (lloyd_sums, delta) times sqrt(T),
    which is exact for T Gaussians together; Algorithm 2 and the text of section 3.2 print two other
    formulas, both larger (claim K2).
    """
    history, t = [start], budgets.n_rounds
    noise = noise_of_rounds(public, budgets) if t else ()
    for _ in range(t):  # line 2
        answer = yield level.lloyd.ask(*noise, centers=history[-1])  # lines 3 to 10
        (sums, counts), floor = answer, count_floor(answer.std[1])
        history.append(centers_from_sums(  # line 11
            sums, counts, history[-1], count_floor=floor, radius=public.facts.bound
        ))  # fmt: skip
    return np.stack(history)


def normal(public: Public, budgets: StepBudgets, epsilon: float) -> Noise:
    """Gaussian noise of one release at (epsilon, delta)."""
    return gaussian(public.noise_multiplier(epsilon, budgets.delta))


def noise_of_rounds(public: Public, budgets: StepBudgets) -> tuple[Noise, Noise]:
    """Noise of the sums and counts of each round, all of which share their budgets."""
    t, sums = budgets.n_rounds, normal(public, budgets, budgets.lloyd_sums)
    return gaussian(sums.amount * math.sqrt(t)), laplace(budgets.lloyd_counts / t)


# --- what the planners know -----------------------------------------------------------------------

BUDGET = {"epsilon": Epsilon | None, "delta": Delta}
Rounds = Annotated[int, partial(check_int, maximum=MAX_ROUNDS)]
RoundsOrNone = Annotated[int, partial(check_int, minimum=0, maximum=MAX_ROUNDS)]


def check_facts(facts: FederationFacts, *, unit: str | None = None) -> None:
    """Refuse a federation that does not show noised sums of a ball to the server.

    With `unit`, its ledger must be kept for just that one.
    """
    if facts.receiver != "server" or facts.trust == "local":
        raise TrustModelError(
            "FedDP-KMeans needs a federation whose server sees the noised sums, since it is the"
            f" server that clusters its points with them; trust={facts.trust!r} does not show them"
            " to it: use trust='ideal' or 'trusted'"
        )
    if facts.adjacency != "add/remove":
        raise ValueError("federation must keep a ledger for add/remove neighbours")
    if facts.unit not in ("point", "client"):
        raise ValueError("federation must keep a ledger for one point or one client")
    if unit is not None and facts.unit != unit:
        raise LedgerMismatchError(f"federation must keep a ledger for one {unit}")
    if facts.domain != "ball":
        raise ValueError("federation must clip rows to a ball: domain='ball', bound=Delta")
    if not 1e-100 < facts.bound < 1e100:
        raise ValueError(
            "federation must have a bound between 1e-100 and 1e100 (rescale): squares of lengths"
            " leave the range of floats, and could not be clipped"
        )


def with_server_points(facts: FederationFacts, options: Options, *, each: bool = True) -> Options:
    """The options, with the server's points (q, d); `each`: at least one for each cluster."""
    check_facts(facts)
    k = check_int(options["n_clusters"], "n_clusters", maximum=facts.n_records)
    server = as_points(options["server_points"], "server_points", n_features=facts.n_features)
    if each and len(server) < k:
        raise ValueError(f"server_points must hold at least n_clusters={k} rows, got {len(server)}")
    return options | {"server_points": server}


def without_number_of_rounds(options: Options) -> None:
    """Refuse a number of rounds beside explicit budgets, which hold one."""
    if options["budgets"] is not None and options["n_rounds"]:
        raise ValueError("n_rounds must not be given with budgets")


def default_delta(facts: FederationFacts, options: Options) -> float:
    """That of explicit budgets, else 1e-6."""
    budgets = options.get("budgets")
    return 1e-6 if budgets is None else budgets.delta


def chosen_budgets(
    cost: Any, epsilon: float | None, shares: StepBudgets, budgets: StepBudgets | None
) -> StepBudgets:
    """Explicit step budgets, or the largest multiple of `shares` within epsilon."""
    if budgets is None:
        if epsilon is None:
            raise ValueError("epsilon must be given (or budgets=StepBudgets(...))")
        return calibrate_budgets(shares, epsilon, total=cost)
    if epsilon is not None:
        raise ValueError("epsilon must not be given with budgets: they say what is spent")
    if shares.delta != budgets.delta:
        raise ValueError(
            f"delta must be that of the budgets, {budgets.delta:g}, got {shares.delta:g}"
        )
    return budgets


def total(plan: Plan) -> float:
    """Total of all releases at `delta`, by the ledger; equal plans are added up once."""
    mechanisms = tuple(release.mechanisms for release in plan.releases)
    return joint_epsilon(mechanisms, plan.delta, plan.facts.unit, plan.facts.adjacency)


def last_sums(plan: Plan, n_records: int | None = None) -> tuple[float, str]:
    """What the noise of the last sums does to a centre."""
    n = plan.facts.n_records if n_records is None else n_records
    std = plan.mechanisms[-1][0].std
    return plan.n_features * (std * plan.n_clusters / n) ** 2, (
        "mean squared distance by which the noise of the last sums moves a centre, clusters of"
        " equal size, squared units of the data"
    )


def _checked(facts: FederationFacts, options: Options) -> Options:
    options = with_server_points(facts, options)
    level_of(facts.unit, options["clips"])
    without_number_of_rounds(options)
    for name in ("weights", "sums", "counts"):
        if options["budgets"] is not None and getattr(options["budgets"], name) == 0:
            raise ValueError(f"budgets.{name} must be > 0 for FedDP-Init")
    return options


def _in_proportion(
    cost: Any, public: Public, epsilon: float | None, delta: float, *,
    n_rounds: RoundsOrNone = 0, budgets: StepBudgets | None = None, **_: Any,
) -> StepBudgets:  # fmt: skip
    """The paper's proportions (Appendix H.1)."""
    unit: Any = public.facts.unit
    shares = split_epsilon(1.0, unit=unit, n_rounds=n_rounds, delta=delta)
    return chosen_budgets(cost, epsilon, shares, budgets)


def _at_point_level(plan: Plan) -> tuple[float | None, str]:
    """Client means have no such formula."""
    return last_sums(plan) if plan.facts.unit == "point" else (None, "")


FEDDP = Algorithm(
    name="FedDP-KMeans", steps=feddp_kmeans, budget=BUDGET, search=_in_proportion, check=_checked,
    default_delta=default_delta, predict=_at_point_level, total=total,
)  # fmt: skip
plan = FEDDP.planner()
