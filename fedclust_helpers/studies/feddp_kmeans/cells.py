"""Measurements behind the FedDP tables: many runs that share one data set make one cell.

Results are keyed ``method|T|epsilon``. The seed of a run is derived from its data set, method and
settings, so a run does not depend on which other runs are made.
"""

from __future__ import annotations

import math
from functools import lru_cache
from typing import Any

import numpy as np

from fedclust_helpers import feddp_kmeans as fk
from fedclust_helpers._validation import FloatArray
from fedclust_helpers.accounting import PrivacyLedger
from fedclust_helpers.feddp_kmeans.selection import elbow, separation_constant, server_cost_curve
from fedclust_helpers.federation import IdealSecureSum
from fedclust_helpers.studies.fastlloyd.cells import Cell
from fedclust_helpers.studies.fastlloyd.problems import seed_of
from fedclust_helpers.studies.feddp_kmeans.problems import (
    FederatedProblem,
    best_cost,
    load_federated,
)
from fedclust_helpers.studies.paper_data import make_server_mixture

NOT_APPLICABLE = -1  # column T of methods without rounds
STEP_RANGE = {"data": (0.01, 1.0), "client": (0.05, 4.0)}
"""Range of the log-uniform step budgets of the Pareto panels."""
KFED_RESTARTS = {"data": 10, "client": 1}
"""Restarts of each client's own k-means: thousands of clients get one."""
ELBOW_RESTARTS = 25


def _federation(problem: FederatedProblem, seed: np.random.SeedSequence) -> IdealSecureSum:
    return IdealSecureSum(
        problem.data, seed=seed, bound=problem.radius, domain="ball",
        ledger=PrivacyLedger(unit=problem.unit),
    )  # fmt: skip


def plan_for(
    federation: IdealSecureSum, problem: FederatedProblem, method: str, **options: Any
) -> fk.FedDPPlan | fk.LloydsPlan:
    """Plan of "feddp" or of FedDP-Lloyds from a public start, for `epsilon` or step `budgets`."""
    points, k = problem.dataset.server_points, problem.dataset.n_clusters
    call = {"n_clusters": k, "clips": problem.clips, **options}
    if method == "feddp":
        return fk.plan(federation, points, **call)
    return fk.plan_lloyds_from(method, federation, points, **call)


def centers_of(
    problem: FederatedProblem, method: str, seed: np.random.SeedSequence, **options: Any
) -> FloatArray:
    """Final centres of one run, for `epsilon` and `n_rounds` or for step `budgets`."""
    protocol, server = seed.spawn(2)
    federation, rng = _federation(problem, protocol), np.random.default_rng(server)
    plan = plan_for(federation, problem, method, **options)
    return fk.run(federation, plan, problem.dataset.server_points, rng=rng).centers


# --- cost at fixed total epsilon: feddp_cost, feddp_missing, feddp_census -------------------------


def cost_cell(cell: Cell) -> dict[str, float]:
    """Costs on one data set: of the paper's methods, the adaptive one, k-FED, or starts alone.

    `cell.method` is "paper", "adaptive", "kfed" or "start" (public starts without any release:
    T = 0, epsilon 0); the options `epsilons`, `rounds` and `start_rounds` (rounds after a public
    start) say what is run.
    """
    problem, options = load_federated(cell.dataset), dict(cell.options)
    data = problem.dataset
    if cell.method == "kfed":
        rng = np.random.default_rng(seed_of(f"{cell.dataset}/kfed"))
        n_init = KFED_RESTARTS[problem.level]
        centers = fk.k_fed(problem.data, data.n_clusters, rng=rng, n_init=n_init)
        return {f"kfed|{NOT_APPLICABLE}|inf": problem.cost(centers)}
    out: dict[str, float] = {}
    if cell.method == "start":
        for start, find in fk.STARTS.items():
            rng = np.random.default_rng(seed_of(f"{cell.dataset}/{start}|0|0"))
            out[f"{start}|0|0"] = problem.cost(find(data.server_points, data.n_clusters, rng=rng))
        return out
    if cell.method == "adaptive":
        for epsilon in options["epsilons"]:
            protocol, server = seed_of(f"{cell.dataset}/adaptive/{epsilon:g}").spawn(2)
            federation, rng = _federation(problem, protocol), np.random.default_rng(server)
            plan = fk.plan_adaptive(
                federation, data.server_points, n_clusters=data.n_clusters, epsilon=epsilon,
                rng=rng, **problem.public_counts,
            )  # fmt: skip
            result = fk.run(federation, plan, data.server_points, rng=rng)
            n_rounds = plan.n_rounds
            out[f"feddp_adaptive|{n_rounds}|{epsilon:g}"] = problem.cost(result.centers)
        return out
    runs = [("feddp", n_rounds) for n_rounds in options["rounds"]]
    runs += [(start, n_rounds) for start in fk.STARTS for n_rounds in options["start_rounds"]]
    for method, n_rounds in runs:
        for epsilon in options["epsilons"]:
            name = f"{method}|{n_rounds}|{epsilon:g}"
            seed = seed_of(f"{cell.dataset}/{name}")
            spend = {"epsilon": epsilon, "n_rounds": n_rounds}
            out[name] = problem.cost(centers_of(problem, method, seed, **spend))
    return out | {f"optimal|{NOT_APPLICABLE}|inf": best_cost(cell.dataset)}


# --- feddp_pareto ---------------------------------------------------------------------------------


@lru_cache(maxsize=64)
def random_settings(level: str, method: str, n: int) -> tuple[fk.StepBudgets, ...]:
    """The first `n` random settings of a method, the same in every panel of a level.

    Each step budget is log-uniform in `STEP_RANGE`; T is 0, 1 or 2 for FedDP-KMeans, and 1, 2 or 3
    from a public start.
    """
    draws = np.random.default_rng(seed_of(f"pareto/{level}/{method}")).random((n, 7))
    low, high = STEP_RANGE[level]
    budgets = low * (high / low) ** draws[:, :6]
    out = []
    for row, u in zip(budgets.tolist(), draws[:, 6], strict=True):
        n_rounds = int(3 * u)
        outer, weights, sums, counts, lloyd_sums, lloyd_counts = row
        if method != "feddp":
            steps = (0.0, 0.0, 0.0, 0.0, lloyd_sums, lloyd_counts, n_rounds + 1)
        elif n_rounds:
            steps = (outer, weights, sums, counts, lloyd_sums, lloyd_counts, n_rounds)
        else:
            steps = (outer, weights, sums, counts, 0.0, 0.0, 0)
        out.append(fk.StepBudgets(*steps))
    return tuple(out)


def pareto_cell(cell: Cell) -> dict[str, float]:
    """A chunk of random settings: their exact totals ("budgets_*"), or their costs on one data set.

    Options: `first` and `last` index of the chunk. Keys are ``method|index``.
    """
    options = dict(cell.options)
    chunk = range(options["first"], options["last"])
    kind = cell.dataset.split("_")
    if kind[0] == "budgets":
        settings = random_settings(kind[1], cell.method, chunk.stop)
        return {f"{cell.method}|{i}": settings[i].total() for i in chunk}
    problem = load_federated(cell.dataset)
    settings = random_settings(problem.level, cell.method, chunk.stop)
    out = {"optimal": best_cost(cell.dataset)}
    for i in chunk:
        seed = seed_of(f"pareto/{cell.dataset}/{cell.method}/{i}")
        centers = centers_of(problem, cell.method, seed, budgets=settings[i])
        out[f"{cell.method}|{i}"] = problem.cost(centers)
    return out


# --- feddp_elbow ----------------------------------------------------------------------------------


def elbow_cell(cell: Cell) -> dict[str, float]:
    """Cost of the weighted server points for k = 1..k_max, and its elbow (Appendix H.3).

    Steps 1 and 2 of FedDP-Init run with k' clusters and `cell.epsilon` each; only they are paid
    for here. Options: `k_prime`, `k_max`.
    """
    problem, options = load_federated(cell.dataset), dict(cell.options)
    protocol, server = seed_of(f"elbow/{cell.dataset}/{cell.epsilon:g}").spawn(2)
    rng = np.random.default_rng(server)
    federation, points = _federation(problem, protocol), problem.dataset.server_points
    plan = fk.plan(
        federation, points, n_clusters=options["k_prime"], clips=problem.clips,
        budgets=fk.StepBudgets(cell.epsilon, cell.epsilon, 1.0, 1.0),
    )  # fmt: skip
    init = fk.run(federation, plan, points, rng=rng).init
    assert init is not None
    ks = range(1, options["k_max"] + 1)
    costs = server_cost_curve(init, ks, rng=rng, n_init=ELBOW_RESTARTS)
    total = fk.StepBudgets(cell.epsilon, cell.epsilon, 0.0, 0.0).total()
    curve = {f"k|{k}": float(cost) for k, cost in zip(ks, costs, strict=True)}
    return curve | {"elbow": elbow(ks, costs), "eps_total": total}


# --- feddp_checks ---------------------------------------------------------------------------------


def norms_cell(cell: Cell) -> dict[str, float]:
    """Lengths of points and separation of means, for one draw of a data set.

    "norms_<clients>_<rows>_<d>_<k>_<seed>" is a mixture with variance `cell.epsilon`; other names
    are those of `load_federated`.
    """
    kind, *parts = cell.dataset.split("_")
    if kind != "norms":
        data = load_federated(cell.dataset).dataset
    else:
        clients, rows, d, k, seed = map(int, parts)
        data = make_server_mixture(
            n_clients=clients, rows_per_client=rows, n_features=d, n_clusters=k,
            variance=cell.epsilon,
            rng=np.random.default_rng(seed_of(f"data/mixture/{d}_{k}/{seed}")),
        )  # fmt: skip
    server = np.linalg.norm(data.server_points, axis=1)
    client = np.linalg.norm(data.points, axis=1)
    out = {
        "server_max": float(server.max()),
        "client_max": float(client.max()),
        "client_mean": float(client.mean()),
    }
    if data.true_centers is not None:
        means, k = data.true_centers, data.n_clusters
        gaps = np.linalg.norm(means[:, None] - means[None], axis=2)[np.triu_indices(k, 1)]
        out["separation_min"], out["separation_mean"] = float(gaps.min()), float(gaps.mean())
        out["definition_2_c"] = separation_constant(
            means, np.full(k, 1 / k), sigma=math.sqrt(cell.epsilon), n_records=data.n_points
        )
    return out
