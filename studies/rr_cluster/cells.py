"""What the RR-Cluster tables on accuracy measure: one training run on one set of clients.

All runs on the same clients have the same seed, hence the same starting models, and the same drawn
clients where the sampling is the same: differences are paired.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import numpy as np

from fedclust_helpers import program
from fedclust_helpers import rr_cluster as rr
from fedclust_helpers.accounting import PrivacyLedger
from fedclust_helpers.federation import Plan, simulate
from studies.bench.cell import Cell, Numbers
from studies.rr_cluster.accountants import calibrate
from studies.rr_cluster.problems import (
    Clients,
    ModelProblem,
    load_clients,
    model_named,
)

DELTA = 1e-3
RATE = 0.1
RELATION = {"fixed": "replace-one", "poisson": "add/remove"}
"""Sampling -> the relation under which it is accounted."""
ONE_MODEL: dict[str, Callable[..., Plan]] = {
    "fedavg": rr.plan_dp_fedavg,
    "fedprox": rr.plan_dp_fedavg,
    "fedper": rr.plan_dp_fedper,
}
PROXIMAL = 0.1  # mu of FedProx
EXACT = "none"  # what the tables call identifiers that are shown as they are


class Run(NamedTuple):
    """One training run: what is run, at which epsilon, how it is accounted, smallest cluster B."""

    method: str
    identifiers: str = "none"
    sampling: str = "fixed"
    accountant: str = "wor_rdp"
    B: int = 0
    epsilon: float = math.inf

    @property
    def adjacency(self) -> str:
        """The neighbouring relation of its guarantee."""
        return RELATION[self.sampling]


def cohort_of(problem: ModelProblem) -> int:
    """Clients per round: q = 0.1 of 1000, and a third of the 60 clients of the small stand-in."""
    n = problem.train.n_clients
    return max(round(RATE * n), 20)


def train(
    problem: ModelProblem,
    run: Run,
    *,
    model: str,
    n_clusters: int,
    n_rounds: int,
    clip: float,
    cohort: int | None = None,
    local: Mapping[str, float] | None = None,
    **extra: Any,
) -> tuple[program.Run, rr.Evaluation, list[float]]:
    """One run, its evaluation, and the share of flipped identifiers in each round that has any.

    `local` goes to `rr.Training`, `extra` to the plan.
    """
    cohort = cohort or cohort_of(problem)
    learner = model_named(model, problem)
    one = run.method in ONE_MODEL
    central = not one and not run.method.startswith("sums_")
    federation = simulate(
        problem.train, "trusted" if central else "ideal", seed=problem.seed,
        bound=problem.federation.bound,
        ledger=PrivacyLedger(unit="client", adjacency=run.adjacency),
    )  # fmt: skip
    proximal = {"proximal": PROXIMAL} if run.method == "fedprox" else {}
    options: dict[str, Any] = dict(local or {}) | proximal
    training = rr.Training(learner, cohort=cohort, clip=clip, **options)
    arguments: dict[str, Any] = {
        "n_rounds": n_rounds, "epsilon": run.epsilon, "delta": DELTA,
        "initial": problem.initial(learner, 1 if one else n_clusters),
    } | extra  # fmt: skip
    if run.accountant == "poisson_pld" and math.isfinite(run.epsilon):  # no planner takes it
        arguments["sigma"] = calibrate(
            arguments.pop("epsilon"), arguments["delta"], n_rounds=n_rounds, cohort=cohort,
            n_clients=problem.train.n_clients, accountant=run.accountant,
        )  # fmt: skip
    if not one:
        arguments |= {"n_clusters": n_clusters, "min_size": run.B}
    if central:
        exact = run.identifiers == EXACT
        plan = rr.plan(
            federation, training, clusterer=run.method.removeprefix("rr_"),
            identifiers="exact" if exact else run.identifiers,
            rebalance="strict" if run.B else "off", **arguments,
        )  # fmt: skip
        result, seen = rr.diagnose(federation, plan)
        flips = seen.flip_rate.tolist()
    else:
        if not one:
            arguments["reseed"] = run.method.endswith("_reseed")
        plan = ONE_MODEL.get(run.method, rr.plan_sums_only)(federation, training, **arguments)
        result, flips = rr.run(federation, plan), []
    models = result.models
    if run.method == "fedper":
        models = rr.personal_models(federation, result)
    found = rr.evaluate(
        learner, models, problem.train, problem.test, problem.groups, common=result.common
    )
    return result, found, flips


def measured(result: program.Run, evaluation: rr.Evaluation, flips: list[float]) -> Numbers:
    """What a run is judged by; moved clients and flips are means over its rounds."""
    return {
        "accuracy": evaluation.accuracy,
        "cluster_acc": evaluation.cluster_accuracy,
        "models_used": evaluation.models_used,
        "groups_alone": evaluation.groups_alone,
        "moved": float(np.mean(result.moved)) if len(result.moved) else 0.0,
        "flip_rate": float(np.mean(flips)) if len(flips) else 0.0,
        "reseeded": len(result.reseeded),
    }


# --- rr_clips, rr_accuracy ------------------------------------------------------------------------

BASE = {"fedprox": "fedavg", "rr_ifca": "ifca", "rr_fesem": "fesem", "rr_fedcam": "fedcam"}


def family(run: Run) -> str:
    """The runs that share a clipping bound: the same noise on the same kind of sums.

    Rebalancing takes the bound of its base method, and noised identifiers of every kind share one.
    """
    noised = "noised" if run.identifiers != "none" and math.isfinite(run.epsilon) else "exact"
    return "_".join((BASE.get(run.method, run.method), noised, run.sampling))


def training(
    cell: Cell,
    *,
    clients: Clients,
    run: Run,
    model: str,
    k: int,
    rounds: int,
    clip: float,
    **extra: Any,
) -> Numbers:
    """What one run on one set of clients is judged by (`measured`); `extra` as in `train`."""
    how: dict[str, Any] = {"model": model, "n_rounds": rounds, "clip": clip} | extra
    return measured(*train(load_clients(clients), run, n_clusters=k, **how))


def network(cell: Cell, *, n_steps: int, learning_rate: float, **settings: Any) -> Numbers:
    """`training` of a PyTorch model, and the accuracy of a constant answer."""
    how = {"n_steps": n_steps, "learning_rate": learning_rate}
    constant = load_clients(settings["clients"]).constant_accuracy
    return training(cell, local=how, **settings) | {"constant_acc": constant}


def reseeding(cell: Cell, *, run: Run, below: float, **settings: Any) -> Numbers:
    """Sums only with one threshold of re-seeding; 0 switches it off."""
    run = run._replace(method="sums_ifca_reseed" if below else "sums_ifca")
    return training(cell, run=run, reseed_below=below, **settings)


def curve(
    cell: Cell, *, clients: Clients, run: Run, model: str, k: int, rounds: int, clip: float
) -> Numbers:
    """Accuracy of every tenth part of a run."""
    problem = load_clients(clients)
    result, *_ = train(problem, run, model=model, n_clusters=k, n_rounds=rounds, clip=clip)
    assert result.history is not None
    learner, data = model_named(model, problem), (problem.train, problem.test, problem.groups)
    times = range(0, rounds + 1, max(rounds // 10, 1))
    return {f"round{t}": rr.evaluate(learner, result.history[t], *data).accuracy for t in times}
