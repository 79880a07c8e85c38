"""The one place that decides which noise a federation draws: kind, grid, sensitivity."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

from fedclust_helpers.accounting import gaussian_sigma_analytic
from fedclust_helpers.accounting.discrete import discrete_multipliers
from fedclust_helpers.client_statistics import ClientStatistic
from fedclust_helpers.federation.plan import FederationFacts, TrustModelError
from fedclust_helpers.federation.reports import gaussian_report
from fedclust_helpers.mechanisms import (
    DiscreteGaussian,
    DiscreteLaplace,
    DistributedDiscreteGaussian,
    Gaussian,
    Laplace,
    Mechanism,
)

STEPS = 30  # grids are about 2^-30 of the sensitivity: rounding costs nothing, integers hold it
REPORT_STEPS = 20  # discrete reports are rounded to 2^-20 of their radius, or a little more


class NoiseFactory:
    """Noise of the kind that a federation draws, from its public facts."""

    facts: FederationFacts

    def noise_multiplier(self, epsilon: float, delta: float) -> float:
        """Standard deviation per unit of L2 sensitivity for one (epsilon, delta)-DP release.

        Analytic (Balle and Wang 2018); discrete noise leaves a ten-millionth of the budget for its
        gap (`accounting.discrete`), which is enough on fine grids.
        """
        return next(self.noise_multipliers(epsilon, delta))

    def noise_multipliers(self, epsilon: float, delta: float) -> Iterator[float]:
        """`noise_multiplier`, and larger ones to try where a grid is coarse."""
        if self.facts.noise == "continuous":
            return iter((gaussian_sigma_analytic(epsilon, delta),))
        return discrete_multipliers(epsilon, delta)

    def gaussian(
        self,
        statistic: ClientStatistic,
        part: str,
        *,
        multiplier: float,
        n_coordinates: int | None = None,
        **public: Any,
    ) -> Mechanism:
        """Gaussian noise for one part of a statistic.

        `multiplier` is the standard deviation per unit of L2 sensitivity, `n_coordinates` the size
        of the part, needed where noise is not continuous: what it costs depends on it. `public`
        numbers are those that the sensitivity needs, beside bound and number of features.
        """
        facts = self.facts
        needed, grid = _sensitivity(facts, statistic, part, 2, public)
        std = needed * multiplier
        if facts.noise == "continuous":
            return Gaussian(needed, std, facts.adjacency)
        if n_coordinates is None:
            raise TypeError("n_coordinates must be given where noise is discrete")
        if facts.noise == "discrete":
            return DiscreteGaussian(needed, std, grid, facts.adjacency, n_coordinates)
        return DistributedDiscreteGaussian(
            needed, std, grid, facts.adjacency, n_honest=facts.n_honest,
            n_coordinates=n_coordinates,
        )  # fmt: skip

    def laplace(
        self, statistic: ClientStatistic, part: str, *, epsilon: float,
        n_coordinates: int | None = None, **public: Any,
    ) -> Mechanism:  # fmt: skip
        """Laplace noise for one part of a statistic, pure `epsilon`; `TrustModelError` where every
        client adds a share: shares of Laplace noise are not offered. With the size `n_coordinates`
        of the part, discrete noise adds up with Gaussian noise as continuous noise does."""
        facts = self.facts
        needed, grid = _sensitivity(facts, statistic, part, 1, public)
        if facts.noise == "continuous":
            return Laplace.from_budget(needed, epsilon, adjacency=facts.adjacency)
        if facts.noise == "discrete":
            return DiscreteLaplace.from_budget(
                needed, epsilon, grid=grid, adjacency=facts.adjacency, n_coordinates=n_coordinates
            )
        raise TrustModelError(
            "Laplace noise needs one party to draw it: take an algorithm with Gaussian noise"
        )

    def gaussian_report(self, n_outputs: int, *, epsilon: float, delta: float) -> Mechanism:
        """Noise for one vector of `n_outputs` numbers of each user who answers a question.

        (epsilon, delta) holds for any two values of one user, for vectors of length `bound`.
        """
        facts, grid = self.facts, None
        if facts.noise != "continuous":
            grid = 2.0 ** (math.floor(math.log2(facts.bound)) - REPORT_STEPS)
        return gaussian_report(facts.bound, epsilon, delta, grid=grid, n_features=n_outputs)


def _sensitivity(
    facts: FederationFacts, statistic: ClientStatistic, part: str, norm: int, public: dict[str, Any]
) -> tuple[float, float]:
    """Sensitivity with rounding, and the grid (0 where nothing is rounded).

    The grid of discrete noise is a power of two far below the sensitivity, so that its noise is
    close to continuous noise; never finer than the ring. Integers lie on it.
    """
    own = {"bound": facts.bound, "n_features": facts.n_features}
    for name in own.keys() & public.keys():
        raise TypeError(f"{name} must not be given: it is the federation's own")
    numbers: dict[str, Any] = own | public
    grid = facts.resolution
    if facts.noise != "continuous":
        exact = statistic.sensitivity_of(part, norm, facts.adjacency, **numbers)
        grid = max(grid, 2.0 ** (math.floor(math.log2(exact)) - STEPS))
    return statistic.sensitivity_of(part, norm, facts.adjacency, grid=grid, **numbers), grid
