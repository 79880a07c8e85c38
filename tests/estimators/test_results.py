"""One result for all papers: every plan of theirs, run once, says the same in the same words."""

import math
import warnings
from typing import Any

import numpy as np
import pytest

from fedclust_helpers import fastlloyd, feddp_kmeans, ldp_kmeans, rr_cluster
from fedclust_helpers.accounting import PrivacyLedger
from fedclust_helpers.federation import ClientData, Plan, RunResult, simulate

pytestmark = pytest.mark.slow

POINTS = np.random.default_rng(0).uniform(-0.5, 0.5, (600, 2))
LABELS = np.random.default_rng(1).integers(0, 3, 600)
DATA = ClientData(POINTS, np.arange(0, 601, 20), LABELS)  # 30 clients
SERVER = POINTS[::30] * 0.9
MODEL = rr_cluster.SoftmaxRegression(2, 3)
TWO = {"n_clusters": 2}
TRAINING = rr_cluster.Training(MODEL, cohort=10, clip=0.5)
ROUNDS = {"n_rounds": 2, "delta": 1e-3}
CASES: dict[str, dict[str, dict[str, Any]]] = {
    "fastlloyd": {
        "plan": TWO, "plan_glloyd": TWO, "plan_sulloyd": TWO, "plan_lloyd": TWO | {"epsilon": None},
    },
    "feddp_kmeans": {
        "plan": TWO | {"n_rounds": 1}, "plan_adaptive": TWO | {"rng": np.random.default_rng(2)},
        "plan_lloyds": TWO | {"initial": "server_kmeanspp", "n_rounds": 1},
    },
    "ldp_kmeans": {
        "plan": TWO, "plan_four_rounds": TWO, "plan_gaussian_reports": TWO,
        "plan_grid_histogram": TWO, "plan_lloyd": TWO | {"initial": POINTS[:2]},
        "plan_private_mean": {},
    },
    "rr_cluster": {
        "plan": ROUNDS | TWO | {"min_size": 2},
        "plan fesem": ROUNDS | TWO | {"min_size": 2, "clusterer": "fesem"},
        "plan fedcam": ROUNDS | TWO | {"min_size": 2, "clusterer": "fedcam"},
        "plan exact": ROUNDS | TWO | {"min_size": 2, "identifiers": "exact"},
        "plan_sums_only": ROUNDS | TWO | {"min_size": 2},
        "plan_dp_fedavg": ROUNDS, "plan_dp_fedper": ROUNDS,
    },
}  # fmt: skip
MODULES = {m.__name__.split(".")[1]: m for m in (fastlloyd, feddp_kmeans, ldp_kmeans, rr_cluster)}


def federation(paper, name):
    if paper == "rr_cluster":
        ledger = PrivacyLedger("client", "replace-one")
        trust = "trusted" if name.split()[0] == "plan" else "ideal"
        return simulate(DATA, trust, seed=3, ledger=ledger)
    if paper == "ldp_kmeans":
        return simulate(POINTS, "local", seed=3)
    return simulate(DATA, "ideal", seed=3, domain="ball" if paper == "feddp_kmeans" else "box")


def planned_and_run(paper, name, options):
    """The run of one planner of a paper, in its own words."""
    module, fed = MODULES[paper], federation(paper, name)
    options = {"epsilon": 4.0} | options
    options = {n: v for n, v in options.items() if v is not None}
    what = {"feddp_kmeans": (SERVER,), "rr_cluster": (TRAINING,)}.get(paper, ())
    made = getattr(module, name.split()[0])(fed, *what, **options)
    how: dict[str, Any] = {}
    if paper in ("feddp_kmeans", "ldp_kmeans"):
        how["rng"] = np.random.default_rng(5)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return fed, made, module.run(fed, made, **how)


@pytest.mark.parametrize(
    ("paper", "name"), [(paper, name) for paper, plans in CASES.items() for name in plans]
)
def test_every_run_says_the_same_things(paper, name):
    fed, made, result = planned_and_run(paper, name, CASES[paper][name])
    assert isinstance(made, Plan) and isinstance(result, RunResult) and result.plan is made
    assert isinstance(result.ledger, PrivacyLedger) and result.transcript is fed.transcript
    assert 0 < len(result.ledger.releases) <= len(made.releases)
    assert result.delta == made.delta and result.epsilon <= made.epsilon * (1 + 1e-9)
    assert result.epsilon == pytest.approx(made.total_epsilon, rel=1e-6)
    assert math.isfinite(result.epsilon) == (
        name not in ("plan exact", "plan_lloyd") or paper == "ldp_kmeans"
    )
    assert result.private is False and ("exact" if math.isinf(result.epsilon) else "seed") in (
        result.warning
    )
    found = [getattr(result, word) for word in ("centers", "models") if hasattr(result, word)]
    assert len(found) == 1 and len(found[0]) == made.n_clusters and np.isfinite(found[0]).all()
    if result.history is not None:
        assert np.array_equal(result.history[-1], found[0])
