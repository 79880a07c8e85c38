"""One shared model, private at client level: DP-FedAvg, DP-FedProx and DP-FedPer."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from fedclust_helpers._validation import FloatArray, check_instance
from fedclust_helpers.client_statistics import SHARED_UPDATE
from fedclust_helpers.federation import SumFederation
from fedclust_helpers.federation.base import InProcess
from fedclust_helpers.mechanisms import NoNoise
from fedclust_helpers.rr_cluster.algorithm import Round
from fedclust_helpers.rr_cluster.planning import (
    Mechanisms,
    Training,
    TrainingPlan,
    TrainingResult,
    check_setting,
)
from fedclust_helpers.rr_cluster.sums_only import SumsPlan, block_plan


@dataclass(frozen=True, kw_only=True)
class SharedPlan(TrainingPlan):
    """A plan of DP-FedPer: rounds release the shared parameters' update."""


def plan_dp_fedavg(
    federation: SumFederation, training: Training, *, n_rounds: int, epsilon: float | None = None,
    sigma: float | None = None, delta: float, accountant: str | None = None,
) -> SumsPlan:  # fmt: skip
    """Plan DP-FedAvg (McMahan et al. 2018): one model, the whole budget on its update.

    theta += gamma (sum of clipped updates + noise) / cohort. The divisor is the public expected
    size, also under Poisson sampling, where the drawn number is private. L2 sensitivity C under
    add/remove, 2C under replace-one. With ``training.proximal`` > 0 it is DP-FedProx (Li et al.
    2020). Arguments as in `plan_sums_only`.
    """
    setting = check_setting(
        federation, training, capability="noisy_sum", n_clusters=1, n_rounds=n_rounds, delta=delta,
        accountant=accountant, proximal=True,
    )  # fmt: skip
    method = "fedprox" if training.proximal else "fedavg"
    return block_plan(setting, method, weight=0.0, epsilon=epsilon, sigma=sigma)


def plan_dp_fedper(
    federation: SumFederation, training: Training, *, n_rounds: int, epsilon: float | None = None,
    sigma: float | None = None, delta: float, accountant: str | None = None,
) -> SharedPlan:  # fmt: skip
    """Plan DP-FedPer (Arivazhagan et al. 2019): shared layers are averaged, heads stay at home.

    Only ``model.shared`` is sent and noised. A client's head never leaves it, so the guarantee is
    about everything that the *other* parties see: the shared parameters. `models` of the result
    holds them with the initial head; `personal_models` adds the heads.

    A head goes on from the rounds in which its client took part before, so that amplification round
    by round is not proved: a drawn cohort is charged as if everyone took part. Arguments as in
    `plan_sums_only`.
    """
    setting = check_setting(
        federation, training, capability="noisy_sum", n_clusters=1, n_rounds=n_rounds, delta=delta,
        accountant=accountant,
    )  # fmt: skip
    model = training.model
    size = len(range(*model.shared.indices(model.n_parameters)))

    def make(sigma_eff: float) -> Mechanisms:
        if sigma_eff == 0:
            return (NoNoise(setting.facts.adjacency),)
        return (setting.gaussian(SHARED_UPDATE, "update", sigma_eff, size),)

    return setting.plan(
        SharedPlan, "fedper", SHARED_UPDATE, make, epsilon=epsilon, sigma=sigma, numbers=size
    )


def fedper(federation: SumFederation, plan: SharedPlan, models: FloatArray) -> Iterator[Round]:
    """The rounds of DP-FedPer: every client starts from the same head and keeps its own."""
    if isinstance(federation, InProcess):
        federation.client_memory.forget("head")
    shared, gamma = plan.training.model.shared, plan.training.server_rate
    for t in range(plan.n_rounds):
        (update,) = federation.noisy_sum(
            SHARED_UPDATE, plan.mechanisms, round=t, models=models, **plan.broadcast()
        )
        models = models.copy()
        models[0, shared] += gamma * update / plan.training.cohort
        yield Round(models)


def personal_models(federation: InProcess, result: TrainingResult) -> FloatArray:
    """Every client's own model (M, d) after DP-FedPer: shared parameters and its head.

    For evaluation in a simulation: no party holds this array. A client that was never drawn has the
    initial head.

    Raises
    ------
    TypeError
        If `result` is of another method.
    """
    check_instance(federation, InProcess, "federation", what="a simulation")
    check_instance(result, TrainingResult, "result")
    check_instance(result.plan, SharedPlan, "result", what="one of DP-FedPer")
    models = np.repeat(result.models, federation.client_memory.n_clients, axis=0)
    head = np.ones(result.plan.n_parameters, dtype=bool)
    head[result.plan.training.model.shared] = False
    kept = federation.client_memory.get("head")
    if kept is not None:
        models[:, head] += kept
    return models
