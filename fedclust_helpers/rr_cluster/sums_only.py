"""Rounds of one noised sum: private IFCA without identifiers, and the baselines of one model.

Beyond the paper: release sums only, no identifiers, no exact sizes, no rebalancing.

Each client of a round puts its clipped update into the block of the model that it chose, zeros into
the others, and 1 into its count. Blocks and counts are summed and noised together. Since the choice
depends on public models and on the client's own data alone, one client changes one block by at most
C and one count by 1 (add/remove). The sum is all that anybody needs to see: secure aggregation will
do, at the price of an upload of k (d + 1) numbers.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from typing import Annotated, Any

import numpy as np

from fedclust_helpers._checked import checked
from fedclust_helpers._validation import Count, FloatArray, check_instance, check_share
from fedclust_helpers.client_statistics import MODEL_BLOCKS, SHARED_UPDATE
from fedclust_helpers.federation import SumFederation, planner
from fedclust_helpers.federation.base import InProcess
from fedclust_helpers.mechanisms import NoNoise
from fedclust_helpers.rr_cluster import planning
from fedclust_helpers.rr_cluster.algorithm import Round
from fedclust_helpers.rr_cluster.designs import COUNTS_SHARE
from fedclust_helpers.rr_cluster.planning import Setting, Training, TrainingPlan, TrainingResult

FLOOR = 0.32  # of cohort/n_clusters: floor of the divisor where none is given
WINDOW = 3  # noised counts that decide together, and rounds between two re-seedings
OFFSET = 0.03  # standard deviation by which the halves of a split model differ, per parameter
UNTIL = 0.6  # share of the rounds in which models are re-seeded


@dataclass(frozen=True, kw_only=True)
class SumsPlan(TrainingPlan):
    """A plan whose rounds release `MODEL_BLOCKS`: sums only, DP-FedAvg, DP-FedProx.

    `count_weight` is the weight of the count column, 0 where no counts are released; `min_size` the
    floor of the noised counts as divisors. With `reseed` a model is dead when its mean noised count
    falls below `dead_below`.
    """

    count_weight: float = 0.0
    min_size: int = 1
    reseed: bool = False
    dead_below: float = 0.0


@planner
@checked
def plan_sums_only(
    federation: SumFederation, training: Training, *, n_clusters: int, n_rounds: int,
    epsilon: float | None = None, sigma: float | None = None, delta: float,
    min_size: Count | None = None, reseed: bool = True,
    reseed_below: Annotated[float, partial(check_share, zero=True)] = 0.1,
    accountant: str | None = None,
) -> SumsPlan:  # fmt: skip
    """Plan private IFCA from sums alone: one noised (k, d + 1) array per round.

    One round, S_j and n_j being the noised block and count of model j:
    theta_j += gamma S_j / max(n_j, B).

    Privacy (one client): under add/remove the blocks move by at most C and the counts by 1, jointly
    sqrt(C^2 + w^2) with the counts weighted by w = C/3 (a tenth of 1/sigma_eff^2); under
    replace-one by max(2C, sqrt(2C^2 + 2w^2)), so that counts are free for w = C. Every block is
    released, empty ones too. What follows from them, re-seeding included, is post-processing.
    Arguments and errors as in `plan`, but: where clients unmask the sums (masked secure
    aggregation) everyone must take part. `min_size` is B, floor of the divisor, at most
    cohort/n_clusters; 0.32 of that by default (8 for a cohort of 100 and 4 models, 80 for 1000):
    noise in a count grows with the cohort. With `reseed` dead models are re-seeded: a model is dead
    while the mean of its last 3 noised counts is below the share `reseed_below` of
    cohort/n_clusters, which must lie below the smallest group that is to be found. `accountant`,
    for a cohort in teaching mode, is "poisson_rdp" (default) or "poisson_pld" (a little less noise,
    seconds to compute), "wor_rdp" for cohorts of fixed size. Everyone goes by the exact
    curve; discrete noise by the same, with its gap.
    """
    setting = planning.check_setting(
        federation, training, capability="noisy_sum", n_clusters=n_clusters, n_rounds=n_rounds,
        delta=delta, accountant=accountant,
    )  # fmt: skip
    expected = training.cohort / setting.n_clusters
    if min_size is None:
        min_size = max(1, round(FLOOR * expected))
    if min_size > expected:
        raise ValueError(
            f"min_size must be <= cohort/n_clusters = {expected:g} (B <= qM/k), got {min_size}"
        )
    weight = float(training.clip)
    if setting.facts.adjacency == "add/remove":
        weight *= math.sqrt(COUNTS_SHARE / (1 - COUNTS_SHARE))
    return block_plan(
        setting, "sums_ifca_reseed" if reseed else "sums_ifca", weight=weight, epsilon=epsilon,
        sigma=sigma, min_size=min_size, reseed=reseed, dead_below=reseed_below * expected,
    )  # fmt: skip


def block_plan(
    setting: Setting, method: str, *, weight: float, epsilon: float | None, sigma: float | None,
    **own: Any,
) -> SumsPlan:  # fmt: skip
    """The plan of rounds with one release: all blocks jointly, rounding included."""
    size = setting.n_clusters * (setting.training.model.n_parameters + (weight > 0))

    def make(sigma_eff: float) -> planning.Mechanisms:
        if sigma_eff == 0:
            return (NoNoise(setting.facts.adjacency),)
        return (setting.gaussian(MODEL_BLOCKS, "blocks", sigma_eff, size, count_weight=weight),)

    return setting.plan(
        SumsPlan, method, MODEL_BLOCKS, make, epsilon=epsilon, sigma=sigma,
        sent={"count_weight": weight}, count_weight=weight, **own,
    )  # fmt: skip


def sums_only(federation: SumFederation, plan: SumsPlan, models: FloatArray) -> Iterator[Round]:
    """The rounds: noised blocks, divided by noised counts or (one model) by the public size."""
    weight, gamma = plan.count_weight, plan.training.server_rate
    divisor: Any = np.array(plan.training.cohort / plan.n_clusters)
    count, dead, event = None, np.zeros(plan.n_clusters, dtype=bool), None
    reseeding = _Reseeding(plan) if plan.reseed else None
    for t in range(plan.n_rounds):
        (blocks,) = federation.noisy_sum(
            MODEL_BLOCKS, plan.mechanisms, round=t, models=models, count_weight=weight,
            **plan.broadcast(),
        )  # fmt: skip
        if weight > 0:
            blocks, count = blocks[:, :-1], blocks[:, -1] / weight
            divisor = np.maximum(count, plan.min_size)[:, None]
        if reseeding is not None:
            dead = reseeding.observe(count)
        models = models + np.where(dead[:, None], 0.0, gamma * blocks / divisor)
        if reseeding is not None:
            models, event = reseeding.act(t, models, rng=federation.randomness.public)
        yield Round(models, sizes=count, reseeded=event)


class _Reseeding:
    """Re-seed dead models from the noised counts: post-processing, no cost.

    A model is dead while the mean of its last 3 noised counts is below a threshold; its block is
    then noise and is not applied. In the first 60 % of the rounds, and at most once in 3 rounds,
    the deadest model is overwritten: the model with the largest mean count is split into two copies
    that differ by +-e, e ~ N(0, 0.03^2) for each parameter. The counts of both start afresh.
    """

    def __init__(self, plan: SumsPlan) -> None:
        self.threshold = plan.dead_below
        self.last_round = UNTIL * plan.n_rounds
        self._window = np.full((WINDOW, plan.n_clusters), np.nan)
        self._next = 0

    def observe(self, counts: Any) -> np.ndarray:
        """Take in the noised counts (k,) of a round; which models (k,) are dead."""
        self._window = np.vstack([self._window[1:], counts])
        return self._window.mean(axis=0) < self.threshold  # False for nan: too few counts yet

    def act(
        self, round: int, models: FloatArray, *, rng: np.random.Generator
    ) -> tuple[FloatArray, tuple[int, int, int] | None]:
        """The models (k, d) after re-seeding at most one, and (round, dead, split) if so.

        Nothing is drawn from `rng` when no model is dead.
        """
        means = self._window.mean(axis=0)
        if round >= self.last_round or round < self._next or not (means < self.threshold).any():
            return models, None
        dead, large = int(np.nanargmin(means)), int(np.nanargmax(means))
        if dead == large:
            return models, None
        models = models.copy()
        offset = rng.normal(0.0, OFFSET, models.shape[1])
        models[dead], models[large] = models[large] - offset, models[large] + offset
        self._window[:, [dead, large]] = np.nan
        self._next = round + WINDOW
        return models, (round, dead, large)


# --- one shared model: DP-FedAvg, DP-FedProx and DP-FedPer ----------------------------------------


@dataclass(frozen=True, kw_only=True)
class SharedPlan(TrainingPlan):
    """A plan of DP-FedPer: rounds release the shared parameters' update."""


@planner
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
    setting = planning.check_setting(
        federation, training, capability="noisy_sum", n_clusters=1, n_rounds=n_rounds, delta=delta,
        accountant=accountant, proximal=True,
    )  # fmt: skip
    method = "fedprox" if training.proximal else "fedavg"
    return block_plan(setting, method, weight=0.0, epsilon=epsilon, sigma=sigma)


@planner
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
    setting = planning.check_setting(
        federation, training, capability="noisy_sum", n_clusters=1, n_rounds=n_rounds, delta=delta,
        accountant=accountant,
    )  # fmt: skip
    model = training.model
    size = len(range(*model.shared.indices(model.n_parameters)))

    def make(sigma_eff: float) -> planning.Mechanisms:
        if sigma_eff == 0:
            return (NoNoise(setting.facts.adjacency),)
        return (setting.gaussian(SHARED_UPDATE, "update", sigma_eff, size),)

    return setting.plan(SharedPlan, "fedper", SHARED_UPDATE, make, epsilon=epsilon, sigma=sigma)


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
    initial head. TypeError if `result` is of another method.
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
