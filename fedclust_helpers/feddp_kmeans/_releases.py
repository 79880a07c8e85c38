"""Noise for one part of a statistic at data-point level, as the algorithms of `theory` use it."""

from __future__ import annotations

from typing import Any

from fedclust_helpers._validation import FloatArray
from fedclust_helpers.client_statistics import SERVER_POINT_WEIGHTS, ClientStatistic
from fedclust_helpers.feddp_kmeans.plan import gaussian_multiplier
from fedclust_helpers.federation import SumFederation
from fedclust_helpers.mechanisms import (
    DiscreteGaussian,
    DiscreteLaplace,
    Gaussian,
    Laplace,
    Mechanism,
)


def point_mechanism(
    federation: SumFederation,
    statistic: ClientStatistic,
    part: str,
    epsilon: float,
    delta: float = 0.0,
    **public: Any,
) -> Mechanism:
    """Laplace (delta = 0) or Gaussian noise for one point, discrete in secure mode."""
    secure = federation.randomness.is_secure
    grid = federation.resolution or (2.0**-20 if secure else 0.0)
    sensitivity = statistic.sensitivity_of(
        part, 2 if delta else 1, "add/remove", grid=grid, bound=federation.bound,
        n_features=federation.n_features, **public,
    )  # fmt: skip
    if delta:
        std = sensitivity * gaussian_multiplier(
            epsilon, delta, "discrete" if secure else "continuous"
        )
        return DiscreteGaussian(sensitivity, std, grid) if secure else Gaussian(sensitivity, std)
    if secure:
        return DiscreteLaplace.from_budget(sensitivity, epsilon)
    return Laplace.from_budget(sensitivity, epsilon)


def noised_weights(
    federation: SumFederation,
    basis: FloatArray,
    projected: FloatArray,
    epsilon: float,
    *,
    round: int,
) -> FloatArray:
    """Noised number of rows nearest to each server point, for pure `epsilon`."""
    mechanism = point_mechanism(federation, SERVER_POINT_WEIGHTS, "weights", epsilon)
    (weights,) = federation.noisy_sum(
        SERVER_POINT_WEIGHTS, [mechanism], round=round,
        public={"n_server_points": len(projected)}, basis=basis, server_points=projected,
    )  # fmt: skip
    return weights
