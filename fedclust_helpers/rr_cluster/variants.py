"""RR-Cluster with other ways for a client to choose: FeSEM and FedCAM."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from fedclust_helpers._validation import FloatArray
from fedclust_helpers.client_statistics import ADDITIVE_UPDATES, NEAREST_UPDATES, Model
from fedclust_helpers.federation import TrustedServer
from fedclust_helpers.mechanisms import NoiseSource
from fedclust_helpers.rr_cluster.algorithm import Round, ifca, noised, server_round
from fedclust_helpers.rr_cluster.plans import RebalancingPlan

CLOSE = 0.01  # standard deviation between the starting models of FeSEM, per parameter


def fesem(federation: TrustedServer, plan: RebalancingPlan, models: FloatArray) -> Iterator[Round]:
    """FeSEM (Long et al. 2023): the nearest model to the trained weights is chosen, not the best.

    A client trains the model that it chose last time, drawn at random before the first.
    """
    memory, coins = federation.client_memory, federation.randomness.public
    memory.put("fesem", coins.integers(plan.n_clusters, size=memory.n_clients))
    return ifca(federation, plan, models, NEAREST_UPDATES)


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
            ADDITIVE_UPDATES, plan.mechanisms, round=t, models=models, common=common,
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
