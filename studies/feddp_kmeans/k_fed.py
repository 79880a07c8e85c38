"""What FedDP-KMeans is compared with, **not private**: k-FED, and Algorithm 3 on whole data."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from fedclust_helpers import kmeans
from fedclust_helpers._checked import checked
from fedclust_helpers._validation import FloatArray, as_points, check_int, check_share
from fedclust_helpers.client_statistics import PROJECTED_SUMS_AND_COUNTS
from fedclust_helpers.feddp_kmeans.algorithm import N_INIT
from fedclust_helpers.feddp_kmeans.server import top_eigenvectors
from fedclust_helpers.federation import ClientData

MARGIN = 1 / 3  # Algorithms 3 and 5 count a row only if its centre is three times nearer
MAX_LLOYD = 50


@checked
def awasthi_sheffet(
    points: ArrayLike,
    n_clusters: int,
    *,
    rng: np.random.Generator,
    n_init: int = N_INIT,
    n_rounds: int = MAX_LLOYD,
    margin: float = MARGIN,
) -> FloatArray:
    """Algorithm 3: projection, k-means, means of clear rows, Lloyd. Centres (n_clusters, d).

    A cluster without a clear row starts at the mean of all its rows. Lloyd stops when nothing
    moves, or after `n_rounds`. With ``margin=1`` every row is clear.
    """
    points = as_points(points)
    k = check_int(n_clusters, "n_clusters", maximum=len(points))
    check_int(n_rounds, "n_rounds", minimum=0)
    margin = check_share(margin, "margin", one=True)
    rank = min(k, points.shape[1])  # line 1a
    if len(points) < 2 * points.shape[1]:
        basis = np.ascontiguousarray(np.linalg.svd(points, full_matrices=False)[2][:rank].T)
    else:
        basis = top_eigenvectors(points.T @ points, rank)[1]
    nu = kmeans.weighted_kmeans(points @ basis, None, k, rng=rng, n_init=n_init)  # line 1b
    centers = nu @ basis.T
    for limit in sorted({1.0, margin}, reverse=True):  # line 2; clear rows decide if there are any
        sums, counts = PROJECTED_SUMS_AND_COUNTS.compute(
            points, np.array([0, len(points)]), basis=basis, centers=nu, margin=limit
        )
        found = counts[0] > 0
        centers[found] = sums[0][found] / counts[0][found, None]
    for _ in range(n_rounds):  # line 3
        moved = kmeans.lloyd(points, centers, n_rounds=1)
        if np.array_equal(moved, centers):
            break
        centers = moved
    return centers


def local_centers(
    points: FloatArray, n_clusters: int, *, rng: np.random.Generator, n_init: int = N_INIT
) -> FloatArray:
    """What one client of k-FED sends: centres of its own rows; all rows if it has at most k.

    Every row counts as clear: of one client's rows 0 to 6 per cluster pass the margin 1/3 on the
    paper's mixture, and centres that are means of so few do not recover in Lloyd.
    """
    if len(points) <= n_clusters:
        return points.copy()
    return awasthi_sheffet(points, n_clusters, rng=rng, n_init=n_init, margin=1.0)


@checked
def k_fed(
    clients: ClientData, n_clusters: int, *, rng: np.random.Generator, n_init: int = N_INIT
) -> FloatArray:
    """k-FED (Dennis, Li, Smith 2021): local centres, then one Lloyd step. Centres (n_clusters, d).

    Each client runs Algorithm 3 on its own rows and sends k centres. The server takes those of one
    random client, adds the farthest centre of the others until it has k, and makes one Lloyd step
    over all centres. (The released code of FedDP-KMeans sends raw rows instead wherever a client
    has no duplicate rows.)
    """
    k = check_int(n_clusters, "n_clusters", maximum=len(clients.points))
    local = [
        local_centers(clients.client(i), k, rng=rng, n_init=n_init)
        for i in range(clients.n_clients)
    ]
    everything = np.concatenate(local)
    chosen = local[int(rng.integers(len(local)))]
    while len(chosen) < k:
        squared = kmeans.assign(everything, chosen).squared
        chosen = np.vstack([chosen, everything[int(squared.argmax())]])
    return kmeans.lloyd(everything, chosen[:k], n_rounds=1)
