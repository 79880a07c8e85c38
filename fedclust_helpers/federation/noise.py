"""The one place that decides which noise a federation draws: kind, grid, sensitivity."""

from __future__ import annotations

import math
from typing import Any

from fedclust_helpers._checked import checked
from fedclust_helpers._validation import Count, Positive
from fedclust_helpers.accounting import gaussian_sigma_analytic, zcdp_rho
from fedclust_helpers.client_statistics import ClientStatistic
from fedclust_helpers.federation.plan import FederationFacts, TrustModelError
from fedclust_helpers.mechanisms import (
    DiscreteGaussian,
    DiscreteLaplace,
    DistributedDiscreteGaussian,
    Gaussian,
    Laplace,
    Mechanism,
)

STEPS = 30  # grids are about 2^-30 of the sensitivity: rounding costs nothing, integers hold it


@checked
class NoiseFactory:
    """Noise of the kind that a federation draws, from its public facts."""

    @property
    def facts(self) -> FederationFacts:
        """What is public about the federation."""
        raise NotImplementedError

    def noise_multiplier(self, epsilon: float, delta: float) -> float:
        """Standard deviation per unit of L2 sensitivity for one (epsilon, delta)-DP release.

        Analytic for continuous Gaussians (Balle and Wang 2018), from zero-concentrated DP for
        discrete ones (Canonne, Kamath, Steinke 2020).
        """
        if self.facts.noise == "continuous":
            return gaussian_sigma_analytic(epsilon, delta)
        return 1 / math.sqrt(2 * zcdp_rho(epsilon, delta))

    def gaussian(
        self,
        statistic: ClientStatistic,
        part: str,
        *,
        multiplier: Positive,
        n_coordinates: Count | None = None,
        **public: Any,
    ) -> Mechanism:
        """Gaussian noise for one part of a statistic.

        `multiplier` is the standard deviation per unit of L2 sensitivity, `n_coordinates` the size
        of the part: needed where every client adds a share of the noise, and for sampled releases
        with discrete noise to cost no more than with a continuous one. `public` numbers are those
        that the sensitivity needs, beside bound and number of features.
        """
        facts = self.facts
        needed, grid = _sensitivity(facts, statistic, part, 2, public)
        std = needed * multiplier
        if facts.noise == "continuous":
            return Gaussian(needed, std, facts.adjacency)
        if facts.noise == "discrete":
            return DiscreteGaussian(needed, std, grid, facts.adjacency, n_coordinates)
        if n_coordinates is None:
            raise TypeError("n_coordinates must be given where every client adds a share of noise")
        # on a coarse grid the sum of discrete Gaussians is less close to one: `grid` is fine here
        return DistributedDiscreteGaussian(
            needed, std, grid, facts.adjacency, n_honest=facts.n_honest,
            n_coordinates=n_coordinates,
        )  # fmt: skip

    def laplace(
        self, statistic: ClientStatistic, part: str, *, epsilon: float, **public: Any
    ) -> Mechanism:
        """Laplace noise for one part of a statistic, pure `epsilon`; `TrustModelError` where every
        client adds a share: shares of Laplace noise are not offered."""
        facts = self.facts
        needed, grid = _sensitivity(facts, statistic, part, 1, public)
        if facts.noise == "continuous":
            return Laplace.from_budget(needed, epsilon, adjacency=facts.adjacency)
        if facts.noise == "discrete":
            return DiscreteLaplace.from_budget(
                needed, epsilon, grid=grid, adjacency=facts.adjacency
            )
        raise TrustModelError(
            "Laplace noise needs one party to draw it: take an algorithm with Gaussian noise"
        )


def _sensitivity(
    facts: FederationFacts, statistic: ClientStatistic, part: str, norm: int, public: dict[str, Any]
) -> tuple[float, float]:
    """Sensitivity with rounding, and the grid (0 where nothing is rounded).

    The grid of discrete noise is 1 for integers, else a power of two far below the sensitivity:
    never finer than the ring, and never so fine that noise would leave 64-bit integers.
    """
    own = {"bound": facts.bound, "n_features": facts.n_features}
    for name in own.keys() & public.keys():
        raise TypeError(f"{name} must not be given: it is the federation's own")
    numbers: dict[str, Any] = own | public
    grid = facts.resolution
    if facts.noise != "continuous":
        exact = statistic.sensitivity_of(part, norm, facts.adjacency, **numbers)
        whole = facts.noise == "discrete" and statistic.changes(**numbers)[part].whole
        if whole and facts.resolution <= 1:
            grid = 1.0
        else:
            grid = max(grid, 2.0 ** (math.floor(math.log2(exact)) - STEPS))
    return statistic.sensitivity_of(part, norm, facts.adjacency, grid=grid, **numbers), grid
