"""Baselines of sections 5.1 and G.3: other starts for FedDP-Lloyds, k-FED, and the optimum."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike
from sklearn.cluster import kmeans_plusplus

from fedclust_helpers import kmeans
from fedclust_helpers._validation import FloatArray, as_points, check_int, check_rng
from fedclust_helpers.feddp_kmeans.algorithm import (
    N_INIT,
    ClipBounds,
    FedDPResult,
    check_feddp_run,
    feddp_lloyds,
)
from fedclust_helpers.feddp_kmeans.plan import StepBudgets
from fedclust_helpers.feddp_kmeans.theory import local_centers
from fedclust_helpers.federation import ClientData, SumFederation


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
    server = as_points(server_points, "server_points")
    return kmeans.weighted_kmeans(server, None, n_clusters, rng=rng, n_init=n_init)


def sphere_packing_start(
    server_points: ArrayLike, n_clusters: int, *, rng: np.random.Generator
) -> FloatArray:
    """SpherePacking in the cube that holds the server's data (G.3). Costs no privacy."""
    server = as_points(server_points, "server_points")
    return kmeans.sphere_packing(
        n_clusters, server.shape[1], rng=rng, bound=float(np.abs(server).max()), method="largest"
    )


STARTS = {
    "server_kmeanspp": server_kmeanspp,
    "server_lloyds": server_lloyds,
    "sphere_packing": sphere_packing_start,
}
"""Starts by the names used in the result tables."""


def lloyds_from(
    start: str,
    federation: SumFederation,
    server_points: ArrayLike,
    *,
    n_clusters: int,
    budgets: StepBudgets,
    rng: np.random.Generator,
    clips: ClipBounds | None = None,
) -> FedDPResult:
    """A public start from `STARTS`, then FedDP-Lloyds with the whole budget.

    Get `budgets` from `lloyd_budgets_for_total`.
    """
    if start not in STARTS:
        raise ValueError(f"start must be one of {', '.join(STARTS)}; got {start!r}")
    check_feddp_run(federation, None, n_clusters)
    before = len(federation.ledger.releases)
    centers = STARTS[start](server_points, n_clusters, rng=rng)
    history, released = feddp_lloyds(
        federation, centers, budgets=budgets, clips=clips, first_round=0
    )
    own = federation.ledger.since(before)
    return FedDPResult(
        history[-1], None, history, budgets, own, federation.randomness.is_secure, released
    )


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
    raw rows instead wherever a client has no duplicate rows: notes, section 5.)
    """
    k = check_int(n_clusters, "n_clusters")
    check_rng(rng)
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
    return kmeans.weighted_kmeans(clients.points, None, n_clusters, rng=rng, n_init=n_init)
