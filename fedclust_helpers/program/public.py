"""What an algorithm sees: public facts, coins, and answers that say how much noise is in them.

It never states a sensitivity or a mechanism. It says how much noise there is; against what follows
from the statistic and what is broadcast, here and nowhere else (`Public.mechanism`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from fedclust_helpers import kmeans
from fedclust_helpers._validation import FloatArray
from fedclust_helpers.client_statistics import ClientStatistic
from fedclust_helpers.federation import FederationFacts
from fedclust_helpers.federation.noise import NoiseFactory
from fedclust_helpers.mechanisms import Mechanism, NoNoise


class Noise(NamedTuple):
    """How much noise, never against what."""

    kind: str
    amount: float = 0.0


def gaussian(multiplier: float) -> Noise:
    """Gaussian noise whose standard deviation is so many times the L2 sensitivity."""
    return Noise("gaussian", multiplier)


def laplace(epsilon: float) -> Noise:
    """Laplace noise of this pure epsilon."""
    return Noise("laplace", epsilon)


NO_NOISE = Noise("none")
ANSWERS: dict[str, Callable[[float], Mechanism]] = {}
"""Further kinds of noise: mechanisms that have a sensitivity of their own, from their amount."""


class Public(NoiseFactory):
    """All that an algorithm sees besides answers: public facts, and coins.

    `coins` are the federation's and known to every party, `own` those of whoever runs the
    algorithm. A `dry` run is one for a plan: no data are there, so k-means and what else is made of
    answers may be left out, but for what is asked.
    """

    def __init__(
        self, facts: FederationFacts, coins: np.random.Generator,
        own: np.random.Generator | None = None, *, dry: bool = False,
    ) -> None:  # fmt: skip
        self.facts, self.dry = facts, dry
        self.coins, self.own = coins, coins if own is None else own

    def mechanism(
        self, statistic: ClientStatistic, part: str, noise: Noise, size: int,
        numbers: Mapping[str, Any],
    ) -> Mechanism:  # fmt: skip
        """Noise for a part of `size` numbers: where it meets the sensitivity of the broadcast."""
        if noise.kind == "gaussian":
            how = {**numbers, "multiplier": noise.amount}
            return self.gaussian(statistic, part, n_coordinates=size, **how)
        if noise.kind == "laplace":
            how = {**numbers, "epsilon": noise.amount}
            return self.laplace(statistic, part, n_coordinates=size, **how)
        if noise.kind == "none":
            return NoNoise(self.facts.adjacency)
        return ANSWERS[noise.kind](noise.amount)

    def kmeans(
        self, points: FloatArray, weights: FloatArray | None, k: int, *,
        rng: np.random.Generator, n_init: int = 10,
    ) -> FloatArray:  # fmt: skip
        """Weighted k-means of released values: centres (k, d). In a dry run, any k of them."""
        if self.dry:
            return points[np.resize(np.arange(len(points)), k)]
        return kmeans.weighted_kmeans(points, weights, k, rng=rng, n_init=n_init)


class Answer(tuple[FloatArray, ...]):
    """Arrays, one for each part; `std` are the standard deviations of the noise in them."""

    std: tuple[float, ...]

    @classmethod
    def of(
        cls, arrays: Iterable[FloatArray], mechanisms: Sequence[Mechanism], facts: FederationFacts
    ) -> Answer:
        """Where every client adds a share, all shares are more than the honest ones alone.

        `std` is that of everybody's shares: where clients are missing there is less noise.
        """
        made = cls(arrays)
        made.std = tuple(facts.more_noise * mechanism.std for mechanism in mechanisms)
        return made
