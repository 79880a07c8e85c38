"""Small federations, plans and runs of FedDP-KMeans, shared by its tests."""

import numpy as np
from conftest import read_only

from fedclust_helpers import feddp_kmeans as fk
from fedclust_helpers import kmeans
from fedclust_helpers.accounting import PrivacyLedger
from fedclust_helpers.federation import ClientData, simulate

DELTA = 1e-6
D, K = 4, 3
ONES = fk.StepBudgets(1, 1, 1, 1)
SIX = fk.StepBudgets(1, 1, 1, 1, 1, 1, 1)


def _tiny():
    """600 rows of three clear clusters in four dimensions, and 20 server points."""
    rng = np.random.default_rng(0)
    means = np.array([[1.0, 0, 0, 0], [0, 1, 0, 0], [-1, -1, 0, 0]])
    points = means[rng.integers(3, size=600)] + 0.15 * rng.normal(size=(600, 4))
    own = means[np.repeat(np.arange(3), 4)] + 0.15 * rng.normal(size=(12, 4))
    server = np.concatenate([own, rng.uniform(-1, 1, (8, 4))])
    return read_only(points), read_only(server), read_only(means)


ROWS, SERVER, MEANS = _tiny()
DATA = ClientData(ROWS, np.arange(0, 601, 30))  # 20 clients
CLIPS = fk.ClipBounds(outer=40, weights=1, means=2, filled=3, sums=30, counts=31)
COUNTS = {"n_records": 600, "rows_per_client": 30}
VARIANTS = ("feddp", "lloyds", "given", "server", "weighted")


def gaussians(seed, n_clients, n_each, d=100, k=10):
    """Appendix G.1: k Gaussians of covariance 0.5 I; a third of the server's rows is uniform."""
    rng = np.random.default_rng(seed)
    means = rng.uniform(0, 1, (k, d))
    n = n_clients * n_each
    points = means[rng.integers(k, size=n)] + rng.normal(0, 0.5**0.5, (n, d))
    own = means[np.repeat(np.arange(k), 20)] + rng.normal(0, 0.5**0.5, (20 * k, d))
    server = np.concatenate([own, rng.uniform(0, 1, (10 * k, d))])
    return read_only(points), read_only(server), means


def federation(data=DATA, trust="ideal", *, unit="point", adjacency="add/remove", **options):
    """Seeded unless `mode` is "secure"; bound 2, rows in a ball."""
    if options.get("mode") != "secure":
        options = {"seed": 1} | options
    ledger = PrivacyLedger(unit=unit, adjacency=adjacency, budget=options.pop("budget", None))
    return simulate(data, trust, **{"bound": 2.0, "domain": "ball", "ledger": ledger} | options)


def plan_of(variant, fed, server=SERVER, *, clips=CLIPS, counts=COUNTS, seed=0, **options):
    """The plan of a variant; clip bounds and public counts where the unit is a client."""
    client = fed.facts.unit == "client"
    clips, counts = ({"clips": clips} if clips else {}, counts) if client else ({}, {})
    call = {"n_clusters": K} | ({} if "budgets" in options else {"epsilon": 1.0}) | options
    if variant == "feddp":
        return fk.plan(fed, server, **clips, **call)
    if variant == "lloyds":
        return fk.plan_lloyds(fed, server, **clips, **call)
    if variant == "given":
        return fk.plan_lloyds(fed, initial=MEANS, **clips, **call)
    rng = np.random.default_rng(seed)
    return fk.plan_adaptive(fed, server, rng=rng, initial=variant, **counts, **call)


def follow(fed, plan, *, seed=0):
    """The run of a plan."""
    return fk.run(fed, plan, rng=np.random.default_rng(seed))


def run(fed=None, budgets=SIX, *, seed=0, server=SERVER, **options):
    """FedDP-KMeans for step budgets (or `epsilon`, with budgets=None), planned and run."""
    fed = federation() if fed is None else fed
    options = options if budgets is None else {"budgets": budgets} | options
    return follow(fed, plan_of("feddp", fed, server, **options), seed=seed)


def cost(points, centers):
    """k-means cost per point."""
    return kmeans.kmeans_cost(points, centers, normalize=True)
