"""Algorithms 1 and 2: the rounds of RR-Cluster, the rebalancing that names it, other clusterers."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Annotated, Any, NamedTuple

import numpy as np

from fedclust_helpers import client_statistics as cs
from fedclust_helpers._checked import checked
from fedclust_helpers._validation import FloatArray, IntArray, Natural, as_integers, check_int
from fedclust_helpers.client_statistics import ClientStatistic, Model
from fedclust_helpers.federation import TrustedServer
from fedclust_helpers.mechanisms import DiscreteGaussian, Mechanism, NoiseSource
from fedclust_helpers.rr_cluster.identifiers import privatise
from fedclust_helpers.rr_cluster.plans import RebalancingPlan, Rule

Clusters = Annotated[int, partial(check_int, maximum=10**7)]
CLOSE = 0.01  # standard deviation between the starting models of FeSEM, per parameter


class Round(NamedTuple):
    """What a round leaves: models (k, d), and what the server saw on the way.

    Of m updates: `exact` identifiers (m, k) as they were sent, `released` ones (m,), `clusters`
    (m,) after rebalancing, the noised `sums` (k, d) and the `sizes` (k,). `common` is FedCAM's.
    """

    models: FloatArray
    sizes: FloatArray | IntArray | None = None
    exact: Any = None
    released: IntArray | None = None
    clusters: IntArray | None = None
    sums: FloatArray | None = None
    common: FloatArray | None = None
    reseeded: tuple[int, int, int] | None = None


def ifca(
    federation: TrustedServer, plan: RebalancingPlan, models: FloatArray,
    statistic: ClientStatistic = cs.CLIENT_UPDATES,
) -> Iterator[Round]:  # fmt: skip
    """Algorithm 1 with the steps of Algorithm 2, from starting models (k, d)."""
    noise, coins = federation.randomness.noise, federation.randomness.public
    for t in range(plan.n_rounds):  # line 2 of both
        # Lines 4 to 6: the server draws a cohort and sends the models; each client chooses one by
        # its loss, trains it, and answers with its update and one-hot identifier (Algorithm 2,
        # lines 5 to 9). It clips the update itself (Algorithm 1, line 11).
        exact, updates = federation.collect(
            statistic, plan.mechanisms, round=t, models=models, **plan.broadcast()
        )
        made = server_round(plan, models, exact, updates, noise=noise, rng=coins)
        models = made.models
        yield made


def server_round(
    plan: RebalancingPlan, models: FloatArray, exact: Any, updates: Any, *, noise: NoiseSource,
    rng: np.random.Generator,
) -> Round:  # fmt: skip
    """Lines 7 to 13 of Algorithm 1 (10 to 14 of Algorithm 2): the trusted server's part.

    The exact identifiers are read once, to be noised; all that follows sees the released ones. A
    cluster without an update keeps its model.
    `exact` (m, k) and `updates` (m, d) come as `federation.collect` hands them out, in whole steps
    of a grid where noise is discrete. `rng` are the coins of rebalancing.
    """
    k, gamma = plan.n_clusters, plan.training.server_rate
    to_identifiers, to_sums = plan.mechanisms
    released = privatise(exact, to_identifiers, rng=noise)  # line 7 (10, 11)
    clusters = rebalance(released, k, plan.min_size, rule=plan.rebalance, rng=rng)  # 8-10 (12, 13)
    sums = np.zeros((k, updates.shape[1]), dtype=updates.dtype)
    for j in range(k):
        sums[j] = updates[clusters == j].sum(axis=0)
    sums = noised(sums, to_sums, noise)  # line 12: noise for a change of 2C
    sizes = np.bincount(clusters, minlength=k)
    models, filled = models.copy(), sizes > 0
    models[filled] += gamma * sums[filled] / sizes[filled, None]  # lines 12, 13
    return Round(models, sizes, exact, released, clusters, sums)


def noised(total: Any, mechanism: Mechanism, noise: NoiseSource) -> FloatArray:
    """A total plus noise; whole steps of a grid stay integers until all is added."""
    if isinstance(mechanism, DiscreteGaussian):
        steps = total + mechanism.sample_steps(total.shape, rng=noise)
        return np.asarray(steps.astype(np.float64) * mechanism.grid)
    return np.asarray(total + mechanism.sample(total.shape, rng=noise))


@checked
def rebalance(
    clusters: IntArray, n_clusters: Clusters, min_size: Natural, *, rule: Rule = "strict",
    rng: np.random.Generator,
) -> IntArray:  # fmt: skip
    """Lines 9 and 10 of Algorithm 1: fill clusters of fewer than B updates from large ones.

    `clusters` (m,) are those of the updates; a new array is returned, in which each update has
    moved at most once. Where m < kB, B (`min_size`) is lowered to floor(m/k): a small cohort is no
    error, and tells nobody anything by one.

    `rule` says who may be drawn from the clusters of at least B updates. "strict": in random order,
    but nobody from a cluster that is down to B, so that every cluster ends with at least B.
    "literal" (Algorithm 2, line 13): anybody; a donor may fall below B. "off": nobody. Nothing is
    drawn from `rng` when no cluster is short.
    """
    k = n_clusters
    out = as_integers(clusters, "clusters", minimum=0, maximum=k - 1).copy()
    size = min(min_size, len(out) // k)
    sizes = np.bincount(out, minlength=k)
    short = np.maximum(size - sizes, 0)
    if rule == "off" or not short.any():
        return out
    order = rng.permutation(np.flatnonzero(sizes[out] >= size))
    if rule == "strict":
        # the first (size - B) members of a cluster in this order are free to go
        own = out[order]
        by_cluster = np.argsort(own, kind="stable")
        first = np.concatenate([[0], np.cumsum(np.bincount(own, minlength=k))])[:-1]
        rank = np.empty(len(order), dtype=np.int64)
        rank[by_cluster] = np.arange(len(order)) - first[own[by_cluster]]
        order = order[rank < sizes[own] - size]
    receivers = np.repeat(np.arange(k), short)
    out[order[: len(receivers)]] = receivers[: len(order)]
    return out


# --- other ways for a client to choose: FeSEM and FedCAM ------------------------------------------


def fesem(federation: TrustedServer, plan: RebalancingPlan, models: FloatArray) -> Iterator[Round]:
    """FeSEM (Long et al. 2023): the nearest model to the trained weights is chosen, not the best.

    A client trains the model that it chose last time, drawn at random before the first.
    """
    memory, coins = federation.client_memory, federation.randomness.public
    memory.put("fesem", coins.integers(plan.n_clusters, size=memory.n_clients))
    return ifca(federation, plan, models, cs.NEAREST_UPDATES)


def close_models(model: Model, n_clusters: int, *, rng: np.random.Generator) -> FloatArray:
    """Starting models of FeSEM: one random model, and copies that differ by N(0, 0.01^2).

    Between unrelated models the distances are so large that nobody would ever leave the model
    drawn first.
    """
    one = model.initial(1, rng=rng)
    return np.asarray(one + rng.normal(0.0, CLOSE, (n_clusters, model.n_parameters)))


def fedcam(federation: TrustedServer, plan: RebalancingPlan, models: FloatArray) -> Iterator[Round]:
    """FedCAM (Ma et al. 2023): a common model, trained by all, is added to each of the k."""
    noise, coins = federation.randomness.noise, federation.randomness.public
    common = plan.training.model.initial(1, rng=coins)[0]
    for t in range(plan.n_rounds):
        exact, updates = federation.collect(
            cs.ADDITIVE_UPDATES, plan.mechanisms, round=t, models=models, common=common,
            **plan.broadcast(),
        )  # fmt: skip
        made = additive_round(plan, models, common, exact, updates, noise=noise, rng=coins)
        models, common = made.models, np.asarray(made.common)
        yield made


def additive_round(
    plan: RebalancingPlan, models: FloatArray, common: FloatArray, exact: Any, updates: Any, *,
    noise: NoiseSource, rng: np.random.Generator,
) -> Round:  # fmt: skip
    """`server_round` of updates (m, 2d): of the common model, then of the chosen one.

    Both were cut jointly, so that both sums are one release.
    """
    d = plan.n_parameters
    made = server_round(plan, models, exact, updates[:, d:], noise=noise, rng=rng)
    total = noised(updates[:, :d].sum(axis=0), plan.mechanisms[1], noise)
    step = plan.training.server_rate * total / max(len(updates), 1)
    return made._replace(common=common + step)


CLUSTERERS: dict[str, Callable[..., Iterator[Round]]] = {
    "ifca": ifca, "fesem": fesem, "fedcam": fedcam,
}  # fmt: skip
