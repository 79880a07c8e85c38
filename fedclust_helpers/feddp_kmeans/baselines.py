"""Variants without FedDP-Init: FedDP-Lloyds with all of the budget, from public starts (G.3)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from fedclust_helpers import kmeans
from fedclust_helpers._lazy import cluster
from fedclust_helpers._validation import FloatArray, as_points, check_choice, check_int
from fedclust_helpers.feddp_kmeans import algorithm
from fedclust_helpers.feddp_kmeans.budgets import StepBudgets
from fedclust_helpers.feddp_kmeans.levels import ClipBounds, level_of
from fedclust_helpers.federation import FederationFacts
from fedclust_helpers.program import Algorithm, Options, Public, Steps


def server_kmeanspp(
    server_points: FloatArray, n_clusters: int, *, rng: np.random.Generator
) -> FloatArray:
    """ServerKMeans++: one k-means++ seeding on the server's data. Costs no privacy."""
    seed = int(rng.integers(2**31))
    return np.asarray(cluster.kmeans_plusplus(server_points, n_clusters, random_state=seed)[0])


def server_lloyds(
    server_points: ArrayLike, n_clusters: int, *, rng: np.random.Generator,
    cluster: Callable[..., FloatArray] = kmeans.weighted_kmeans,
) -> FloatArray:  # fmt: skip
    """ServerLloyds: k-means on the server's data (best of ten). Costs no privacy."""
    server = kmeans.moderate_points(server_points, "server_points")
    return cluster(server, None, n_clusters, rng=rng, n_init=algorithm.N_INIT)


def sphere_packing_start(
    server_points: FloatArray, n_clusters: int, *, rng: np.random.Generator
) -> FloatArray:
    """SpherePacking in the cube that holds the server's data (G.3). Costs no privacy."""
    bound = float(np.abs(server_points).max())
    if bound == 0:
        raise ValueError("server_points must not all be 0: the cube that holds them is a point")
    return kmeans.sphere_packing(
        n_clusters, server_points.shape[1], rng=rng, bound=bound, method="largest"
    )


STARTS: dict[str, Callable[..., FloatArray]] = {
    "server_kmeanspp": server_kmeanspp,
    "server_lloyds": server_lloyds,
    "sphere_packing": sphere_packing_start,
}
"""Starts by the names used in the result tables."""


def feddp_lloyds(
    public: Public, budgets: StepBudgets, server_points: ArrayLike | None = None, *,
    n_clusters: int, initial: str | FloatArray = "server_lloyds", clips: ClipBounds | None = None,
) -> Steps:  # fmt: skip
    """FedDP-Lloyds (Algorithm 2) from a public start, with all of (epsilon, delta), add/remove.

    Arguments as of `feddp_kmeans`, but: of the budget of a plan three quarters go to the sums, one
    to the counts, in `n_rounds`, 1 by default; explicit `budgets` have `lloyd_sums`, `lloyd_counts`
    and `n_rounds` and nothing else. `initial` is a name of `STARTS`, which a run computes from the
    server's points, or public centres (k, d); `server_points` are None then.
    """
    start = initial
    if isinstance(initial, str):
        more = {"cluster": public.kmeans} if initial == "server_lloyds" else {}
        start = STARTS[initial](server_points, n_clusters, rng=public.own, **more)
    level = level_of(public.facts.unit, clips)
    history = yield from algorithm.lloyds(public, budgets, level, np.array(start))
    return algorithm.Found(history[-1], history)


def _checked(facts: FederationFacts, options: Options) -> Options:
    algorithm.check_facts(facts)
    level_of(facts.unit, options["clips"])
    initial = options["initial"]
    if isinstance(initial, str):
        check_choice(initial, "initial", tuple(STARTS))
        each = initial != "sphere_packing"
        options = algorithm.with_server_points(facts, options, each=each)
    else:
        k = check_int(options["n_clusters"], "n_clusters", maximum=facts.n_records)
        initial = as_points(initial, "initial", n_features=facts.n_features)
        if len(initial) != k:
            raise ValueError(f"initial must hold n_clusters={k} centres, got {len(initial)}")
        if options["server_points"] is not None:
            raise ValueError("server_points must be None where initial is an array of centres")
        options = options | {"initial": initial}
    algorithm.without_number_of_rounds(options)
    b = options["budgets"]
    if b is not None and (b.n_rounds == 0 or b.outer or b.weights or b.sums or b.counts):
        raise ValueError("budgets must have lloyd_sums, lloyd_counts and n_rounds > 0 only")
    return options


def _three_to_one(
    cost: Any, public: Public, epsilon: float | None, delta: float, *,
    n_rounds: algorithm.Rounds | None = None, budgets: StepBudgets | None = None, **_: Any,
) -> StepBudgets:  # fmt: skip
    """Three quarters for the sums, one for the counts."""
    shares = StepBudgets(0, 0, 0, 0, 0.75, 0.25, 1 if n_rounds is None else n_rounds, delta)
    return algorithm.chosen_budgets(cost, epsilon, shares, budgets)


def _title(_: FederationFacts, options: Options) -> str:
    name = options["initial"]
    return "FedDP-Lloyds" + (f" from {name}" if isinstance(name, str) else "")


LLOYDS = Algorithm(
    name="FedDP-Lloyds", steps=feddp_lloyds, budget=algorithm.BUDGET, search=_three_to_one,
    check=_checked, default_delta=algorithm.default_delta, predict=algorithm.last_sums,
    total=algorithm.total, title=_title,
)  # fmt: skip
plan_lloyds = LLOYDS.planner("plan_lloyds")
