"""Beyond the paper: release sums only, no identifiers, no exact sizes, no rebalancing.

Each client of a round puts its clipped update into the block of the model that it chose, zeros into
the others, and 1 into its count. Blocks and counts are summed and noised together. Since the choice
depends on public models and on the client's own data alone, one client changes one block by at most
C and one count by 1 (add/remove). The sum is all that anybody needs to see: secure aggregation will
do, at the price of an upload of k (d + 1) numbers.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from tqdm.auto import trange

from fedclust_helpers._validation import (
    FloatArray,
    check_choice,
    check_instance,
    check_int,
    check_real,
    check_rng,
)
from fedclust_helpers.client_statistics import MODEL_BLOCKS, Model
from fedclust_helpers.federation import SumFederation
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

Divisor = Literal["counts", "public"]
WINDOW = 3  # noised counts that decide together, and rounds between two re-seedings
OFFSET = 0.03  # standard deviation by which the halves of a split model differ, per parameter
UNTIL = 0.6  # share of the rounds in which models are re-seeded


@dataclass(frozen=True, kw_only=True)
class SumsPlan(TrainingPlan):
    """A plan whose rounds release `MODEL_BLOCKS`: sums only, DP-FedAvg, DP-FedProx.

    Attributes
    ----------
    count_weight : float
        Weight of the count column; 0 where no counts are released.
    min_size : int
        Floor of the noised counts as divisors.
    reseed : bool
    dead_below : float
        A model is dead when its mean noised count falls below.
    """

    count_weight: float = 0.0
    min_size: int = 1
    reseed: bool = False
    dead_below: float = 0.0


def count_weight(clip: float, counts_share: float, adjacency: str) -> float:
    """The weight w of the count column, so that one noise level serves updates and counts.

    Add/remove: w = C sqrt(f/(1 - f)) gives counts the share f of 1/sigma_eff^2, that is noise
    sigma_eff/sqrt(f) on a count. Replace-one: w = C costs nothing (`blocks_sensitivity`).
    """
    if adjacency == "replace-one":
        return clip
    return clip * math.sqrt(counts_share / (1 - counts_share))


def block_plan(
    setting: Setting, *, method: str, weight: float, epsilon: float | None, sigma: float | None,
    **own: Any,
) -> SumsPlan:  # fmt: skip
    """The plan of rounds with one release: all blocks jointly, rounding included."""
    model, k = setting.model, setting.n_clusters
    size = k * (model.n_parameters + (weight > 0))
    public: dict[str, Any] = {"clip": setting.clip, "model": model, "count_weight": weight}

    def make(sigma_eff: float) -> tuple[Mechanism, ...]:
        if sigma_eff == 0:
            return (NoNoise(setting.facts.adjacency),)
        return (
            setting.federation.gaussian(
                MODEL_BLOCKS, "blocks", multiplier=sigma_eff, n_coordinates=size, **public
            ),
        )  # fmt: skip

    nominal, sigma_eff, accountant = setting.multiplier(make, epsilon=epsilon, sigma=sigma)
    proximal = {"proximal": setting.training.proximal} if setting.training.proximal else {}
    fields = setting.fields(
        MODEL_BLOCKS, make(sigma_eff), numbers=size, count_weight=weight, **proximal
    )
    asked = planned_epsilon(
        fields["releases"], setting.facts, nominal, setting.delta, rdp=accountant.endswith("_rdp")
    )
    return SumsPlan(
        method=method, epsilon=asked, nominal=asked if math.isnan(nominal) else nominal,
        sigma=sigma_eff, accountant=accountant, count_weight=weight, **fields, **own,
    )  # fmt: skip


def plan_sums_only(
    federation: SumFederation,
    model: Model,
    *,
    n_clusters: int,
    n_rounds: int,
    epsilon: float | None = None,
    sigma: float | None = None,
    delta: float,
    cohort: int,
    clip: float,
    sampling: Literal["poisson", "fixed"] | None = None,
    divisor: Divisor = "counts",
    min_size: int = 8,
    counts_share: float = 0.1,
    reseed: bool = True,
    reseed_below: float = 0.1,
    accountant: str | None = None,
    training: Training = TRAINING,
) -> SumsPlan:
    """Plan private IFCA from sums alone: one noised (k, d + 1) array per round.

    Notation: q M ``cohort``, C ``clip``, B ``min_size``, gamma ``training.server_rate``; S_j and
    n_j are the noised block and count of model j. One round: theta_j += gamma S_j / max(n_j, B).

    Privacy (one client): under add/remove the blocks move by at most C and the counts by 1, jointly
    sqrt(C^2 + w^2) with the counts weighted by w; under replace-one by max(2C, sqrt(2C^2 + 2w^2)),
    so that counts are free for w <= C. Every block is released, empty ones too. What follows from
    them, re-seeding included, is post-processing.

    Parameters
    ----------
    federation : SumFederation
        With a ledger for one client: under add/remove for Poisson sampling, under replace-one for
        cohorts of fixed size. The two are different promises. Where clients unmask the sums (masked
        secure aggregation) everyone must take part.
    model : Model
    n_clusters, n_rounds : int
    epsilon or sigma : float
        The total for the whole run (``math.inf``: no noise), or the noise multiplier of a round.
    delta : float
    cohort : int
        Clients per round: expected (Poisson) or exact; all of them means no sampling, and the exact
        curve of (discrete) Gaussians.
    clip : float
        Bound C on the length of an update. An update that is not finite counts as zero.
    sampling : {"poisson", "fixed"}, optional
        By default the one that amplifies under the federation's adjacency.
    divisor : {"counts", "public"}
        max(noised count, `min_size`), or the constant cohort/n_clusters (no counts are released).
    min_size : int
        Floor of the divisor, at most cohort/n_clusters.
    counts_share : float
        Share of 1/sigma_eff^2 that counts take under add/remove.
    reseed : bool
        Re-seed dead models: see `Reseeding`.
    reseed_below : float
        A model is dead when its mean count falls below this share of cohort/n_clusters. It must lie
        below the smallest group that is to be found.
    accountant : str, optional
        What `epsilon` is calibrated with for a cohort in teaching mode: "poisson_rdp" (default) or
        "poisson_pld" (a little less noise, seconds to compute), "wor_rdp" for cohorts of fixed
        size. Discrete noise goes by Renyi curves, everyone by the exact curve.
    training : Training

    Returns
    -------
    SumsPlan

    Raises
    ------
    ValueError, TypeError, TrustModelError, RingOverflowError
        Nothing of the data is looked at.
    """
    setting = check_setting(
        federation, model, capability="noisy_sum", sampling=sampling, n_clusters=n_clusters,
        n_rounds=n_rounds, delta=delta, cohort=cohort, clip=clip, training=training,
        accountant=accountant,
    )  # fmt: skip
    check_choice(divisor, "divisor", ("counts", "public"))
    check_int(min_size, "min_size")
    expected = setting.cohort / setting.n_clusters
    if min_size > expected and divisor == "counts":
        raise ValueError(
            f"min_size must be <= cohort/n_clusters = {expected:g} (B <= qM/k), got {min_size}"
        )
    if not 0 < check_real(counts_share, "counts_share") < 1:
        raise ValueError(f"counts_share must lie in (0, 1), got {counts_share}")
    if not 0 <= check_real(reseed_below, "reseed_below") < 1:
        raise ValueError(f"reseed_below must lie in [0, 1), got {reseed_below}")
    if not isinstance(reseed, bool):
        raise TypeError(f"reseed must be True or False, got {type(reseed).__name__}")
    if reseed and divisor == "public":
        raise ValueError("reseed must be False with divisor='public': no counts are released")
    if training.proximal:
        raise ValueError("training must have proximal=0: only FedProx has this term")
    adjacency = setting.facts.adjacency
    weight = 0.0 if divisor == "public" else count_weight(setting.clip, counts_share, adjacency)
    return block_plan(
        setting, method="sums_ifca_reseed" if reseed else "sums_ifca", weight=weight,
        epsilon=epsilon, sigma=sigma, min_size=min_size, reseed=reseed,
        dead_below=reseed_below * expected,
    )  # fmt: skip


def follow(
    federation: SumFederation, plan: SumsPlan, model: Model, models: FloatArray, *,
    keep_history: bool, progress: bool,
) -> TrainingResult:  # fmt: skip
    """The rounds: noised blocks, divided by noised counts or by a public number."""
    weight, rate = plan.count_weight, plan.training.server_rate
    arguments = plan.broadcast(model) | {"count_weight": weight}
    if plan.training.proximal:
        arguments["proximal"] = plan.training.proximal
    reseeding = Reseeding(plan) if plan.reseed else None
    history, counts, reseeded = [models], [], []
    with federation.follow(plan) as n_before:
        for t in trange(plan.n_rounds, disable=not progress, desc=plan.method):
            (blocks,) = federation.noisy_sum(
                MODEL_BLOCKS, plan.mechanisms, round=t, models=models, **arguments
            )
            if weight > 0:
                blocks, count = blocks[:, :-1], blocks[:, -1] / weight
                counts.append(count)
                divisor = np.maximum(count, plan.min_size)[:, None]
            else:
                divisor = np.array(plan.cohort / plan.n_clusters)
            steps = rate * blocks / divisor
            if reseeding is None:
                models = models + steps
            else:
                dead = reseeding.observe(count)
                models = models + np.where(dead[:, None], 0.0, steps)
                models, event = reseeding.act(t, models, rng=federation.randomness.public)
                reseeded += [] if event is None else [event]
            history += [models] if keep_history else []
    return TrainingResult(
        plan=plan, ledger=federation.ledger.since(n_before), transcript=federation.transcript,
        private=math.isfinite(plan.epsilon) and federation.facts.mode == "secure",
        models=models, sizes=np.array(counts).reshape(len(counts), plan.n_clusters),
        reseeded=tuple(reseeded), history=np.stack(history) if keep_history else None,
    )  # fmt: skip


class Reseeding:
    """Re-seed dead models from the noised counts: post-processing, no cost.

    A model is dead while the mean of its last 3 noised counts is below a threshold; its block is
    then noise and is not applied. In the first 60 % of the rounds, and at most once in 3 rounds,
    the deadest model is overwritten: the model with the largest mean count is split into two copies
    that differ by +-e, e ~ N(0, 0.03^2) for each parameter. The counts of both start afresh.
    """

    def __init__(self, plan: SumsPlan) -> None:
        check_instance(plan, SumsPlan, "plan")
        self.threshold = plan.dead_below
        self.last_round = UNTIL * plan.n_rounds
        self._window = np.full((WINDOW, plan.n_clusters), np.nan)
        self._next = 0

    def observe(self, counts: FloatArray) -> np.ndarray:
        """Take in the noised counts (k,) of a round; which models (k,) are dead."""
        counts = np.asarray(counts)
        if counts.dtype.kind not in "fiu":
            raise TypeError("counts must be an array of real numbers of shape (k,)")
        if counts.shape != self._window.shape[1:]:
            raise ValueError(f"counts must have shape {self._window.shape[1:]}, got {counts.shape}")
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
        check_int(round, "round", minimum=0)
        check_rng(rng)
        if not isinstance(models, np.ndarray) or models.dtype.kind != "f":
            raise TypeError(f"models must be an array of floats, got {type(models).__name__}")
        if models.ndim != 2 or len(models) != self._window.shape[1]:
            raise ValueError(
                f"models must have shape ({self._window.shape[1]}, d), got {models.shape}"
            )
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
