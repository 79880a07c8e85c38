"""All random sources of a federation: teaching mode (one seed) and secure mode (none)."""

from __future__ import annotations

import secrets
from dataclasses import dataclass, field

import numpy as np

from fedclust_helpers._state import SingleUse
from fedclust_helpers._validation import FloatArray, IntArray, check_int
from fedclust_helpers.accounting import Sampling
from fedclust_helpers.mechanisms import SECURE, NoiseSource


@dataclass(frozen=True)
class Randomness(SingleUse):
    """All random sources of a federation, one stream for each purpose and owner.

    Teaching mode spawns independent streams from one seed: reproducible, and **not private against
    anyone who knows the seed**. Secure mode takes noise and keys from the operating system and
    accepts no seed; only public choices (starting centres) come from `public`. `cohorts` draws who
    takes part in a sampled release; nobody but the boundary may learn it.

    >>> coins = [Randomness.teaching(0, n_nodes=2).public.random() for _ in range(2)]
    >>> coins[0] == coins[1]  # a seed: anybody who has it has the noise, too
    True
    """

    public: np.random.Generator
    noise: NoiseSource = field(repr=False)
    node_noise: tuple[NoiseSource, ...] = field(repr=False)
    keys: np.random.Generator | None = field(repr=False)
    cohorts: np.random.Generator | None = field(repr=False)
    advice = "a copy would draw the same noise again; make one federation in each process"

    @classmethod
    def teaching(cls, seed: int | np.random.SeedSequence, n_nodes: int = 0) -> Randomness:
        """Streams for public choices, noise, keys, the nodes and cohorts, from one seed."""
        if not isinstance(seed, np.random.SeedSequence):
            seed = np.random.SeedSequence(check_int(seed, "seed", minimum=0))
        # a copy, so that the same SeedSequence object gives the same streams again
        fresh = np.random.SeedSequence(seed.entropy, spawn_key=seed.spawn_key)
        public, noise, keys, nodes, cohorts = fresh.spawn(5)
        make = np.random.default_rng
        return cls(
            make(public), make(noise), tuple(make(s) for s in nodes.spawn(n_nodes)), make(keys),
            make(cohorts),
        )  # fmt: skip

    @classmethod
    def secure(cls, n_nodes: int = 0) -> Randomness:
        """Operating-system entropy for everything."""
        return cls(np.random.default_rng(), SECURE, (SECURE,) * n_nodes, None, None)

    @property
    def is_secure(self) -> bool:
        """Whether keys and noise come from the operating system."""
        return self.keys is None

    def uniforms(self, n: int) -> FloatArray:
        """Numbers in [0, 1) that decide who takes part, multiples of 2^-53."""
        if self.cohorts is not None:
            return self.cohorts.random(n)
        words = np.frombuffer(secrets.token_bytes(8 * n), dtype=np.uint64)
        return (words >> np.uint64(11)).astype(np.float64) * 2.0**-53

    def subset(self, population: int, size: int) -> IntArray:
        """`size` distinct numbers below `population`, sorted; every subset is as likely."""
        if self.cohorts is not None:
            return np.sort(self.cohorts.choice(population, size, replace=False))
        return np.sort(self.order(population)[:size])

    def cohort(self, sampling: Sampling, n: int) -> IntArray:
        """Who of `n` clients takes part: the sorted numbers of a fresh cohort.

        A fixed cohort is drawn from the public number of clients; numbers that nobody has are
        places that stay empty.
        """
        if sampling.scheme == "poisson":
            return np.flatnonzero(self.uniforms(n) < sampling.share)
        assert sampling.population is not None and sampling.size is not None
        drawn = self.subset(sampling.population, sampling.size)
        return drawn[drawn < n]

    def order(self, n: int) -> IntArray:
        """The numbers below n in an order that the server must not learn; all are as likely."""
        if self.cohorts is not None:
            return self.cohorts.permutation(n)
        while True:
            words = np.frombuffer(secrets.token_bytes(8 * n), dtype=np.uint64)
            order = np.argsort(words)
            ranked = words[order]
            if (ranked[1:] != ranked[:-1]).all():  # a tie would favour low numbers
                return order

    def bytes(self, n: int) -> bytes:
        """Key material."""
        return secrets.token_bytes(n) if self.keys is None else self.keys.bytes(n)
