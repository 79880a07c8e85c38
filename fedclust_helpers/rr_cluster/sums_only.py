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
from functools import partial
from typing import Annotated, Any, Literal

import numpy as np
from numpy.typing import ArrayLike

from fedclust_helpers._index import repeat
from fedclust_helpers._validation import Count, FloatArray, check_instance, check_share
from fedclust_helpers.client_statistics import MODEL_BLOCKS, NEAREST_BLOCKS, SHARED_UPDATE
from fedclust_helpers.federation import Federation, FederationFacts
from fedclust_helpers.program import Algorithm, Options, Public, Release, Remember, Run, Steps
from fedclust_helpers.rr_cluster import training as tr
from fedclust_helpers.rr_cluster.algorithm import close_models
from fedclust_helpers.rr_cluster.costs import COUNTS_SHARE
from fedclust_helpers.rr_cluster.training import Dial, Rounds, Trained, Training, times

STATISTICS = {"ifca": MODEL_BLOCKS, "fesem": NEAREST_BLOCKS}
FLOOR = 0.32  # of cohort/n_clusters: floor of the divisor where none is given
WINDOW = 3  # noised counts that decide together, and rounds between two re-seedings
OFFSET = 0.03  # standard deviation by which the halves of a split model differ, per parameter
UNTIL = 0.6  # share of the rounds in which models are re-seeded


def sums_only(
    public: Public, dial: Dial, training: Training, *, n_clusters: Count, n_rounds: Rounds,
    min_size: Count | None = None, reseed: bool = True,
    reseed_below: Annotated[float, partial(check_share, zero=True)] = 0.1,
    clusterer: Literal["ifca", "fesem"] = "ifca", initial: ArrayLike | None = None,
) -> Steps:  # fmt: skip
    """Private IFCA from sums alone: one noised (k, d + 1) array per round.

    One round, S_j and n_j being the noised block and count of model j:
    theta_j += gamma S_j / max(n_j, B).

    Privacy (one client): under add/remove the blocks move by at most C and the counts by 1, jointly
    sqrt(C^2 + w^2) with the counts weighted by w = C/3 (a tenth of 1/sigma_eff^2); under
    replace-one by max(2C, sqrt(2C^2 + 2w^2)), so that counts are free for w = C. Every block is
    released, empty ones too. What follows from them, re-seeding included, is post-processing.
    Arguments and errors as of `rr_cluster`, but: where clients unmask the sums (masked secure
    aggregation) everyone must take part. `min_size` is B, floor of the divisor, at most
    cohort/n_clusters; 0.32 of that by default (8 for a cohort of 100 and 4 models, 80 for 1000):
    noise in a count grows with the cohort. With `reseed` dead models are re-seeded: a model is dead
    while the mean of its last 3 noised counts is below the share `reseed_below` of
    cohort/n_clusters, which must lie below the smallest group that is to be found. With
    ``clusterer="fesem"`` a client goes on from the model that it chose last, and chooses the
    nearest to its trained weights: Poisson cohorts (add/remove) amplify that as well, a drawn
    cohort of fixed size is charged as if everyone took part (`ClientStatistic`). A cohort is
    charged by Renyi curves, everyone by the exact curve; discrete noise by the same, with its gap.
    """
    k, expected, least = n_clusters, training.cohort / n_clusters, float(min_size or 1)
    weight = float(training.clip)
    if public.facts.adjacency == "add/remove":
        weight *= math.sqrt(COUNTS_SHARE / (1 - COUNTS_SHARE))
    how = {"count_weight": weight} | training.sent(public.facts)
    statistic = STATISTICS[clusterer]
    if statistic.remembers:  # a client trains the model that it chose last, at first any
        if initial is None:
            initial = close_models(training.model, k, rng=public.coins)
        yield Remember("fesem", public.coins.integers(k, size=public.facts.n_clients))
    history, sizes, events = [training.start(public, k, initial)], [], []
    reseeding = Reseeding(k, reseed_below * expected if reseed else -math.inf, n_rounds)
    for t in range(n_rounds):
        models = history[-1]
        (noised,) = yield Release(statistic, [times(dial.sigma)], models=models, **how)
        sums, counts = noised[:, :-1], noised[:, -1] / weight
        dead = reseeding.observe(counts)
        step = training.server_rate * sums / np.maximum(counts, least)[:, None]
        models, event = reseeding.act(
            t, models + np.where(dead[:, None], 0.0, step), rng=public.coins
        )
        history.append(models)
        sizes.append(counts)
        events += [] if event is None else [event]
    return Trained.of(history, sizes, reseeded=tuple(events))


class Reseeding:
    """Re-seed dead models from the noised counts: post-processing, no cost.

    A model is dead while the mean of its last 3 noised counts is below a threshold; its block is
    then noise and is not applied. In the first 60 % of the rounds, and at most once in 3 rounds,
    the deadest model is overwritten: the model with the largest mean count is split into two copies
    that differ by +-e, e ~ N(0, 0.03^2) for each parameter. The counts of both start afresh.
    """

    def __init__(self, n_clusters: int, threshold: float, n_rounds: int) -> None:
        self.threshold, self.last_round = threshold, UNTIL * n_rounds
        self._window = np.full((WINDOW, n_clusters), np.nan)
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


def fedavg(
    public: Public, dial: Dial, training: Training, *, n_rounds: Rounds,
    initial: ArrayLike | None = None,
) -> Steps:  # fmt: skip
    """DP-FedAvg (McMahan et al. 2018): one model, the whole budget on its update.

    theta += gamma (sum of clipped updates + noise) / cohort. The divisor is the public expected
    size, also under Poisson sampling, where the drawn number is private. L2 sensitivity C under
    add/remove, 2C under replace-one. With ``training.proximal`` > 0 it is DP-FedProx (Li et al.
    2020). Arguments as of `sums_only`.
    """
    history, how = [training.start(public, 1, initial)], training.sent(public.facts)
    for _ in range(n_rounds):
        (total,) = yield Release(
            MODEL_BLOCKS, [times(dial.sigma)], models=history[-1], count_weight=0.0, **how
        )
        history.append(history[-1] + training.server_rate * total / training.cohort)
    return Trained.of(history)


def fedper(
    public: Public, dial: Dial, training: Training, *, n_rounds: Rounds,
    initial: ArrayLike | None = None,
) -> Steps:  # fmt: skip
    """DP-FedPer (Arivazhagan et al. 2019): shared layers are averaged, heads stay at home.

    Only ``model.shared`` is sent and noised. A client's head never leaves it, so the guarantee is
    about everything that the *other* parties see: the shared parameters. `models` of the result
    holds them with the initial head; `personal_models` adds the heads.

    A head goes on from the rounds in which its client took part before. Under add/remove (Poisson)
    sampling amplifies all the same; a cohort of fixed size is charged as if everyone took part
    (`ClientStatistic` has both arguments). Arguments as of `sums_only`.
    """
    shared, how = training.model.shared, training.sent(public.facts)
    history = [training.start(public, 1, initial)]
    yield Remember("head")  # every client starts from the same one and keeps its own
    for _ in range(n_rounds):
        (update,) = yield Release(SHARED_UPDATE, [times(dial.sigma)], models=history[-1], **how)
        models = history[-1].copy()
        models[0, shared] += training.server_rate * update / training.cohort
        history.append(models)
    return Trained.of(history)


def personal_models(federation: Federation, result: Run) -> FloatArray:
    """Every client's own model (M, d) after DP-FedPer: shared parameters and its head.

    For evaluation in a simulation: no party holds this array. A client that was never drawn has the
    initial head. TypeError if `result` is of another method.
    """
    check_instance(federation, Federation, "federation", what="a simulation")
    if check_instance(result, Run, "result").plan.algorithm is not FEDPER:
        raise TypeError(f"result must be one of DP-FedPer, got {result.plan.method}")
    training: Training = result.plan.options["training"]
    models = repeat(result.models, federation.client_memory.n_clients, axis=0)
    head = np.ones(training.model.n_parameters, dtype=bool)
    head[training.model.shared] = False
    kept = federation.client_memory.get("head")
    if kept is not None:
        models[:, head] += kept
    return models


# --- the plans ------------------------------------------------------------------------------------


def of_blocks(facts: FederationFacts, options: Options) -> Options:
    """The options, with the floor of the divisors."""
    options = tr.of_clients(facts, options)
    if options["min_size"] is None:
        expected = options["training"].cohort / options["n_clusters"]
        options |= {"min_size": max(1, round(FLOOR * expected))}
    return tr.check_min_size(options)


def _reseeding(facts: FederationFacts, options: Options) -> str:
    return f"sums_{options['clusterer']}" + ("_reseed" if options["reseed"] else "")


def _least_noise(
    cost: tr.Cost, public: Public, epsilon: float | None, delta: float, *, clusterer: str,
    **options: Any,
) -> Dial:  # fmt: skip
    remembers = STATISTICS[clusterer].remembers
    return tr.least_sigma(cost, public, epsilon, delta, remembers, **options)


def _proximal(facts: FederationFacts, options: Options) -> str:
    return "fedprox" if options["training"].proximal else "fedavg"


def _remembering(
    cost: tr.Cost, public: Public, epsilon: float | None, delta: float, **options: Any
) -> Dial:
    return tr.least_sigma(cost, public, epsilon, delta, SHARED_UPDATE.remembers, **options)


HOW: dict[str, Any] = {"budget": tr.BUDGET, "total": tr.total}
SUMS_ONLY = Algorithm(
    name="sums_ifca", steps=sums_only, check=of_blocks, search=_least_noise, title=_reseeding,
    **HOW,
)  # fmt: skip
FEDAVG = Algorithm(
    name="fedavg", steps=fedavg, check=partial(tr.of_clients, proximal=True),
    search=tr.least_sigma, title=_proximal, **HOW,
)  # fmt: skip
FEDPER = Algorithm(name="fedper", steps=fedper, check=tr.of_clients, search=_remembering, **HOW)
plan_sums_only = SUMS_ONLY.planner("plan_sums_only")
plan_dp_fedavg = FEDAVG.planner("plan_dp_fedavg")
plan_dp_fedper = FEDPER.planner("plan_dp_fedper")
