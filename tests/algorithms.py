"""ALGORITHMS x TRUST x DATA: the table that properties of all algorithms are checked on.

A row of `ALGORITHMS` is a planner with options for a short run, and the trust models it runs on
(rows of `TRUST`; behind a shuffler, where totals take long: test_ldp_shuffled.py). Its federations
hold rows of `DATA`, small ones of the kind that it needs.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any, NamedTuple

import feddp_cases
import numpy as np
import rr_cases
from conftest import seeded

from fedclust_helpers import fastlloyd
from fedclust_helpers import ldp_kmeans as lk
from fedclust_helpers import rr_cluster as rr
from fedclust_helpers.accounting import PrivacyLedger
from fedclust_helpers.federation import ClientData, simulate
from fedclust_helpers.program import run as run_program
from studies.beyond import pe_means
from studies.ldp_kmeans import baselines

TRUST: dict[str, tuple[str, dict[str, Any]]] = {
    "trusted": ("trusted", {}),
    "ideal": ("ideal", {}),
    "server's noise": ("masked", {"noise_from": "server"}),
    "server's noise, 32 bits": ("masked", {"noise_from": "server", "bits": 32}),
    "masked": ("masked", {}),
    "masked, server reads": ("masked", {"receiver": "server"}),
    "serverless": ("serverless", {}),
    "local": ("local", {}),
}
SUMS = tuple(name for name in TRUST if name not in ("local",))
ONE_NOISE = SUMS[:4]  # one party draws it: one seed gives one answer

# (n, d) rows, of which most have a length below 1
DATA: dict[str, Callable[[int, int], Any]] = {
    "groups": lambda n, d: (
        np.repeat([-0.5, 0.0, 0.5], (n + 2) // 3)[:n, None] + seeded(0).normal(0, 0.05, (n, d))
    ),
    "all the same": lambda n, d: np.zeros((n, d)),
    "in a corner": lambda n, d: np.ones((n, d)),
    "far away": lambda n, d: seeded(1).choice([-1e300, 1e300], (n, d)),
}


def points(
    rows: Callable[..., Any], trust: str, *, unit: str = "point", adjacency: str = "add/remove",
    budget: Any = None, **options: Any,
) -> Any:  # fmt: skip
    """300 rows of three clients; a ledger for one point."""
    data, ledger = (
        ClientData(rows(300, 2), [0, 100, 110, 300]),
        PrivacyLedger(unit, adjacency, budget),
    )
    return simulate(data, trust, ledger=ledger, **options)


def in_ball(rows: Callable[..., Any], trust: str, **options: Any) -> Any:
    """300 rows of three clients, in the unit ball."""
    return points(rows, trust, domain="ball", **options)


def beside_server(rows: Callable[..., Any], trust: str, **options: Any) -> Any:
    """600 rows of 20 clients in a ball of radius 2, with a server that has rows of its own."""
    data = ClientData(2 * rows(600, feddp_cases.D).clip(-1e300, 1e300), np.arange(0, 601, 30))
    return feddp_cases.federation(data, trust, **options)


def for_clients(rows: Callable[..., Any], trust: str, **options: Any) -> Any:
    """The same with a ledger for one client."""
    return beside_server(rows, trust, **{"unit": "client"} | options)


def users(rows: Callable[..., Any], trust: str, **options: Any) -> Any:
    """2,000 users with one row each."""
    return simulate(rows(2000, 2), trust, **options)


def models(rows: Callable[..., Any], trust: str, **options: Any) -> Any:
    """60 clients with 8 labelled rows each; a ledger for one client."""
    data = ClientData(
        rows(480, rr_cases.P), np.arange(61) * 8, np.arange(480, dtype=np.int64) % rr_cases.C
    )
    return rr_cases.federation(data, trust, **options)


class Algorithm(NamedTuple):
    """A planner as users call it, what it is given, and where it runs."""

    planner: Callable[..., Any]
    options: dict[str, Any]
    make: Callable[..., Any]
    trusts: tuple[str, ...]

    def federation(self, trust: str = "", rows: Any = DATA["groups"], **options: Any) -> Any:
        """A federation of this trust model (the first by default); seed 1 unless secure."""
        kind, own = TRUST[trust or self.trusts[0]]
        if options.get("mode") != "secure":
            options = {"seed": 1} | options
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # most rows are clipped
            return self.make(rows, kind, **own | options)

    def plan(self, fed: Any, **changes: Any) -> Any:
        """A plan, with other options."""
        return self.planner(fed, **self.options | changes)


def run(fed: Any, plan: Any, seed: int = 0) -> Any:
    """The run of any plan, without what is said where nothing was found."""
    with warnings.catch_warnings():
        for said in (lk.NothingDetectedWarning, lk.PoorFitWarning):
            warnings.simplefilter("ignore", said)
        return run_program(fed, plan, rng=np.random.default_rng(seed))


def found(result: Any) -> Any:
    """Centres or models of a run."""
    return result.models if hasattr(result, "models") else result.centers


def _of_feddp(variant: str) -> Callable[..., Any]:
    return lambda fed, **options: feddp_cases.plan_of(variant, fed, **options)


def _of_models(planner: Callable[..., Any]) -> Callable[..., Any]:
    return lambda fed, *, model=rr_cases.MODEL, **options: rr_cases.planned(
        planner, fed, model, **options
    )


THREE = {"n_clusters": 3, "epsilon": 2.0}
USERS = {"n_clusters": 2, "epsilon": 4.0}
MODELS = {"epsilon": 3.0, "n_rounds": 4, "delta": 1e-3, "cohort": 20, "clip": 0.5}
TWO = MODELS | {"n_clusters": 2, "min_size": 3}
SERVER_READS = ("ideal", "trusted")
COHORT_HIDDEN = ("trusted", "ideal")

ALGORITHMS: dict[str, Algorithm] = {
    "fastlloyd": Algorithm(fastlloyd.plan, THREE, points, SUMS),
    "glloyd": Algorithm(fastlloyd.plan_glloyd, THREE, points, SUMS),
    "sulloyd": Algorithm(fastlloyd.plan_sulloyd, THREE, points, ONE_NOISE),
    "lloyd": Algorithm(fastlloyd.plan_lloyd, {"n_clusters": 3}, points, SUMS),
    **{branch: Algorithm(fastlloyd.plan_overclustered, THREE | {"branch": branch}, points, SUMS)
       for branch in ("grid", "moments")},
    "k is chosen": Algorithm(
        fastlloyd.plan_overclustered, THREE | {"n_clusters": "auto", "k_range": (2, 5)}, points,
        SUMS),
    "pe-means": Algorithm(pe_means.plan_pe, THREE, in_ball, SUMS),
    **{variant: Algorithm(_of_feddp(variant), THREE | {"n_rounds": 2}, beside_server, SERVER_READS)
       for variant in feddp_cases.VARIANTS},
    **{f"{variant}, clients": Algorithm(
        _of_feddp(variant), THREE | {"n_rounds": 2}, for_clients, SERVER_READS)
       for variant in ("feddp", "weighted")},
    "one round": Algorithm(lk.plan, USERS, users, ("local",)),
    "one round, sums": Algorithm(lk.plan, USERS | {"sums": True}, users, ("local",)),
    "four rounds": Algorithm(lk.plan_four_rounds, USERS, users, ("local",)),
    "four rounds, LSH": Algorithm(lk.plan_four_rounds, USERS | {"lsh": True}, users, ("local",)),
    "grid histogram": Algorithm(baselines.plan_grid_histogram, USERS, users, ("local",)),
    "gaussian reports": Algorithm(baselines.plan_gaussian_reports, USERS, users, ("local",)),
    "local lloyd": Algorithm(baselines.plan_lloyd, USERS, users, ("local",)),
    "private mean": Algorithm(
        baselines.plan_private_mean, USERS | {"n_clusters": 1}, users, ("local",)
    ),
    "sketch": Algorithm(lk.plan_sketch, USERS, users, ("local",)),
    "rr": Algorithm(_of_models(rr.plan), TWO, models, ("trusted",)),
    "fesem": Algorithm(_of_models(rr.plan), TWO | {"clusterer": "fesem"}, models, ("trusted",)),
    "fedcam": Algorithm(
        _of_models(rr.plan), TWO | {"clusterer": "fedcam", "cohort": 60}, models, ("trusted",)),
    "sums only": Algorithm(_of_models(rr.plan_sums_only), TWO, models, COHORT_HIDDEN),
    "fedavg": Algorithm(_of_models(rr.plan_dp_fedavg), MODELS, models, COHORT_HIDDEN),
    "fedprox": Algorithm(
        _of_models(rr.plan_dp_fedavg), MODELS | {"proximal": 0.1}, models, COHORT_HIDDEN),
    "fedper": Algorithm(_of_models(rr.plan_dp_fedper), MODELS, models, COHORT_HIDDEN),
}  # fmt: skip
EVERY = tuple(ALGORITHMS)
PRIVATE = tuple(name for name in EVERY if name != "lloyd")
POINTS = tuple(name for name in EVERY if ALGORITHMS[name].make in (points, in_ball))
FEDDP = feddp_cases.VARIANTS
BESIDE_SERVER = (*FEDDP, "feddp, clients", "weighted, clients")
LOCAL = tuple(name for name in EVERY if ALGORITHMS[name].make is users)
CLIENTS = tuple(name for name in EVERY if ALGORITHMS[name].make is models)


def each_trust(names: Any = EVERY, within: Any = tuple(TRUST)) -> list[tuple[str, str]]:
    """Every algorithm on every trust model that it runs on."""
    return [(n, t) for n in names for t in ALGORITHMS[n].trusts if t in within]
