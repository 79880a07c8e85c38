"""Noise for one part of a statistic at data-point level, as the algorithms of `theory` use it."""

from __future__ import annotations

from typing import Any

from fedclust_helpers._validation import FloatArray
from fedclust_helpers.client_statistics import SERVER_POINT_WEIGHTS, ClientStatistic
from fedclust_helpers.federation import SumFederation
from fedclust_helpers.mechanisms import Mechanism


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
