"""What the FedDP tables measure.

The seed of a run is derived from its data set, method and settings, so a run does not depend on
which other runs are made.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import numpy as np

from fedclust_helpers import feddp_kmeans as fk
from fedclust_helpers._validation import FloatArray
from fedclust_helpers.accounting import PrivacyLedger
from fedclust_helpers.feddp_kmeans.selection import elbow, server_cost_curve
from fedclust_helpers.federation import Federation, Plan, simulate
from studies.bench.cell import Cell, Numbers, generator_of, seed_of
from studies.feddp_kmeans.k_fed import k_fed
from studies.feddp_kmeans.problems import (
    LEVEL_KEYS,
    FederatedProblem,
    Level,
    Mixture,
    Real,
    best_cost,
    load_federated,
)

STEP_RANGE = {"point": (0.01, 1.0), "client": (0.05, 4.0)}
"""Range of the log-uniform step budgets of the Pareto panels."""
KFED_RESTARTS = {"point": 10, "client": 1}
"""Restarts of each client's own k-means: thousands of clients get one."""
ELBOW_RESTARTS = 25
NO_ROUNDS = -1  # column T of methods without rounds


def _federation(problem: FederatedProblem, seed: np.random.SeedSequence) -> Federation:
    return simulate(
        problem.data, "ideal", seed=seed, bound=problem.radius, domain="ball",
        ledger=PrivacyLedger(unit=problem.level),
    )  # fmt: skip


def plan_for(
    federation: Federation, problem: FederatedProblem, method: str, **options: Any
) -> Plan:
    """Plan of "feddp", of "feddp_adaptive" or of FedDP-Lloyds from a public start."""
    points, k = problem.dataset.server_points, problem.dataset.n_clusters
    call = {"n_clusters": k, "clips": problem.clips, **options}
    if method == "feddp":
        return fk.plan(federation, points, **call)
    return fk.plan_lloyds(federation, points, initial=method, **call)


def centers_of(
    problem: FederatedProblem, method: str, seed: np.random.SeedSequence, **options: Any
) -> FloatArray:
    """Final centres of one run, for `epsilon` and `n_rounds` or for step `budgets`."""
    protocol, server = seed.spawn(2)
    federation, rng = _federation(problem, protocol), np.random.default_rng(server)
    plan = plan_for(federation, problem, method, **options)
    return fk.run(federation, plan, rng=rng).centers


def cost(cell: Cell, *, data: Mixture | Real, method: str, T: int, eps_total: float) -> Numbers:
    """Cost per point of one run, and its rounds (those that "feddp_adaptive" chose).

    Beside the paper's methods: "optimal" and "kfed", not private; and public starts without any
    release, T = 0 and epsilon 0.
    """
    problem, k = load_federated(data), load_federated(data).dataset.n_clusters
    points = problem.dataset.server_points
    if method == "optimal":
        return {"cost": best_cost(data), "chosen": T}
    if method == "feddp_adaptive":
        protocol, server = seed_of(f"{data.name}/adaptive/{eps_total:g}").spawn(2)
        federation, rng = _federation(problem, protocol), np.random.default_rng(server)
        plan = fk.plan_adaptive(
            federation, points, n_clusters=k, epsilon=eps_total, rng=rng, **problem.public_counts
        )
        centers = fk.run(federation, plan, rng=rng).centers
        return {"cost": problem.cost(centers), "chosen": plan.n_rounds}
    name = f"{data.name}/{method}|{T}|{eps_total:g}"
    if method == "kfed":
        rng, n_init = generator_of(f"{data.name}/kfed"), KFED_RESTARTS[problem.level]
        centers = k_fed(problem.data, k, rng=rng, n_init=n_init)
    elif eps_total == 0:
        centers = fk.STARTS[method](points, k, rng=generator_of(name))
    else:
        centers = centers_of(problem, method, seed_of(name), epsilon=eps_total, n_rounds=T)
    return {"cost": problem.cost(centers), "chosen": T}


# --- feddp_pareto ---------------------------------------------------------------------------------


@lru_cache(maxsize=64)
def random_settings(level: Level, method: str, n: int) -> tuple[fk.StepBudgets, ...]:
    """The first `n` random settings of a method, the same in every panel of a level.

    Each step budget is log-uniform in `STEP_RANGE`; T is 0, 1 or 2 for FedDP-KMeans, and 1, 2 or 3
    from a public start.
    """
    draws = generator_of(f"pareto/{LEVEL_KEYS[level]}/{method}").random((n, 7))
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


def pareto(cell: Cell, *, level: Level, method: str, setting: int, data: Mixture | None) -> Numbers:
    """One random setting: its exact total (without data), or its cost on one data set."""
    budgets = random_settings(level, method, setting + 1)[setting]
    if data is None:
        return {"eps_total": budgets.total()}
    problem, seed = load_federated(data), seed_of(f"pareto/{data.name}/{method}/{setting}")
    found = problem.cost(centers_of(problem, method, seed, budgets=budgets))
    return {"cost": found, "excess": found - best_cost(data)}


# --- feddp_elbow ----------------------------------------------------------------------------------


def elbow_curve(cell: Cell, *, data: Mixture, k_prime: int, k_max: int, eps1: float) -> Numbers:
    """Cost of the weighted server points for k = 1..k_max, and its elbow (Appendix H.3).

    Steps 1 and 2 of FedDP-Init run with k' clusters and `eps1` each; only they are paid for here.
    """
    problem = load_federated(data)
    protocol, server = seed_of(f"elbow/{data.name}/{eps1:g}").spawn(2)
    rng = np.random.default_rng(server)
    federation, points = _federation(problem, protocol), problem.dataset.server_points
    plan = fk.plan(
        federation, points, n_clusters=k_prime, clips=problem.clips,
        budgets=fk.StepBudgets(eps1, eps1, 1.0, 1.0),
    )  # fmt: skip
    init = fk.run(federation, plan, rng=rng).init
    ks = range(1, k_max + 1)
    costs = server_cost_curve(init, ks, rng=rng, n_init=ELBOW_RESTARTS)
    curve = {f"k{k}": float(cost) for k, cost in zip(ks, costs, strict=True)}
    total = fk.StepBudgets(eps1, eps1, 0.0, 0.0).total()
    return curve | {"elbow": elbow(ks, costs), "eps_total": total}
