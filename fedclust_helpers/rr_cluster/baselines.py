"""One shared model, private at client level: DP-FedAvg, DP-FedProx and DP-FedPer."""

from __future__ import annotations

from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike

from fedclust_helpers._validation import FloatArray, check_non_negative
from fedclust_helpers.client_statistics import SHARED_UPDATE, Model
from fedclust_helpers.federation import SumFederation
from fedclust_helpers.federation.base import InProcess
from fedclust_helpers.mechanisms import Gaussian, Mechanism, NoNoise
from fedclust_helpers.rr_cluster.plan import (
    Training,
    TrainingPlan,
    TrainingResult,
    check_accountant,
    check_training,
    initial_models,
    noise_multiplier,
    require_budget,
)
from fedclust_helpers.rr_cluster.sums_only import block_mechanism, run_blocks

Scheme = Literal["poisson", "fixed"]


def _plan(
    federation: SumFederation,
    model: Model,
    method: str,
    *,
    epsilon: float | None,
    sigma: float | None,
    sampling: str,
    accountant: str | None,
    **training_arguments: Any,
) -> TrainingPlan:
    training: Training = check_training(
        federation, model, capability="noisy_sum", sampling=sampling, n_models=1,
        **training_arguments,
    )  # fmt: skip
    adjacency = federation.ledger.adjacency
    accountant = check_accountant(accountant, sampling, adjacency)
    nominal, sigma_eff = noise_multiplier(
        training, federation.n_clients, epsilon=epsilon, sigma=sigma, accountant=accountant
    )
    mechanism: Mechanism
    if method == "fedper" and sigma_eff > 0:
        sensitivity = SHARED_UPDATE.sensitivity_of(
            "update", 2, adjacency, grid=federation.resolution, clip=training.clip, model=model,
            n_features=federation.n_features,
        )  # fmt: skip
        mechanism = Gaussian(sensitivity, sensitivity * sigma_eff, adjacency)
    elif method == "fedper":
        mechanism = NoNoise(adjacency)
    else:
        mechanism = block_mechanism(
            federation, model, clip=training.clip, weight=0.0, sigma=sigma_eff,
            adjacency=adjacency,
        )  # fmt: skip
    return TrainingPlan(
        method, 1, training.n_rounds, nominal, training.delta, sigma_eff, accountant,
        training.cohort, training.sampling, training.clip, training.n_steps,
        training.learning_rate, training.server_rate, (mechanism,), {"count_weight": 0.0},
    )  # fmt: skip


def dp_fedavg(
    federation: SumFederation,
    model: Model,
    *,
    n_rounds: int,
    epsilon: float | None = None,
    sigma: float | None = None,
    delta: float,
    cohort: int,
    clip: float,
    sampling: Scheme = "fixed",
    accountant: str | None = None,
    n_steps: int = 5,
    learning_rate: float = 0.3,
    server_rate: float = 1.0,
    initial: ArrayLike | None = None,
    keep_history: bool = False,
) -> TrainingResult:
    """DP-FedAvg (McMahan et al. 2018): one model for everyone, the whole budget on its update.

    theta += gamma (sum of clipped updates + noise) / cohort. The divisor is the public expected
    size, also under Poisson sampling, where the drawn number is private. L2 sensitivity C under
    add/remove (Poisson), 2C under replace-one (fixed size). Arguments as in `sums_only`.
    """
    plan = _plan(
        federation, model, "fedavg", epsilon=epsilon, sigma=sigma, sampling=sampling,
        accountant=accountant, n_rounds=n_rounds, delta=delta, cohort=cohort, clip=clip,
        n_steps=n_steps, learning_rate=learning_rate, server_rate=server_rate,
    )  # fmt: skip
    models = initial_models(federation, model, 1, initial)
    return run_blocks(federation, model, plan, models, keep_history=keep_history)


def dp_fedprox(
    federation: SumFederation,
    model: Model,
    *,
    proximal: float = 0.1,
    n_rounds: int,
    epsilon: float | None = None,
    sigma: float | None = None,
    delta: float,
    cohort: int,
    clip: float,
    sampling: Scheme = "fixed",
    accountant: str | None = None,
    n_steps: int = 5,
    learning_rate: float = 0.3,
    server_rate: float = 1.0,
    initial: ArrayLike | None = None,
    keep_history: bool = False,
) -> TrainingResult:
    """DP-FedProx (Li et al. 2020): DP-FedAvg whose clients pay (mu/2) ||theta - theta_t||^2.

    `proximal` is mu; with 0 it is `dp_fedavg`.
    """
    mu = check_non_negative(proximal, "proximal")
    plan = _plan(
        federation, model, "fedprox", epsilon=epsilon, sigma=sigma, sampling=sampling,
        accountant=accountant, n_rounds=n_rounds, delta=delta, cohort=cohort, clip=clip,
        n_steps=n_steps, learning_rate=learning_rate, server_rate=server_rate,
    )  # fmt: skip
    models = initial_models(federation, model, 1, initial)
    return run_blocks(federation, model, plan, models, keep_history=keep_history, proximal=mu)


def dp_fedper(
    federation: SumFederation,
    model: Model,
    *,
    n_rounds: int,
    epsilon: float | None = None,
    sigma: float | None = None,
    delta: float,
    cohort: int,
    clip: float,
    sampling: Scheme = "fixed",
    accountant: str | None = None,
    n_steps: int = 5,
    learning_rate: float = 0.3,
    server_rate: float = 1.0,
    initial: ArrayLike | None = None,
) -> TrainingResult:
    """DP-FedPer (Arivazhagan et al. 2019): shared layers are averaged, each client keeps its head.

    Only ``model.shared`` is sent and noised. A client's head never leaves it, so the guarantee is
    about everything that the *other* parties see: the shared parameters. `models` of the result
    holds them with the initial head; `personal_models` adds the heads.
    """
    plan = _plan(
        federation, model, "fedper", epsilon=epsilon, sigma=sigma, sampling=sampling,
        accountant=accountant, n_rounds=n_rounds, delta=delta, cohort=cohort, clip=clip,
        n_steps=n_steps, learning_rate=learning_rate, server_rate=server_rate,
    )  # fmt: skip
    models = initial_models(federation, model, 1, initial)
    arguments: dict[str, Any] = {
        "model": model, "clip": plan.clip, "n_steps": plan.n_steps,
        "learning_rate": plan.learning_rate, "sampling": plan.sampling,
    }  # fmt: skip
    require_budget(federation, plan.mechanisms, plan.sampling, plan.n_rounds, plan.method)
    federation.check_release(SHARED_UPDATE, plan.mechanisms, models=models, **arguments)
    n_before = len(federation.ledger.releases)
    if isinstance(federation, InProcess):
        federation.client_memory.forget("head")  # a new run: every client starts from the same head
    for t in range(plan.n_rounds):
        (update,) = federation.noisy_sum(
            SHARED_UPDATE, plan.mechanisms, round=t, models=models, **arguments
        )
        models = models.copy()
        models[0, model.shared] += plan.server_rate * update / plan.cohort
    return TrainingResult(
        models, plan, federation.ledger.since(n_before),
        plan.sigma > 0 and federation.randomness.is_secure,
    )  # fmt: skip


def personal_models(federation: InProcess, model: Model, result: TrainingResult) -> FloatArray:
    """Every client's own model (M, d) after `dp_fedper`: shared parameters and its head.

    For evaluation in a simulation: no party holds this array. A client that was never drawn has the
    initial head.
    """
    models = np.repeat(result.models, federation.n_clients, axis=0)
    head = np.ones(model.n_parameters, dtype=bool)
    head[model.shared] = False
    kept = federation.client_memory.get("head")
    if kept is not None:
        models[:, head] += kept
    return models
