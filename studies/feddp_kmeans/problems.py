"""Federated data sets of the FedDP tables, and the best non-private cost on each."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Literal, NamedTuple

from fedclust_helpers import kmeans
from fedclust_helpers._validation import FloatArray
from fedclust_helpers.feddp_kmeans import ClipBounds
from fedclust_helpers.federation import ClientData
from studies import paper_data
from studies.bench.cell import generator_of
from studies.paper_data import FederatedDataset

Level = Literal["point", "client"]
LEVEL_KEYS = {"point": "data", "client": "client"}
"""Level of privacy -> its word in the names that seeds come from."""
SHIPPED_CLIPS = ClipBounds(1500.0, 1.0, 21.0, 10.0, 120.0, 50.0)
"""Client-level clip bounds of the authors' configuration for the Gaussian mixture."""
CENSUS_RADIUS = 2.65  # Table 1; every row has length sqrt(7) = 2.6458
CENSUS_CLIENTS = 25  # pseudo-clients per state


class Mixture(NamedTuple):
    """A Gaussian mixture of Appendix G.1 with `missing` components that the server does not know.

    Mixtures of one seed share their means; with the same number of rows in all they share the
    rows too, whatever the clients, the level, or the missing components.

    Examples
    --------
    >>> Mixture("client", 2000, 50, 100, 10, 3).name
    'client_2000_50_100_10_3_0'
    """

    level: Level
    clients: int
    rows: int
    d: int
    k: int
    seed: int
    missing: int = 0

    @property
    def name(self) -> str:
        """What seeds are derived from."""
        return "_".join(map(str, (LEVEL_KEYS[self.level], *self[1:])))


class Real(NamedTuple):
    """A split of real data: states of the census, or "strips" of a photograph."""

    employment: str
    seed: int

    @property
    def name(self) -> str:
        """What seeds are derived from."""
        kind = "" if self.employment.startswith("strips") else "census_"
        return f"{kind}{self.employment}_{self.seed}"


@dataclass(frozen=True, eq=False)
class FederatedProblem:
    """One data set at one level of privacy, the ledger's unit.

    `radius` is the public Delta, `clips` the client-level bounds. `public_counts` is what the
    adaptive variant must be told at client level: the design of these data, not a count of rows.
    """

    level: Level
    dataset: FederatedDataset
    radius: float
    clips: ClipBounds | None
    public_counts: dict[str, Any]

    @property
    def data(self) -> ClientData:
        """Rows and offsets of the clients, not clipped yet."""
        return ClientData(*self.dataset.clients())

    def cost(self, centers: FloatArray) -> float:
        """k-means cost per point on the clients' rows as they are, without clipping."""
        return kmeans.kmeans_cost(self.dataset.points, centers, normalize=True)


def cut_rows(made: FederatedDataset) -> ClientData:
    """The clients' rows, cut to the public radius."""
    return ClientData(*made.clients()).clipped(made.radius, domain="ball")[0]


@lru_cache(maxsize=2)
def load_federated(data: Mixture | Real) -> FederatedProblem:
    """The data set; "strips_8" has 8 clients and needs no file.

    Raises
    ------
    datasets.DatasetUnavailableError
        If its file is neither on this machine nor can be downloaded.
    """
    if isinstance(data, Mixture):
        made = paper_data.make_server_mixture(
            n_clients=data.clients, rows_per_client=data.rows, n_features=data.d,
            n_clusters=data.k, missing=data.missing,
            rng=generator_of(f"data/mixture/{data.d}_{data.k}/{data.seed}"),
        )  # fmt: skip
        if data.level == "point":
            return FederatedProblem("point", made, made.radius, None, {})
        counts = {"n_records": data.clients * data.rows, "rows_per_client": data.rows}
        return FederatedProblem("client", made, made.radius, SHIPPED_CLIPS, counts)
    rng = generator_of(f"data/{data.name}")
    kind, _, number = data.employment.partition("_")
    if kind == "strips":
        made = paper_data.make_image_federation(n_clients=int(number), block=8, rng=rng)
        return FederatedProblem("point", made, made.radius, None, {})
    made = paper_data.make_acsincome_federation(
        data.employment, clients_per_state=CENSUS_CLIENTS, rng=rng
    )
    return FederatedProblem("point", made, CENSUS_RADIUS, None, {})


@lru_cache(maxsize=16)
def best_cost(data: Mixture | Real) -> float:
    """Cost per point of the best non-private clustering found: the tables' "optimal".

    The best of k-means++ restarts (10, or 3 for mixtures) and, where the true means are known, of
    ten Lloyd rounds from them. One restart alone can miss by more than FedDP's whole error.
    """
    problem = load_federated(data)
    truth, k = problem.dataset.true_centers, problem.dataset.n_clusters
    rng = generator_of(f"reference/{data.name}")
    n_init = 10 if truth is None else 3
    found = [kmeans.weighted_kmeans(problem.data.points, None, k, rng=rng, n_init=n_init)]
    if truth is not None:
        found.append(kmeans.lloyd(problem.dataset.points, truth, n_rounds=10))
    return min(problem.cost(centers) for centers in found)
