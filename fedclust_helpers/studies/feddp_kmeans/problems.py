"""Federated data sets of the FedDP tables by name, and the best non-private cost on each."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Literal

import numpy as np

from fedclust_helpers import kmeans
from fedclust_helpers._validation import FloatArray
from fedclust_helpers.feddp_kmeans import ClipBounds, optimal
from fedclust_helpers.federation import ClientData
from fedclust_helpers.studies import paper_data
from fedclust_helpers.studies.fastlloyd.problems import seed_of
from fedclust_helpers.studies.paper_data import FederatedDataset

Unit = Literal["point", "client"]
UNITS: Mapping[str, Unit] = {"data": "point", "client": "client"}
"""Levels of the tables -> privacy unit of the ledger."""
SHIPPED_CLIPS = ClipBounds(1500.0, 1.0, 21.0, 10.0, 120.0, 50.0)
"""Client-level clip bounds of the authors' configuration for the Gaussian mixture."""
CENSUS_RADIUS = 2.65  # Table 1; every row has length sqrt(7) = 2.6458
CENSUS_CLIENTS = 25  # pseudo-clients per state


@dataclass(frozen=True, eq=False)
class FederatedProblem:
    """One data set at one level of privacy.

    `level` is "data" or "client", `radius` the public Delta, `clips` the client-level bounds.
    """

    name: str
    level: str
    dataset: FederatedDataset
    radius: float
    clips: ClipBounds | None

    @property
    def data(self) -> ClientData:
        """Rows and offsets of the clients, not clipped yet."""
        return ClientData(*self.dataset.clients())

    @property
    def unit(self) -> Unit:
        """The ledger's unit of privacy."""
        return UNITS[self.level]

    @property
    def public_counts(self) -> dict[str, Any]:
        """What the adaptive variant must be told: the design of these data, not a count of rows."""
        if self.level == "data":
            return {}
        _, clients, rows, *_ = self.name.split("_")
        return {"n_records": int(clients) * int(rows), "rows_per_client": int(rows)}

    def cost(self, centers: FloatArray) -> float:
        """k-means cost per point on the clients' rows as they are, without clipping."""
        return kmeans.kmeans_cost(self.dataset.points, centers, normalize=True)


def mixture_name(
    level: str, clients: int, rows: int, *, d: int, k: int, seed: int, missing: int = 0
) -> str:
    """Name of a Gaussian mixture (App. G.1) for `load_federated`.

    Examples
    --------
    >>> mixture_name("client", 2000, 50, d=100, k=10, seed=3)
    'client_2000_50_100_10_3_0'
    """
    return "_".join(map(str, (level, clients, rows, d, k, seed, missing)))


@lru_cache(maxsize=2)
def load_federated(name: str) -> FederatedProblem:
    """The data set `name`: a `mixture_name`, "census_<employment>_<seed>" or "strips_<m>_<seed>".

    Mixtures of one seed share their means; with the same number of rows in all they share the
    rows too, whatever the clients, the level, or the components that the server does not know.

    Raises
    ------
    ValueError
        If there is no such data set.
    datasets.DatasetUnavailableError
        If its file is neither on this machine nor can be downloaded.
    """
    kind, *parts = name.split("_")
    if kind in UNITS and len(parts) == 6:
        clients, rows, d, k, seed, missing = map(int, parts)
        data = paper_data.make_server_mixture(
            n_clients=clients, rows_per_client=rows, n_features=d, n_clusters=k, missing=missing,
            rng=np.random.default_rng(seed_of(f"data/mixture/{d}_{k}/{seed}")),
        )  # fmt: skip
        clips = SHIPPED_CLIPS if kind == "client" else None
        return FederatedProblem(name, kind, data, data.radius, clips)
    rng = np.random.default_rng(seed_of(f"data/{name}"))
    if kind == "census" and len(parts) >= 2:
        data = paper_data.make_acsincome_federation(
            "_".join(parts[:-1]), clients_per_state=CENSUS_CLIENTS, rng=rng
        )
        return FederatedProblem(name, "data", data, CENSUS_RADIUS, None)
    if kind == "strips" and len(parts) == 2:
        data = paper_data.make_image_federation(n_clients=int(parts[0]), block=8, rng=rng)
        return FederatedProblem(name, "data", data, data.radius, None)
    raise ValueError(f"name must be a data set of the FedDP tables, got {name!r}")


@lru_cache(maxsize=16)
def best_cost(name: str) -> float:
    """Cost per point of the best non-private clustering found: the tables' "optimal".

    The best of k-means++ restarts (10, or 3 for mixtures) and, where the true means are known, of
    ten Lloyd rounds from them. One restart alone can miss by more than FedDP's whole error.
    """
    problem = load_federated(name)
    truth = problem.dataset.true_centers
    rng = np.random.default_rng(seed_of(f"reference/{name}"))
    k = problem.dataset.n_clusters
    found = [optimal(problem.data, k, rng=rng, n_init=10 if truth is None else 3)]
    if truth is not None:
        found.append(kmeans.lloyd(problem.dataset.points, truth, n_rounds=10))
    return min(problem.cost(centers) for centers in found)
