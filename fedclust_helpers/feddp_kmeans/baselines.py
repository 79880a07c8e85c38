"""Baselines of sections 5.1 and G.3: other starts for FedDP-Lloyds, k-FED, and the optimum."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from sklearn.cluster import kmeans_plusplus

from fedclust_helpers import kmeans
from fedclust_helpers._validation import (
    FloatArray,
    as_points,
    check_epsilon,
    check_int,
    check_positive,
    check_rng,
)
from fedclust_helpers.client_statistics import PROJECTED_SUMS_AND_COUNTS
from fedclust_helpers.feddp_kmeans._releases import lloyd_releases, total_of
from fedclust_helpers.feddp_kmeans.algorithm import lloyd_rounds, lloyds, top_eigenvectors
from fedclust_helpers.feddp_kmeans.budgets import StepBudgets, lloyd_shares
from fedclust_helpers.feddp_kmeans.levels import ClipBounds, level_of
from fedclust_helpers.feddp_kmeans.planning import (
    ERROR_IS,
    N_INIT,
    ServerPlan,
    ServerPoints,
    check_budgets,
    check_federation,
    check_restarts,
    check_server_points,
    chosen_budgets,
    delta_of,
)
from fedclust_helpers.federation import ClientData, PlannedRelease, SumFederation

MARGIN = 1 / 3  # Algorithms 3 and 5 count a row only if its centre is three times nearer
MAX_PACKED = 100_000  # centres that sphere packing tries to place


def server_kmeanspp(
    server_points: ArrayLike, n_clusters: int, *, rng: np.random.Generator
) -> FloatArray:
    """ServerKMeans++: one k-means++ seeding on the server's data. Costs no privacy."""
    server = as_points(server_points, "server_points")
    k = check_int(n_clusters, "n_clusters", maximum=len(server))
    seed = int(check_rng(rng).integers(2**31))
    return np.asarray(kmeans_plusplus(server, k, random_state=seed)[0])


def server_lloyds(
    server_points: ArrayLike, n_clusters: int, *, rng: np.random.Generator, n_init: int = N_INIT
) -> FloatArray:
    """ServerLloyds: k-means on the server's data (best of `n_init`). Costs no privacy."""
    server = kmeans.moderate_points(server_points, "server_points")
    check_restarts(n_init)
    return kmeans.weighted_kmeans(server, None, n_clusters, rng=check_rng(rng), n_init=n_init)


def sphere_packing_start(
    server_points: ArrayLike, n_clusters: int, *, rng: np.random.Generator
) -> FloatArray:
    """SpherePacking in the cube that holds the server's data (G.3). Costs no privacy."""
    server = as_points(server_points, "server_points")
    check_int(n_clusters, "n_clusters", maximum=MAX_PACKED)
    bound = float(np.abs(server).max())
    if bound == 0:
        raise ValueError("server_points must not all be 0: the cube that holds them is a point")
    return kmeans.sphere_packing(
        n_clusters, server.shape[1], rng=check_rng(rng), bound=bound, method="largest"
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

    `start` is a name of `STARTS` (then `server` is what the plan keeps of the server's points) or
    "given", with the public `centers` (k, d).
    """

    start: str
    centers: FloatArray | None = field(default=None, repr=False, compare=False)


def plan_lloyds_from(
    start: str | ArrayLike,
    federation: SumFederation,
    server_points: ArrayLike | None = None,
    *,
    n_clusters: int,
    epsilon: float | None = None,
    delta: float | None = None,
    n_rounds: int | None = None,
    share: float = 0.75,
    budgets: StepBudgets | None = None,
    clips: ClipBounds | None = None,
) -> LloydsPlan:
    """Fix FedDP-Lloyds from a public start, with all of (epsilon, delta), add/remove.

    Parameters
    ----------
    start : str, or array_like of shape (n_clusters, d)
        A name of `STARTS`, which `run` computes from the server's points, or public centres.
    federation : SumFederation
        As in `plan`.
    server_points : array_like of shape (q, d)
        None where `start` is centres.
    n_clusters : int
    epsilon, delta : float
        Exact total of all rounds, by the ledger; delta is 1e-6 by default.
    n_rounds : int
        1 by default; not with `budgets`.
    share : float
        Of the budget for the sums; the rest is for the counts.
    budgets : StepBudgets, optional
        In place of `epsilon` and `n_rounds`: `lloyd_sums`, `lloyd_counts`, `n_rounds` and nothing
        else.
    clips : ClipBounds, optional
        Client level only.
    """
    check_federation(federation)
    level = level_of(federation.facts.unit, clips)
    centers, server = None, None
    if isinstance(start, str):
        if start not in STARTS:
            raise ValueError(f"start must be one of {', '.join(STARTS)}; got {start!r}")
        needed = 1 if start == "sphere_packing" else n_clusters
        points, _ = check_server_points(federation, server_points, needed)
        server = ServerPoints.of(points)
        k = check_int(n_clusters, "n_clusters", maximum=federation.facts.n_records)
    else:
        k = check_int(n_clusters, "n_clusters", maximum=federation.facts.n_records)
        centers = as_points(start, "start", n_features=federation.facts.n_features).copy()
        centers.flags.writeable = False
        if len(centers) != k:
            raise ValueError(f"start must hold n_clusters={k} centres, got {len(centers)}")
        if server_points is not None:
            raise ValueError("server_points must be None where start is an array of centres")
    check_budgets(budgets)
    if budgets is not None and n_rounds is not None:
        raise ValueError("n_rounds must not be given with budgets")
    delta = delta_of(delta, budgets)
    shares = lloyd_shares(1 if n_rounds is None else n_rounds, delta=delta, share=share)

    def releases(steps: StepBudgets) -> tuple[PlannedRelease, ...]:
        return tuple(lloyd_releases(federation, level.lloyd, steps, k, first_round=0))

    steps = chosen_budgets(
        budgets, shares, epsilon, lambda b: total_of(federation, releases(b), delta)
    )
    if steps.n_rounds == 0 or steps.outer or steps.weights or steps.sums or steps.counts:
        raise ValueError("budgets must have lloyd_sums, lloyd_counts and n_rounds > 0 only")
    whole = releases(steps)
    facts = federation.facts
    error = facts.n_features * (whole[-1].mechanisms[0].std * k / facts.n_records) ** 2
    return LloydsPlan(
        method="FedDP-Lloyds" if centers is not None else f"FedDP-Lloyds from {start!s}",
        n_clusters=k, n_features=facts.n_features, n_rounds=steps.n_rounds,
        epsilon=total_of(federation, whole, delta) if epsilon is None else check_epsilon(epsilon),
        delta=delta, releases=whole, facts=facts, predicted_error=error,
        predicted_error_is=ERROR_IS,
        budgets=steps, clips=clips, start="given" if centers is not None else str(start),
        server=server, centers=centers,
    )  # fmt: skip


def follow_lloyds(
    federation: SumFederation,
    plan: LloydsPlan,
    server: FloatArray | None,
    *,
    rng: np.random.Generator | None,
    progress: bool,
) -> dict[str, Any]:
    """The public start, then FedDP-Lloyds."""
    centers = plan.centers
    if centers is None:
        centers = STARTS[plan.start](server, plan.n_clusters, rng=rng)
    step = level_of(plan.facts.unit, plan.clips).lloyd
    history, released = lloyds(federation, step, lloyd_rounds(plan), centers, progress=progress)
    return {"history": history, "released": released}


def check_clients(clients: Any) -> ClientData:
    """Return the data of clients, for methods that are not private."""
    if not isinstance(clients, ClientData):
        raise TypeError(f"clients must be ClientData, got {type(clients).__name__}")
    return clients


def k_fed(
    clients: ClientData,
    n_clusters: int,
    *,
    rng: np.random.Generator,
    n_local: int | None = None,
    n_init: int = N_INIT,
) -> FloatArray:
    """k-FED (Dennis, Li, Smith 2021), **not private**: local centres, then one Lloyd step.

    Each client runs the Awasthi-Sheffet algorithm on its own rows and sends `n_local` centres.
    The server takes all centres of one random client, adds the farthest centre of the others until
    it has k, and makes one Lloyd step over all centres. (The released code of FedDP-KMeans sends
    raw rows instead wherever a client has no duplicate rows.)
    """
    check_clients(clients)
    k = check_int(n_clusters, "n_clusters", maximum=len(clients.points))
    check_rng(rng)
    check_restarts(n_init)
    n_local = k if n_local is None else check_int(n_local, "n_local", maximum=k)
    local = [
        local_centers(clients.client(i), n_local, rng=rng, n_init=n_init)
        for i in range(clients.n_clients)
    ]
    everything = np.concatenate(local)
    chosen = local[int(rng.integers(len(local)))]
    while len(chosen) < k:
        squared = kmeans.assign(everything, chosen).squared
        chosen = np.vstack([chosen, everything[int(squared.argmax())]])
    return kmeans.lloyd(everything, chosen[:k], n_rounds=1)


def optimal(
    clients: ClientData, n_clusters: int, *, rng: np.random.Generator, n_init: int = N_INIT
) -> FloatArray:
    """Non-private k-means on the pooled rows, best of `n_init` restarts (one restart can miss)."""
    points = check_clients(clients).points
    check_restarts(n_init)
    return kmeans.weighted_kmeans(points, None, n_clusters, rng=check_rng(rng), n_init=n_init)


# --- Algorithm 3, on the rows of one client --------------------------------------------


def check_size(array: FloatArray, name: str) -> FloatArray:
    """Return numbers whose squares are still numbers."""
    if not np.abs(array).max() < 1e100:
        raise ValueError(f"{name} must be below 1e100 in size (rescale)")
    return array


def awasthi_sheffet(
    points: ArrayLike,
    n_clusters: int,
    *,
    rng: np.random.Generator,
    n_init: int = 10,
    n_rounds: int = 50,
    margin: float = MARGIN,
) -> FloatArray:
    """Algorithm 3, **not private**: projection, k-means, means of clear rows, Lloyd.

    Returns centres of shape (n_clusters, d). A cluster without a clear row starts at the mean of
    all its rows. Lloyd stops when nothing moves, or after `n_rounds`. With ``margin=1`` every row
    is clear.
    """
    points = check_size(as_points(points), "points")
    k = check_int(n_clusters, "n_clusters", maximum=len(points))
    check_restarts(n_init)
    check_int(n_rounds, "n_rounds", minimum=0)
    if check_positive(margin, "margin") > 1:
        raise ValueError(f"margin must lie in (0, 1], got {margin}")
    rank = min(k, points.shape[1])
    if len(points) < 2 * points.shape[1]:
        basis = np.ascontiguousarray(np.linalg.svd(points, full_matrices=False)[2][:rank].T)
    else:
        basis = top_eigenvectors(points.T @ points, rank)[1]
    nu = kmeans.weighted_kmeans(points @ basis, None, k, rng=check_rng(rng), n_init=n_init)
    centers = nu @ basis.T
    for limit in sorted({1.0, margin}, reverse=True):  # clear rows decide where there are any
        sums, counts = PROJECTED_SUMS_AND_COUNTS.compute(
            points, np.array([0, len(points)]), basis=basis, centers=nu, margin=limit
        )
        found = counts[0] > 0
        centers[found] = sums[0][found] / counts[0][found, None]
    for _ in range(n_rounds):
        moved = kmeans.lloyd(points, centers, n_rounds=1)
        if np.array_equal(moved, centers):
            break
        centers = moved
    return centers


def local_centers(
    points: ArrayLike, n_clusters: int, *, rng: np.random.Generator, n_init: int = 10
) -> FloatArray:
    """What one client of k-FED sends: centres of its own rows; all rows if it has at most k.

    Every row counts as clear: of one client's rows 0 to 6 per cluster pass the margin 1/3 on the
    paper's mixture, and centres that are means of so few do not recover in Lloyd.
    """
    points = as_points(points)
    if len(points) <= check_int(n_clusters, "n_clusters"):
        return points.copy()
    return awasthi_sheffet(points, n_clusters, rng=rng, n_init=n_init, margin=1.0)
