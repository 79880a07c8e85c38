"""Beyond the paper: release sums only, no identifiers, no exact sizes, no rebalancing.

Each client of a round puts its clipped update into the block of the model that it chose, zeros into
the others, and 1 into its count. Blocks and counts are summed and noised together. Since the choice
depends on public models and on the client's own data alone, one client changes one block by at most
C and one count by 1 (add/remove). The sum is all that anybody needs to see: secure aggregation will
do, at the price of an upload of k (d + 1) numbers.
"""

from __future__ import annotations

import math
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike

from fedclust_helpers._validation import FloatArray, check_choice, check_int, check_real
from fedclust_helpers.client_statistics import MODEL_BLOCKS, Model
from fedclust_helpers.federation import SumFederation
from fedclust_helpers.mechanisms import Gaussian, Mechanism, NoNoise
from fedclust_helpers.rr_cluster.plan import (
    TrainingPlan,
    TrainingResult,
    check_accountant,
    check_training,
    initial_models,
    noise_multiplier,
    require_budget,
)

Divisor = Literal["counts", "public"]
WINDOW = 3  # noised counts that decide together, and rounds between two re-seedings
OFFSET = 0.03  # standard deviation by which the halves of a split model differ, per parameter
UNTIL = 0.6  # share of the rounds in which models are re-seeded


def count_weight(clip: float, counts_share: float, adjacency: str) -> float:
    """The weight w of the count column, so that one noise level serves updates and counts.

    Add/remove: w = C sqrt(f/(1 - f)) gives counts the share f of 1/sigma_eff^2, that is noise
    sigma_eff/sqrt(f) on a count. Replace-one: w = C costs nothing (`blocks_sensitivity`).
    """
    if adjacency == "replace-one":
        return clip
    return clip * math.sqrt(counts_share / (1 - counts_share))


def block_mechanism(
    federation: SumFederation, model: Model, *, clip: float, weight: float, sigma: float,
    adjacency: str,
) -> Mechanism:  # fmt: skip
    """Gaussian noise of multiplier `sigma` for all blocks jointly, rounding included."""
    if sigma == 0:
        return NoNoise(adjacency)
    sensitivity = MODEL_BLOCKS.sensitivity_of(
        "blocks", 2, adjacency, grid=federation.resolution, clip=clip, model=model,
        count_weight=weight, n_features=federation.n_features,
    )  # fmt: skip
    return Gaussian(sensitivity, sensitivity * sigma, adjacency)


def plan_sums_only(
    federation: SumFederation,
    model: Model,
    *,
    n_models: int,
    n_rounds: int,
    epsilon: float | None = None,
    sigma: float | None = None,
    delta: float,
    cohort: int,
    clip: float,
    sampling: Literal["poisson", "fixed"] = "poisson",
    divisor: Divisor = "counts",
    min_size: int = 8,
    counts_share: float = 0.1,
    reseed: bool = True,
    reseed_below: float = 0.1,
    accountant: str | None = None,
    n_steps: int = 5,
    learning_rate: float = 0.3,
    server_rate: float = 1.0,
) -> TrainingPlan:
    """Check everything and fix the noise of a run; see `sums_only` for the arguments."""
    training = check_training(
        federation, model, capability="noisy_sum", sampling=sampling, n_models=n_models,
        n_rounds=n_rounds, delta=delta, cohort=cohort, clip=clip, n_steps=n_steps,
        learning_rate=learning_rate, server_rate=server_rate,
    )  # fmt: skip
    adjacency = federation.ledger.adjacency
    check_choice(divisor, "divisor", ("counts", "public"))
    check_int(min_size, "min_size")
    if min_size * training.n_models > training.cohort and divisor == "counts":
        raise ValueError(
            f"min_size must be <= cohort/n_models = {training.cohort / training.n_models:g} (B <="
            f" qM/k), got {min_size}"
        )
    if not 0 < check_real(counts_share, "counts_share") < 1:
        raise ValueError(f"counts_share must lie in (0, 1), got {counts_share}")
    if not 0 <= check_real(reseed_below, "reseed_below") < 1:
        raise ValueError(f"reseed_below must lie in [0, 1), got {reseed_below}")
    if reseed and divisor == "public":
        raise ValueError("reseed must be False with divisor='public': no counts are released")
    accountant = check_accountant(accountant, sampling, adjacency)
    nominal, sigma_eff = noise_multiplier(
        training, federation.n_clients, epsilon=epsilon, sigma=sigma, accountant=accountant
    )
    weight = 0.0 if divisor == "public" else count_weight(training.clip, counts_share, adjacency)
    mechanism = block_mechanism(
        federation, model, clip=training.clip, weight=weight, sigma=sigma_eff, adjacency=adjacency
    )
    return TrainingPlan(
        "sums_ifca_reseed" if reseed else "sums_ifca", training.n_models, training.n_rounds,
        nominal, training.delta, sigma_eff, accountant, training.cohort, training.sampling,
        training.clip, training.n_steps, training.learning_rate, training.server_rate,
        (mechanism,),
        {"count_weight": weight, "min_size": min_size, "reseed": reseed,
         "dead_below": reseed_below * training.cohort / training.n_models},
    )  # fmt: skip


def sums_only(
    federation: SumFederation,
    model: Model,
    *,
    n_models: int,
    n_rounds: int,
    epsilon: float | None = None,
    sigma: float | None = None,
    delta: float,
    cohort: int,
    clip: float,
    sampling: Literal["poisson", "fixed"] = "poisson",
    divisor: Divisor = "counts",
    min_size: int = 8,
    counts_share: float = 0.1,
    reseed: bool = True,
    reseed_below: float = 0.1,
    accountant: str | None = None,
    n_steps: int = 5,
    learning_rate: float = 0.3,
    server_rate: float = 1.0,
    initial: ArrayLike | None = None,
    keep_history: bool = False,
) -> TrainingResult:
    """Private IFCA from sums alone: one noised (k, d + 1) array per round.

    Notation: q M ``cohort``, C ``clip``, B ``min_size``, gamma ``server_rate``; S_j and n_j are the
    noised block and count of model j. One round: theta_j += gamma S_j / max(n_j, B).

    Privacy (one client): under add/remove the blocks move by at most C and the counts by 1, jointly
    sqrt(C^2 + w^2) with the counts weighted by w; under replace-one by max(2C, sqrt(2C^2 + 2w^2)),
    so that counts are free for w <= C. Every block is released, empty ones too. What follows from
    them, re-seeding included, is post-processing.

    Parameters
    ----------
    federation : SumFederation
        With a ledger for one client: under add/remove for Poisson sampling, under replace-one for
        cohorts of fixed size. The two are different promises.
    model : Model
    epsilon or sigma : float
        The total for the whole run (``math.inf``: no noise), or the noise multiplier of a round.
    delta : float
    cohort : int
        Clients per round: expected (Poisson) or exact; all of them means no sampling.
    clip : float
    sampling : {"poisson", "fixed"}
    divisor : {"counts", "public"}
        max(noised count, `min_size`), or the constant cohort/n_models (no counts are released).
    min_size : int
        Floor of the divisor, at most cohort/n_models.
    counts_share : float
        Share of 1/sigma_eff^2 that counts take under add/remove.
    reseed : bool
        Re-seed dead models: see `Reseeding`.
    reseed_below : float
        A model is dead when its mean count falls below this share of cohort/n_models. It must lie
        below the smallest group that is to be found.
    accountant : str, optional
        What `epsilon` is calibrated with: "poisson_rdp" (default) or "poisson_pld" (a little less
        noise, seconds to compute), "wor_rdp" for cohorts of fixed size.
    n_steps, learning_rate, initial, keep_history
        As in `rr_cluster`.

    Returns
    -------
    TrainingResult
        `sizes` holds the noised counts.

    Raises
    ------
    ValueError, TypeError, TrustModelError, RingOverflowError, BudgetExceededError
        Before any data is read.
    """
    plan = plan_sums_only(
        federation, model, n_models=n_models, n_rounds=n_rounds, epsilon=epsilon, sigma=sigma,
        delta=delta, cohort=cohort, clip=clip, sampling=sampling, divisor=divisor,
        min_size=min_size, counts_share=counts_share, reseed=reseed, reseed_below=reseed_below,
        accountant=accountant, n_steps=n_steps, learning_rate=learning_rate,
        server_rate=server_rate,
    )  # fmt: skip
    models = initial_models(federation, model, plan.n_models, initial)
    return run_blocks(federation, model, plan, models, keep_history=keep_history)


def run_blocks(
    federation: SumFederation,
    model: Model,
    plan: TrainingPlan,
    models: FloatArray,
    *,
    keep_history: bool = False,
    **extra: Any,
) -> TrainingResult:
    """The rounds of a plan whose only release is `MODEL_BLOCKS` (also DP-FedAvg and DP-FedProx)."""
    weight = plan.details["count_weight"]
    arguments: dict[str, Any] = {
        "model": model, "clip": plan.clip, "n_steps": plan.n_steps,
        "learning_rate": plan.learning_rate, "count_weight": weight, "sampling": plan.sampling,
    } | extra  # fmt: skip
    require_budget(federation, plan.mechanisms, plan.sampling, plan.n_rounds, plan.method)
    federation.check_release(MODEL_BLOCKS, plan.mechanisms, models=models, **arguments)
    n_before = len(federation.ledger.releases)
    reseeding = Reseeding(plan) if plan.details.get("reseed") else None
    history, counts, reseeded = [models], [], []
    for t in range(plan.n_rounds):
        (blocks,) = federation.noisy_sum(
            MODEL_BLOCKS, plan.mechanisms, round=t, models=models, **arguments
        )
        if weight > 0:
            blocks, count = blocks[:, :-1], blocks[:, -1] / weight
            counts.append(count)
            divisor = np.maximum(count, plan.details["min_size"])[:, None]
        else:
            divisor = np.array(plan.cohort / plan.n_models)
        steps = plan.server_rate * blocks / divisor
        if reseeding is None:
            models = models + steps
        else:
            dead = reseeding.observe(count)
            models = models + np.where(dead[:, None], 0.0, steps)
            models, event = reseeding.act(t, models, rng=federation.randomness.public)
            reseeded += [] if event is None else [event]
        if keep_history:
            history.append(models)
    return TrainingResult(
        models, plan, federation.ledger.since(n_before),
        plan.sigma > 0 and federation.randomness.is_secure,
        sizes=np.array(counts).reshape(len(counts), plan.n_models), reseeded=tuple(reseeded),
        history=np.stack(history) if keep_history else None,
    )  # fmt: skip


class Reseeding:
    """Re-seed dead models from the noised counts: post-processing, no cost.

    A model is dead while the mean of its last 3 noised counts is below a threshold; its block is
    then noise and is not applied. In the first 60 % of the rounds, and at most once in 3 rounds,
    the deadest model is overwritten: the model with the largest mean count is split into two copies
    that differ by +-e, e ~ N(0, 0.03^2) for each parameter. The counts of both start afresh.
    """

    def __init__(self, plan: TrainingPlan) -> None:
        self.threshold = float(plan.details["dead_below"])
        self.last_round = UNTIL * plan.n_rounds
        self._window = np.full((WINDOW, plan.n_models), np.nan)
        self._next = 0

    def observe(self, counts: FloatArray) -> np.ndarray:
        """Take in the noised counts (k,) of a round; which models (k,) are dead."""
        self._window = np.vstack([self._window[1:], counts])
        return self._means() < self.threshold  # False for nan: not enough counts yet

    def _means(self) -> FloatArray:
        return self._window.mean(axis=0)

    def act(
        self, round: int, models: FloatArray, *, rng: np.random.Generator
    ) -> tuple[FloatArray, tuple[int, int, int] | None]:
        """The models (k, d) after re-seeding at most one, and (round, dead, split) if so.

        Nothing is drawn from `rng` when no model is dead.
        """
        means = self._means()
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
