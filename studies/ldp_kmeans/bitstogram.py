"""Bitstogram: heavy hitters of a large domain, read bit by bit (LDP paper, Lemma 2.11)."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from fedclust_helpers._validation import FloatArray, IntArray
from fedclust_helpers.federation.reports import Words, as_words
from fedclust_helpers.ldp_kmeans.frequency_oracles import OneBitCounts, Question

ORACLE_SHARE = 0.3  # of the users of Bitstogram answer its confirming oracle


class Bitstogram(OneBitCounts):
    """Heavy hitters without listing the universe: recover each candidate bit by bit.

    (Bassily et al. 2020; LDP paper Lemma 2.11, here in signed Hadamard form.) Users are split over
    B bit channels and one oracle channel. On bit channel b the reported sign is (-1)^(bit b of v),
    so the sign of bucket t's sum is that bit of the value that dominates the bucket. One candidate
    comes out of each bucket; the oracle channel confirms or rejects it.

    Parameters
    ----------
    values : callable
        ``values(points) -> keys`` below 2^n_bits.
    n_bits : int
        B.
    """

    def __init__(
        self, values: Callable[[FloatArray], Words], epsilon: float, n_bits: int, *,
        rng: np.random.Generator, n_buckets: int = 2**10,
    ) -> None:  # fmt: skip
        self.n_bits = n_bits

        def encode(points: FloatArray, channels: IntArray) -> Question:
            keys = as_words(values(points))
            bit = (keys >> np.minimum(channels, n_bits - 1).astype(np.uint64)) & np.uint64(1)
            return Question(keys, bit.astype(bool) & (channels < n_bits))

        shares = [(1 - ORACLE_SHARE) / n_bits] * n_bits + [ORACLE_SHARE]
        super().__init__(
            encode, epsilon, rng=rng, shares=shares, n_buckets=n_buckets, name="Bitstogram"
        )

    def candidates(self) -> Words:
        """Decoded values, one per bucket at most: those that hash to the bucket they came from."""
        bits = (self.spectrum[: self.n_bits] < 0).astype(np.uint64)
        decoded = (bits << np.arange(self.n_bits, dtype=np.uint64)[:, None]).sum(
            axis=0, dtype=np.uint64
        )
        return decoded[self.buckets(decoded) == np.arange(self.n_buckets)]

    def heavy_hitters(self, *, n_sd: float = 3.5) -> tuple[Words, FloatArray]:
        """Values (m,) whose confirmed count exceeds `n_sd` standard deviations, and the counts.

        Values are uint64, counts estimated numbers of users, largest first.
        """
        candidates = self.candidates()
        counts = self.estimate(candidates, channel=self.n_bits)
        kept = np.flatnonzero(counts > n_sd * self.std(channel=self.n_bits))
        kept = kept[np.argsort(-counts[kept])]
        return candidates[kept], counts[kept]

    def recovery_threshold(
        self, n_users: int, *, n_sd: float = 2.5, oracle_n_sd: float = 3.5
    ) -> float:
        """Smallest count that is recovered reliably among `n_users`: the larger of two limits.

        Bits: n_sd c sqrt(n B/(1 - share)); confirmation: oracle_n_sd c sqrt(n/share).
        """
        c, share = self.response.debias, float(1 - self._channels.edges[-1])
        bits = n_sd * c * math.sqrt(n_users * self.n_bits / (1 - share))
        return max(bits, oracle_n_sd * c * math.sqrt(n_users / share))
