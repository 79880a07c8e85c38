"""One shared model, private at client level: DP-FedAvg, DP-FedProx and DP-FedPer."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from tqdm.auto import trange

from fedclust_helpers._validation import FloatArray
from fedclust_helpers.client_statistics import SHARED_UPDATE, Model
from fedclust_helpers.federation import SumFederation
from fedclust_helpers.federation.base import InProcess
from fedclust_helpers.mechanisms import Mechanism, NoNoise
from fedclust_helpers.rr_cluster.planning import (
    TRAINING,
    Setting,
    Training,
    TrainingPlan,
    TrainingResult,
    check_setting,
    planned_epsilon,
)
from fedclust_helpers.rr_cluster.sums_only import SumsPlan, block_plan

Scheme = Literal["poisson", "fixed"]
PROXIMAL = Training(proximal=0.1)


@dataclass(frozen=True, kw_only=True)
class SharedPlan(TrainingPlan):
    """A plan of DP-FedPer: rounds release the shared parameters' update."""


def _setting(
    federation: SumFederation, model: Model, training: Training, **arguments: Any
) -> Setting:
    return check_setting(
        federation, model, capability="noisy_sum", n_clusters=1, training=training, **arguments
    )


def plan_dp_fedavg(
    federation: SumFederation,
    model: Model,
    *,
    n_rounds: int,
    epsilon: float | None = None,
    sigma: float | None = None,
    delta: float,
    cohort: int,
    clip: float,
    sampling: Scheme | None = None,
    accountant: str | None = None,
    training: Training = TRAINING,
) -> SumsPlan:
    """Plan DP-FedAvg (McMahan et al. 2018): one model, the whole budget on its update.

    theta += gamma (sum of clipped updates + noise) / cohort. The divisor is the public expected
    size, also under Poisson sampling, where the drawn number is private. L2 sensitivity C under
    add/remove (Poisson), 2C under replace-one (fixed size). Arguments as in `plan_sums_only`;
    `run` follows the plan.
    """
    if isinstance(training, Training) and training.proximal:
        raise ValueError("training must have proximal=0 (plan_dp_fedprox has this term)")
    setting = _setting(
        federation, model, training, sampling=sampling, accountant=accountant, n_rounds=n_rounds,
        delta=delta, cohort=cohort, clip=clip,
    )  # fmt: skip
    return block_plan(setting, method="fedavg", weight=0.0, epsilon=epsilon, sigma=sigma)


def plan_dp_fedprox(
    federation: SumFederation,
    model: Model,
    *,
    n_rounds: int,
    epsilon: float | None = None,
    sigma: float | None = None,
    delta: float,
    cohort: int,
    clip: float,
    sampling: Scheme | None = None,
    accountant: str | None = None,
    training: Training = PROXIMAL,
) -> SumsPlan:
    """Plan DP-FedProx (Li et al. 2020): DP-FedAvg whose clients pay (mu/2) ||theta - theta_t||^2.

    mu is ``training.proximal``; with 0 it is DP-FedAvg.
    """
    setting = _setting(
        federation, model, training, sampling=sampling, accountant=accountant, n_rounds=n_rounds,
        delta=delta, cohort=cohort, clip=clip,
    )  # fmt: skip
    return block_plan(setting, method="fedprox", weight=0.0, epsilon=epsilon, sigma=sigma)


def plan_dp_fedper(
    federation: SumFederation,
    model: Model,
    *,
    n_rounds: int,
    epsilon: float | None = None,
    sigma: float | None = None,
    delta: float,
    cohort: int,
    clip: float,
    sampling: Scheme | None = None,
    accountant: str | None = None,
    training: Training = TRAINING,
) -> SharedPlan:
    """Plan DP-FedPer (Arivazhagan et al. 2019): shared layers are averaged, heads stay at home.

    Only ``model.shared`` is sent and noised. A client's head never leaves it, so the guarantee is
    about everything that the *other* parties see: the shared parameters. `models` of the result
    holds them with the initial head; `personal_models` adds the heads.

    A head goes on from the rounds in which its client took part before, so that amplification round
    by round is not proved for cohorts of fixed size: a drawn cohort is charged as if everyone took
    part.
    """
    if isinstance(training, Training) and training.proximal:
        raise ValueError("training must have proximal=0: only FedProx has this term")
    setting = _setting(
        federation, model, training, sampling=sampling, accountant=accountant, n_rounds=n_rounds,
        delta=delta, cohort=cohort, clip=clip,
    )  # fmt: skip
    size = len(range(*model.shared.indices(model.n_parameters)))

    def make(sigma_eff: float) -> tuple[Mechanism, ...]:
        if sigma_eff == 0:
            return (NoNoise(setting.facts.adjacency),)
        return (
            federation.gaussian(
                SHARED_UPDATE, "update", multiplier=sigma_eff, n_coordinates=size,
                clip=setting.clip, model=model,
            ),
        )  # fmt: skip

    nominal, sigma_eff, accountant_ = setting.multiplier(
        make, epsilon=epsilon, sigma=sigma, remembers=SHARED_UPDATE.remembers
    )
    fields = setting.fields(SHARED_UPDATE, make(sigma_eff), numbers=size)
    asked = planned_epsilon(
        fields["releases"], setting.facts, nominal, setting.delta, rdp=accountant_.endswith("_rdp")
    )
    return SharedPlan(
        method="fedper", epsilon=asked, nominal=asked if math.isnan(nominal) else nominal,
        sigma=sigma_eff, accountant=accountant_, **fields,
    )  # fmt: skip


def follow(
    federation: InProcess, plan: SharedPlan, model: Model, models: FloatArray, *,
    keep_history: bool, progress: bool,
) -> TrainingResult:  # fmt: skip
    """The rounds of DP-FedPer: every client starts from the same head and keeps its own."""
    arguments, history = plan.broadcast(model), [models]
    if isinstance(federation, InProcess):
        federation.client_memory.forget("head")
    with federation.follow(plan) as n_before:
        for t in trange(plan.n_rounds, disable=not progress, desc=plan.method):
            (update,) = federation.noisy_sum(
                SHARED_UPDATE, plan.mechanisms, round=t, models=models, **arguments
            )
            models = models.copy()
            models[0, model.shared] += plan.training.server_rate * update / plan.cohort
            history += [models] if keep_history else []
    return TrainingResult(
        plan=plan, ledger=federation.ledger.since(n_before), transcript=federation.transcript,
        private=math.isfinite(plan.epsilon) and federation.facts.mode == "secure",
        models=models, history=np.stack(history) if keep_history else None,
    )  # fmt: skip


def personal_models(federation: InProcess, model: Model, result: TrainingResult) -> FloatArray:
    """Every client's own model (M, d) after DP-FedPer: shared parameters and its head.

    For evaluation in a simulation: no party holds this array. A client that was never drawn has the
    initial head.

    Raises
    ------
    TypeError, ValueError
        If `result` is of another method or model.
    """
    if not isinstance(federation, InProcess):
        raise TypeError(f"federation must be a simulation, got {type(federation).__name__}")
    if not isinstance(result, TrainingResult) or not isinstance(result.plan, SharedPlan):
        raise TypeError("result must be one of DP-FedPer")
    if getattr(model, "n_parameters", None) != result.plan.n_parameters:
        raise ValueError("model must be the one that the result was trained with")
    models = np.repeat(result.models, federation.client_memory.n_clients, axis=0)
    head = np.ones(model.n_parameters, dtype=bool)
    head[model.shared] = False
    kept = federation.client_memory.get("head")
    if kept is not None:
        models[:, head] += kept
    return models
