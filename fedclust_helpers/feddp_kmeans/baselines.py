"""Variants without FedDP-Init: FedDP-Lloyds with all of the budget, from public starts (G.3)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import ArrayLike
from sklearn.cluster import kmeans_plusplus

from fedclust_helpers import kmeans
from fedclust_helpers._checked import checked
from fedclust_helpers._validation import FloatArray, as_points, check_choice, check_int, check_rng
from fedclust_helpers.feddp_kmeans import planning
from fedclust_helpers.feddp_kmeans.budgets import LLOYD_STEPS, StepBudgets
from fedclust_helpers.feddp_kmeans.levels import ClipBounds, level_of
from fedclust_helpers.feddp_kmeans.planning import ServerPlan, ServerPoints
from fedclust_helpers.federation import SumFederation, planner

MAX_PACKED = 100_000  # centres that sphere packing tries to place


def server_kmeanspp(
    server_points: FloatArray, n_clusters: int, *, rng: np.random.Generator
) -> FloatArray:
    """ServerKMeans++: one k-means++ seeding on the server's data. Costs no privacy."""
    seed = int(rng.integers(2**31))
    return np.asarray(kmeans_plusplus(server_points, n_clusters, random_state=seed)[0])


def server_lloyds(
    server_points: ArrayLike, n_clusters: int, *, rng: np.random.Generator
) -> FloatArray:
    """ServerLloyds: k-means on the server's data (best of ten). Costs no privacy."""
    server = kmeans.moderate_points(server_points, "server_points")
    n_init = planning.N_INIT
    return kmeans.weighted_kmeans(server, None, n_clusters, rng=check_rng(rng), n_init=n_init)


def sphere_packing_start(
    server_points: FloatArray, n_clusters: int, *, rng: np.random.Generator
) -> FloatArray:
    """SpherePacking in the cube that holds the server's data (G.3). Costs no privacy."""
    check_int(n_clusters, "n_clusters", maximum=MAX_PACKED)
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


@dataclass(frozen=True, kw_only=True)
class LloydsPlan(ServerPlan):
    """FedDP-Lloyds (Algorithm 2) with the whole budget, from a public start.

    `initial` is a name of `STARTS` (then `server` is what the plan keeps of the server's points) or
    "given", with the public `centers` (k, d).
    """

    initial: str
    centers: FloatArray | None = field(default=None, repr=False, compare=False)


@planner
@checked
def plan_lloyds(
    federation: SumFederation, server_points: ArrayLike | None = None, *, n_clusters: int,
    epsilon: float | None = None, delta: float | None = None, n_rounds: int | None = None,
    initial: str | FloatArray = "server_lloyds", budgets: StepBudgets | None = None,
    clips: ClipBounds | None = None,
) -> LloydsPlan:  # fmt: skip
    """Fix FedDP-Lloyds from a public start, with all of (epsilon, delta), add/remove.

    Three quarters of the budget go to the sums, one to the counts. Arguments as in `plan`, but:
    `initial` is a name of `STARTS`, which `run` computes from the server's points, or public
    centres (k, d); `server_points` are None then. `n_rounds` is 1 by default; `budgets` take the
    place of `epsilon`, `delta` and `n_rounds`, with `lloyd_sums`, `lloyd_counts` and `n_rounds` and
    nothing else.
    """
    facts = planning.check_federation(federation)
    level, centers, server = level_of(facts.unit, clips), None, None
    if isinstance(initial, str):
        check_choice(initial, "initial", tuple(STARTS))
        points, k = planning.check_server_points(
            federation, server_points, n_clusters, each=initial != "sphere_packing"
        )
        server = ServerPoints.of(points)
    else:
        k = check_int(n_clusters, "n_clusters", maximum=facts.n_records)
        centers = as_points(initial, "initial", n_features=facts.n_features).copy()
        centers.flags.writeable = False
        if len(centers) != k:
            raise ValueError(f"initial must hold n_clusters={k} centres, got {len(centers)}")
        if server_points is not None:
            raise ValueError("server_points must be None where initial is an array of centres")
    if budgets is not None and n_rounds is not None:
        raise ValueError("n_rounds must not be given with budgets")
    rounds = check_int(1 if n_rounds is None else n_rounds, "n_rounds")
    shares = StepBudgets(0, 0, 0, 0, 0.75, 0.25, rounds, planning.delta_of(delta, budgets))
    if budgets is not None and (
        budgets.n_rounds == 0 or budgets.outer or budgets.weights or budgets.sums or budgets.counts
    ):
        raise ValueError("budgets must have lloyd_sums, lloyd_counts and n_rounds > 0 only")

    def releases(b: StepBudgets) -> planning.Releases:
        step, zeros = level.lloyd, np.zeros((k, facts.n_features))
        return planning.planned_releases(federation, b, LLOYD_STEPS, step, round=0, centers=zeros)

    steps = planning.chosen_budgets(federation, releases, shares, epsilon, budgets)
    name = initial if isinstance(initial, str) else ""
    return planning.made_plan(
        LloydsPlan, federation, releases(steps), steps, epsilon, n_clusters=k, clips=clips,
        method=f"FedDP-Lloyds from {name}" if name else "FedDP-Lloyds", server=server,
        initial=name or "given", centers=centers,
    )  # fmt: skip
