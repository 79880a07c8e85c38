"""Releases of FedDP-KMeans with the noise that their federation chooses, planned or one by one."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from fedclust_helpers._validation import FloatArray
from fedclust_helpers.client_statistics import SERVER_POINT_WEIGHTS, ClientStatistic
from fedclust_helpers.feddp_kmeans.budgets import StepBudgets, joint_epsilon
from fedclust_helpers.feddp_kmeans.levels import Level, Step
from fedclust_helpers.federation import PlannedRelease, SumFederation
from fedclust_helpers.mechanisms import Mechanism

# --- planned --------------------------------------------------------------------------------------


def noise_for(
    federation: SumFederation,
    step: Step,
    epsilons: Mapping[str, float],
    *,
    delta: float,
    n_rounds: int = 1,
    **shape: int,
) -> tuple[Any, ...]:
    """One mechanism for each part of a step: Gaussian in L2 for arrays, Laplace in L1 for counts.

    `epsilons` maps each part to what all `n_rounds` repetitions of the release may cost: T
    Gaussians with sqrt(T) times the noise are one release, Laplace budgets add up.
    """
    out = []
    for part in step.statistic.parts:
        epsilon = epsilons[part]
        if part in ("weights", "counts", "filled"):
            out.append(
                federation.laplace(
                    step.statistic, part, epsilon=epsilon / n_rounds, **shape, **step.clips
                )
            )
        else:
            multiplier = federation.noise_multiplier(epsilon, delta) * math.sqrt(n_rounds)
            out.append(
                federation.gaussian(
                    step.statistic, part, multiplier=multiplier, **shape, **step.clips
                )
            )
    return tuple(out)


def planned(
    federation: SumFederation, round: int, step: Step, mechanisms: tuple[Any, ...], **zeros: Any
) -> PlannedRelease:
    """One release of the plan, refused here if the federation would refuse it later.

    `zeros` are arrays of zeros in the shape of what will be broadcast.
    """
    federation.check_release(step.statistic, mechanisms, **zeros, **step.clips)
    d = federation.facts.n_features
    k = len(zeros.get("centers", ()))
    numbers = {"outer_product": d * d, "weights": len(zeros.get("server_points", ()))}
    numbers |= {"sums": k * d, "means": k * d, "counts": k, "filled": k}
    sent = sum(numbers[part] for part in step.statistic.parts)
    return PlannedRelease.of(step.statistic, mechanisms, round=round, numbers=sent)


def start_releases(
    federation: SumFederation, level: Level, budgets: StepBudgets, n_server_points: int, rank: int
) -> list[PlannedRelease]:
    """Rounds 0 and 1: outer product (if it has a budget) and weights of the server points."""
    out = []
    if budgets.outer:
        noise = noise_for(
            federation, level.outer, {"outer_product": budgets.outer}, delta=budgets.delta
        )
        out.append(planned(federation, 0, level.outer, noise))
    if budgets.weights:
        noise = noise_for(
            federation, level.weights, {"weights": budgets.weights}, delta=budgets.delta,
            n_server_points=n_server_points,
        )  # fmt: skip
        zeros = {
            "basis": np.zeros((federation.facts.n_features, rank)),
            "server_points": np.zeros((n_server_points, rank)),
        }
        out.append(planned(federation, 1, level.weights, noise, **zeros))
    return out


def lloyd_releases(
    federation: SumFederation,
    step: Step,
    budgets: StepBudgets,
    n_clusters: int,
    *,
    first_round: int,
    **zeros: Any,
) -> list[PlannedRelease]:
    """`budgets.n_rounds` equal releases of noised sums and counts."""
    if budgets.n_rounds == 0:
        return []
    noise = noise_for(
        federation, step, {"sums": budgets.lloyd_sums, "counts": budgets.lloyd_counts},
        delta=budgets.delta, n_rounds=budgets.n_rounds, n_clusters=n_clusters,
    )  # fmt: skip
    centers = np.zeros((n_clusters, federation.facts.n_features))
    first = planned(federation, first_round, step, noise, centers=centers, **zeros)
    return [replace(first, round=first_round + t) for t in range(budgets.n_rounds)]


def total_of(federation: SumFederation, releases: Sequence[PlannedRelease], delta: float) -> float:
    """Total epsilon of planned releases at `delta`, by the ledger."""
    facts = federation.facts
    return joint_epsilon(
        [r.mechanisms for r in releases], delta=delta, unit=facts.unit, adjacency=facts.adjacency
    )


# --- one by one: the algorithms of `theory`, for one point ----------------------------------------


def point_mechanism(
    federation: SumFederation,
    statistic: ClientStatistic,
    part: str,
    epsilon: float,
    delta: float = 0.0,
    **public: Any,
) -> Mechanism:
    """Laplace (delta = 0) or Gaussian noise for one point, of the kind that the federation adds."""
    if delta:
        multiplier = federation.noise_multiplier(epsilon, delta)
        return federation.gaussian(statistic, part, multiplier=multiplier, **public)
    return federation.laplace(statistic, part, epsilon=epsilon, **public)


def noised_weights(
    federation: SumFederation,
    basis: FloatArray,
    projected: FloatArray,
    epsilon: float,
    *,
    round: int,
) -> FloatArray:
    """Noised number of rows nearest to each server point, for pure `epsilon`."""
    mechanism = point_mechanism(
        federation, SERVER_POINT_WEIGHTS, "weights", epsilon, n_server_points=len(projected)
    )
    (weights,) = federation.noisy_sum(
        SERVER_POINT_WEIGHTS, [mechanism], round=round, basis=basis, server_points=projected
    )
    return weights
